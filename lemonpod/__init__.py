"""Run any inference engine that a small JSON manifest describes."""

__version__ = "0.1.0"
