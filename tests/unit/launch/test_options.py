from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import LaunchError
from lemonpod.launch.options import Option, effective_options
from lemonpod.launch.request import LaunchRequest
from lemonpod.launch.resolve import resolve
from tests.unit.launch.requests import block_manifest, make_manifest, make_request

LAYERS = (
    "load request",
    "recipe_options.json",
    "user_models.json",
    "config.json",
    "manifest recipe_options",
    "manifest custom_options",
)


def layered(name: str, **layers: JsonValue) -> LaunchRequest:
    """A request in which each given layer (its place in LAYERS, as `_0`) sets `name`."""
    said = {LAYERS[int(key[1:])]: value for key, value in layers.items()}

    def of(layer: str) -> dict[str, JsonValue]:
        return {name: said[layer]} if layer in said else {}

    custom = [
        {"name": name, "cli_flag": f"--{name.replace('_', '-')}", "default_value": value, "help": "x"}
        for layer, value in said.items()
        if layer == "manifest custom_options"
    ]
    manifest = block_manifest(recipe_options=of("manifest recipe_options"), custom_options=custom)
    return make_request(
        manifest,
        overrides=of("load request"),
        saved=of("recipe_options.json"),
        options=of("user_models.json"),
        settings={"recipe_options": {"test-engine": of("config.json")}},
    )


@pytest.mark.parametrize("strongest", range(len(LAYERS)))
@pytest.mark.parametrize("name", ["ctx_size", "temper"])
def test_the_strongest_layer_that_says_something_wins(name: str, strongest: int) -> None:
    layers: dict[str, JsonValue] = {f"_{number}": 100 + number for number in range(strongest, len(LAYERS))}
    option = effective_options(layered(name, **layers)).get(name)
    assert option == Option(100 + strongest, LAYERS[strongest])


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("ctx_size", 2048),
        ("batch_size", 512),
        ("ubatch_size", 512),
        ("threads", 4),
        ("cache_type_k", "f16"),
        ("cache_type_v", "f16"),
        ("target_device", "0"),
        ("hip_visible_devices", "0"),
        ("cuda_visible_devices", "0"),
        ("rocr_visible_devices", "0"),
        ("ggml_vk_visible_devices", "0"),
        ("ze_affinity_mask", "0"),
        ("temper", None),
        ("args", None),
        ("device", None),
    ],
)
def test_what_holds_where_no_layer_says_anything(name: str, default: JsonValue) -> None:
    option = effective_options(make_request(block_manifest())).get(name)
    assert option == (None if default is None else Option(default, "default"))


# C4: "", null, "auto" and -1 say nothing, so the next layer speaks.
@pytest.mark.parametrize("unset", ["", None, "auto", -1, -1.0])
@pytest.mark.parametrize("name", ["batch_size", "threads", "cache_type_k", "temper"])
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_an_unset_value_lets_the_next_layer_speak(name: str, unset: JsonValue, layer: int) -> None:
    request = layered(name, **{f"_{layer}": unset, "_4": 7})
    assert effective_options(request).get(name) == Option(7, "manifest recipe_options")


@pytest.mark.parametrize("value", [0, False, "0", [], {}, -2, "-1", "AUTO", " "])
def test_what_is_only_like_an_unset_value_is_one(value: JsonValue) -> None:
    assert effective_options(layered("temper", _1=value, _4=7)).get("temper") == Option(
        value, "recipe_options.json"
    )


@pytest.mark.parametrize("unset", ["auto", -1])
def test_an_own_option_that_only_unset_values_are_given_to_takes_them_literally(unset: JsonValue) -> None:
    manifest = block_manifest("{custom:temper}", "{custom:temper:-7}", recipe_options={"temper": unset})
    assert resolve(make_request(manifest)).spec.argv[1:] == (str(unset), "7")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-1, 4096), ("-1", 4096), (0, 0), (8192, 8192), ("8192", 8192), (8192.0, 8192), (" 16 ", 16)],
)
def test_the_context_size(value: JsonValue, expected: int) -> None:
    plan = resolve(make_request(block_manifest("{ctx_size}"), options={"ctx_size": value}))
    assert plan.spec.argv[1:] == (str(expected),)
    assert plan.options["ctx_size"] == expected


@pytest.mark.parametrize("unset", ["", "auto", None])
def test_a_context_size_that_is_unset(unset: JsonValue) -> None:
    plan = resolve(make_request(block_manifest("{ctx_size}"), options={"ctx_size": unset}))
    assert plan.spec.argv[1:] == ("2048",)


@pytest.mark.parametrize("value", ["large", 1.5, True, -2, "-2", "1e3", [1], {}, "١", "0x10", "- 1", "--1"])
@pytest.mark.parametrize("name", ["ctx_size", "threads"])
def test_a_number_that_is_none_is_named_with_its_layer(name: str, value: JsonValue) -> None:
    with pytest.raises(LaunchError, match=f"option '{name}' of user_models.json must be a whole number"):
        effective_options(make_request(block_manifest(), options={name: value}))


def test_null_in_the_load_request_takes_back_what_is_saved() -> None:
    request = make_request(
        block_manifest(), saved={"threads": 8}, options={"threads": 6}, overrides={"threads": None}
    )
    assert effective_options(request).get("threads") == Option(6, "user_models.json")


