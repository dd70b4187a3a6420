"""Ending a running container: the manifest's stop command, its stop signal, then KILL."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lemonpod.drivers.container_watch import Watch
from lemonpod.drivers.runtimes import Link
from lemonpod.drivers.stop_command import run_stop_command, stop_argv
from lemonpod.engine.tasks import cancel
from lemonpod.errors import EngineError, RuntimeUnavailableError
from lemonpod.launch.argv.flags import StopVerb
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import Runtime
from lemonpod.launch.plan import ContainerLaunch, LaunchPlan, StopCommand

KILL_TIMEOUT: Final = 10.0
"""Nothing outlives a KILL this long but a process inside the kernel, or a runtime that hangs."""

log = logging.getLogger(__name__)


class Patience:
    """How long an end may take from its beginning: it only gets shorter."""

    def __init__(self) -> None:
        self.grace = math.inf
        self.at_once = asyncio.Event()
        self._shorter = asyncio.Event()

    def limit(self, grace: float) -> None:
        """At most so many seconds."""
        if grace < self.grace:
            self.grace = grace
            self._shorter.set()
            self._shorter = asyncio.Event()
        if grace <= 0:
            self.at_once.set()

    async def until_over(self, begun: float) -> None:
        """Return when its time is over, counted from `begun` (monotonic)."""
        while (left := begun + self.grace - time.monotonic()) > 0:
            shorter = asyncio.ensure_future(self._shorter.wait())
            try:
                await asyncio.wait({shorter}, timeout=None if left == math.inf else left)
            finally:
                await cancel(shorter)


async def run_stop(
    plan: LaunchPlan,
    link: Link,
    container: str,
    patience: Patience,
    *,
    pid: int | None,
    env: Mapping[str, str],
    timeout: float,
    emit: Callable[[Sequence[bytes]], None],
) -> None:
    """Carry out the plan's stop command, at most `timeout` seconds; its failure goes to the log."""
    match plan.stop:
        case StopCommand() as stop:
            await run_stop_command(
                stop_argv(stop, pid or 0),
                env=env,
                cwd=plan.spec.cwd,
                timeout=timeout,
                at_once=patience.at_once,
                emit=emit,
            )
        case ContainerStop() as stop:
            for one in _for_engine(stop, plan, container):
                await _carry_out(one, link, patience, timeout)
        case None:
            pass


def _for_engine(stop: ContainerStop, plan: LaunchPlan, container: str) -> list[ContainerStop]:
    """By its id, since its name may be another's by now, and without removing it before its exit is read."""
    launch = plan.spec
    name = launch.container.name if isinstance(launch, ContainerLaunch) else None
    if not isinstance(launch, ContainerLaunch) or name not in stop.containers:
        return [stop]
    if stop.verb is not StopVerb.REMOVE or not stop.force:
        return [replace(stop, containers=tuple(container if one == name else one for one in stop.containers))]
    # Docker kills what it removes by force; podman stops it first.
    at_once = launch.container.runtime is Runtime.DOCKER
    ended = ContainerStop(
        verb=StopVerb.KILL if at_once else StopVerb.STOP,
        containers=(container,),
        timeout=None if at_once else stop.timeout,
    )
    others = tuple(other for other in stop.containers if other != name)
    return [ended, replace(stop, containers=others)] if others else [ended]


async def _carry_out(stop: ContainerStop, link: Link, patience: Patience, timeout: float) -> None:
    asked = asyncio.create_task(link.call(lambda runtime: runtime.carry_out(stop)))
    hurried = asyncio.create_task(patience.at_once.wait())
    try:
        either: set[asyncio.Future[Any]] = {asked, hurried}
        await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            asked.result()
        else:
            log.warning("the stop command's %s is left to itself: it has not ended in time", stop.verb)
    except EngineError as error:
        log.warning("the stop command's %s: %s", stop.verb, error)
    finally:
        await cancel(asked, hurried)


async def end(link: Link, container: str, watch: Watch, patience: Patience) -> bool:
    """Its stop signal, then KILL when the patience is over; whether it has ended.

    Raises RuntimeUnavailableError.
    """
    begun = time.monotonic()
    if not patience.at_once.is_set():
        # The runtime's own limit is ours; a shorter one that comes later is ours alone.
        grace = math.ceil(min(patience.grace, 3600.0))
        stopping = asyncio.create_task(link.call(lambda runtime: runtime.stop(container, grace)))
        over = asyncio.create_task(patience.until_over(begun))
        try:
            either: set[asyncio.Future[Any]] = {stopping, over, watch.exited}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                stopping.result()
                watch.look()
                either = {over, watch.exited}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(stopping, over)
    if not watch.exited.done():
        await _kill(link, container)
        watch.look()
        await asyncio.wait({watch.exited}, timeout=KILL_TIMEOUT)
    return watch.exited.done()


async def _kill(link: Link, container: str) -> None:
    try:
        async with asyncio.timeout(KILL_TIMEOUT):
            await link.call(lambda runtime: runtime.kill(container, "KILL"))
    except TimeoutError:
        text = f"its container engine did not carry out a KILL within {KILL_TIMEOUT:g} s"
        raise RuntimeUnavailableError(text) from None
