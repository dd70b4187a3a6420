"""Installing the executables of variants: only commands do it, never the server."""
