"""A container engine's life, over a runtime in memory."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.manifest import HealthProbe
from lemonpod.contract.tokens import parse_template
from lemonpod.contract.vocabulary import ProbeType
from lemonpod.drivers.container import ContainerDriver
from lemonpod.drivers.runtime import ContainerInfo
from lemonpod.engine.api import EngineState, ExitStatus
from lemonpod.engine.probe import until_ready
from lemonpod.errors import (
    EngineError,
    EngineExitedError,
    ImageNotFoundError,
    NameConflictError,
    SpawnError,
)
from lemonpod.launch.argv.flags import StopVerb
from lemonpod.launch.argv.stop import ContainerStop
from lemonpod.launch.container import Namespace, Restart
from lemonpod.launch.plan import StopCommand
from tests.factories import make_container_plan
from tests.fakes.runtime import REMOTE, FakeRuntimes
from tests.unit.drivers.containers import SETTINGS, World, plan_of
from tests.waiting import until


def labelled(**labels: Any) -> dict[str, str]:
    """Labels, by their last words."""
    return {f"lemonpod.{name}": str(value) for name, value in labels.items()}


async def test_nothing_is_asked_and_no_file_is_made_before_a_container_is_wanted(tmp_path: Path) -> None:
    runtimes = FakeRuntimes()
    driver = ContainerDriver(tmp_path / "state", {}, SETTINGS, runtimes=runtimes)
    assert await driver.reclaim() == []
    assert list(driver.adoptable()) == []
    assert await driver.settle() == []
    driver.create(plan_of("serve", "PORT"))
    await driver.aclose()
    assert runtimes.asked == []
    assert runtimes.runtime.calls == ["close"]
    assert not (tmp_path / "state").exists()


async def test_a_container_says_whose_it_is(world: World) -> None:
    """C21: names are the manifest's, while labels take any text."""
    model = "user.Qwen/é:Q4"
    engine = await world.started(
        "serve", "PORT", plan={"model": model, "overrides": {"ctx_size": 4096}}, labels={"mine": "1"}
    )
    labels = dict(world.runtime.only().labels)
    instance = (world.state / "instance").read_text()
    assert json.loads(labels.pop("lemonpod.overrides")) == {"ctx_size": 4096}
    assert labels == {"mine": "1"} | labelled(
        instance=instance,
        run=world.driver.run,
        engine=1,
        recipe="test-engine",
        model=model,
        plan="0" * 64,
        port=engine.plan.endpoint.port,
    )


async def test_a_run_leaves_no_record_but_its_instance(world: World) -> None:
    engine = await world.started("serve", "PORT")
    assert sorted(os.listdir(world.state)) == [f"containers-{world.driver.run}.json", "instance"]
    await engine.stop(grace=1.0)
    await world.driver.aclose()
    assert os.listdir(world.state) == ["instance"]


async def test_ready_stopped_and_removed(world: World) -> None:
    engine = await world.started("say", "engine started", "serve", "PORT")
    await until_ready(engine)
    status = await engine.inspect()
    assert (status.state, status.pid) == (EngineState.RUNNING, 4711)
    end = await engine.stop(grace=5.0)
    assert (end.signal, end.wanted) == (15, True)
    assert world.runtime.containers_ == {}
    assert engine.log_tail(5) == ("engine started",)
    assert (await engine.inspect()).state is EngineState.EXITED


async def test_the_runtime_is_asked_once_whose_port_it_is(world: World) -> None:
    engine = await world.started("serve", "PORT")
    await until_ready(engine)
    world.runtime.calls.clear()
    assert await engine.probe()
    assert await engine.probe()
    assert world.runtime.calls == []


async def test_a_probe_that_gets_no_answer_asks_the_runtime_nothing(world: World) -> None:
    engine = await world.started()
    await until(lambda: {"logs", "wait"} <= set(world.runtime.calls))
    world.runtime.calls.clear()
    assert not await engine.probe()
    assert world.runtime.calls == []


async def test_an_answer_on_a_port_that_the_container_does_not_publish(world: World) -> None:  # L05
    stranger = await world.started("serve", "PORT")
    plan = make_container_plan(port=stranger.plan.endpoint.port, published=False)
    engine = world.driver.create(plan)
    await engine.start()
    with pytest.raises(EngineError, match=r"does not publish it.*-p 127\.0\.0\.1"):
        await engine.probe()


async def test_an_answer_on_the_hosts_network_from_another_process(world: World) -> None:  # L05
    """The listener is this test's process, and the container another's."""
    child = await asyncio.create_subprocess_exec("sleep", "60")
    host: dict[str, object] = {"published": False, "network_mode": Namespace("host")}
    try:
        world.runtime.pid = child.pid
        engine = await world.started("serve", "PORT", **host)
        with pytest.raises(EngineError, match=r"is answered by .*not by the test-engine engine"):
            await engine.probe()
    finally:
        child.kill()
        await child.wait()
    world.runtime.pid = os.getpid()
    engine = await world.started("serve", "PORT", **host)
    assert await engine.probe()


