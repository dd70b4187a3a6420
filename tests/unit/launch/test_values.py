from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.tokens import FIXED_TOKENS
from lemonpod.contract.vocabulary import RESOLVABLE_ENV
from lemonpod.errors import CheckpointNotFoundError, LemonpodError, TokenError
from lemonpod.launch.plan import Resolved
from lemonpod.launch.resolve import resolve
from tests.factories import make_facts
from tests.unit.launch.requests import HUB, MAIN_PATH, block_manifest, checkpoint, make_request

RELATIVE = "models--org--repo/snapshots/abc/m.gguf"


def value_of(token: str, **overrides: Any) -> tuple[str, str]:
    top = overrides.pop("manifest", {})
    plan = resolve(make_request(block_manifest(f"<{token}>", **top), **overrides))
    (argument,) = plan.spec.argv[1:]
    resolved = plan.values[token]
    assert argument == f"<{resolved.value}>"
    return resolved.value, resolved.origin


def error_of(token: str, **overrides: Any) -> LemonpodError:
    top = overrides.pop("manifest", {})
    with pytest.raises(LemonpodError) as caught:
        resolve(make_request(block_manifest("x", f"<{token}>", **top), **overrides))
    assert caught.value.message.startswith("recipe 'test-engine': command: args[1]: ")
    return caught.value


TABLE: dict[str, tuple[str, str]] = {
    "port": ("8001", "leased port"),
    "host": ("127.0.0.1", "server settings"),
    "log_level": ("info", "server settings"),
    "recipe": ("test-engine", "manifest"),
    "model_name": ("user.m", "model"),
    "resolved_path": (str(MAIN_PATH), "checkpoint 'main'"),
    "model_relative_path": (RELATIVE, "checkpoint 'main'"),
    "model_dir": (str(MAIN_PATH.parent), "checkpoint 'main'"),
    "exe_dir": ("/opt/bin", "command"),
    "hf_cache": ("/hub", "server settings"),
    "cache_dir": ("/cache", "server settings"),
    "rocm_arch": ("", "host"),
    "cuda_arch": ("", "host"),
    "target_device": ("0", "default"),
    "hip_visible_devices": ("0", "default"),
    "cuda_visible_devices": ("0", "default"),
    "rocr_visible_devices": ("0", "default"),
    "ggml_vk_visible_devices": ("0", "default"),
    "ze_affinity_mask": ("0", "default"),
    "ctx_size": ("2048", "default"),
    "batch_size": ("512", "default"),
    "ubatch_size": ("512", "default"),
    "threads": ("4", "default"),
    "cache_type_k": ("f16", "default"),
    "cache_type_v": ("f16", "default"),
}
WITHOUT_VALUE = {"pid", "arch_alias", "custom_args"}


def test_the_table_is_whole() -> None:
    assert TABLE.keys() | WITHOUT_VALUE == FIXED_TOKENS


@pytest.mark.parametrize("name", TABLE)
def test_a_fixed_token_with_nothing_set(name: str) -> None:
    assert value_of(f"{{{name}}}") == TABLE[name]


@pytest.mark.parametrize("name", sorted(WITHOUT_VALUE))
def test_a_fixed_token_without_a_value(name: str) -> None:
    error = error_of(f"{{{name}}}")
    assert isinstance(error, TokenError)
    assert error.message.endswith(f"token '{{{name}}}' has no value")


@pytest.mark.parametrize("name", [name for name, (_, origin) in TABLE.items() if origin == "default"])
def test_an_option_token_takes_the_option(name: str) -> None:
    assert value_of(f"{{{name}}}", options={name: "3"}) == ("3", "user_models.json")


def test_the_host_and_the_levels_come_from_the_settings() -> None:
    settings = {"host": "::1", "log_level": "debug", "cache_dir": Path("/c"), "hf_cache": Path("/h")}
    assert value_of("{host}", settings=settings)[0] == "::1"
    assert value_of("{log_level}", settings=settings)[0] == "debug"
    assert value_of("{cache_dir}", settings=settings)[0] == "/c"
    assert value_of("{hf_cache}", settings=settings)[0] == "/h"


