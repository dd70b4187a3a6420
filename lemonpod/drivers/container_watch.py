"""Follows one running container to its end: its output, its exit, and the silences of its runtime."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from lemonpod.drivers.container_exit import exit_status
from lemonpod.drivers.runtime import ContainerInfo
from lemonpod.drivers.runtimes import Link
from lemonpod.drivers.threads import Funnel
from lemonpod.engine.api import ExitStatus
from lemonpod.engine.logbuf import LineSplitter, LogBuffer
from lemonpod.engine.tasks import cancel
from lemonpod.errors import EngineError, RuntimeUnavailableError

FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 5.0
"""From one question to a runtime that does not answer to the next: half a second, then longer."""
LOOK_INTERVAL: Final = 30.0
"""A runtime whose machine went away, or that lost the call, never says that the container has ended."""
LAST_WORDS_PAUSE: Final = 0.02
LAST_WORDS_TIMEOUT: Final = 2.0
"""For the rest of the output after the end: to come by itself, and to be asked for."""
RESTART_PAUSE: Final = 0.25
"""Between two looks at a container that its runtime is about to start again."""
RESTART_TIMEOUT: Final = 1.0
"""A runtime that restarts what ended has done so by then, or says that it will."""
LOG_ROOM: Final = 256 << 10
"""Bytes of output on their way into the loop."""

_RESTARTING: Final = "restarting"

log = logging.getLogger(__name__)


class Watch:
    """The eyes on a container, from its start in a task of their own. For use in one event loop."""

    def __init__(
        self, link: Link, container: str, name: str, output: LogBuffer, *, restarts: bool = False
    ) -> None:
        """`name` is for people; `restarts` is whether the runtime may start it again by itself."""
        self.exited: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()
        self.trouble: str | None = None
        self.wanted = False
        """Set before it is stopped, so that an end is told by what we meant."""
        self._link = link
        self._container = container
        self._name = name
        self._restarts = restarts
        self._output = _Output(link, container, output)
        self._told = asyncio.Event()
        self._following = asyncio.create_task(self._follow(), name=f"watch over container {name}")

    def look(self) -> None:
        """It may have ended: see to it now, since some runtimes look only four times a second."""
        self._told.set()

    async def aclose(self) -> None:
        """Look away."""
        await cancel(self._following)
        if not self.exited.done():
            self.exited.cancel()

    async def _follow(self) -> None:
        self._output.follow()
        try:
            while True:
                try:
                    info = await self._end()
                    break
                except RuntimeUnavailableError as error:
                    await self._silence(error)
                    self._output.follow()
            await self._output.complete()
            if info is not None and not self.wanted and await self._was_removed():
                info = None
            if not self.exited.done():
                self.exited.set_result(exit_status(info, wanted=self.wanted))
        except Exception as error:
            log.exception("the watch over container %s ended by a bug", self._name)
            if not self.exited.done():
                self.exited.set_result(ExitStatus(reason=f"cannot be watched any more: {error!r}"))
        finally:
            await self._output.aclose()

    async def _end(self) -> ContainerInfo | None:
        """Its last state, None if it is gone; raises RuntimeUnavailableError."""
        while True:
            await self._news()
            info = await self._inspect()
            if info is None or not (info.running or await self._comes_back(info)):
                return info
            self._output.follow()

    async def _news(self) -> None:
        """Return when it may have ended, and now and then."""
        waiting = asyncio.create_task(
            self._link.stream(lambda runtime, halt: runtime.wait(self._container, halt))
        )
        told = asyncio.create_task(self._told.wait())
        try:
            either: set[asyncio.Future[Any]] = {waiting, told}
            await asyncio.wait(either, timeout=LOOK_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
            self._told.clear()
            if waiting.done():
                waiting.result()
        except RuntimeUnavailableError:
            raise
        except EngineError as error:  # of a container that is being removed, for one
            log.debug("container %s cannot be waited for: %s", self._name, error)
            await asyncio.sleep(RESTART_PAUSE)
        finally:
            await cancel(waiting, told)

    async def _comes_back(self, ended: ContainerInfo) -> bool:
        """Whether the runtime starts it again."""
        info: ContainerInfo | None = ended
        give_up_at = time.monotonic() + RESTART_TIMEOUT
        while info is not None and self._restarts and not self.wanted:
            if info.running:
                return True
            if info.status != _RESTARTING and time.monotonic() > give_up_at:
                break
            await asyncio.sleep(RESTART_PAUSE)
            info = await self._inspect()
        return False

    async def _inspect(self) -> ContainerInfo | None:
        return await self._link.call(lambda runtime: runtime.inspect(self._container))

    async def _was_removed(self) -> bool:
        """Who removes a running container has it killed first: that alone would look like a crash."""
        try:
            return await self._inspect() is None
        except EngineError:
            return False

    async def _silence(self, error: RuntimeUnavailableError) -> None:
        """Return when the runtime answers again: what it runs is unknown till then, and not gone."""
        self.trouble = str(error)
        log.warning("nobody knows whether container %s runs: %s", self._name, error)
        pause = FIRST_RETRY
        while True:
            await asyncio.sleep(pause)
            try:
                await self._inspect()
                break
            except EngineError:  # also of a runtime that is still starting
                pause = min(2 * pause, LAST_RETRY)
        self.trouble = None
        log.info("the runtime of container %s answers again", self._name)


class _Output:
    """What the container writes, as lines in a log buffer.

    A runtime hands it on from its beginning: asked again, what came before is skipped by its length.
    """

    def __init__(self, link: Link, container: str, buffer: LogBuffer) -> None:
        self._link = link
        self._container = container
        self._buffer = buffer
        self._funnel = Funnel(buffer.extend, room=LOG_ROOM)
        self._splitter = LineSplitter(lambda lines: self._funnel.put(list(lines)))
        self._seen = 0
        self._whole = False
        """The last reading came to an end of its own."""
        self._reading: asyncio.Task[None] | None = None

    def follow(self) -> None:
        """Read on, unless it is being read."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(follow=True))

    async def complete(self) -> None:
        """The rest, once the container has ended."""
        await self._finish(LAST_WORDS_PAUSE)
        if not self._whole:  # podman goes on following for a while
            self._reading = asyncio.create_task(self._read(follow=False))
            await self._finish(LAST_WORDS_TIMEOUT)
        self._splitter.flush()
        self._funnel.drain()

    async def aclose(self) -> None:
        """No more comes."""
        if self._reading is not None:
            await cancel(self._reading)
        self._buffer.close()

    async def _finish(self, timeout: float) -> None:
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=timeout)
            await cancel(self._reading)

    async def _read(self, *, follow: bool) -> None:
        """Until it ends, or the runtime does not answer any more."""
        self._whole = False
        try:
            await self._link.stream(
                lambda runtime, halt: runtime.logs(self._container, self._skipping(), halt, follow=follow)
            )
            self._whole = True
        except RuntimeUnavailableError:
            pass  # who waits for the container's end hears that too
        except EngineError as error:
            self._whole = True
            log.warning("the output of container %s cannot be read: %s", self._container[:12], error)

    def _skipping(self) -> Callable[[bytes], None]:
        """Takes the output from its beginning, and hands on what was not seen yet."""
        skip = self._seen

        def write(data: bytes) -> None:
            nonlocal skip
            new = data[skip:]
            skip -= len(data) - len(new)
            self._seen += len(new)
            self._splitter.feed(new)

        return write
