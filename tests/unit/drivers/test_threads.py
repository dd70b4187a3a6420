from __future__ import annotations

import asyncio
import threading

import pytest

from lemonpod.drivers.runtime import Halt, Halted
from lemonpod.drivers.threads import Funnel, Threads
from tests.waiting import until


async def test_outcomes_come_back_and_no_thread_stays() -> None:
    before = set(threading.enumerate())
    threads = Threads("test")
    names = await asyncio.gather(*(threads.run(lambda: threading.current_thread().name) for _ in range(3)))
    assert sorted(names) == ["test-1", "test-2", "test-3"]
    with pytest.raises(KeyError):
        await threads.run(lambda: dict[str, int]()["x"])
    await threads.aclose()
    assert set(threading.enumerate()) <= before


async def test_a_cancelled_caller_ends_the_work_first() -> None:
    threads, halt, closed = Threads("test"), Halt(), threading.Event()
    ended = False

    def work() -> None:
        nonlocal ended
        with halt.closing(closed.set):
            closed.wait()
            ended = True

    running = asyncio.create_task(threads.run(work, halt=halt))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended
    with pytest.raises(Halted):
        await threads.run(work, halt=halt)
    await threads.aclose()


async def test_without_a_halt_the_work_is_left_to_itself_and_waited_for_at_the_end() -> None:
    threads, gate = Threads("test"), threading.Event()
    running = asyncio.create_task(threads.run(gate.wait))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    asyncio.get_running_loop().call_later(0.01, gate.set)
    await threads.aclose()
    assert not [one for one in threading.enumerate() if one.name.startswith("test-")]


async def test_a_funnel_hands_over_in_order_and_slows_who_is_too_fast() -> None:
    threads, got = Threads("test"), list[bytes]()
    pieces = 0

    def take(items: list[bytes]) -> None:
        nonlocal pieces
        pieces += 1
        got.extend(items)

    funnel = Funnel(take, room=1000)

    def produce() -> None:
        for number in range(2000):
            funnel.put([b"%04d" % number])

    await threads.run(produce)
    await until(lambda: len(got) == 2000)
    assert got == [b"%04d" % number for number in range(2000)]
    assert pieces >= 8
    await threads.aclose()
