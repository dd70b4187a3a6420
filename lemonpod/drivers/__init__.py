"""The only package that starts, signals and removes."""