def test_the_architectures_come_from_the_host() -> None:
    facts = make_facts(rocm_arch="gfx1151", cuda_arch="sm_90")
    assert value_of("{rocm_arch}", facts=facts) == ("gfx1151", "host")
    assert value_of("{cuda_arch}", facts=facts) == ("sm_90", "host")


@pytest.mark.parametrize(
    ("arch", "alias", "key"),
    [("gfx1151", "strix-halo", "gfx1151"), ("gfx1152", "some-115", "gfx115*")],
)
def test_an_arch_alias(arch: str, alias: str, key: str) -> None:
    manifest = {"arch_aliases": {"gfx115*": "some-115", "gfx1151": "strix-halo"}}
    facts = make_facts(rocm_arch=arch)
    assert value_of("{arch_alias}", manifest=manifest, facts=facts) == (alias, f"arch_aliases.{key}")


def test_an_arch_without_an_alias_fails_loudly() -> None:
    manifest = {"arch_aliases": {"gfx1151": "strix-halo"}}
    error = error_of("{arch_alias}", manifest=manifest, facts=make_facts(rocm_arch="gfx1100"))
    assert "token '{arch_alias}' has no value" in error.message
    assert error.hint == "no entry of the manifest's arch_aliases is for this host's gfx1100"
    error = error_of("{arch_alias}", manifest=manifest)
    assert error.hint == "no GPU architecture is known of this host; 'lemonpod host' says what is"


@pytest.mark.parametrize(
    ("command", "expected"),
    [("/opt/bin/engine", "/opt/bin"), ("engine", "."), ("/engine", "/"), ("./engine", ".")],
)
def test_the_folder_of_the_command(command: str, expected: str) -> None:
    plan = resolve(make_request(block_manifest("{exe_dir}", command=command)))
    assert plan.spec.argv == (command, expected)


def test_a_command_cannot_stand_on_its_own_folder() -> None:
    with pytest.raises(TokenError, match=r"command: token '\{exe_dir\}' has no value"):
        resolve(make_request(block_manifest(command="{exe_dir}/engine")))


# Checkpoints


def test_a_named_checkpoint() -> None:
    files = {"main": checkpoint(), "mmproj": checkpoint("org/repo:p.gguf", HUB / "x" / "p.gguf")}
    assert value_of("{checkpoint:main}", files=files)[0] == str(MAIN_PATH)
    assert value_of("{checkpoint:mmproj}", files=files)[0] == "/hub/x/p.gguf"
    assert value_of("{checkpoint_relative:mmproj}", files=files)[0] == "x/p.gguf"


def test_the_relative_path_is_lexical() -> None:  # M03
    files = {"main": checkpoint(path=HUB / "models--o--r" / "snapshots" / "S" / "m-00001-of-00002.gguf")}
    assert value_of("{checkpoint_relative:main}", files=files)[0] == (
        "models--o--r/snapshots/S/m-00001-of-00002.gguf"
    )


@pytest.mark.parametrize("path", ["/elsewhere/m.gguf", "/hub-evil/m.gguf", "/m.gguf"])
def test_a_file_outside_the_cache_is_its_bare_name(path: str) -> None:  # M11
    assert value_of("{checkpoint_relative:main}", files={"main": checkpoint(path=Path(path))})[0] == "m.gguf"


def test_a_snapshot_folder_is_a_checkpoint_too() -> None:
    files = {"main": checkpoint("org/repo", HUB / "models--org--repo" / "snapshots" / "abc")}
    assert value_of("{model_dir}", files=files)[0] == "/hub/models--org--repo/snapshots"
    assert value_of("{model_relative_path}", files=files)[0] == "models--org--repo/snapshots/abc"


CHECKPOINT_TOKENS = [
    "{checkpoint:main}",
    "{checkpoint_relative:main}",
    "{resolved_path}",
    "{model_relative_path}",
    "{model_dir}",
]


