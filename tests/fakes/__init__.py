"""Fakes, written against our own protocols."""
