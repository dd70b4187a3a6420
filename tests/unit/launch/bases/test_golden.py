"""Each backend's command line and environment, argument for argument."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lemonpod.errors import ReservedArgError, TokenError
from lemonpod.host.choice import with_gpus
from lemonpod.host.facts import HostFacts
from lemonpod.launch.plan import Dialect
from tests.fakes.programs import FakePrograms
from tests.hardware import facts_of, machine
from tests.unit.launch.bases.variants import FORK, builtin_request, files, line, planned, variant_request
from tests.unit.launch.requests import checkpoint

LLAMA = f"{FORK}llama-server"
WHISPER = f"{FORK}whisper-server"
SD = f"{FORK}sd-server"
USUAL = "--port 8001 --jinja --metrics"
ROCM = "/cache/bin/therock/gfx1151-7/lib"
THEROCK = {"gfx1151": ("gfx1151-7/lib", "gfx1151-7/lib/llvm/lib")}


@pytest.mark.parametrize(
    ("accelerator", "request_", "expected"),
    [
        ("cpu", {}, f"-m /m.gguf --ctx-size 2048 {USUAL}"),
        ("vulkan", {"options": {"ctx_size": 100}}, f"-m /m.gguf --ctx-size 100 {USUAL}"),
        ("cpu", {"options": {"ctx_size": -1}}, f"-m /m.gguf --ctx-size 4096 {USUAL}"),
        ("cpu", {"labels": ("embeddings",)}, f"-m /m.gguf --ctx-size 8192 {USUAL} --embeddings"),
        (
            "cpu",
            {"labels": ("embedding",), "options": {"ctx_size": 9000}},
            f"-m /m.gguf --ctx-size 9000 {USUAL} --embeddings",
        ),
        ("cpu", {"labels": ("reranking",)}, f"-m /m.gguf --ctx-size 2048 {USUAL} --reranking"),
        (
            "vulkan",
            {"options": {"llamacpp_device": "Vulkan1"}},
            f"-m /m.gguf --ctx-size 2048 --device Vulkan1 {USUAL}",
        ),
        (
            "cuda",
            {"files": files(main="/m.gguf", mmproj="/p.gguf")},
            f"-m /m.gguf --ctx-size 2048 {USUAL} --mmproj /p.gguf",
        ),
        (
            "cpu",
            {"files": files(main="/m.gguf", mmproj="/p.gguf")},
            f"-m /m.gguf --ctx-size 2048 {USUAL} --mmproj /p.gguf --no-mmproj-offload",
        ),
        (
            "rocm",
            {"files": files(main="/m.gguf", draft="/d.gguf")},
            f"-m /m.gguf --ctx-size 2048 {USUAL} --model-draft /d.gguf",
        ),
        (
            "rocm",
            {"files": files(main="/m.gguf", draft="/DFlash-m.gguf")},
            f"-m /m.gguf --ctx-size 2048 {USUAL}",
        ),
        (
            "rocm",
            {"files": files(main="/m.gguf", draft="/dflash-m.gguf"), "labels": ("dflash",)},
            f"-m /m.gguf --ctx-size 2048 {USUAL} --model-draft /dflash-m.gguf --spec-type draft-dflash",
        ),
        (
            "cpu",
            {"labels": ("mtp", "hot"), "options": {"args": "--temp 0"}},
            f"-m /m.gguf --ctx-size 2048 {USUAL} --spec-type draft-mtp --temp 0",
        ),
        (
            "cpu",
            {"labels": ("mtp",), "options": {"args": "--spec-type=none"}},
            f"-m /m.gguf --ctx-size 2048 {USUAL} --spec-type=none",
        ),
        (
            "metal",
            {
                "files": files(main="/m.gguf", mmproj="/p.gguf", draft="/d.gguf"),
                "labels": ("reranking",),
                "options": {"llamacpp_args": ["--temp", "0"], "llamacpp_device": "MTL0"},
            },
            f"-m /m.gguf --ctx-size 2048 --device MTL0 {USUAL} --mmproj /p.gguf --model-draft /d.gguf "
            "--reranking --temp 0",
        ),
    ],
)
def test_llamacpp(accelerator: str, request_: dict[str, Any], expected: str) -> None:
    assert line(variant_request("llamacpp", accelerator, **request_)) == f"{LLAMA} {expected}"


def test_llamacpp_that_fetches_its_model() -> None:
    request = variant_request("llamacpp", files=files(main="/m.gguf", mmproj="/p.gguf"))
    request = replace(request, entry=replace(request.entry, hf_load=True))
    assert line(request) == f"{LLAMA} -hf org/repo:main --ctx-size 2048 {USUAL}"


def test_llamacpp_takes_no_option_for_data() -> None:
    """As tokens do not: what follows a flag is a value, whatever a fork's parser makes of it."""
    with pytest.raises(TokenError, match="option 'llamacpp_device' resolved to a value starting with '-'"):
        line(variant_request("llamacpp", options={"llamacpp_device": "--rpc=elsewhere:1"}))
    request = variant_request("llamacpp", files={"main": checkpoint("--rpc=elsewhere:1", None)})
    with pytest.raises(TokenError, match="checkpoint 'main' resolved to a value starting with '-'"):
        line(replace(request, entry=replace(request.entry, hf_load=True)))


