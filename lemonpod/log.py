"""Logging: one line an event on stderr, with secrets kept out of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from lemonpod.launch.secrets import redacted

if TYPE_CHECKING:
    import asyncio

    from lemonpod.engine.journal import Journal

_LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_SEVERITIES: Final = {
    logging.DEBUG: "Debug",
    logging.INFO: "Info",
    logging.WARNING: "Warning",
    logging.ERROR: "Error",
    logging.CRITICAL: "Fatal",
}


class RedactingFormatter(logging.Formatter):
    """Blanks what looks like a credential, whoever logged it, in tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class _JournalHandler(logging.Handler):
    """Copies from any thread to the loop that the journal belongs to."""

    def __init__(self, journal: Journal, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._journal = journal
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        severity = _SEVERITIES.get(record.levelno, "Info")
        lines = [line.encode("utf-8", "replace") for line in self.format(record).splitlines()]
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(
                self._journal.extend, severity, record.name.removeprefix("lemonpod."), lines
            )


@contextmanager
def copied_to(journal: Journal, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Keep in the journal what is logged meanwhile."""
    handler = _JournalHandler(journal, loop)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def set_level(level: str) -> None:
    """Log everything from `level` up, one of `config_checks.LOG_LEVELS`."""
    logging.getLogger().setLevel(_LEVELS[level])


def set_up_logging(level: str) -> None:
    """Send everything from `level` up to stderr; `level` is one of `config_checks.LOG_LEVELS`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    # Both are chatty below warning, and neither knows what of it is private.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    # Its one warning shows the subprotocols that a client offers, and they may hold a key.
    logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)
