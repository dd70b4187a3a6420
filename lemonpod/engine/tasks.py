"""Waiting that a cancelled caller cannot spoil."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled, who then is cancelled after it."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        _retrieve(task)
        raise cancelled
    return task.result()


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait until they have ended, whatever their outcome."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await finish(_ended(running))
    for task in tasks:
        _retrieve(task)


async def first(work: Coroutine[Any, Any, object], other: asyncio.Task[Any], *, timeout: float) -> None:
    """Wait for either, at most `timeout` seconds."""
    working = asyncio.create_task(work)
    try:
        await asyncio.wait({working, other}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(working)


async def _ended(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Look at the outcome, so that asyncio does not report it as never looked at."""
    if not task.cancelled():
        task.exception()
