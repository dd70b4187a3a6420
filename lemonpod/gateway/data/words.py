"""Where an engine's words stand in its events: of chats, completions, and OpenAI's Responses API."""

from __future__ import annotations

import re
from typing import Final

WORDS: Final = re.compile(rb'"(?:content|reasoning_content|reasoning|text|arguments|delta)" ?: ?"')
"""The start of a string that may hold some of what was generated."""
SOME_WORDS: Final = re.compile(WORDS.pattern + rb'[^"]')
