"""The built-in backends as recipes of their own: which accelerator, and which program."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.vocabulary import Accelerator, Mode
from lemonpod.errors import LaunchError
from tests.factories import make_facts
from tests.fakes.programs import FakePrograms
from tests.unit.launch.bases.variants import ALL, builtin_request, line, planned

PATH = {"llama-server": "/usr/bin/llama-server"}
CACHED = "/cache/bin/llamacpp/vulkan/llama-server"


def section(**values: Any) -> dict[str, Any]:
    return {"recipe_options": {"llamacpp": values}}


def test_it_needs_nothing_but_its_program() -> None:
    plan = planned(builtin_request("llamacpp"))
    assert plan.recipe == "llamacpp"
    assert plan.mode is Mode.CHAT
    assert (plan.accelerator, plan.device) == (Accelerator.CPU, "cpu")
    assert " ".join(plan.spec.argv) == (
        "/usr/bin/llama-server -m /m.gguf --ctx-size 2048 --port 8001 --jinja --metrics"
    )
    assert plan.selection[-1] == "executable: /usr/bin/llama-server (PATH)"


@pytest.mark.parametrize(
    ("config", "option", "program", "accelerator"),
    [
        ({}, None, "/usr/bin/llama-server", "cuda"),
        ({"cpu_bin": "/o/ll"}, None, "/o/ll", "cpu"),
        ({"cpu_bin": "builtin"}, None, "/usr/bin/llama-server", "cuda"),
        ({"cpu_bin": "/o/ll", "vulkan_bin": "/v/ll"}, None, "/v/ll", "vulkan"),
        ({"cpu_bin": "/o/ll", "vulkan_bin": "/v/ll"}, "cpu", "/o/ll", "cpu"),
        ({"cpu_bin": "/o/ll"}, "system", "/usr/bin/llama-server", "cuda"),
        ({"cpu_bin": "/o/ll", "backend": "system"}, None, "/usr/bin/llama-server", "cuda"),
        ({"cpu_bin": "/o/ll", "backend": "vulkan"}, "cpu", "/o/ll", "cpu"),
        ({}, "rocm-stable", "/usr/bin/llama-server", "rocm"),
        ({}, "auto", "/usr/bin/llama-server", "cuda"),
        ({"prefer_system": False}, None, CACHED, "vulkan"),
        ({"prefer_system": True}, None, "/usr/bin/llama-server", "cuda"),
        ({"prefer_system": False}, "cpu", "/usr/bin/llama-server", "cpu"),
    ],
)
def test_the_program_for_an_accelerator(
    config: dict[str, Any], option: str | None, program: str, accelerator: str
) -> None:
    facts = make_facts(accelerators=(*(Accelerator(n) for n in ("cuda", "rocm", "vulkan")), Accelerator.CPU))
    programs = FakePrograms(path=PATH, files=["/o/ll", "/v/ll", CACHED])
    request = builtin_request(
        "llamacpp",
        facts=facts,
        programs=programs,
        settings=section(**config),
        options={"llamacpp_backend": option} if option else {},
    )
    plan = planned(request)
    assert (plan.spec.argv[0], plan.accelerator) == (program, accelerator)


def test_an_accelerator_that_is_not_known_here_is_used_where_somebody_says_so() -> None:
    plan = planned(builtin_request("llamacpp", options={"llamacpp_backend": "vulkan"}))
    assert plan.accelerator is Accelerator.VULKAN
    unused = builtin_request("llamacpp", programs=FakePrograms(files=["/c"]), settings=section(cuda_bin="/c"))
    with pytest.raises(LaunchError, match="there is no llama-server for llamacpp"):
        planned(unused)


def test_no_program_says_what_to_do() -> None:
    with pytest.raises(LaunchError) as caught:
        planned(builtin_request("sd-cpp", programs=FakePrograms(), facts=make_facts(accelerators=ALL)))
    assert "there is no sd-server for sd-cpp" in caught.value.message
    assert caught.value.hint == (
        "install sd-server so that it is on the PATH of the server, or name it in config.json: "
        '"sdcpp": {"cpu_bin": "/path/to/sd-server"}'
    )


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"cpu_bin": "llama-server"}, "llamacpp.cpu_bin must be the absolute path of llama-server"),
        ({"cpu_bin": 5}, "llamacpp.cpu_bin must be the absolute path"),
        ({"cpu_bin": "/none"}, "llamacpp.cpu_bin: /none is no executable file"),
        ({"backend": "tpu"}, "'tpu' is no backend of llamacpp on linux"),
        ({"backend": "cuda", "args": "--port 1"}, "is managed by Lemonade"),
    ],
)
def test_settings_that_are_wrong(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(LaunchError, match=reason):
        planned(builtin_request("llamacpp", settings=section(**config)))


def test_arguments_for_one_accelerator() -> None:
    config = section(args="--a", cpu_args="--b", vulkan_args="--c", n_predict=1)
    assert line(builtin_request("llamacpp", settings=config)).endswith("--metrics --b")
    asked = builtin_request("llamacpp", settings=config, options={"llamacpp_backend": "vulkan"})
    assert line(asked).endswith("--metrics --c")
    mine = builtin_request("llamacpp", settings=config, options={"llamacpp_args": "--d", "merge_args": True})
    assert line(mine).endswith("--metrics --b --d")
    assert planned(mine).notes == (
        "option 'n_predict' of config.json, section 'llamacpp', is unknown to this recipe, ignored",
    )


def test_clients_are_told_options_by_the_names_that_they_know() -> None:
    options = {"llamacpp_args": "--d", "llamacpp_backend": "cpu", "llamacpp_device": "CPU"}
    plan = planned(builtin_request("llamacpp", options=options))
    assert plan.options == {**options, "ctx_size": 2048}


def test_the_section_of_sd_cpp_has_another_name() -> None:
    config = {"recipe_options": {"sdcpp": {"steps": 5, "cpu_bin": "/sd", "args": "--x"}}}
    plan = planned(builtin_request("sd-cpp", programs=FakePrograms(files=["/sd"]), settings=config))
    assert plan.options["steps"] == 5
    assert plan.spec.argv[0] == "/sd"
    assert plan.spec.argv[-1] == "--x"
