"""Command lines of podman and docker as values: what their `run` and `create` were asked for."""