@pytest.mark.parametrize("name", ["llamacpp_device", "cuda_visible_devices"])
def test_what_no_program_can_be_given_is_refused(name: str) -> None:
    with pytest.raises(TokenError, match="holds a NUL character"):
        planned(variant_request("llamacpp", "cuda", options={name: "a\0b"}))


@pytest.mark.parametrize(
    ("request_", "level", "accelerator", "expected"),
    [
        ({}, "info", "cpu", "-m /m.gguf"),
        ({}, "debug", "cpu", "-m /m.gguf -v"),
        ({}, "info", "vulkan", "-m /m.gguf --vae-tiling --diffusion-fa"),
        (
            {
                "files": files(main="/d.gguf", text_encoder="/t.gguf", vae="/v.st"),
                "options": {"args": "--x 1"},
            },
            "trace",
            "vulkan",
            "--diffusion-model /d.gguf --llm /t.gguf --vae /v.st -v --vae-tiling --diffusion-fa --x 1",
        ),
        ({"files": files(main="/d.gguf", vae="/v.st")}, "warning", "rocm", "-m /d.gguf"),
        ({"options": {"sdcpp_args": "--threads 2"}}, "info", "cuda", "-m /m.gguf --threads 2"),
    ],
)
def test_sd_cpp(request_: dict[str, Any], level: str, accelerator: str, expected: str) -> None:
    request = variant_request("sd-cpp", accelerator, settings={"log_level": level}, **request_)
    plan = planned(request)
    assert " ".join(plan.spec.argv) == f"{SD} --listen-port 8001 {expected}"
    assert plan.dialect is Dialect.SD_CPP
    assert (plan.probe.endpoint, plan.probe.timeout) == ("/", 600.0)


@pytest.mark.parametrize("accelerator", ["cpu", "vulkan", "rocm", "npu"])
def test_whispercpp(accelerator: str) -> None:
    request = variant_request("whispercpp", accelerator, options={"whispercpp_args": "--convert -l 'auto'"})
    plan = planned(request)
    assert " ".join(plan.spec.argv) == f"{WHISPER} -m /m.gguf --port 8001 --convert -l auto"
    assert plan.engine_paths == {"transcription": "/inference"}
    assert plan.dialect is Dialect.WHISPER_CPP
    assert (plan.probe.endpoint, plan.probe.timeout) == ("/health", 600.0)


@pytest.mark.parametrize("base", ["llamacpp", "whispercpp", "sd-cpp"])
@pytest.mark.parametrize(
    ("accelerator", "env", "expected"),
    [
        ("cpu", {}, {"LD_LIBRARY_PATH": "/cache/external/fork"}),
        ("vulkan", {"LD_LIBRARY_PATH": "/o"}, {"LD_LIBRARY_PATH": "/cache/external/fork:/o"}),
        (
            "cuda",
            {"LD_LIBRARY_PATH": "/o"},
            {"LD_LIBRARY_PATH": "/cache/external/fork:/o", "__NV_PRIME_RENDER_OFFLOAD": "1"},
        ),
        (
            "rocm",
            {"LD_LIBRARY_PATH": "/o"},
            {"LD_LIBRARY_PATH": f"{ROCM}:{ROCM}/llvm/lib:/cache/external/fork:/o"},
        ),
    ],
)
def test_the_environment(base: str, accelerator: str, env: dict[str, str], expected: dict[str, str]) -> None:
    program = {"llamacpp": LLAMA, "whispercpp": WHISPER, "sd-cpp": SD}[base]
    programs = FakePrograms(files=[program], rocm=THEROCK)
    plan = planned(variant_request(base, accelerator, env=env, programs=programs))
    if base == "whispercpp":
        expected = {name: value for name, value in expected.items() if not name.startswith("__NV")}
    assert plan.env == expected
    assert plan.spec.cwd is None


