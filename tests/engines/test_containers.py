"""Engines in real containers, in all that does not go well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from lemonpod.drivers.container import ContainerDriver
from lemonpod.drivers.container_engine import ContainerEngine as Engine
from lemonpod.engine.api import EngineState, Progress
from lemonpod.engine.probe import until_ready
from lemonpod.errors import (
    EngineError,
    EngineExitedError,
    ImageNotFoundError,
    NameConflictError,
    PullError,
    RuntimeUnavailableError,
    SpawnError,
)
from lemonpod.launch.container import Healthcheck, PortMapping, PullPolicy
from lemonpod.launch.plan import LaunchPlan
from tests.engines.containers import container_driver, container_plan, serving_plan, serving_script
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.lab.random_image import put_random_image
from tests.lab.registry import Registry, slowed
from tests.waiting import alive, until, unused_port

Create = Callable[[LaunchPlan], Engine]

NAME = "lemonpod-test-engine"


@pytest.fixture
async def driver(engine: ContainerEngine, tmp_path: Path) -> AsyncIterator[ContainerDriver]:
    driver = container_driver(engine, tmp_path / "state")
    yield driver
    await driver.aclose()


@pytest.fixture
async def create(driver: ContainerDriver) -> AsyncIterator[Create]:
    """Make engines that are stopped after the test, if the test has not done so."""
    engines: list[Engine] = []

    def make(plan: LaunchPlan) -> Engine:
        engines.append(driver.create(plan))
        return engines[-1]

    yield make
    for one in engines:
        await one.stop(grace=0.0)


def silent(progress: Progress) -> None:
    """Nobody wants to know."""


async def test_one_that_ignores_term_is_killed(engine: ContainerEngine, create: Create) -> None:
    stubborn = create(
        container_plan(engine, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    )
    await stubborn.start()
    await until(lambda: stubborn.log_tail(1) == ("up",))
    pid = (await stubborn.inspect()).pid
    end = await stubborn.stop(grace=0.3)
    assert (end.signal, end.wanted) == (9, True)
    assert pid is not None
    assert not alive(pid)
    assert engine.containers() == []


async def test_a_second_stop_hurries_the_first(engine: ContainerEngine, create: Create) -> None:
    stubborn = create(container_plan(engine, "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"))
    await stubborn.start()
    first = asyncio.create_task(stubborn.stop(grace=600.0))
    await asyncio.sleep(0)
    async with asyncio.timeout(20.0):
        assert await stubborn.stop(grace=0.0) == await first


async def test_the_kernel_ran_out_of_memory_for_it(engine: ContainerEngine, create: Create) -> None:
    if engine.rootless:
        pytest.skip("a rootless engine has no cgroup of its own here, and so no limits")
    greedy = create(container_plan(engine, "sh", "-c", "echo up; exec tail /dev/zero", memory=32 << 20))
    await greedy.start()
    end = await greedy.wait()
    assert (end.signal, end.wanted) == (9, False)
    # The oldest podman does not see it happen.
    assert end.reason == "out of memory" or engine.name == "podman4"
    with pytest.raises(EngineExitedError, match="out of memory; its last line: up"):
        await greedy.probe()


async def test_a_command_that_is_not_in_the_image(engine: ContainerEngine, create: Create) -> None:
    with pytest.raises(SpawnError, match="no/such/engine"):
        await create(container_plan(engine, "/no/such/engine", name=NAME)).start()
    assert engine.containers() == []


async def test_a_published_port_is_the_containers(engine: ContainerEngine, create: Create) -> None:
    if engine.rootless:
        pytest.skip("a rootless engine publishes ports only where its user may open /dev/net/tun")
    port = unused_port()
    mapping = PortMapping(host_ip="127.0.0.1", host_port=port, container_port=8080)
    script = serving_script(8080).replace("127.0.0.1:", "0.0.0.0:")
    published = create(
        container_plan(engine, "sh", "-c", script, port=port, network_mode=None, ports=(mapping,))
    )
    await published.start()
    await until_ready(published)
    await published.stop(grace=5.0)
    assert engine.containers() == []


async def test_what_a_health_check_says_changes_nothing(
    engine: ContainerEngine, create: Create
) -> None:  # C19
    check = Healthcheck(test=("CMD-SHELL", "exit 1"), interval=10**9, timeout=10**9, retries=1)
    healthy = create(serving_plan(engine, name=NAME, healthcheck=check))
    await healthy.start()
    await until_ready(healthy)

    def unhealthy() -> bool:
        if engine.runtime == "podman":  # which has nobody to do so without systemd
            engine.try_cli("healthcheck", "run", NAME)
        return "unhealthy" in engine.run_cli("inspect", NAME)

    await until(unhealthy)
    assert await healthy.probe()
    assert (await healthy.inspect()).state is EngineState.RUNNING
    assert (await healthy.stop(grace=5.0)).wanted


async def test_an_engine_on_the_loopback_of_its_own_network(
    engine: ContainerEngine, create: Create
) -> None:  # L11
    """Its published port leads nowhere, which is told with where it listens."""
    if engine.rootless:
        pytest.skip("a rootless engine publishes ports only where its user may open /dev/net/tun")
    port = unused_port()
    mapping = PortMapping(host_ip="127.0.0.1", host_port=port, container_port=8080)
    inside = create(
        container_plan(
            engine, "sh", "-c", serving_script(8080), port=port, network_mode=None, ports=(mapping,)
        )
    )
    await inside.start()
    await until(lambda: inside.log_tail(1) == ("engine started",))
    assert not await inside.probe()
    assert "listens on 127.0.0.1:8080 of its own network" in await inside.diagnose()
    assert "have it listen on 0.0.0.0" in await inside.diagnose()


async def test_a_stranger_on_the_port(engine: ContainerEngine, create: Create) -> None:  # L05
    """It was there before the engine, which then could not bind and goes on all the same."""
    plan = container_plan(engine, "sh", "-c", "while :; do sleep 0.1; done")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        finally:
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", plan.endpoint.port):
        deaf = create(plan)
        await deaf.start()
        with pytest.raises(EngineError, match=f"port {plan.endpoint.port} is answered by"):
            await until_ready(deaf)
        await deaf.stop(grace=0.0)


async def test_a_strangers_name(engine: ContainerEngine, create: Create) -> None:  # C01
    engine.run_cli("create", "--name", NAME, TINY)
    with pytest.raises(NameConflictError, match=f"'{NAME}' is taken by one that lemonpod did not start"):
        await create(serving_plan(engine, name=NAME)).start()
    assert len(engine.containers()) == 1


async def test_an_image_that_is_not_to_be_pulled(engine: ContainerEngine, create: Create) -> None:
    plan = container_plan(engine, image="localhost/lemonpod-test/none:1", pull=PullPolicy.NEVER)
    with pytest.raises(ImageNotFoundError):
        await create(plan).prepare(silent)


async def test_a_pull_with_progress(engine: ContainerEngine, registry: Registry, create: Create) -> None:
    tag = f"progress-{engine.name}:1"
    reports: list[Progress] = []
    with slowed(registry, 1 << 20) as slow:
        put_random_image(registry, tag, megabytes=2)
        plan = container_plan(engine, image=f"{slow.address}/{tag}")
        await create(plan).prepare(reports.append)
        assert reports[0].text == f"pulling {slow.address}/{tag}"
        done = [report.done_bytes for report in reports]
        assert done == sorted(done)
        assert done[-1] > 0
        # Another time it is here, and nobody is asked.
        again: list[Progress] = []
        await create(plan).prepare(again.append)
        assert again == []


async def test_a_tag_that_the_registry_does_not_know(
    engine: ContainerEngine, registry: Registry, create: Create
) -> None:
    with pytest.raises(ImageNotFoundError):
        await create(container_plan(engine, image=f"{registry.address}/none:1")).prepare(silent)


async def test_a_digest_that_the_registry_does_not_have(
    engine: ContainerEngine, registry: Registry, create: Create
) -> None:
    tag = f"digest-{engine.name}:1"
    put_random_image(registry, tag, megabytes=1)
    wrong = f"{registry.address}/{tag}@sha256:{'0' * 64}"
    with pytest.raises((ImageNotFoundError, PullError)):
        await create(container_plan(engine, image=wrong)).prepare(silent)


async def test_a_pull_that_is_given_up(engine: ContainerEngine, registry: Registry, create: Create) -> None:
    tag = f"slow-{engine.name}:1"
    put_random_image(registry, tag, megabytes=4)
    reports: list[Progress] = []
    with slowed(registry, 100_000) as slow:
        preparing = asyncio.create_task(
            create(container_plan(engine, image=f"{slow.address}/{tag}")).prepare(reports.append)
        )
        await until(lambda: reports)
        preparing.cancel()
        async with asyncio.timeout(10.0):
            await asyncio.wait({preparing})
    assert preparing.cancelled()


async def test_an_engine_that_stops_and_starts_again(engine: ContainerEngine, create: Create) -> None:
    """Unknown while it does not answer, never gone; and then it goes on as if nothing had been."""
    serving = create(serving_plan(engine))
    await serving.start()
    await until_ready(serving)
    waiting = asyncio.create_task(serving.wait())
    await asyncio.to_thread(engine.stop_service)
    try:
        await until(lambda: serving.trouble)
        with pytest.raises(RuntimeUnavailableError):
            await serving.inspect()
        assert await serving.probe()
        assert not waiting.done()
    finally:
        await asyncio.to_thread(engine.start_service)
    await until(lambda: serving.trouble is None)
    assert (await serving.inspect()).state is EngineState.RUNNING
    assert not waiting.done()
    assert (await serving.stop(grace=5.0)).wanted
    assert (await waiting).wanted
    assert serving.log_tail(9) == ("engine started",)
    assert engine.containers() == []
