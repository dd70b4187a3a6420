"""What the server and all its engines said lately, in one order: bounded, for viewers who slow nobody.

Lines of engines are kept as the bytes that came, as in their own buffers, until somebody reads them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from lemonpod.engine.logbuf import LogBuffer, clean
from lemonpod.launch.secrets import redacted

MAX_ENTRIES: Final = 5000
MAX_BYTES: Final = 4 << 20
OF_ENGINES: Final = "Info"
"""Nobody knows how serious a line of an engine is."""
_NOTICE: Final = "Warning"


class Entry(NamedTuple):
    """One line. `seq` counts up by one for the life of a journal."""

    seq: int
    time: float
    severity: str
    """Trace, Debug, Info, Warning, Error or Fatal."""
    tag: str
    """Who said it: a model, or a part of the server."""
    text: str

    def as_json(self) -> dict[str, object]:
        """The entry as `/logs/stream` shows it: `line` is the whole of it."""
        stamp = datetime.fromtimestamp(self.time).isoformat(" ", "milliseconds")
        return {
            "seq": self.seq,
            "timestamp": stamp,
            "severity": self.severity,
            "tag": self.tag,
            "line": f"{stamp} [{self.severity}] ({self.tag}) {self.text}",
        }


class _Kept(NamedTuple):
    time: float
    severity: str
    tag: str
    raw: bytes


class Journal:
    """A ring of lines. For use in one event loop."""

    def __init__(
        self,
        *,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kept: deque[_Kept] = deque()
        self._first = 1
        """The `seq` of the oldest line that is kept."""
        self._bytes = 0
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._news = asyncio.Event()

    def buffer(self, tag: str) -> LogBuffer:
        """A buffer for an engine's output, which is kept here too."""
        return LogBuffer(copy=partial(self.extend, OF_ENGINES, tag))

    def extend(self, severity: str, tag: str, lines: Sequence[bytes]) -> None:
        """Keep these lines, and forget the oldest where there are too many."""
        now = self._clock()
        self._kept.extend([_Kept(now, severity, tag, raw) for raw in lines])
        self._bytes += sum(map(len, lines))
        while len(self._kept) > self._max_entries or (self._bytes > self._max_bytes and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft().raw)
            self._first += 1
        # Whoever waits now wakes; whoever waits from now on waits for the next news.
        self._news.set()
        self._news = asyncio.Event()

    @property
    def last(self) -> int:
        """The `seq` of the newest line; 0 if there never was one."""
        return self._first + len(self._kept) - 1

    def read(self, after: int, limit: int) -> list[Entry]:
        """Up to `limit` lines behind the one with the `seq` `after`; what was forgotten there is told of.

        A number that is still to come is another server's: then it is all new.
        """
        if after > self.last:
            after = 0
        lost = self._first - 1 - after
        entries = []
        if lost > 0 and after > 0:
            text = f"{lost} lines were skipped here: they came faster than they were read"
            entries.append(Entry(self._first - 1, self._clock(), _NOTICE, "Journal", text))
        begin = max(0, after + 1 - self._first)
        for at, kept in enumerate(islice(self._kept, begin, begin + limit), self._first + begin):
            entries.append(Entry(at, kept.time, kept.severity, kept.tag, redacted(clean(kept.raw))))
        return entries

    async def news(self) -> None:
        """Wait for the next line."""
        await self._news.wait()