@pytest.mark.parametrize(
    ("options", "env", "expected"),
    [
        ({}, {}, None),
        ({"cuda_visible_devices": "GPU-1,GPU-2"}, {}, "GPU-1,GPU-2"),
        ({"cuda_visible_devices": "GPU-1"}, {"CUDA_VISIBLE_DEVICES": "0"}, None),
        ({"cuda_visible_devices": "GPU-1", "llamacpp_device": "CUDA1"}, {}, None),
    ],
)
def test_the_gpus_that_cuda_sees(options: dict[str, str], env: dict[str, str], expected: str | None) -> None:
    plan = planned(variant_request("llamacpp", "cuda", options=options, env=env))
    assert plan.env.get("CUDA_VISIBLE_DEVICES") == expected


@pytest.mark.parametrize("base", ["llamacpp", "sd-cpp"])
def test_unlike_gpus_of_which_the_newest_are_seen(base: str) -> None:  # G13
    """All of them, for a model may be spread over several."""
    new, old = facts_of(machine("rtx4090-proc")), facts_of(machine("aspeed-bmc-a100"))
    (card,) = new.gpus
    twin = replace(card, uuid="GPU-twin", pci_address="0000:81:00.0")
    unlike, alike = with_gpus(new, (*old.gpus, card, twin)), with_gpus(new, (card, twin))

    def seen(facts: HostFacts, **request: Any) -> str | None:
        return planned(variant_request(base, "cuda", facts=facts, **request)).env.get("CUDA_VISIBLE_DEVICES")

    assert seen(unlike) == f"{card.uuid},GPU-twin"
    assert seen(unlike, options={"cuda_visible_devices": "1"}) == "1"
    assert seen(unlike, env={"CUDA_VISIBLE_DEVICES": "0"}) is None
    assert seen(unlike, block={"env": {"CUDA_VISIBLE_DEVICES": "{cuda_visible_devices}"}}) == card.uuid
    assert seen(alike) is None


def test_what_the_server_says_of_offloading_holds() -> None:
    env = {"__NV_PRIME_RENDER_OFFLOAD": "0"}
    assert "__NV_PRIME_RENDER_OFFLOAD" not in planned(variant_request("llamacpp", "cuda", env=env)).env
    said = planned(variant_request("llamacpp", "cuda", block={"env": env})).env
    assert said["__NV_PRIME_RENDER_OFFLOAD"] == "0"


def test_a_built_in_llama_cpp_on_a_cpu_needs_no_environment() -> None:
    assert planned(builtin_request("llamacpp")).env == {}
    assert planned(builtin_request("whispercpp")).env == {"LD_LIBRARY_PATH": "/usr/bin"}


@pytest.mark.parametrize(
    ("base", "args", "flag"),
    [
        ("llamacpp", "--port 1", "--port"),
        ("llamacpp", "--temp 0 --port=1", "--port"),
        ("llamacpp", "-c 5", "-c"),
        ("llamacpp", "--ctx_size 5", "--ctx_size"),
        ("llamacpp", "--no-jinja", "--no-jinja"),
        ("llamacpp", "-hf org/x", "-hf"),
        ("llamacpp", "--no-mmproj-offload", "--no-mmproj-offload"),
        ("whispercpp", "--model x", "--model"),
        ("sd-cpp", "-v", "-v"),
        ("sd-cpp", "--listen-port 5", "--listen-port"),
    ],
)
def test_what_a_backend_keeps_to_itself(base: str, args: str, flag: str) -> None:
    request = variant_request(base, options={"args": args}, files=files(main="/m.gguf", mmproj="/p.gguf"))
    with pytest.raises(ReservedArgError) as caught:
        planned(request)
    first, second, third = caught.value.message.removeprefix("recipe 'fork': command: ").split("\n")
    assert first.endswith("-server arguments:")
    assert second == f"Argument '{flag}' is managed by Lemonade and cannot be overridden."
    assert third.startswith("Reserved arguments: -")


def test_an_offload_that_is_not_used_is_the_users_to_say() -> None:
    assert line(variant_request("llamacpp", options={"args": "--no-mmproj-offload"})).endswith(
        "--no-mmproj-offload"
    )


def test_what_the_manifest_reserves_besides() -> None:
    request = variant_request(
        "llamacpp", block={"reserved_args": ["--host"]}, options={"args": "--host 0.0.0.0"}
    )
    with pytest.raises(ReservedArgError, match="'--host' collides with a reserved argument"):
        planned(request)
