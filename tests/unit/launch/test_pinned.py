"""An operator who wants digests gets no container without one."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.errors import UnpinnedImageError
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.request import ContainerPolicy
from lemonpod.launch.resolve import resolve
from lemonpod.launch.started import ContainerDriving
from tests.unit.launch.requests import block_manifest, make_request

SHA = "sha256:" + "0123456789abcdef" * 4
WANTED = {"containers": ContainerPolicy(require_pinned_images=True)}


def plan(*args: str, command: str = "podman", settings: dict[str, Any] = WANTED, **block: Any) -> LaunchPlan:
    return resolve(make_request(block_manifest(*args, command=command, **block), settings=settings))


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("podman", ("run", f"x:1@{SHA}")),
        ("docker", ("create", f"r.io:5000/x@{SHA}", "y:1")),
        ("sudo", ("docker", "run", f"x:1@{SHA}")),
        ("podman", ("run", "--mount", f"type=image,src=y@{SHA},dst=/y", f"x:1@{SHA}")),
        ("podman", ("run", "--rootfs", "/srv/x")),
        ("podman", ("start", "x")),
        ("/opt/engine", ("run", "x:1")),
    ],
)
def test_what_is_pinned_or_no_image_is_launched(command: str, args: tuple[str, ...]) -> None:
    assert plan(*args, command=command).recipe == "test-engine"


@pytest.mark.parametrize(
    ("command", "args", "why"),
    [
        ("podman", ("run", "--rm", "x:1"), r"no digest pins the image 'x:1', at argv\[3\]"),
        ("docker", ("run", "x"), r"'x', at argv\[2\]"),
        ("/usr/bin/sudo", ("-n", "docker", "run", "r.io:5000/x:1"), r"'r.io:5000/x:1', at argv\[4\]"),
        ("nerdctl", ("run", "x:1"), "'x:1'"),
        ("podman", ("run", "--mount=type=image,src=y:1,dst=/y", f"x@{SHA}"), r"'y:1', at argv\[2\]"),
        ("podman", ("run", "x@sha256:12"), "has 2 digits"),
    ],
)
def test_what_is_not_pinned_is_refused(command: str, args: tuple[str, ...], why: str) -> None:
    with pytest.raises(UnpinnedImageError, match=f"recipe 'test-engine': .*cpu.*{why}") as caught:
        plan(*args, command=command)
    assert "lemonpod pin update" in (caught.value.hint or "")


def test_a_command_line_that_hides_its_image_is_not_run_by_its_program_either() -> None:
    by_cli = ContainerPolicy(require_pinned_images=True, container_driver=ContainerDriving.CLI)

    with pytest.raises(UnpinnedImageError, match=r"cannot be told: .*unknown flag '--nonsense'"):
        plan("run", "--nonsense", f"x@{SHA}", settings={"containers": by_cli})


def test_tokens_count_as_what_they_become() -> None:
    with pytest.raises(UnpinnedImageError, match="'x:1'"):
        plan("run", "{custom:image:-x:1}")
    assert plan("run", f"{{custom:image:-x:1@{SHA}}}").recipe == "test-engine"


def test_the_stop_command_counts_too() -> None:
    stop: dict[str, Any] = {"stop_command": "docker", "stop_command_args": ["run", "--rm", "curl:8", "{pid}"]}

    with pytest.raises(UnpinnedImageError, match="stop command: no digest pins the image 'curl:8'"):
        plan("run", f"x@{SHA}", **stop)
