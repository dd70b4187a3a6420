"""What container engines and registries say, most of it as it was heard, and what it is to us."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lemonpod import errors
from lemonpod.drivers.container_errors import (
    being_removed,
    keeps_no_log,
    no_such_container,
    no_such_image,
    not_running,
    pull_error,
    refusal,
)
from lemonpod.errors import EngineError, SpawnError

RECORDED = Path(__file__).parents[2] / "data" / "engine_messages"
ID = "c0e414d9e64af5432f20fbc6af299ab4ca4e2382491b61fa8835b00c4137837d"


def recorded(name: str) -> list[tuple[str, type[EngineError], str | None]]:
    """The message, the error, and what its hint says, if it has one."""
    lines = map(json.loads, (RECORDED / f"{name}.jsonl").read_text().splitlines())
    return [(line["said"], getattr(errors, line["error"]), line["hint"]) for line in lines]


def check(error: EngineError, kind: type[EngineError], hint: str | None) -> None:
    assert type(error) is kind
    if hint is None:
        assert error.hint is None
    else:
        assert hint in (error.hint or "")


@pytest.mark.parametrize(("message", "kind", "hint"), recorded("refusals"))
def test_why_there_is_no_container(message: str, kind: type[EngineError], hint: str | None) -> None:
    # C11, C13, C21
    error = refusal("cannot create the container x", message, SpawnError)
    check(error, kind, hint)
    assert error.message == f"cannot create the container x: {message}"


@pytest.mark.parametrize(("message", "kind", "hint"), recorded("pulls"))
def test_why_an_image_was_not_pulled(message: str, kind: type[EngineError], hint: str | None) -> None:  # C05
    error = pull_error("r.example/x:1", message, "podman login r.example")
    check(error, kind, hint)
    assert error.message == f"cannot pull r.example/x:1: {message}"


def test_a_refusal_of_something_else() -> None:
    assert type(refusal("cannot list", "what nobody has ever heard")) is EngineError


def test_a_long_complaint_is_one_line_and_cut() -> None:
    error = refusal("cannot start x", "very\nlong\n" * 1000)
    assert "\n" not in error.message
    assert len(error.message) < 1000


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (404, 'no container with name or ID "zz" found: no such container', True),
        (404, 'no container with ID or name "zz" found: no such container', True),
        (404, f"no container with ID {ID} found in database: no such container", True),
        (404, "No such container: zz", True),
        (404, "page not found", False),  # something else answers there
        (500, "No such container: zz", False),
        (502, "<html>Bad Gateway</html>", False),
    ],
)
def test_only_not_found_is_gone(status: int, message: str, expected: bool) -> None:
    assert no_such_container(status, message) is expected


def test_what_is_no_error_everywhere() -> None:
    assert no_such_image(404, "failed to find image localhost/none:1: localhost/none:1: image not known")
    assert no_such_image(404, "no such image: localhost/none:1: No such image: localhost/none:1")
    assert not no_such_image(404, "page not found")
    assert not_running(f"can only kill running containers. {ID} is in state exited: container state improper")
    assert not_running(f"Cannot kill container: a1: Container {ID} is not running")
    assert being_removed(f"removal of container {ID} is already in progress")
    assert keeps_no_log("configured logging driver does not support reading")
    assert keeps_no_log("failed to obtain logs for Container 'a7': this container is not logging output")