async def test_a_container_of_another_machine_owns_what_answers_while_it_runs(world: World) -> None:
    world.runtime.local = False
    engine = await world.started("serve", "PORT", published=False, network_mode=Namespace("host"))
    assert await engine.probe()


async def test_who_cannot_be_reached_is_told_how(world: World) -> None:
    engine = await world.started(published=False)
    assert not await engine.probe()
    assert "publishes no port" in await engine.diagnose()
    assert "'--network host'" in await engine.diagnose()


async def test_a_process_probe_is_content_with_a_container_that_lives(world: World) -> None:
    engine = await world.started(probe=HealthProbe(type=ProbeType.PROCESS))
    await until_ready(engine)
    with_crash = await world.started("exit", "1", probe=HealthProbe(type=ProbeType.PROCESS))
    with pytest.raises(EngineExitedError):
        await until_ready(with_crash)


async def test_the_last_words_are_there_before_the_end_is_told(world: World) -> None:  # C23
    engine = await world.started("say", "hello")
    container = world.runtime.only()
    world.runtime.say(container, b"half a li")
    world.runtime.say(container, b"ne\nand no end of it")
    world.runtime.end(container, 3)
    assert (await engine.wait()).code == 3
    assert engine.log_tail(9) == ("hello", "half a line", "and no end of it")
    with pytest.raises(EngineExitedError, match="exited with code 3; its last line: and no end of it"):
        await engine.probe()


@pytest.mark.parametrize(
    ("code", "oom", "text"),
    [
        (0, False, "exited with code 0"),
        (127, False, "exited with code 127: by convention, its command was not found"),
        (137, True, "killed by signal 9 (SIGKILL): out of memory"),
        (137, False, "killed by signal 9 (SIGKILL): not by lemonpod; most often the kernel, out of memory"),
        (139, False, "killed by signal 11 (SIGSEGV)"),
        (255, False, "exited with code 255"),
    ],
)
async def test_an_end_is_told_in_words(world: World, code: int, oom: bool, text: str) -> None:
    engine = await world.started()
    world.runtime.end(world.runtime.only(), code, oom=oom)
    assert str(await engine.wait()) == text
    assert str(await engine.stop(grace=1.0)) == text
    assert world.runtime.containers_ == {}


async def test_one_that_somebody_else_removed(world: World) -> None:
    engine = await world.started()
    world.runtime.drop(world.runtime.only())
    end = await engine.wait()
    assert end == ExitStatus(reason="was removed by somebody else")
    assert (await engine.inspect()).state is EngineState.MISSING
    with pytest.raises(EngineExitedError, match="was removed by somebody else"):
        await engine.probe()


async def test_who_removes_a_running_container_has_it_killed_first(world: World) -> None:
    """Seen between the two, it is no crash."""
    engine = await world.started()
    container, inspect = world.runtime.only(), world.runtime.inspect

    def then_removed(name: str) -> ContainerInfo | None:
        info = inspect(name)
        world.runtime.containers_.pop(container.id, None)
        return info

    world.runtime.inspect = then_removed  # type: ignore[method-assign, assignment]
    world.runtime.end(container, 137)
    assert str(await engine.wait()) == "was removed by somebody else"


async def test_a_runtime_that_restarts_it_keeps_the_engine(world: World) -> None:  # C15
    engine = await world.started(restart=Restart("always"))
    container = world.runtime.only()
    world.runtime.end(container, 1)
    container.status = "restarting"
    await until(lambda: world.runtime.calls[-1] == "inspect")
    world.runtime.start(container.id)
    await until(lambda: world.runtime.calls.count("wait") == 2)
    assert (await engine.inspect()).state is EngineState.RUNNING
    assert (await engine.stop(grace=1.0)).wanted


async def test_a_stubborn_one_is_killed(world: World) -> None:
    engine = await world.started("stubborn")
    end = await engine.stop(grace=0.05)
    assert (end.signal, end.wanted) == (9, True)


async def test_a_second_stop_hurries_the_first(world: World) -> None:
    engine = await world.started("stubborn")
    first = asyncio.create_task(engine.stop(grace=600.0))
    await until(lambda: "stop" in world.runtime.calls)
    leaving = asyncio.create_task(engine.stop(grace=600.0))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait({leaving})
    async with asyncio.timeout(5.0):
        assert await engine.stop(grace=0.0) == await first


async def test_at_once_is_without_stop_command_and_stop_signal(world: World) -> None:
    stop = StopCommand(argv=(parse_template("sleep"), parse_template("600")))
    engine = await world.started(plan={"stop": stop})
    await engine.stop(grace=0.0)
    assert "stop" not in world.runtime.calls


@pytest.mark.parametrize("argv", [("/no/such",), ("sleep", "600"), ("false",)])
async def test_a_stop_command_that_fails_stops_nobody_from_ending_it(
    world: World, argv: tuple[str, ...]
) -> None:  # L27
    stop = StopCommand(argv=tuple(parse_template(word) for word in argv))
    engine = await world.started(plan={"stop": stop})
    assert (await engine.stop(grace=1.0)).wanted
    assert world.runtime.containers_ == {}