def test_a_recipes_section_of_config_json_is_stronger_than_the_global_keys() -> None:
    settings = {
        "options": {"ctx_size": 1, "threads": 2, "offline": True},
        "recipe_options": {"test-engine": {"ctx_size": 3}, "other": {"threads": 4}},
    }
    options = effective_options(make_request(block_manifest(), settings=settings))
    assert options.get("ctx_size") == Option(3, "config.json")
    assert options.get("threads") == Option(2, "config.json")
    assert options.get("offline") is None
    assert options.notes == ()


ACCEPTED: dict[str, Any] = {
    "args": "",
    "auto_evict": True,
    "auto_update": False,
    "batch_size": 1,
    "ctx_size": 1,
    "device": "cpu",
    "downsize_idle_timeout": 1,
    "evict_idle_timeout": 1,
    "evict_weight_factor": 1.5,
    "merge_args": True,
    "pinned": True,
    "threads": 1,
    "from_recipe_options": 1,
    "from_custom_options": 1,
    "from_a_token": 1,
    "from_another_platform": 1,
}
FULL = {
    "recipe_options": {"from_recipe_options": 0},
    "custom_options": [{"name": "from_custom_options", "cli_flag": "--x", "default_value": 0, "help": "x"}],
    "capability_enable_args": {"completion": ["{custom:from_a_token:-0}"]},
    "platforms": {
        "linux": {"cpu": {"command": "e", "args": []}},
        "darwin": {
            "metal": {
                "command": "e",
                "args": [],
                "arch": {"x": {"env": {"A": "{custom:from_another_platform}"}}},
            }
        },
    },
}


def test_every_option_that_the_recipe_knows_may_be_in_a_load_request() -> None:
    options = effective_options(make_request(make_manifest(**FULL), overrides=ACCEPTED))
    assert options.get("from_another_platform") == Option(1, "load request")


def test_an_unknown_option_in_a_load_request_names_it_and_the_known_ones() -> None:
    with pytest.raises(LaunchError, match="unknown option 'ctxsize' in the load request") as caught:
        resolve(make_request(block_manifest(), overrides={"ctxsize": 1}))
    assert caught.value.message.startswith("recipe 'test-engine': ")
    assert "args, auto_evict" in (caught.value.hint or "")


def test_an_unknown_option_in_a_file_is_a_note() -> None:
    plan = resolve(make_request(block_manifest(), saved={"b": 1}, options={"a": 1, "ctx_size": 1}))
    assert plan.notes == (
        "option 'b' of recipe_options.json is unknown to recipe 'test-engine', ignored",
        "option 'a' of user_models.json is unknown to recipe 'test-engine', ignored",
    )


def test_the_plan_reports_what_was_chosen() -> None:
    plan = resolve(make_request(block_manifest(), options={"threads": 2, "pinned": True}))
    assert plan.options == {"ctx_size": 2048, "threads": 2, "pinned": True}


@pytest.mark.parametrize(
    ("device", "accelerator"),
    [("cuda", "cuda"), ("CUDA", "cuda"), ("npu", "cpu"), ("auto", "cpu"), (0, "cpu")],
)
def test_the_device_selects_the_block(device: JsonValue, accelerator: str) -> None:
    block = {"command": "engine", "args": []}
    manifest = make_manifest(platforms={"linux": {"cpu": block, "cuda": block}})
    assert resolve(make_request(manifest, options={"device": device})).accelerator == accelerator


@pytest.mark.parametrize(
    ("merge", "model_args", "expected"),
    [
        (True, "--m 2", ("--g", "1", "--m", "2")),
        (False, "--m 2", ("--m", "2")),
        (None, "--m 2", ("--g", "1", "--m", "2")),
        ("yes", "--m 2", ("--m", "2")),
        (True, None, ("--g", "1")),
        (True, "", ("--g", "1")),
    ],
)
def test_merged_args_are_the_servers_then_the_models(
    merge: JsonValue, model_args: JsonValue, expected: tuple[str, ...]
) -> None:
    request = make_request(
        block_manifest("{custom_args}"),
        options={"args": model_args},
        overrides={"merge_args": merge},
        settings={"recipe_options": {"test-engine": {"args": ["--g", 1]}}},
    )
    assert resolve(request).spec.argv[1:] == expected


@pytest.mark.parametrize("value", ["9" * 19, "9" * 5000, "--1", "1_0", "٣"])
def test_a_text_that_is_no_usable_number_is_refused(value: str) -> None:
    with pytest.raises(LaunchError, match=r"'ctx_size' .* must be a whole number") as e:
        effective_options(make_request(block_manifest(), options={"ctx_size": value}))
    assert len(e.value.message) < 200


def test_an_option_of_the_recipes_own_section_that_it_does_not_know_is_noted() -> None:
    settings = {"recipe_options": {"test-engine": {"temper": 1, "threads": 2}, "other": {"x": 1}}}
    notes = effective_options(make_request(block_manifest(), settings=settings)).notes
    assert notes == (
        "option 'temper' of config.json, section 'test-engine', is unknown to this recipe, ignored",
    )