@pytest.mark.parametrize("token", CHECKPOINT_TOKENS)
def test_a_missing_checkpoint_that_is_used_is_an_error(token: str) -> None:
    error = error_of(token, files={"main": checkpoint(path=None, problem="'org/repo' is not here")})
    assert isinstance(error, CheckpointNotFoundError)
    assert error.message.endswith("checkpoint 'main' of model 'user.m': 'org/repo' is not here")


def test_a_missing_checkpoint_that_is_not_used_is_none() -> None:
    missing = {"main": checkpoint(), "draft": checkpoint(path=None)}
    assert value_of("{checkpoint:main}", files=missing)[0] == str(MAIN_PATH)
    assert value_of("{model_name}", files={"main": checkpoint(path=None)})[0] == "user.m"


def test_a_missing_checkpoint_in_a_block_that_is_not_selected_is_none() -> None:
    arch = {"gfx1151": {"args": ["{checkpoint:main}"]}}
    request = make_request(block_manifest("x", arch=arch), files={"main": checkpoint(path=None)})
    assert resolve(request).spec.argv[1:] == ("x",)


@pytest.mark.parametrize(
    ("token", "text", "expected"),
    [
        ("{checkpoint:main}", "org/repo:m.gguf", "org/repo:m.gguf"),
        ("{resolved_path}", "llama3:8b", "llama3:8b"),
        ("{checkpoint_relative:main}", "org/repo:m.gguf", "repo:m.gguf"),
        ("{model_relative_path}", "llama3:8b", "llama3:8b"),
        ("{model_dir}", "org/repo", "org"),
        ("{model_dir}", "llama3:8b", "."),
    ],
)
def test_a_self_managed_engine_gets_the_text_as_registered(token: str, text: str, expected: str) -> None:
    manifest = {"model_management": "self_managed"}
    files = {"main": checkpoint(text, None)}
    assert value_of(token, manifest=manifest, files=files) == (expected, "checkpoint 'main', as registered")


def test_a_self_managed_engine_gets_the_path_where_there_is_one() -> None:
    assert value_of("{checkpoint:main}", manifest={"model_management": "self_managed"})[0] == str(MAIN_PATH)


@pytest.mark.parametrize("token", ["{checkpoint:draft}", "{checkpoint_relative:draft}"])
def test_a_checkpoint_that_the_model_does_not_have(token: str) -> None:
    error = error_of(token)
    assert isinstance(error, TokenError)
    assert f"token '{token}' has no value" in error.message
    assert error.hint == "model 'user.m' is registered without a 'draft' checkpoint"


def test_a_model_without_checkpoints() -> None:
    assert value_of("{model_dir}", files={}) == (".", "no main checkpoint")
    assert "has no value" in error_of("{resolved_path}", files={}).message


# {custom:}


@pytest.mark.parametrize(
    ("token", "options", "expected"),
    [
        ("{custom:x}", {"x": "a b"}, "a b"),
        ("{custom:x}", {"x": 7}, "7"),
        ("{custom:x}", {"x": 0.5}, "0.5"),
        ("{custom:x}", {"x": 1.0}, "1.0"),
        ("{custom:x}", {"x": True}, "true"),
        ("{custom:x}", {"x": [1, "a", None]}, '[1,"a",null]'),
        ("{custom:x}", {"x": {"ü": 1}}, '{"ü":1}'),
        ("{custom:x}", {"x": -7}, "-7"),
        ("{custom:x:-d}", {"x": "a"}, "a"),
        ("{custom:x:-d}", {"x": None}, "d"),
        ("{custom:x:-d}", {"x": ""}, "d"),
        ("{custom:missing:-4}", {}, "4"),
        ("{custom:missing:--1}", {}, "-1"),
        ("{custom:x:-a:-b}", {}, "a:-b"),  # L29
        ("{custom:x:-}", {}, ""),  # L29
        ("{custom:x}", {"x": "{env:HOME}"}, "{env:HOME}"),  # L29
        ("{custom:ctx_size}", {}, "2048"),
        ("{custom:threads:--1}", {}, "-1"),
        ("{custom:threads:--1}", {"threads": -1}, "-1"),
        ("{custom:threads:--1}", {"threads": 3}, "3"),
    ],
)
def test_a_custom_token(token: str, options: dict[str, Any], expected: str) -> None:
    assert value_of(token, options=options)[0] == expected


