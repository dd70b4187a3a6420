from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.tokens import Token
from lemonpod.contract.vocabulary import Accelerator, Capability, Mode, Os
from lemonpod.errors import LaunchError, TokenError
from lemonpod.launch.plan import StopCommand, TcpEndpoint, describe, shell_line
from lemonpod.launch.resolve import resolve
from tests.factories import make_facts
from tests.unit.launch.requests import block_manifest, checkpoint, make_manifest, make_request


def test_a_plan_says_all_that_a_driver_needs() -> None:
    manifest = block_manifest(
        "--port",
        "{port}",
        env={"A": "{custom:a:-1}", "B": ""},
        working_dir="{cache_dir}/work",
        endpoints={"completion": "/complete"},
        downsize_endpoint="/small",
        slot_policy="unmetered",
        health_probe={"type": "tcp", "timeout_seconds": 5, "poll_interval_ms": 250},
    )
    plan = resolve(make_request(manifest, port=8002))
    assert plan.recipe == "test-engine"
    assert plan.model == "user.m"
    assert plan.mode is Mode.CHAT
    assert plan.capabilities == {Capability.CHAT_COMPLETION, Capability.COMPLETION}
    assert (plan.block_path, plan.accelerator, plan.device) == ("platforms.linux.cpu", "cpu", "cpu")
    assert plan.endpoint == TcpEndpoint(host="127.0.0.1", port=8002)
    assert plan.spec.argv == ("/opt/bin/engine", "--port", "8002")
    assert plan.spec.cwd == Path("/cache/work")
    assert plan.env == {"A": "1", "B": ""}
    assert (plan.probe.timeout, plan.probe.interval) == (5.0, 0.25)
    assert plan.peer_checked
    assert plan.stop is None
    assert plan.engine_paths == {Capability.COMPLETION: "/complete"}
    assert plan.downsize_endpoint == "/small"
    assert plan.notes == ()
    with pytest.raises(FrozenInstanceError):
        plan.recipe = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        plan.env["C"] = "1"  # type: ignore[index]


@pytest.mark.parametrize(
    ("accelerator", "device"),
    [("cpu", "cpu"), ("npu", "npu"), ("rocm", "gpu"), ("vulkan", "gpu"), ("gpu", "gpu"), ("metal", "gpu")],
)
def test_the_device_that_clients_are_told(accelerator: str, device: str) -> None:
    manifest = make_manifest(platforms={"linux": {accelerator: {"command": "engine", "args": []}}})
    facts = make_facts(accelerators=(Accelerator(accelerator),))
    assert resolve(make_request(manifest, facts=facts)).device == device


def test_a_command_that_resolves_to_nothing() -> None:
    with pytest.raises(LaunchError, match=r"recipe 'test-engine': command: .*resolves to nothing"):
        resolve(make_request(block_manifest(command="{custom:exe:-}")))


@pytest.mark.parametrize("working_dir", ["work", "./work", "{exe_dir}/work", "{custom:x:-}", "~/work"])
def test_a_working_folder_must_be_absolute(working_dir: str) -> None:
    manifest = block_manifest(command="engine", working_dir=working_dir)
    with pytest.raises(LaunchError, match=r"working_dir: .*is not an absolute path"):
        resolve(make_request(manifest))


def test_a_block_without_a_command_starts_nothing() -> None:
    manifest = block_manifest()
    blocks = manifest.platforms[Os.LINUX]
    empty = replace(blocks[Accelerator.CPU], command=None)
    manifest = replace(manifest, platforms={Os.LINUX: {Accelerator.CPU: empty}})
    with pytest.raises(LaunchError, match=r"platforms\.linux\.cpu must set 'command' and 'args'"):
        resolve(make_request(manifest))


# Where a failure is


@pytest.mark.parametrize(
    ("block", "top", "place"),
    [
        ({"command": "{custom:no}"}, {}, "command: "),
        ({"args": ["a", "{custom:no}"]}, {}, "command: args[1]: "),
        ({"env": {"KEY": "{custom:no}"}}, {}, "env.KEY: "),
        ({"working_dir": "{custom:no}"}, {}, "working_dir: "),
        ({"stop_command": "{custom:no}", "stop_command_args": []}, {}, "stop_command: "),
        ({"stop_command": "a", "stop_command_args": ["{custom:no}"]}, {},
         "stop_command: stop_command_args[0]: "),
        ({}, {"capability_enable_args": {"completion": ["{custom:no}"]}},
         "command: capability_enable_args.completion[0]: "),
    ],
)  # fmt: skip
def test_a_failure_names_recipe_and_place(block: dict[str, Any], top: dict[str, Any], place: str) -> None:
    cpu = {"command": "engine", "args": []} | block
    with pytest.raises(TokenError) as caught:
        resolve(make_request(make_manifest(platforms={"linux": {"cpu": cpu}}, **top)))
    assert caught.value.message == f"recipe 'test-engine': {place}recipe option 'no' has no value"


