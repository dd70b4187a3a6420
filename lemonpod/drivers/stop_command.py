"""The manifest's stop command: a courtesy before the signals, never a reason not to send them."""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from lemonpod.contract.tokens import Token
from lemonpod.drivers import tree
from lemonpod.drivers.child import Child
from lemonpod.drivers.spawn import spawn
from lemonpod.engine.tasks import cancel
from lemonpod.errors import SpawnError
from lemonpod.launch.environment import MARKER
from lemonpod.launch.plan import StopCommand

log = logging.getLogger(__name__)


def stop_argv(stop: StopCommand, pid: int) -> tuple[str, ...]:
    """The stop command of a running engine: its only open token is the pid."""
    return tuple(
        "".join(str(pid) if isinstance(part, Token) else part for part in template.parts)
        for template in stop.argv
    )


async def run_stop_command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    timeout: float,
    at_once: asyncio.Event,
    emit: Callable[[Sequence[bytes]], None],
    late: bool = False,
) -> None:
    """Run it to its end, its time limit or `at_once`; its output goes to `emit`, its failure to the log.

    Where the engine has ended before, it is `late`: that it finds nothing to stop is no warning.
    """
    command = shlex.join(argv)
    started = time.time()
    try:
        process = await asyncio.to_thread(spawn, argv, env=env, cwd=cwd)
    except SpawnError as error:
        log.warning("stop command %s: %s", command, error)
        return
    child = Child(process, emit=emit)

    def members() -> list[psutil.Process]:
        return tree.members(lambda value: value == env[MARKER], roots={child.pid}, born_after=started)

    hurried = asyncio.create_task(at_once.wait())
    try:
        either: set[asyncio.Future[Any]] = {child.exited, hurried}
        await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not child.exited.done():
            log.warning("stop command %s is cut off: it has not ended in time", command)
        child.wanted = True
        survivors = await tree.end(members, lambda: 0.0)
        if survivors:
            log.error("stop command %s cannot be ended: pid %d", command, child.pid)
            return
        status = await asyncio.shield(child.exited)
        if status.code != 0 and not status.wanted:
            log.log(logging.INFO if late else logging.WARNING, "stop command %s %s", command, status)
    finally:
        child.close()
        await cancel(hurried)
