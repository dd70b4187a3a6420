"""A runtime that does not answer says nothing about its containers."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from lemonpod.drivers import container_meter, container_run, container_stop, container_watch
from lemonpod.drivers.runtime import Halt
from lemonpod.engine.api import EngineState, EngineStats
from lemonpod.engine.probe import until_ready
from lemonpod.errors import EngineError, RuntimeUnavailableError
from lemonpod.launch.container import Namespace
from tests.unit.drivers.containers import World
from tests.waiting import until


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_watch, "FIRST_RETRY", 0.01)
    monkeypatch.setattr(container_watch, "LAST_RETRY", 0.02)
    monkeypatch.setattr(container_run, "FIRST_SWEEP", 0.01)
    monkeypatch.setattr(container_run, "LAST_SWEEP_TIMEOUT", 1.0)


async def test_unknown_is_not_gone_and_heals(world: World) -> None:
    engine = await world.started("say", "before", "serve", "PORT")
    await until_ready(engine)
    waiting = asyncio.create_task(engine.wait())
    await until(lambda: engine.log_tail(9) == ("before",))
    world.runtime.vanish()
    await until(lambda: engine.trouble)
    assert "the fake is silent" in str(engine.trouble)
    assert not waiting.done()
    with pytest.raises(RuntimeUnavailableError):
        await engine.inspect()
    assert await engine.probe()
    assert (await engine.stats()).memory_bytes is None
    world.runtime.say(world.runtime.only(), b"meanwhile\n")
    world.runtime.come_back()
    await until(lambda: engine.trouble is None)
    assert (await engine.inspect()).state is EngineState.RUNNING
    world.runtime.say(world.runtime.only(), b"after\n")
    await until(lambda: engine.log_tail(9) == ("before", "meanwhile", "after"))
    world.runtime.end(world.runtime.only(), 4)
    assert (await waiting).code == 4
    assert engine.log_tail(9) == ("before", "meanwhile", "after")


async def test_an_end_during_the_silence_is_told_after_it(world: World) -> None:
    engine = await world.started("say", "before")
    await until(lambda: engine.log_tail(9))
    world.runtime.vanish()
    await until(lambda: engine.trouble)
    world.runtime.say(world.runtime.only(), b"last words")
    world.runtime.end(world.runtime.only(), 137, oom=True)
    world.runtime.come_back()
    assert (await engine.wait()).reason == "out of memory"
    assert engine.log_tail(9) == ("before", "last words")


async def test_one_that_is_gone_after_the_silence(world: World) -> None:
    engine = await world.started()
    await until(lambda: "wait" in world.runtime.calls)
    world.runtime.vanish()
    await until(lambda: engine.trouble)
    world.runtime.drop(world.runtime.only())
    world.runtime.come_back()
    assert str(await engine.wait()) == "was removed by somebody else"


async def test_what_cannot_be_ended_is_named_and_swept_before_the_next_start(world: World) -> None:
    engine = await world.started(name="n-1")
    world.runtime.vanish()
    await until(lambda: engine.trouble)
    with pytest.raises(EngineError, match=r"container n-1 of user\.m cannot be ended: the fake is silent"):
        await engine.stop(grace=1.0)
    world.runtime.come_back()
    later = await world.started(name="n-1")
    assert [one.name for one in world.runtime.containers_.values()] == ["n-1"]
    assert (await engine.wait()).wanted
    assert (await engine.stop(grace=1.0)).wanted
    assert (await later.inspect()).state is EngineState.RUNNING


async def test_what_cannot_be_ended_is_removed_when_its_runtime_is_back(world: World) -> None:
    """Without another start, and the record of it goes too."""
    engine = await world.started("serve", "PORT")
    world.runtime.vanish()
    with pytest.raises(EngineError, match="lemonpod removes it when its runtime answers again"):
        await engine.stop(grace=1.0)
    world.runtime.come_back()
    await until(lambda: not world.runtime.containers_)
    assert (await engine.wait()).wanted
    await world.driver.aclose()
    assert os.listdir(world.state) == ["instance"]


async def test_a_runtime_that_hangs_holds_up_no_table_of_engines(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_meter, "ANSWER_TIMEOUT", 0.02)
    engine = await world.started()
    world.runtime.hang()
    assert await engine.stats() == EngineStats()
    assert await engine.stats() == EngineStats()
    assert world.runtime.calls.count("usage") == 1
    world.runtime.come_back()
    monkeypatch.setattr(container_meter, "ANSWER_TIMEOUT", 10.0)
    assert (await engine.stats()).memory_bytes == 1 << 20


async def test_a_runtime_that_hangs_cannot_be_waited_for_at_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_stop, "KILL_TIMEOUT", 0.05)
    engine = await world.started()
    await until(lambda: {"logs", "wait"} <= set(world.runtime.calls))
    world.runtime.hang()
    with pytest.raises(EngineError, match="did not carry out a KILL within"):
        await engine.stop(grace=0.0)
    world.runtime.come_back()
    await until(lambda: not world.runtime.containers_)


async def test_a_runtime_that_dies_in_the_middle_of_a_start(world: World) -> None:
    world.runtime.failures["start"] = RuntimeUnavailableError("hung up")
    engine = world.create()
    with pytest.raises(RuntimeUnavailableError):
        await engine.start()
    assert len(world.runtime.containers_) == 1
    await world.driver.aclose()
    assert world.runtime.containers_ == {}


async def test_a_container_whose_id_was_never_heard_is_found_by_its_labels(world: World) -> None:
    create = world.runtime.create

    def made_but_not_told(*args: object) -> str:
        create(*args)  # type: ignore[arg-type]
        raise RuntimeUnavailableError("hung up")

    world.runtime.create = made_but_not_told  # type: ignore[method-assign, assignment]
    with pytest.raises(RuntimeUnavailableError):
        await world.create().start()
    assert len(world.runtime.containers_) == 1
    world.runtime.create = create  # type: ignore[method-assign]
    engine = await world.started()
    assert len(world.runtime.containers_) == 1
    await engine.stop(grace=0.0)


async def test_no_answer_while_it_is_looked_for_whose_port_it_is(world: World) -> None:
    world.runtime.local = False
    engine = await world.started("serve", "PORT", published=False, network_mode=Namespace("host"))
    world.runtime.failures["info"] = RuntimeUnavailableError("hung up")
    assert not await engine.probe()
    assert "hung up" in await engine.diagnose()
    assert await engine.probe()


async def test_output_that_cannot_be_read_is_no_end(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.runtime.failures["logs"] = EngineError("no such log driver")
    engine = await world.started()
    await until(lambda: "no such log driver" in caplog.text)
    world.runtime.end(world.runtime.only(), 1)
    assert (await engine.wait()).code == 1


async def test_a_wait_that_is_never_answered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As to a runtime behind TCP whose machine went away without a word."""
    monkeypatch.setattr(container_watch, "LOOK_INTERVAL", 0.05)

    def silent(container: str, halt: Halt) -> None:
        cut = threading.Event()
        with halt.closing(cut.set):
            cut.wait(30)

    world.runtime.wait = silent  # type: ignore[method-assign]
    engine = await world.started()
    world.runtime.vanish()
    await until(lambda: engine.trouble is not None)
    world.runtime.come_back()
    await until(lambda: engine.trouble is None)
    world.runtime.end(world.runtime.only(), 3)
    assert (await engine.wait()).code == 3
