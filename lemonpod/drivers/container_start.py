"""What comes before a container runs: its image fetched, its name free."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

from lemonpod.drivers import labels
from lemonpod.drivers.runtime import ContainerInfo, ContainerRuntime, Halt
from lemonpod.drivers.runtimes import Link
from lemonpod.engine.api import Progress, Report
from lemonpod.errors import ImageNotFoundError, NameConflictError, PullError
from lemonpod.launch.container import ContainerSpec, PullPolicy

REPORT_INTERVAL: Final = 0.1
"""Nobody reads a faster progress bar."""
_CREATED: Final = "created"


async def fetch_image(link: Link, spec: ContainerSpec, report: Report, *, timeout: float) -> None:
    """Have the image as the pull policy says; raises ImageNotFoundError or PullError.

    An image that is there is looked up and not asked of any registry, unless the policy wants just that.
    """
    if spec.pull in (PullPolicy.MISSING, PullPolicy.NEVER):
        if await link.call(lambda runtime: runtime.image(spec.image, spec.platform)) is not None:
            return
        if spec.pull is PullPolicy.NEVER:
            raise ImageNotFoundError(
                f"the image {spec.image} is not here, and '--pull never' forbids to fetch it",
                hint=f"{spec.runtime} pull {spec.image}",
            )
    telling = _Telling(f"pulling {spec.image}", report)

    def pull(runtime: ContainerRuntime, halt: Halt) -> None:
        runtime.pull(
            spec.image, policy=spec.pull, platform=spec.platform, received=telling.received, halt=halt
        )

    telling.received(0, None)
    try:
        async with asyncio.timeout(timeout):
            await link.stream(pull)
    except TimeoutError:
        raise PullError(
            f"the image {spec.image} was not here after {timeout:g} s",
            hint=f"`{spec.runtime} pull {spec.image}` goes on where this ended; or raise pull_timeout",
        ) from None
    finally:
        telling.end()


class _Telling:
    """Progress from the thread that pulls to a report in the event loop, a few times a second."""

    def __init__(self, text: str, report: Report) -> None:
        self._text = text
        self._report: Report | None = report
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._newest: Progress | None = None
        self._next = time.monotonic()

    def received(self, done: int, total: int | None) -> None:
        """For any thread."""
        progress = Progress(text=self._text, done_bytes=done, total_bytes=total)
        with self._lock:
            idle = self._newest is None
            self._newest = progress
        if idle:
            self._loop.call_soon_threadsafe(self._schedule)

    def end(self) -> None:
        """The last word, and none after it; for the loop."""
        self._tell()
        self._report = None

    def _schedule(self) -> None:
        wait = self._next - time.monotonic()
        if wait <= 0:
            self._tell()
        else:
            self._loop.call_later(wait, self._tell)

    def _tell(self) -> None:
        with self._lock:
            progress, self._newest = self._newest, None
        if progress is not None and self._report is not None:
            self._next = time.monotonic() + REPORT_INTERVAL
            self._report(progress)


def free_name(
    runtime: ContainerRuntime, spec: ContainerSpec, instance: str, lives: Callable[[ContainerInfo], bool]
) -> None:
    """Take the spec's name from a container that nobody needs; raises NameConflictError. Blocks.

    `lives` is whether a server that runs holds the container.
    """
    holder = runtime.inspect(spec.name) if spec.name else None
    if holder is None:
        return
    ours = holder.labels.get(labels.INSTANCE) == instance
    # One that was created and does not run yet may be on its way.
    dead = ours and (not lives(holder) or not (holder.running or holder.status == _CREATED))
    if not (dead or spec.replace):
        raise NameConflictError(
            f"the container name '{spec.name}' is taken by {_who(holder, ours=ours)}, "
            f"container {holder.id[:12]}, which is {holder.status}",
            hint=f"`{spec.runtime} rm -f {spec.name}` ends it; or put {{port}} into the manifest's '--name'",
        )
    runtime.remove(holder.id)


def _who(holder: ContainerInfo, *, ours: bool) -> str:
    model = holder.labels.get(labels.MODEL)
    if model is None:
        return "one that lemonpod did not start"
    return f"the engine of {model}" if ours else f"the engine of {model} of another lemonpod server"
