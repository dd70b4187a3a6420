"""The data path: from a client's bytes to an engine's and back, as cheaply as it gets."""