@pytest.mark.parametrize("value", ["a\0b", "-x"])
def test_an_env_value_follows_the_same_rules(value: str) -> None:  # L17
    manifest = block_manifest(env={"KEY": "{custom:x}"})
    with pytest.raises(TokenError, match=r"recipe 'test-engine': env\.KEY: "):
        resolve(make_request(manifest, options={"x": value}))


@pytest.mark.parametrize("value", ["l1\nl2=3", "a=b", " "])
def test_an_env_value_may_hold_anything_else(value: str) -> None:  # L17
    plan = resolve(make_request(block_manifest(env={"KEY": "{custom:x}"}), options={"x": value}))
    assert plan.env == {"KEY": value}


# Modes and capability_enable_args

ENABLE: dict[str, Any] = {
    "capabilities": ["embeddings", "chat_completion", "completion", "tokenize"],
    "capability_enable_args": {
        "tokenize": ["--tokenize"],
        "completion": ["--complete", "{ctx_size}"],
        "chat_completion": ["--chat", "{custom_args}"],
        "embeddings": ["--embed"],
    },
}


@pytest.mark.parametrize(
    ("labels", "mode", "argv"),
    [
        ((), Mode.EMBEDDINGS, ("a", "--embed")),
        (("embedding", "hot"), Mode.EMBEDDINGS, ("a", "--embed")),
        (("chat",), Mode.CHAT, ("a", "--chat", "-x", "--complete", "2048")),
        (("chat", "tts"), Mode.CHAT, ("a", "--chat", "-x", "--complete", "2048")),
    ],
)
def test_the_capabilities_of_the_models_mode_are_on(
    labels: tuple[str, ...], mode: Mode, argv: tuple[str, ...]
) -> None:
    request = make_request(block_manifest("a", **ENABLE), labels=labels, options={"args": "-x"})
    plan = resolve(request)
    assert (plan.mode, plan.spec.argv[1:]) == (mode, argv)


def test_a_mode_that_the_recipe_does_not_have() -> None:
    with pytest.raises(LaunchError) as caught:
        resolve(make_request(block_manifest(), labels=("tts",)))
    assert "'user.m' is labelled for tts" in caught.value.message
    assert "declares chat_completion, completion" in caught.value.message


def test_labels_of_two_modes() -> None:
    with pytest.raises(LaunchError, match="'tts' and 'image'"):
        resolve(make_request(block_manifest(capabilities=["tts", "image"]), labels=("tts", "image")))


def test_a_recipe_of_plumbing_alone_has_no_mode() -> None:
    manifest = block_manifest(capabilities=["tokenize"], capability_enable_args={"tokenize": ["--x"]})
    plan = resolve(make_request(manifest))
    assert (plan.mode, plan.spec.argv[1:]) == (None, ())


# The stop command


def test_the_stop_command_is_resolved_but_for_the_pid() -> None:
    manifest = block_manifest(
        stop_command="{exe_dir}/stop",
        stop_command_args=["-{pid}", "{recipe}-{port}", "{custom_args}", "{pid}"],
    )
    plan = resolve(make_request(manifest, options={"args": "-x 1"}))
    assert isinstance(plan.stop, StopCommand)
    assert [template.parts for template in plan.stop.argv] == [
        ("/opt/bin/stop",),
        ("-", Token("pid")),
        ("test-engine-8001",),
        ("-x",),
        ("1",),
        (Token("pid"),),
    ]


@pytest.mark.parametrize("field", ["command", "args", "env", "working_dir"])
def test_nothing_else_knows_the_pid(field: str) -> None:
    value: Any = {"command": "x{pid}", "args": ["{pid}"], "env": {"A": "{pid}"}, "working_dir": "/{pid}"}[
        field
    ]
    cpu = {"command": "engine", "args": []} | {field: value}
    with pytest.raises(TokenError, match=r"token '\{pid\}' has no value") as caught:
        resolve(make_request(make_manifest(platforms={"linux": {"cpu": cpu}})))
    assert caught.value.hint == "it is known to the stop command only"


