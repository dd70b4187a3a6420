"""Fetching an image: a phase of its own, by the policy of the command line."""

from __future__ import annotations

import asyncio

import pytest

from lemonpod.engine.api import Progress
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import ImageNotFoundError, PullError, RuntimeUnavailableError
from lemonpod.launch.container import PullPolicy
from tests.fakes.runtime import REMOTE
from tests.unit.drivers.containers import World, plan_of
from tests.waiting import until


class Reports(list[Progress]):
    """What was told, and whether it was told in the loop's own thread."""

    def __call__(self, progress: Progress) -> None:
        asyncio.get_running_loop()
        self.append(progress)


def asked(world: World) -> list[str]:
    """What the runtime was asked about images."""
    return [call for call in world.runtime.calls if call in ("image", "pull")]


async def test_an_image_that_is_here_is_asked_of_no_registry(world: World) -> None:  # C25
    await world.create().prepare(Reports())
    assert asked(world) == ["image"]


async def test_a_missing_one_is_pulled_with_progress(world: World) -> None:
    reports = Reports()
    await world.create(image=REMOTE).prepare(reports)
    assert REMOTE in world.runtime.images
    assert reports[0].text == f"pulling {REMOTE}"
    assert (reports[-1].done_bytes, reports[-1].total_bytes) == (100, 100)


async def test_progress_is_told_a_few_times_a_second(world: World) -> None:
    world.runtime.pull_steps = [(done, 10_000) for done in range(10_001)]
    reports = Reports()
    await world.create(image=REMOTE).prepare(reports)
    assert len(reports) < 50
    assert reports[-1].done_bytes == 10_000


@pytest.mark.parametrize("policy", [PullPolicy.ALWAYS, PullPolicy.NEWER])
async def test_policies_that_want_the_registry_get_it(world: World, policy: PullPolicy) -> None:
    world.runtime.remote.add("localhost/engine:1")
    await world.create(pull=policy).prepare(Reports())
    assert asked(world) == ["pull"]


async def test_never_is_never(world: World) -> None:
    with pytest.raises(ImageNotFoundError, match=f"podman pull {REMOTE}"):
        await world.create(image=REMOTE, pull=PullPolicy.NEVER).prepare(Reports())
    assert asked(world) == ["image"]


async def test_an_image_that_nobody_has(world: World) -> None:
    with pytest.raises(ImageNotFoundError, match="the registry knows no"):
        await world.create(image="registry.test/none:1").prepare(Reports())


async def test_who_is_cancelled_ends_the_pull_first(world: World) -> None:
    world.runtime.pull_gate.clear()
    reports = Reports()
    preparing = asyncio.create_task(world.create(image=REMOTE).prepare(reports))
    await until(lambda: reports)
    preparing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await preparing
    assert REMOTE not in world.runtime.images


async def test_a_pull_has_a_time_limit_of_its_own(world: World) -> None:
    world.runtime.pull_gate.clear()
    object.__setattr__(world.driver._bench, "settings", EngineSettings(pull_timeout=0.05))
    with pytest.raises(PullError, match=r"was not here after 0.05 s"):
        await world.driver.create(plan_of(image=REMOTE)).prepare(Reports())
    assert REMOTE not in world.runtime.images


async def test_a_runtime_that_is_not_there(world: World) -> None:
    world.runtimes.error = RuntimeUnavailableError("no socket")
    engine = world.create()
    with pytest.raises(RuntimeUnavailableError, match="no socket"):
        await engine.prepare(Reports())
    await engine.stop(grace=1.0)
