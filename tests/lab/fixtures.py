"""The lab as pytest's fixtures: `lab`, `engine` for each engine in turn, `registry`, and what they need."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.lab.engine import ContainerEngine
from tests.lab.lab import KINDS, Lab, install_all, lab_of_a_run
from tests.lab.packages import why_not
from tests.lab.registry import Registry


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install before the first test, whose own time limit that would break."""
    if session.config.option.collectonly or why_not():
        return
    if any("lab" in getattr(item, "fixturenames", ()) for item in session.items):
        install_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report tells what became of its containers."""
    report = yield
    engine = getattr(item, "funcargs", {}).get("engine")
    if report.when == "call" and report.failed and isinstance(engine, ContainerEngine):
        report.sections.append((f"containers of {engine.name}", engine.describe_containers()))
    return report


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab of this run; its engines start when they are first asked for."""
    if reason := why_not():
        pytest.skip(reason)
    with lab_of_a_run() as lab:
        yield lab


@pytest.fixture(scope="session", params=KINDS)
def engine(lab: Lab, request: pytest.FixtureRequest) -> ContainerEngine:
    """Each container engine that this machine can run, with the tiny image in it."""
    name: str = request.param
    return lab.engine(name)


@pytest.fixture(autouse=True)
def _no_containers_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that used `engine` its containers are gone."""
    yield
    if "engine" in request.fixturenames:
        engine = request.getfixturevalue("engine")
        if isinstance(engine, ContainerEngine):  # other tests have engines of another kind
            engine.start_service()  # in case that the test stopped it and failed
            engine.remove_test_containers()


@pytest.fixture(scope="session")
def registry(lab: Lab) -> Registry:
    """A registry that lets anybody push and pull."""
    return lab.registry()


@pytest.fixture(scope="session")
def login_registry(lab: Lab) -> Registry:
    """A registry that wants `registry.USER` and `registry.PASSWORD`."""
    return lab.registry(login=True)
