"""A server is killed; the next one takes over what runs with an unchanged plan, and removes the rest."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lemonpod.drivers import container_estate
from lemonpod.drivers.container_engine import ContainerEngine
from lemonpod.engine.api import Adoptable, EngineState
from lemonpod.engine.probe import until_ready
from lemonpod.errors import RuntimeUnavailableError, SpawnError
from tests.unit.drivers.containers import World, plan_of
from tests.waiting import until


@pytest.fixture
async def crashed(world: World) -> AsyncIterator[tuple[World, ContainerEngine]]:
    """The server that comes after a crash, and the engine that was left."""
    left = await world.started("say", "before", "serve", "PORT", plan={"overrides": {"n": 1}})
    world.die()
    later = world.next_server()
    yield later, left
    for engine in later.driver._engines:
        await engine.stop(grace=0.0)
    await later.driver.aclose()
    for container in list(world.runtime.containers_.values()):
        world.runtime.drop(container)


async def test_what_runs_is_taken_over_as_it_is(crashed: tuple[World, ContainerEngine]) -> None:
    world, left = crashed
    assert list(await world.driver.reclaim()) == []
    port = left.plan.endpoint.port
    left_there = Adoptable(model="user.m", port=port, overrides={"n": 1}, digest=left.plan.digest)
    assert list(world.driver.adoptable()) == [left_there]
    engine = world.driver.create(left.plan)
    assert list(world.driver.adoptable()) == []
    world.runtime.calls.clear()
    await engine.prepare(print)
    await engine.start()
    assert list(await world.driver.settle()) == []
    await until_ready(engine)
    assert {"create", "start", "pull"}.isdisjoint(world.runtime.calls)
    await until(lambda: engine.log_tail(1) == ("before",))
    assert (await engine.inspect()).pid == 4711
    assert sorted(os.listdir(world.state)) == [f"containers-{world.driver.run}.json", "instance"]
    assert (await engine.stop(grace=1.0)).wanted
    assert world.runtime.containers_ == {}


async def test_a_changed_plan_starts_anew(crashed: tuple[World, ContainerEngine]) -> None:
    world, left = crashed
    await world.driver.reclaim()
    old = world.runtime.only()
    changed = replace(left.plan, digest="1" * 64)
    (line,) = await world.driver.settle()
    assert line.startswith("ended the engine of user.m (container funny_")
    engine = world.driver.create(changed)
    await engine.start()
    assert world.runtime.only() is not old
    await engine.stop(grace=1.0)


async def test_another_port_is_another_engine(crashed: tuple[World, ContainerEngine]) -> None:
    world, left = crashed
    await world.driver.reclaim()
    world.driver.create(replace(plan_of(), digest=left.plan.digest))
    assert len(world.driver.adoptable()) == 1


async def test_what_does_not_run_is_removed(crashed: tuple[World, ContainerEngine]) -> None:
    world, _ = crashed
    container = world.runtime.only()
    world.runtime.end(container, 1)
    (line,) = await world.driver.reclaim()
    assert line == f"removed the container {container.name} of user.m, left by an earlier run"
    assert world.runtime.containers_ == {}
    assert os.listdir(world.state) == ["instance"]


async def test_labels_that_were_cut_are_no_engine(crashed: tuple[World, ContainerEngine]) -> None:
    world, _ = crashed
    container = world.runtime.only()
    container.labels = {name: text for name, text in container.labels.items() if name != "lemonpod.port"}
    assert len(await world.driver.reclaim()) == 1
    assert world.runtime.containers_ == {}


async def test_containers_of_other_folders_and_of_strangers_are_left_alone(
    crashed: tuple[World, ContainerEngine],
) -> None:
    world, _ = crashed
    container = world.runtime.only()
    container.labels = {**container.labels, "lemonpod.instance": "another"}
    assert list(await world.driver.reclaim()) == []
    assert list(world.driver.adoptable()) == []
    assert list(await world.driver.settle()) == []
    assert container.running


async def test_a_living_servers_containers_are_left_alone(world: World) -> None:
    """Also those that it has taken over from a dead one."""
    await world.started("serve", "PORT")
    world.die()
    second = world.next_server()
    await second.driver.reclaim()
    taken = second.driver.create(world.driver._engines[0].plan)
    await taken.start()
    await second.driver.settle()
    own = second.driver.create(plan_of())
    await own.start()
    broken = world.next_server()
    await (await broken.started()).stop(grace=0.0)
    await broken.started()
    broken.die()
    third = world.next_server()
    await third.driver.reclaim()
    assert len(third.driver.adoptable()) == 1
    await third.driver.settle()
    assert len(world.runtime.containers_) == 2
    for server in (third, broken):
        await server.driver.aclose()
    await taken.stop(grace=0.0)
    await own.stop(grace=0.0)
    await second.driver.aclose()


async def test_one_that_ends_before_it_is_taken_over(crashed: tuple[World, ContainerEngine]) -> None:
    world, left = crashed
    await world.driver.reclaim()
    engine = world.driver.create(left.plan)
    world.runtime.end(world.runtime.only(), 1)
    with pytest.raises(SpawnError, match="has ended before it could be taken over"):
        await engine.start()
    await engine.stop(grace=1.0)
    assert world.runtime.containers_ == {}


async def test_one_whose_taking_over_is_given_up_is_ended(crashed: tuple[World, ContainerEngine]) -> None:
    world, left = crashed
    await world.driver.reclaim()
    engine = world.driver.create(left.plan)
    assert (await engine.inspect()).state is EngineState.CREATED
    assert (await engine.stop(grace=1.0)).wanted
    assert world.runtime.containers_ == {}


async def test_a_runtime_that_does_not_answer_is_asked_by_the_next_server(
    crashed: tuple[World, ContainerEngine], caplog: pytest.LogCaptureFixture
) -> None:
    world, _ = crashed
    world.runtimes.error = RuntimeUnavailableError("no socket")
    assert list(await world.driver.reclaim()) == []
    assert list(await world.driver.settle()) == []
    assert "cannot be looked for: no socket" in caplog.text
    next_one = world.next_server()
    await next_one.driver.reclaim()
    assert len(next_one.driver.adoptable()) == 1
    await next_one.driver.aclose()


async def test_a_runtime_that_does_not_answer_is_asked_again(crashed: tuple[World, ContainerEngine]) -> None:
    world, left = crashed
    unsettled = []
    for error in (RuntimeUnavailableError("no socket"), None):
        world.runtimes.error = error
        await world.driver.reclaim()
        unsettled.append(world.driver.unsettled)
    assert unsettled == [True, False]
    assert [one.model for one in world.driver.adoptable()] == [left.plan.model]
    await world.driver.settle()
    assert world.runtime.containers_ == {}


async def test_a_runtime_that_hangs_does_not_keep_a_server_from_starting(
    crashed: tuple[World, ContainerEngine],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(container_estate, "LOOK_TIMEOUT", 0.02)
    world, _ = crashed
    world.runtime.hang()
    assert list(await world.driver.reclaim()) == []
    assert "cannot be looked for: it did not answer within 0.02 s" in caplog.text
    world.runtime.come_back()
    monkeypatch.undo()
    next_one = world.next_server()
    await next_one.driver.reclaim()
    assert len(next_one.driver.adoptable()) == 1
    await next_one.driver.aclose()