async def test_a_stop_command_of_the_api(world: World) -> None:
    missing = ContainerStop(verb=StopVerb.STOP, containers=("nobody",))
    engine = await world.started(plan={"stop": missing})
    await engine.stop(grace=1.0)
    assert "carry_out stop" in world.runtime.calls


async def test_a_stop_command_that_removes_leaves_the_exit_to_be_read(world: World) -> None:
    stop = ContainerStop(verb=StopVerb.REMOVE, containers=("mine", "other"), force=True, timeout=1)
    engine = await world.started(name="mine", plan={"stop": stop})
    end = await engine.stop(grace=1.0)
    assert (end.signal, end.reason) == (15, None)
    calls = [call for call in world.runtime.calls if call.startswith("carry_out")]
    assert calls == ["carry_out stop", "carry_out rm"]


@pytest.mark.parametrize("verb", list(StopVerb))
async def test_a_stop_command_is_not_for_one_that_has_its_name_now(world: World, verb: StopVerb) -> None:
    stop = ContainerStop(verb=verb, containers=("mine",), force=verb is StopVerb.REMOVE)
    engine = await world.started(name="mine", plan={"stop": stop})
    own = world.runtime.only()
    own.spec = replace(own.spec, name="renamed by hand")
    spec = make_container_plan(port=1, name="mine").spec
    stranger = world.runtime.put(spec.container, {}, "running")  # type: ignore[union-attr]
    await engine.stop(grace=1.0)
    assert stranger.running
    assert world.runtime.only() is stranger


async def test_what_is_still_there_after_its_removal_is_an_error(world: World) -> None:
    engine = await world.started()
    world.runtime.remains = True
    with pytest.raises(EngineError, match="cannot be ended: it is still there"):
        await engine.stop(grace=1.0)
    world.runtime.remains = False
    await engine.stop(grace=1.0)


async def test_a_start_that_fails_leaves_nothing(world: World) -> None:
    engine = world.create("nonsense")
    with pytest.raises(SpawnError, match="exec: nonsense: not found"):
        await engine.start()
    assert world.runtime.containers_ == {}
    assert (await engine.inspect()).state is EngineState.CREATED
    absent = world.create(image=REMOTE)
    with pytest.raises(ImageNotFoundError):
        await absent.start()


async def test_a_cancelled_start_leaves_nothing(world: World) -> None:
    engine = world.create("serve", "PORT")
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert world.runtime.containers_ == {}


async def test_a_state_folder_that_cannot_be_written(world: World) -> None:
    world.state.write_text("a file")
    engine = world.create()
    with pytest.raises(SpawnError, match="no record of it can be written"):
        await engine.start()
    assert "create" not in world.runtime.calls
    world.state.unlink()


async def test_a_strangers_name_is_refused_and_said_whose_it_is(world: World) -> None:
    spec = make_container_plan(port=1, name="n-8001").spec
    stranger = world.runtime.put(spec.container, {}, "running")  # type: ignore[union-attr]
    engine = world.create(name="n-8001")
    with pytest.raises(NameConflictError, match=r"by one that lemonpod did not start.*podman rm -f n-8001"):
        await engine.start()
    other = labelled(instance="elsewhere", model="m2", run="gone")
    stranger.labels = other
    with pytest.raises(NameConflictError, match="by the engine of m2 of another lemonpod server"):
        await world.create(name="n-8001").start()
    assert world.runtime.only() is stranger


async def test_only_the_very_name_is_taken(world: World) -> None:  # C03
    spec = make_container_plan(port=1, name="n-80010").spec
    neighbour = world.runtime.put(spec.container, {}, "exited")  # type: ignore[union-attr]
    await world.started(name="n-8001", replace=True)
    assert neighbour.id in world.runtime.containers_


async def test_replace_takes_a_strangers_name_as_asked(world: World) -> None:
    spec = make_container_plan(port=1, name="n-8001").spec
    stranger = world.runtime.put(spec.container, {}, "running")  # type: ignore[union-attr]
    await world.started(name="n-8001", replace=True)
    assert stranger.id not in world.runtime.containers_


async def test_a_living_engine_of_ours_keeps_its_name(world: World) -> None:
    await world.started(name="n-8001")
    with pytest.raises(NameConflictError, match=r"by the engine of user\.m, container"):
        await world.create(name="n-8001").start()


async def test_our_own_dead_container_gives_its_name_away(world: World) -> None:  # C01
    """Its server was killed, and this one has not been told to reclaim."""
    await world.started(name="n-8001")
    old = world.runtime.only()
    world.die()
    later = world.next_server()
    engine = later.driver.create(plan_of("serve", "PORT", name="n-8001"))
    await engine.start()
    assert old.id not in world.runtime.containers_
    await engine.stop(grace=1.0)
    await later.driver.aclose()
    for one in world.driver._engines:
        await one.wait()


async def test_the_port_of_an_engine_that_ended_is_free(world: World) -> None:  # L07
    for _ in range(20):
        engine = await world.started("serve", "PORT", "exit", "1")
        assert (await engine.wait()).code == 1
        await engine.stop(grace=1.0)
    assert world.runtime.containers_ == {}