# The mount trap


def test_a_path_relative_to_the_cache_below_the_models_folder_is_noted() -> None:
    manifest = block_manifest("-v", "{model_dir}:/models:ro", "/models/{checkpoint_relative:main}")
    inside = resolve(make_request(manifest))
    assert inside.spec.argv[-1] == "/models/models--org--repo/snapshots/abc/m.gguf"
    assert "{checkpoint_relative:main} is relative to {hf_cache}" in inside.notes[0]
    outside = resolve(make_request(manifest, files={"main": checkpoint(path=Path("/mine/m.gguf"))}))
    assert outside.spec.argv[-2:] == ("/mine:/models:ro", "/models/m.gguf")
    assert outside.notes == ()
    right = block_manifest("-v", "{hf_cache}:/models:ro", "/models/{checkpoint_relative:main}")
    assert resolve(make_request(right)).notes == ()


def test_a_model_outside_the_cache_that_alone_is_mounted_is_noted() -> None:
    manifest = block_manifest("-v", "{hf_cache}:/models:ro", "/models/{checkpoint_relative:main}")
    mine = {"main": checkpoint(path=Path("/mine/m.gguf"))}
    (note,) = resolve(make_request(manifest, files=mine)).notes
    assert note.startswith("the model is outside {hf_cache}, and {checkpoint_relative:main} is the name of")
    both = block_manifest("-v", "{hf_cache}:/c", "-v", "{model_dir}:/m", "/m/{checkpoint_relative:main}")
    assert resolve(make_request(both, files=mine)).notes == ()


# Variables that are to be inherited


def test_a_variable_that_nobody_hands_on_is_noted() -> None:
    args = ("run", "-e", "HF_TOKEN", "-e", "A=1", "-e", "HOME", "-e", "LC_*", "localhost/x")
    given = {"env": {"HF_TOKEN": "s3cret", "HOME": "/h"}}
    (note,) = resolve(make_request(block_manifest(*args, command="podman"), **given)).notes
    assert note.startswith("'--env HF_TOKEN' gives the container nothing")
    named = block_manifest(*args, command="podman", env={"HF_TOKEN": "t"})
    assert resolve(make_request(named, **given)).notes == ()
    engine = block_manifest("-e", "HF_TOKEN")
    assert resolve(make_request(engine, **given)).notes == ()


# The digest


def test_the_digest_is_of_all_but_the_port() -> None:
    manifest = block_manifest(
        "--port", "{port}", "{ctx_size}", env={"A": "{threads}"}, stop_command="s{port}"
    )
    request = make_request(manifest)
    digest = resolve(request).digest
    assert len(digest) == 64
    assert resolve(replace(request, port=9000)).digest == digest
    # How long it stays makes no other engine.
    assert resolve(replace(request, overrides={"pinned": True, "auto_evict": True})).digest == digest
    for other in (
        replace(request, overrides={"ctx_size": 1}),
        replace(request, overrides={"threads": 1}),
        replace(request, manifest=replace(manifest, downsize_endpoint="/x")),
        replace(request, manifest=replace(manifest, probe=replace(manifest.probe, timeout=1.0))),
        make_request(manifest, labels=("chat",), model="user.other"),
    ):
        assert resolve(other).digest != digest


def test_where_a_value_came_from_makes_no_other_engine() -> None:
    manifest = block_manifest("{ctx_size}")
    saved = resolve(make_request(manifest, saved={"ctx_size": 1}))
    loaded = resolve(make_request(manifest, overrides={"ctx_size": 1}))
    assert saved.values != loaded.values
    assert saved.digest == loaded.digest


def test_a_plan_can_be_described_and_pasted() -> None:
    manifest = block_manifest("a b", "{port}", env={"A": "x y"}, working_dir="/my work")
    plan = resolve(make_request(manifest))
    assert shell_line(plan) == "cd '/my work' && env 'A=x y' /opt/bin/engine 'a b' 8001"
    described = json.loads(json.dumps(describe(plan)))
    assert described["argv"] == ["/opt/bin/engine", "a b", "8001"]
    assert described["values"] == {"{port}": {"value": "8001", "from": "leased port"}}
    assert described["digest"] == plan.digest
