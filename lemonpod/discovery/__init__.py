"""Which manifests are installed, and which files were refused."""
