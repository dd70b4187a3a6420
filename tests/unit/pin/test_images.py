"""Which images a manifest names, where, and whether a digest pins them."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.location import location
from lemonpod.contract.parse import parse_manifest
from lemonpod.launch.container import Runtime
from lemonpod.pin.images import ImageUse, images_of
from tests.factories import make_document

SHA = "sha256:" + "0123456789abcdef" * 4


def uses(block: dict[str, Any]) -> list[ImageUse]:
    return list(images_of(parse_manifest(make_document(platforms={"linux": {"rocm": block}}))))


def verdicts(block: dict[str, Any]) -> list[tuple[str, str | None, bool]]:
    """Place below the block, image, pinned."""
    return [
        (location(use.path).removeprefix("platforms.linux.rocm."), use.image, use.digest is not None)
        for use in uses(block)
    ]


def podman(*args: str) -> dict[str, Any]:
    return {"command": "podman", "args": ["run", *args, "serve"]}


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        (f"ghcr.io/a/b@{SHA}", True),
        (f"ghcr.io/a/b:1@{SHA}", True),
        (f"registry.local:5000/b:1@{SHA}", True),
        (f"short@{SHA}", True),
        ("ghcr.io/a/b:1", False),
        ("ghcr.io/a/b", False),
        ("short", False),
        ("registry.local:5000/b", False),
        ("registry.local:5000/b:1", False),
        (f"docker.io/x-{{arch_alias}}:1@{SHA}", True),
        ("docker.io/x-{arch_alias}:1", False),
        ("x@{custom:digest}", False),
        ("x@sha256:{custom:hex}", False),
        (f"{{custom:image:-x@{SHA}}}", False),
        (f"x@{{custom:pin:-{SHA}}}", False),
        (f"{{custom:image}}@{SHA}", True),
    ],
)
def test_the_verdict_is_the_same_in_a_block_and_in_an_override(image: str, pinned: bool) -> None:
    block = {**podman("--rm", "-e", "A=1", image), "arch": {"gfx1151": {"args": ["run", image]}}}

    assert verdicts(block) == [("args[4]", image, pinned), ("arch.gfx1151.args[1]", image, pinned)]


@pytest.mark.parametrize("image", [f"X/y@{SHA[:-1]}", "Upper:1", "docker://x/y"])
def test_what_is_no_reference_is_not_pinned_and_says_why(image: str) -> None:
    (use,) = uses(podman(image))

    assert (use.image, use.digest) == (image, None)
    assert "names no image" in (use.problem or "")


def test_an_override_of_the_command_alone_runs_the_arguments_of_its_block() -> None:
    block = {"command": "/opt/engine", "args": ["run", "x:1"], "arch": {"gfx1151": {"command": "docker"}}}

    assert verdicts(block) == [("args[1]", "x:1", False)]


def test_an_override_that_changes_no_word_is_not_told_twice() -> None:
    arch = {"gfx1151": {"env": {"A": "1"}}, "gfx115*": {"command": "docker"}}

    assert verdicts({**podman("x:1"), "arch": arch}) == [("args[1]", "x:1", False)]


def test_words_that_two_programs_are_given_name_an_image_of_both() -> None:
    block = {**podman("x:1"), "arch": {"gfx1151": {"command": "docker"}}}

    (use,) = uses(block)
    assert use.runtimes == {Runtime.PODMAN, Runtime.DOCKER}


def test_an_override_may_bring_or_end_the_container() -> None:
    arch = {
        "gfx1151": {"command": "podman", "args": ["run", f"x@{SHA}"]},
        "gfx1150": {"command": "/opt/engine"},
    }

    assert verdicts({"command": "/opt/engine", "args": [], "arch": arch}) == [
        ("arch.gfx1151.args[1]", f"x@{SHA}", True)
    ]


def test_the_stop_command_may_run_a_container_too() -> None:
    stop = {"stop_command": "docker", "stop_command_args": ["run", "--rm", "curl:8", "http://x/stop"]}

    assert verdicts({**podman(f"x@{SHA}"), **stop}) == [
        ("args[1]", f"x@{SHA}", True),
        ("stop_command_args[2]", "curl:8", False),
    ]


def test_an_image_that_is_mounted_is_named_as_well() -> None:
    block = podman(
        "--mount", "type=image,src=weights:1,dst=/w", f"--mount=type=artifact,source=q.io/w@{SHA},dst=/a",
        "--mount", "type=bind,src=/x,dst=/x", f"x@{SHA}",
    )  # fmt: skip

    assert verdicts(block) == [
        ("args[2]", "weights:1", False),
        ("args[3]", f"q.io/w@{SHA}", True),
        ("args[6]", f"x@{SHA}", True),
    ]


def test_a_root_file_system_is_no_image() -> None:
    assert verdicts(podman("--rootfs", "/srv/root")) == []


def test_the_program_may_be_started_by_another_one() -> None:
    block = {"command": "/usr/bin/sudo", "args": ["-n", "docker", "run", "x:1"]}

    assert verdicts(block) == [("args[3]", "x:1", False)]


def test_a_command_line_that_the_program_would_refuse_hides_its_image() -> None:
    (use,) = uses(podman("--gpu", "x:1"))

    assert use == ImageUse(
        path=("platforms", "linux", "rocm", "args", 1),
        image=None,
        problem="podman run: unknown flag '--gpu' (did you mean '--gpus'?)",
    )


def test_the_users_arguments_hide_the_image_behind_them() -> None:
    (use,) = uses(podman("{custom_args}", f"x@{SHA}"))

    assert use.image is None
    assert "put it behind the image" in (use.problem or "")
    assert location(use.path).endswith("args[1]")


@pytest.mark.parametrize("args", [["stop", "x"], ["compose", "run", "x"], []])
def test_other_commands_name_no_image(args: list[str]) -> None:
    assert verdicts({"command": "docker", "args": args}) == []
