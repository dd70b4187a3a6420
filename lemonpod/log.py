"""Logging: one line an event on stderr, with secrets kept out of it."""

from __future__ import annotations

import logging
import re
import sys
from typing import Final

_LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_SECRET: Final = re.compile(
    r"(?i)(bearer\s+|(?:api[-_]?key|token|secret|password)[\"']?\s*[=:]\s*[\"']?)([^\s\"'&,;]+)"
)


class RedactingFormatter(logging.Formatter):
    """Blanks what looks like a credential, whoever logged it, in tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        return _SECRET.sub(r"\1…", super().format(record))


def set_level(level: str) -> None:
    """Log everything from `level` up, one of `config.LOG_LEVELS`."""
    logging.getLogger().setLevel(_LEVELS[level])


def set_up_logging(level: str) -> None:
    """Send everything from `level` up to stderr; `level` is one of `config.LOG_LEVELS`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    # Both are chatty below warning, and neither knows what of it is private.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
