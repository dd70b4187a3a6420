"""Lemonade's HTTP interface as tables."""
