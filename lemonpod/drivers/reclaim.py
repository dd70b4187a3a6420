"""Ending what a dead server left running."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from lemonpod.broker.ports import is_leased
from lemonpod.drivers import tree
from lemonpod.drivers.state import DeadRun, EngineRecord, dead_runs
from lemonpod.drivers.stop_command import run_stop_command
from lemonpod.engine.settings import EngineSettings
from lemonpod.launch.environment import MARKER, engine_environment

log = logging.getLogger(__name__)


async def reclaim(
    folder: Path, environ: Mapping[str, str], settings: EngineSettings, at_once: asyncio.Event
) -> list[str]:
    """End the engines of all dead runs recorded in `folder`; one line for each engine ended.

    Once `at_once` is set there are no more stop commands, and no grace.
    """
    told: list[str] = []
    runs = await asyncio.to_thread(dead_runs, folder)
    try:
        for run in runs:
            told += await _end_run(run, environ, settings, at_once)
    finally:
        for run in runs:
            run.close()
    return told


async def _end_run(
    run: DeadRun, environ: Mapping[str, str], settings: EngineSettings, at_once: asyncio.Event
) -> list[str]:
    alive = [record for record in run.engines if _lives(record)]
    for record in run.engines:
        if record.stop and (record in alive or _may_be_outlived(record)) and not at_once.is_set():
            environment = engine_environment(
                environ, {}, marker=f"{run.id}/stop", programs=os.path.dirname(sys.executable)
            )
            await run_stop_command(
                record.stop,
                env=environment,
                cwd=None,
                timeout=settings.stop_command_timeout,
                at_once=at_once,
                emit=lambda lines: log.info("%s", b"\n".join(lines).decode("utf-8", "replace")),
                late=record not in alive,
            )

    def members() -> list[psutil.Process]:
        roots = {record.pid for record in run.engines if _is_same(record)}
        return tree.members(lambda value: value.startswith(f"{run.id}/"), roots=roots)

    found = await asyncio.to_thread(members)
    owners = {process.pid: _number(process) for process in found}
    kill_at = time.monotonic() + settings.stop_grace
    survivors = await tree.end(members, lambda: 0.0 if at_once.is_set() else kill_at)
    if survivors:
        names = ", ".join(tree.describe(process) for process in survivors)
        log.error("processes of an earlier run cannot be ended: %s", names)
    else:
        run.forget()
    ended = {
        record.number: record for record in run.engines if record in alive or record.number in owners.values()
    }
    lines = [
        f"ended the engine of {record.model} (pid {record.pid}, port {record.port}), left by an earlier run"
        for record in ended.values()
    ]
    strays: dict[int, list[int]] = {}
    for pid, number in owners.items():
        if number is not None and number not in ended:
            strays.setdefault(number, []).append(pid)
    return lines + [_tell_strays(pids) for pids in strays.values()]


def _tell_strays(pids: list[int]) -> str:
    noun = "process" if len(pids) == 1 else "processes"
    return f"ended an engine with {noun} {', '.join(map(str, sorted(pids)))}, left by an earlier run"


def _may_be_outlived(record: EngineRecord) -> bool:
    """Its stop command may be for a container that its process has left, which has its name by the port.

    Where another server has leased that port since, the name is of an engine of its own.
    """
    return not record.stop_names_pid and not is_leased(record.port)


def _lives(record: EngineRecord) -> bool:
    """The recorded process has not ended."""
    with suppress(psutil.NoSuchProcess):
        return _is_same(record) and tree.lives(psutil.Process(record.pid))
    return False


def _is_same(record: EngineRecord) -> bool:
    """The recorded process is still there, or not reaped; a recycled pid has another creation time."""
    return tree.created(record.pid) == record.create_time


def _number(process: psutil.Process) -> int | None:
    """The number of the engine that a process belongs to, by its marker."""
    try:
        return int(process.environ().get(MARKER, "").split("/")[1])
    except (psutil.Error, OSError, ValueError, IndexError):
        return None
