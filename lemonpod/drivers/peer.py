"""Whose port is it? An answer counts only when it came from the engine's own socket."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

import psutil

from lemonpod.broker.ports import is_free
from lemonpod.drivers import tree
from lemonpod.errors import EngineError
from lemonpod.launch.plan import LaunchPlan

PORT_TIMEOUT: Final = 2.0
"""For a port to be free after the last process has gone."""

_EXACT: Final = 3

log = logging.getLogger(__name__)


def check_peer(plan: LaunchPlan, processes: Sequence[psutil.Process]) -> str | None:
    """None where the plan's port is held by one of `processes`, or else what keeps us from telling yet.

    Raises EngineError where a stranger holds it. Blocks.
    """
    host, port = plan.endpoint.host, plan.endpoint.port
    unreadable = False
    own = []
    for process in processes:
        try:
            own += tree.listeners_of([process])
        except psutil.AccessDenied:
            unreadable = True
    if any(listener.port == port and listener.accepts(host) == _EXACT for listener in own):
        return None
    # On a wildcard address, or nowhere: somebody else may be closer to a connection.
    holders = tree.listeners_on(host, port)
    if not holders:
        return f"nobody listens on {host}:{port} any more"
    pids = {process.pid for process in processes}
    strangers = [
        listener
        for listener in holders
        if listener.pid not in pids and not (listener.pid is None and unreadable)
    ]
    if not strangers:
        return None
    raise EngineError(
        f"port {port} is answered by {_name(strangers[0])}, not by the {plan.recipe} engine of {plan.model}",
        hint="end that program, or load again to get another port",
    )


async def wait_port_free(plan: LaunchPlan, *, started: float) -> None:
    """Return when the port of an ended engine is free; raises EngineError where something of it holds on.

    `started` is the creation time of the engine: an older holder was there before it, and is not our concern.
    """
    host, port = plan.endpoint.host, plan.endpoint.port
    give_up_at = time.monotonic() + PORT_TIMEOUT
    while not is_free(host, port):
        holders = await asyncio.to_thread(tree.listeners_on, host, port)
        if holders and all(_is_older(listener, started) for listener in holders):
            log.warning("port %d belongs to %s, which is not ours", port, _name(holders[0]))
            return
        if time.monotonic() > give_up_at:
            holder = _name(holders[0]) if holders else "an unknown process"
            raise EngineError(
                f"the {plan.recipe} engine of {plan.model} has ended, but {holder} holds its port {port}",
                hint="the engine started it and let go of it: end it by hand",
            )
        await asyncio.sleep(tree.POLL_INTERVAL)


def _is_older(listener: tree.Listener, started: float) -> bool:
    if listener.pid is None:
        return True  # another user's: we cannot have started it
    created = tree.created(listener.pid)
    return created is not None and created < started


def _name(listener: tree.Listener) -> str:
    if listener.pid is None:
        return "a process of another user"
    try:
        return tree.describe(psutil.Process(listener.pid))
    except psutil.NoSuchProcess:
        return f"a process that has ended (pid {listener.pid})"
