from __future__ import annotations

import asyncio

import pytest

from lemonpod.engine.tasks import cancel, finish


async def test_work_is_finished_although_the_caller_is_cancelled_twice() -> None:
    gate, done = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        await gate.wait()
        done.set()
        return "result"

    caller = asyncio.create_task(finish(work()))
    for _ in range(2):
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done.is_set()
    assert await finish(work()) == "result"


async def test_the_error_of_the_work_comes_out_unless_the_caller_was_cancelled() -> None:
    async def work() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await finish(work())
    caller = asyncio.create_task(finish(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_cancel_waits_for_the_clearing_up() -> None:
    cleared = False

    async def work() -> None:
        nonlocal cleared
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            cleared = True
            raise RuntimeError("on the way out")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancel(task)
    assert cleared
    assert task.done()
    await cancel(task)
    await cancel()
