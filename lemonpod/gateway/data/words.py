"""Where an engine's words stand in its events."""

from __future__ import annotations

import re
from typing import Final

WORDS: Final = re.compile(
    rb'"(?:content|reasoning_content|reasoning|text|arguments|delta)" ?: ?"'  # chats, completions, responses
)
"""The start of a string that holds some of what was generated."""
