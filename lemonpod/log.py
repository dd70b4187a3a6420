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


class RedactionFilter(logging.Filter):
    """Blanks what looks like a credential, whoever logged it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        redacted = _SECRET.sub(r"\1…", message)
        if redacted != message:
            record.msg, record.args = redacted, None
        return True


def set_up_logging(level: str) -> None:
    """Send everything from `level` up to stderr; `level` is one of `config.LOG_LEVELS`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    handler.addFilter(RedactionFilter())
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    # Both are chatty below warning, and neither knows what of it is private.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
