"""What goes wrong in the lab."""

from __future__ import annotations


class LabError(Exception):
    """A part of the lab did not come up; the message holds its log."""


class NotHereError(Exception):
    """This machine cannot have a part of the lab; the message says what would supply it."""
