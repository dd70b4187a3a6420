"""The command lines of built-in backends, which variants of them take over: one module a backend."""
