"""llama-server's flags: what is taken, what is refused, and that the module knows every parameter."""

from __future__ import annotations

from pathlib import Path

import pytest

from lemonpod.demo.llama_flags import OPTIONS, SWITCHES, Member, UsageError, help_text, read_settings
from lemonpod.demo.llama_server import make_params

SAMPLES = {
    "--alias": "a,b",
    "--host": "127.0.0.1,::1",
    "--port": "0",
    "--flash-attn": "auto",
    "--cache-type-k": "q8_0",
    "--cache-type-v": "bf16",
    "--load-mode": "mmap+mlock",
    "--pooling": "mean",
    "--rope-scaling": "yarn",
    "--reasoning-format": "deepseek-legacy",
    "--chat-template-file": __file__,
    "--chat-template-kwargs": '{"enable_thinking": false}',
    "--slot-save-path": "/tmp",
    "--gpu-layers": "auto",
    "--api-key": "one,two",
    "--model": "m.gguf",
    "--mmproj": "p.gguf",
    "--api-prefix": "/x",
    "--cors-origins": "*",
    "--chat-template": "chatml",
}
LONG_NAMES = {option: next(name for name in option.names if name.startswith("--")) for option in OPTIONS}


def settings(*words: str) -> dict[str, object]:
    return dict(read_settings(["-m", "m.gguf", *words]))


@pytest.mark.parametrize("name", [name for option in OPTIONS for name in option.names])
def test_every_option_takes_its_value_in_both_forms(name: str) -> None:
    option = next(option for option in OPTIONS if name in option.names)
    value = SAMPLES.get(LONG_NAMES[option], "1")

    assert settings(name, value) == settings(f"{name}={value}")
    assert option.attribute in settings(name, value)


@pytest.mark.parametrize("name", [name for switch in SWITCHES for name in switch.names])
def test_every_switch_sets_something_and_takes_no_value(name: str) -> None:
    switch = next(switch for switch in SWITCHES if name in switch.names)

    assert dict(switch.settings).items() <= settings(name).items()
    with pytest.raises(UsageError, match=f"{name} takes no value"):
        settings(f"{name}=1")


def test_no_two_flags_share_a_name_and_help_lists_all() -> None:
    names = [name for flag in (*OPTIONS, *SWITCHES) for name in flag.names]

    assert len(names) == len(set(names))
    assert all(name in help_text() for name in names)


def test_the_last_one_wins() -> None:
    assert settings("-c", "1", "--ctx-size=2")["n_ctx"] == 2
    assert settings("--slots", "--no-slots")["endpoint_slots"] is False


def test_a_value_may_start_with_a_dash() -> None:
    assert settings("-n", "-1")["n_predict"] == -1
    assert settings("--chat-template", "-{{ x }}")["chat_template"] == "-{{ x }}"


def test_reranking_ranks() -> None:
    chosen = settings("--reranking")

    assert chosen["embedding"] is True
    assert chosen["pooling_type"] == Member("llama_pooling_type", "LLAMA_POOLING_TYPE_RANK")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--no-such-flag"], "--no-such-flag: this server has no such flag"),
        (["-hf", "org/repo"], "-hf: this server has no such flag"),
        (["--model-url", "https://x.invalid/m.gguf"], "--model-url"),
        # llama-server's own flag, which a prefix match would take for `-n kvo`.
        (["-nkvo"], "-nkvo: this server has no such flag"),
        (["-c4096"], "-c4096"),
        (["stray"], "stray"),
        ([""], "this server has no such flag"),
        (["-c"], "-c needs a value"),
        (["-c", "x"], "-c x: must be a whole number from 0 to"),
        (["-c", "-1"], "-c -1"),
        (["-c", "1" * 5000], "must be a whole number"),
        (["--port", "65536"], "--port 65536: must be a whole number from 0 to 65535"),
        (["-np", "0"], "-np 0: must be at least 1"),
        (["-ngl", "99"], "-ngl 99: this program runs on the CPU"),
        (["-ctk", "q3_k"], "-ctk q3_k: must be one of f32, f16"),
        (["--pooling", "max"], "--pooling max: must be one of none"),
        (["--temp", "warm"], "--temp warm"),
        (["--temp", "nan"], "--temp nan: must be a finite number"),
        (["--alias", " , "], "--alias"),
        (["--chat-template-file", "/no/such/file"], "--chat-template-file /no/such/file: cannot be read"),
        (["--chat-template-kwargs", "[1]"], "must be a JSON object"),
        (["--chat-template-kwargs", "{"], "--chat-template-kwargs {"),
        (["--slot-save-path", "/no/such/folder"], "is no folder"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings(*words)

    assert message in str(refused.value)


def test_a_model_is_required() -> None:
    with pytest.raises(UsageError, match="-m/--model is missing"):
        read_settings(["--port", "1"])


def test_the_module_knows_every_parameter(tmp_path: Path) -> None:
    xllamacpp = pytest.importorskip("xllamacpp", reason="pip install '.[demo]'")
    words = [word for name in LONG_NAMES.values() for word in (name, SAMPLES.get(name, "1"))]
    for switch in SWITCHES:
        words.append(switch.names[0])

    params = make_params(xllamacpp, read_settings(words))

    assert params.model.path == "m.gguf"
    assert params.sampling.top_k == 1
    assert params.cpuparams.n_threads == 1
    assert params.cache_type_k == xllamacpp.ggml_type.GGML_TYPE_Q8_0
    assert params.sampling.user_sampling_config != 0


def test_the_whole_context_is_never_made_smaller() -> None:
    xllamacpp = pytest.importorskip("xllamacpp", reason="pip install '.[demo]'")

    asked = make_params(xllamacpp, read_settings(["-m", "m.gguf", "-c", "0"]))
    silent = make_params(xllamacpp, read_settings(["-m", "m.gguf"]))

    assert asked.fit_params_min_ctx == -1
    assert silent.fit_params_min_ctx > 0