def test_a_custom_token_takes_what_nobody_declared() -> None:
    manifest = {"recipe_options": {"inherited": 1}}
    assert value_of("{custom:inherited}", manifest=manifest) == ("1", "manifest recipe_options")


@pytest.mark.parametrize("options", [{}, {"x": None}, {"x": ""}, {"y": 1}])
def test_a_custom_token_without_a_value(options: dict[str, Any]) -> None:
    error = error_of("{custom:x}", options=options)
    assert error.message.endswith("recipe option 'x' has no value")


# {env:}


@pytest.mark.parametrize("name", sorted(RESOLVABLE_ENV))
def test_an_allowed_variable(name: str) -> None:
    assert value_of(f"{{env:{name}}}", env={name: "/x"}) == ("/x", "environment")
    assert value_of(f"{{env:{name}:-/d}}", env={name: "/x"})[0] == "/x"
    assert value_of(f"{{env:{name}:-/d}}", env={}) == ("/d", "token default")
    assert value_of(f"{{env:{name}:-/d}}", env={name: ""})[0] == "/d"


@pytest.mark.parametrize("env", [{}, {"HF_HOME": ""}])
def test_an_allowed_variable_that_is_not_set(env: dict[str, str]) -> None:
    assert error_of("{env:HF_HOME}", env=env).message.endswith("environment variable 'HF_HOME' is not set")


@pytest.mark.parametrize(
    "name",
    [
        "HOME", "PATH", "hf_home", "HF_TOKEN", "LEMONADE_API_KEY", "LEMONADE_CACHE_DIR",
        "OPENAI_API_KEY", "GITHUB_TOKEN", "MY_SECRET", "DB_PASSWORD", "BASIC_AUTH",
        "HTTP_PROXY", "LD_PRELOAD",
    ],
)  # fmt: skip
def test_any_other_variable_is_refused_even_with_a_default(name: str) -> None:
    for token in (f"{{env:{name}}}", f"{{env:{name}:-x}}"):
        error = error_of(token, env={name: "secret"})
        assert error.message.endswith(f"environment variable '{name}' is not resolvable")
        assert "secret" not in str(error)


def test_no_variable_that_could_hold_a_secret_is_allowed() -> None:
    for name in RESOLVABLE_ENV:
        assert not name.startswith("LEMONADE_")
        assert not any(word in name for word in ("API_KEY", "TOKEN", "SECRET", "PASS", "AUTH"))


def test_a_dash_is_refused_for_every_source() -> None:
    sources: dict[str, dict[str, Any]] = {
        "{custom:x}": {"options": {"x": "-evil"}},
        "{env:HF_HOME}": {"env": {"HF_HOME": "-evil"}},
        "{model_name}": {"model": "-evil"},
        "{cache_type_k}": {"options": {"cache_type_k": "-evil"}},
        "{custom:x:--evil}": {},
        "{checkpoint:main}": {
            "files": {"main": checkpoint("-evil", None)},
            "manifest": {"model_management": "self_managed"},
        },
    }
    for token, overrides in sources.items():
        bare = token.replace(":--evil", "")
        assert f"token '{bare}' resolved to a value starting with '-'" in error_of(token, **overrides).message


def test_the_values_of_a_plan_are_those_that_it_used() -> None:
    manifest = block_manifest(
        "{port}",
        "{custom_args}",
        env={"A": "{threads}"},
        stop_command="kill",
        stop_command_args=["{pid}", "{host}"],
    )
    plan = resolve(make_request(manifest, options={"args": "--x 'a b'"}))
    assert plan.values == {
        "{port}": Resolved("8001", "leased port"),
        "{custom_args}": Resolved("--x 'a b'", "user_models.json"),
        "{threads}": Resolved("4", "default"),
        "{host}": Resolved("127.0.0.1", "server settings"),
    }
