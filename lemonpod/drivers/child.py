"""A process that we started: its exit, told by the process itself, and its output, drained for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from lemonpod.engine.api import ExitStatus
from lemonpod.engine.logbuf import LineSplitter

READ_BYTES: Final = 64 << 10
"""All that a pipe holds: reading half of it at once means that the process is faster than we."""
FLOOD_PAUSE: Final = 0.004
"""Between two such reads, so that one process that writes without end leaves time for all others."""
LAST_WORDS_BYTES: Final = 1 << 20
"""Read at most at the exit: a grandchild may go on writing to the pipe."""

log = logging.getLogger(__name__)


class Child:
    """Watches over a fresh process in the running event loop.

    The end is told by waiting for the process: the end of its output may never come, since a grandchild can
    hold the pipe. It is not reaped before `close`, so until then its pid, which is also the id of its
    session, belongs to no other process.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        emit: Callable[[Sequence[bytes]], None],
        left_behind: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """`emit` gets the lines of output; `left_behind` is called in a thread at an unwanted exit."""
        self.pid = process.pid
        self.since = time.monotonic()
        self._process = process
        self._left_behind = left_behind
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[ExitStatus] = self._loop.create_future()
        self.wanted = False
        """Set before the first signal is sent, so that an exit is told by what we meant."""
        self._output = _Output(process, emit, self._loop)
        # A thread waits for one process anywhere: pidfd needs Linux 5.3, SIGCHLD the main thread.
        threading.Thread(target=self._watch, name=f"lemonpod-wait-{self.pid}", daemon=True).start()

    @property
    def reaped(self) -> bool:
        """The pid may belong to another process by now."""
        return self._process.returncode is not None

    def close(self) -> None:
        """Reap the ended process and close its output."""
        self._process.wait()
        self._output.close()

    def _watch(self) -> None:
        try:
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # somebody else reaped it: SIGCHLD is ignored in this program
            info = None
        left_behind: tuple[str, ...] = ()
        if not self.wanted:
            try:
                left_behind = self._left_behind()
            except Exception:
                log.exception("cannot tell what process %d left behind", self.pid)
        code = info.si_status if info is not None and info.si_code == os.CLD_EXITED else None
        number = info.si_status if info is not None and info.si_code != os.CLD_EXITED else None
        try:
            self._loop.call_soon_threadsafe(self._tell, code, number, left_behind)
        except RuntimeError:
            log.debug("process %d outlived the event loop", self.pid)

    def _tell(self, code: int | None, number: int | None, left_behind: tuple[str, ...]) -> None:
        self._output.read_last_words()
        if not self.exited.done():
            self.exited.set_result(
                ExitStatus(code=code, signal=number, wanted=self.wanted, left_behind=left_behind)
            )


class _Output:
    """The pipe that stdout and stderr share."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        emit: Callable[[Sequence[bytes]], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        if process.stdout is None:
            raise ValueError("the process was started without a pipe")
        self._pipe = process.stdout
        self._splitter = LineSplitter(emit)
        self._loop = loop
        os.set_blocking(self._pipe.fileno(), False)
        loop.add_reader(self._pipe.fileno(), self._on_readable)

    def read_last_words(self) -> None:
        """What is in the pipe at the exit, and the last line even if it is unfinished."""
        budget = LAST_WORDS_BYTES
        while budget > 0 and (count := self._read()):
            budget -= count
        self._splitter.flush()

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()

    def _on_readable(self) -> None:
        if self._read() >= READ_BYTES // 2:
            self._loop.remove_reader(self._pipe.fileno())
            self._loop.call_later(FLOOD_PAUSE, self._resume)

    def _resume(self) -> None:
        if not self._pipe.closed:
            self._loop.add_reader(self._pipe.fileno(), self._on_readable)

    def _read(self) -> int:
        """Read once; the number of bytes that came."""
        if self._pipe.closed:
            return 0
        try:
            data = os.read(self._pipe.fileno(), READ_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self._splitter.feed(data)
        else:
            self._splitter.flush()
            self.close()
        return len(data)
