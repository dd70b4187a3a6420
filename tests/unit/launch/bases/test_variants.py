"""What a variant adds to its base, and where its program is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lemonpod.contract.vocabulary import Accelerator, Capability
from lemonpod.errors import LaunchError, TokenError
from lemonpod.launch.bases.words import known_options
from lemonpod.launch.plan import Dialect, ProcessSpec
from tests.factories import make_facts
from tests.fakes.programs import FakePrograms
from tests.unit.launch.bases.variants import FORK, line, planned, variant_request

URL = "https://example.invalid/llama.tar.gz"
DIGEST = "sha256:" + "0" * 64


def test_the_manifests_arguments_follow_and_those_of_its_capabilities_come_last() -> None:
    request = variant_request(
        "llamacpp",
        block={"argv_extra": ["--gpu-layers", "{custom:gpu_layers:-0}"], "env": {"A": "{ctx_size}"}},
        manifest={"capability_enable_args": {"embeddings": ["--pooling", "mean"]}},
        labels=("embeddings",),
        options={"args": "--temp 0"},
    )
    plan = planned(request)
    assert " ".join(plan.spec.argv).endswith("--embeddings --temp 0 --gpu-layers 0 --pooling mean")
    assert plan.env == {"A": "2048", "LD_LIBRARY_PATH": "/cache/external/fork"}
    assert isinstance(plan.spec, ProcessSpec)
    assert plan.values["{custom:gpu_layers:-0}"].value == "0"
    assert plan.values["{checkpoint:main}"].value == "/m.gguf"
    assert plan.notes == ()
    assert plan.selection[-2:] == (
        "command line: that of the built-in backend llamacpp",
        f"executable: {FORK}llama-server (installed)",
    )


def test_the_users_arguments_stand_once_where_the_manifest_puts_them() -> None:
    request = variant_request(
        "llamacpp", block={"argv_extra": ["--a", "{custom_args}", "--b"]}, options={"args": "--temp 0"}
    )
    assert line(request).endswith("--metrics --a --temp 0 --b")


def test_a_block_for_an_arch_replaces_the_arguments_and_the_binary() -> None:
    block = {
        "argv_extra": ["--device-name", "{arch_alias}"],
        "arch": {"gfx115*": {"binary": "llama-halo", "argv_extra": ["--halo", "{exe_dir}"]}},
    }
    request = variant_request(
        "llamacpp",
        "rocm",
        block=block,
        manifest={"arch_aliases": {"gfx115*": "halo"}},
        programs=FakePrograms(files=[f"{FORK}llama-halo", f"{FORK}llama-server"]),
    )
    assert line(request).startswith(f"{FORK}llama-halo -m")
    assert line(request).endswith("--halo /cache/external/fork")
    other = replace(request, facts=make_facts(rocm_arch="gfx1100"))
    with pytest.raises(TokenError, match=r"'\{arch_alias\}' has no value"):
        planned(other)


def test_a_command_of_its_own_is_ignored() -> None:
    request = variant_request("llamacpp", block={"command": "/other", "args": ["{custom:no}"]})
    assert line(request).startswith(FORK)


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (None, ("/", 600.0)),
        ({"timeout_seconds": 30}, ("/health", 30.0)),
        ({"endpoint": "/ready"}, ("/ready", 90.0)),
    ],
)
def test_a_manifest_that_says_nothing_of_a_probe_has_the_bases(probe: Any, expected: Any) -> None:
    manifest = {} if probe is None else {"health_probe": probe}
    plan = planned(variant_request("sd-cpp", manifest=manifest))
    assert (plan.probe.endpoint, plan.probe.timeout) == expected


def test_a_manifest_remaps_the_bases_routes() -> None:
    plan = planned(variant_request("llamacpp", manifest={"endpoints": {"tokenize": "/x"}}))
    assert plan.engine_paths == {Capability.SLOTS: "/slots", Capability.TOKENIZE: "/x"}
    assert plan.dialect is Dialect.LLAMA_CPP


def test_a_working_folder_and_a_stop_command_are_the_manifests() -> None:
    block = {"working_dir": "{exe_dir}", "stop_command": "{exe_dir}/stop", "stop_command_args": ["{pid}"]}
    plan = planned(variant_request("whispercpp", block=block))
    assert str(plan.spec.cwd) == "/cache/external/fork"
    assert plan.stop is not None


# Where the program is


def test_what_is_installed_comes_before_the_path() -> None:
    path = {"llama-server": "/usr/bin/llama-server"}
    nested = FakePrograms(path=path, files=[f"{FORK}build/bin/llama-server"])
    assert line(variant_request("llamacpp", programs=nested)).startswith(f"{FORK}build/bin/llama-server -m")
    assert planned(variant_request("llamacpp", programs=nested)).env["LD_LIBRARY_PATH"] == f"{FORK}build/bin"
    assert line(variant_request("llamacpp", programs=FakePrograms(path=path))).startswith("/usr/bin/")


@pytest.mark.parametrize("place", ["top", "block", "arch"])
def test_nothing_stands_in_for_a_program_that_is_fetched(place: str) -> None:
    source = {"source": URL, "sha256": DIGEST}
    request = variant_request(
        "llamacpp",
        "rocm",
        manifest=source if place == "top" else {},
        block=source if place == "block" else {"arch": {"gfx1151": source}} if place == "arch" else {},
        programs=FakePrograms(path={"llama-server": "/usr/bin/llama-server"}),
    )
    with pytest.raises(LaunchError, match="binary is not installed") as caught:
        planned(request)
    command = "lemonpod backends install-external fork --accelerator rocm"
    assert caught.value.hint == (f"{command} --arch gfx1151" if place == "arch" else command)


def test_a_program_of_the_users_own_that_is_nowhere() -> None:
    with pytest.raises(LaunchError, match="names no source for it") as caught:
        planned(variant_request("llamacpp", programs=FakePrograms()))
    assert caught.value.hint == "put it into /cache/external/fork, or on the PATH of the server"


def test_a_program_that_is_fetched_for_other_gpus_alone() -> None:
    block = {"arch": {"gfx12*": {"source": URL, "sha256": DIGEST}}}
    with pytest.raises(LaunchError, match=r"sources are for other GPUs \(gfx12\*\)"):
        planned(variant_request("llamacpp", "rocm", block=block, programs=FakePrograms()))


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("flm", "built-in 'flm' does not expose a launch plan yet; supported bases: llamacpp, whispercpp, "),
        ("mine", r"variant_of base 'mine' is not a built-in backend \(supported bases: llamacpp, "),
    ],
)
def test_a_base_that_is_none(base: str, reason: str) -> None:
    request = variant_request("llamacpp")
    with pytest.raises(LaunchError, match=reason):
        planned(replace(request, manifest=replace(request.manifest, variant_of=base)))


# Options


@pytest.mark.parametrize("layer", ["options", "saved", "overrides"])
def test_a_bases_names_of_options_count_in_every_place(layer: str) -> None:
    given: dict[str, Any] = {layer: {"llamacpp_args": "--temp 0", "llamacpp_backend": "vulkan"}}
    blocks = {"cpu": {"binary": "llama-server"}, "vulkan": {"binary": "llama-server"}}
    request = variant_request("llamacpp", manifest={"platforms": {"linux": blocks}}, **given)
    plan = planned(request)
    assert plan.accelerator is Accelerator.VULKAN
    assert plan.spec.argv[-2:] == ("--temp", "0")
    assert plan.options == {"args": "--temp 0", "device": "vulkan", "ctx_size": 2048}


def test_a_bases_names_of_options_are_known_before_a_launch() -> None:
    manifest = variant_request("llamacpp").manifest
    names = {"args", "llamacpp_args", "llamacpp_backend", "llamacpp_device", "ctx_size"}
    assert names <= known_options(manifest)
    assert not names & known_options(replace(manifest, variant_of=None)) - {"args", "ctx_size"}


def test_one_option_by_two_names() -> None:
    with pytest.raises(LaunchError, match=r"'args' and 'llamacpp_args' of user_models\.json are one option"):
        planned(variant_request("llamacpp", options={"args": "-a", "llamacpp_args": "-b"}))
    unset = {"args": "-a", "llamacpp_args": "", "llamacpp_backend": "auto"}
    assert line(variant_request("llamacpp", options=unset)).endswith(" -a")


def test_an_option_that_no_base_has() -> None:
    with pytest.raises(LaunchError, match="unknown option 'sdcpp_args'"):
        planned(variant_request("llamacpp", overrides={"sdcpp_args": "-a"}))


def test_what_a_request_for_an_image_leaves_open() -> None:
    plan = planned(variant_request("sd-cpp", options={"steps": 4, "sampling_method": "euler"}))
    assert plan.options == {
        "ctx_size": 2048,
        "cfg_scale": 7.0,
        "height": 512,
        "sampling_method": "euler",
        "steps": 4,
        "width": 512,
    }
