"""llama-server's flags: one table says which flag sets which of llama.cpp's parameters.

A flag that is not in it is refused: a server that ignored what it was asked for would be a different server.
The words are read here rather than by argparse, which takes `-nkvo` for `-n kvo` and refuses a value that
starts with a dash; llama-server does neither.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_UINT32_MAX: Final = 0xFFFF_FFFF
_HELP_COLUMN: Final = 44

Setting = tuple[str, object]
"""A parameter's dotted name in `xllamacpp.CommonParams`, and its value."""


class UsageError(Exception):
    """A flag that is unknown, incomplete, or has a wrong value; the message names it."""


class Member(NamedTuple):
    """A member of one of the module's enums, by name: the module is imported after the flags are read."""

    enum: str
    name: str


class Option(NamedTuple):
    """A flag with a value; `convert` turns the text into what `attribute` takes, or raises ValueError."""

    names: tuple[str, ...]
    metavar: str
    attribute: str
    convert: Callable[[str], object]
    help: str


class Switch(NamedTuple):
    """A flag without a value, and all that it sets."""

    names: tuple[str, ...]
    settings: tuple[Setting, ...]
    help: str


def _integer(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = int(text) if re.fullmatch(r"-?[0-9]{1,10}", text) else None
        if value is None or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return convert


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _slots(text: str) -> int:
    value = _integer(-1)(text)
    if value == 0:
        raise ValueError("must be at least 1, or -1 for automatic")
    return value


def _word(enum: str, members: Mapping[str, str]) -> Callable[[str], Member]:
    def convert(text: str) -> Member:
        if text not in members:
            raise ValueError(f"must be one of {', '.join(members)}")
        return Member(enum, members[text])

    return convert


def _seed(text: str) -> int:
    value = _integer(-1, _UINT32_MAX)(text)
    return _UINT32_MAX if value == -1 else value  # llama.cpp's "a fresh one each time"


def _cpu_layers(text: str) -> int:
    if text not in {"0", "auto"}:
        raise ValueError("this program runs on the CPU: only 0 and auto are possible")
    return 0 if text == "0" else -1


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ValueError("must not be empty")
    return words


def _text_file(text: str) -> str:
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read: {error}") from error


def _folder(text: str) -> str:
    if not Path(text).is_dir():
        raise ValueError(f"{text} is no folder")
    return text.rstrip("/") + "/"  # llama.cpp puts file names straight behind it


def _json_object(text: str) -> dict[str, str]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    return {name: json.dumps(value) for name, value in document.items()}


_CACHE_TYPE: Final = _word(
    "ggml_type",
    {
        "f32": "GGML_TYPE_F32",
        "f16": "GGML_TYPE_F16",
        "bf16": "GGML_TYPE_BF16",
        "q8_0": "GGML_TYPE_Q8_0",
        "q4_0": "GGML_TYPE_Q4_0",
        "q4_1": "GGML_TYPE_Q4_1",
        "iq4_nl": "GGML_TYPE_IQ4_NL",
        "q5_0": "GGML_TYPE_Q5_0",
        "q5_1": "GGML_TYPE_Q5_1",
    },
)
_POOLING: Final = _word(
    "llama_pooling_type",
    {
        "none": "LLAMA_POOLING_TYPE_NONE",
        "mean": "LLAMA_POOLING_TYPE_MEAN",
        "cls": "LLAMA_POOLING_TYPE_CLS",
        "last": "LLAMA_POOLING_TYPE_LAST",
        "rank": "LLAMA_POOLING_TYPE_RANK",
    },
)
_FLASH_ATTENTION: Final = _word(
    "llama_flash_attn_type",
    {
        "on": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
        "off": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
        "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
    },
)
_LOAD_MODE: Final = _word(
    "llama_load_mode",
    {
        "auto": "LLAMA_LOAD_MODE_AUTO",
        "none": "LLAMA_LOAD_MODE_NONE",
        "mmap": "LLAMA_LOAD_MODE_MMAP",
        "mlock": "LLAMA_LOAD_MODE_MLOCK",
        "mmap+mlock": "LLAMA_LOAD_MODE_MMAP_MLOCK",
        "dio": "LLAMA_LOAD_MODE_DIRECT_IO",
    },
)
_ROPE_SCALING: Final = _word(
    "llama_rope_scaling_type",
    {
        "none": "LLAMA_ROPE_SCALING_TYPE_NONE",
        "linear": "LLAMA_ROPE_SCALING_TYPE_LINEAR",
        "yarn": "LLAMA_ROPE_SCALING_TYPE_YARN",
    },
)
_REASONING_FORMAT: Final = _word(
    "common_reasoning_format",
    {
        "none": "COMMON_REASONING_FORMAT_NONE",
        "auto": "COMMON_REASONING_FORMAT_AUTO",
        "deepseek": "COMMON_REASONING_FORMAT_DEEPSEEK",
        "deepseek-legacy": "COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY",
    },
)

OPTIONS: Final = (
    Option(("-m", "--model"), "FILE", "model.path", str, "the model, a GGUF file"),
    Option(("-mm", "--mmproj"), "FILE", "mmproj.path", str, "multimodal projector, a GGUF file"),
    Option(
        ("-a", "--alias"), "NAMES", "model_alias", _words, "names of the model in the API, comma-separated"
    ),
    Option(("--host",), "HOSTS", "hostnames", _words, "where to listen, comma-separated (127.0.0.1)"),
    Option(("--port",), "PORT", "port", _integer(0, 65535), "port to listen on (8080); 0: any free one"),
    Option(("--api-key",), "KEYS", "api_keys", _words, "keys to ask for, comma-separated"),
    Option(("--api-prefix",), "PREFIX", "api_prefix", str, "path prefix of all routes"),
    Option(("--cors-origins",), "ORIGINS", "cors_origins", str, "allowed origins (localhost)"),
    Option(("--threads-http",), "N", "n_threads_http", _integer(-1), "threads for HTTP requests"),
    Option(("--sse-ping-interval",), "N", "sse_ping_interval", _integer(-1), "seconds between stream pings"),
    Option(("-c", "--ctx-size"), "N", "n_ctx", _integer(0), "context size; 0: the model's own"),
    Option(("-n", "--predict", "--n-predict"), "N", "n_predict", _integer(-1), "most tokens to generate"),
    Option(("-b", "--batch-size"), "N", "n_batch", _integer(1), "logical batch size (2048)"),
    Option(("-ub", "--ubatch-size"), "N", "n_ubatch", _integer(1), "physical batch size (512)"),
    Option(("-np", "--parallel"), "N", "n_parallel", _slots, "slots; -1: automatic (the default)"),
    Option(("--keep",), "N", "n_keep", _integer(-1), "prompt tokens to keep when the context shifts"),
    Option(("-t", "--threads"), "N", "cpuparams.n_threads", _integer(-1), "threads for generation"),
    Option(("-tb", "--threads-batch"), "N", "cpuparams_batch.n_threads", _integer(-1), "threads for prompts"),
    Option(("-ngl", "--gpu-layers", "--n-gpu-layers"), "N", "n_gpu_layers", _cpu_layers, "only 0 and auto"),
    Option(("-fa", "--flash-attn"), "WORD", "flash_attn_type", _FLASH_ATTENTION, "on, off or auto"),
    Option(("-ctk", "--cache-type-k"), "TYPE", "cache_type_k", _CACHE_TYPE, "type of the K cache (f16)"),
    Option(("-ctv", "--cache-type-v"), "TYPE", "cache_type_v", _CACHE_TYPE, "type of the V cache (f16)"),
    Option(("-cram", "--cache-ram"), "MIB", "cache_ram_mib", _integer(-1), "prompt cache in memory (8192)"),
    Option(("--cache-reuse",), "N", "n_cache_reuse", _integer(0), "smallest chunk to reuse by shifting"),
    Option(("--slot-save-path",), "FOLDER", "slot_save_path", _folder, "where slots may be saved"),
    Option(("-sps", "--slot-prompt-similarity"), "N", "slot_prompt_similarity", _number, "to reuse a slot"),
    Option(
        ("-lm", "--load-mode"), "WORD", "load_mode", _LOAD_MODE, "auto, none, mmap, mlock, mmap+mlock or dio"
    ),
    Option(("--pooling",), "WORD", "pooling_type", _POOLING, "none, mean, cls, last or rank"),
    Option(("--rope-scaling",), "WORD", "rope_scaling_type", _ROPE_SCALING, "none, linear or yarn"),
    Option(("--rope-freq-base",), "N", "rope_freq_base", _number, "RoPE base frequency"),
    Option(("--rope-freq-scale",), "N", "rope_freq_scale", _number, "RoPE frequency scale"),
    Option(
        ("--chat-template",), "TEMPLATE", "chat_template", str, "Jinja text, or the name of a built-in one"
    ),
    Option(("--chat-template-file",), "FILE", "chat_template", _text_file, "a file with the template"),
    Option(("--chat-template-kwargs",), "JSON", "default_template_kwargs", _json_object, "for the template"),
    Option(
        ("--reasoning-format",), "WORD", "reasoning_format", _REASONING_FORMAT, "what becomes of thoughts"
    ),
    Option(("-s", "--seed"), "N", "sampling.seed", _seed, "random seed; -1: a fresh one"),
    Option(("--temp", "--temperature"), "N", "sampling.temp", _number, "temperature (0.8)"),
    Option(("--top-k",), "N", "sampling.top_k", _integer(0), "top-k (40)"),
    Option(("--top-p",), "N", "sampling.top_p", _number, "top-p (0.95)"),
    Option(("--min-p",), "N", "sampling.min_p", _number, "min-p (0.05)"),
    Option(
        ("--repeat-last-n",), "N", "sampling.penalty_last_n", _integer(-1), "tokens that penalties look at"
    ),
    Option(("--repeat-penalty",), "N", "sampling.penalty_repeat", _number, "penalty for repetition (1.0)"),
    Option(("--presence-penalty",), "N", "sampling.penalty_present", _number, "penalty for presence (0.0)"),
    Option(("--frequency-penalty",), "N", "sampling.penalty_freq", _number, "penalty for frequency (0.0)"),
    Option(("-lv", "--verbosity", "--log-verbosity"), "N", "verbosity", _integer(0), "0 none to 5 all (3)"),
)

SWITCHES: Final = (
    Switch(("--embedding", "--embeddings"), (("embedding", True),), "serve embeddings"),
    Switch(
        ("--rerank", "--reranking"),
        (("embedding", True), ("pooling_type", Member("llama_pooling_type", "LLAMA_POOLING_TYPE_RANK"))),
        "serve reranking",
    ),
    Switch(("--jinja",), (("use_jinja", True),), "use the Jinja chat template (the default)"),
    Switch(
        ("--no-jinja",), (("use_jinja", False),), "match the chat template with llama.cpp's built-in ones"
    ),
    Switch(("--metrics",), (("endpoint_metrics", True),), "serve /metrics"),
    Switch(("--props",), (("endpoint_props", True),), "let POST /props change properties"),
    Switch(("--slots",), (("endpoint_slots", True),), "serve /slots (the default)"),
    Switch(("--no-slots",), (("endpoint_slots", False),), "no /slots"),
    Switch(("--ui", "--webui"), (("ui", True),), "serve llama.cpp's web page"),
    Switch(("--no-ui", "--no-webui"), (("ui", False),), "no web page (the default)"),
    Switch(("--warmup",), (("warmup", True),), "run the model once before it is ready (the default)"),
    Switch(("--no-warmup",), (("warmup", False),), "no warm-up run"),
    Switch(("-cb", "--cont-batching"), (("cont_batching", True),), "continuous batching (the default)"),
    Switch(("-nocb", "--no-cont-batching"), (("cont_batching", False),), "no continuous batching"),
    Switch(("--context-shift",), (("ctx_shift", True),), "shift the context when it is full"),
    Switch(("--no-context-shift",), (("ctx_shift", False),), "end when the context is full (the default)"),
    Switch(("--cache-prompt",), (("cache_prompt", True),), "reuse common prompt prefixes (the default)"),
    Switch(("--no-cache-prompt",), (("cache_prompt", False),), "no reuse of prompts"),
    Switch(("-kvu", "--kv-unified"), (("kv_unified", True),), "one KV buffer for all slots"),
    Switch(("-no-kvu", "--no-kv-unified"), (("kv_unified", False),), "a KV buffer for each slot"),
    Switch(("--swa-full",), (("swa_full", True),), "full-size cache for sliding windows"),
    Switch(("--check-tensors",), (("check_tensors", True),), "check the model's values"),
    Switch(("--reuse-port",), (("reuse_port", True),), "let several servers share the port"),
    Switch(("-v", "--verbose", "--log-verbose"), (("verbosity", 2**31 - 1),), "log everything"),
    Switch(("--offline",), (("offline", True),), "no network (always so)"),
)

_DEFAULTS: Final[tuple[Setting, ...]] = (
    ("hostnames", ["127.0.0.1"]),
    ("port", 8080),
    ("n_parallel", -1),
    ("offline", True),
    ("ui", False),
    # llama.cpp would let a script of any web page talk to the engine.
    ("cors_origins", "localhost"),
)


def read_settings(argv: Sequence[str]) -> list[Setting]:
    """The defaults, then what the flags set, in their order; raises UsageError."""
    table: dict[str, Option | Switch] = {name: flag for flag in (*OPTIONS, *SWITCHES) for name in flag.names}
    settings = list(_DEFAULTS)
    words = iter(argv)
    for word in words:
        name, equals, text = word.partition("=")
        match table.get(name):
            case Option() as option:
                value = text if equals else next(words, None)
                if value is None:
                    raise UsageError(f"{name} needs a value ({option.metavar}: {option.help})")
                try:
                    settings.append((option.attribute, option.convert(value)))
                except ValueError as error:
                    raise UsageError(f"{name} {value}: {error}") from error
            case Switch() as switch:
                if equals:
                    raise UsageError(f"{name} takes no value, but got {text!r}")
                settings.extend(switch.settings)
            case None:
                raise UsageError(f"{name}: this server has no such flag; --help lists what it can do")
    if "model.path" not in dict(settings):
        raise UsageError("-m/--model is missing: the GGUF file to serve")
    return settings


def help_text() -> str:
    """Every flag on a line."""
    lines = ["usage: lemonpod-llama-server -m FILE [flags]", ""]
    for option in OPTIONS:
        lines.append(f"  {', '.join(option.names)} {option.metavar}".ljust(_HELP_COLUMN) + f" {option.help}")
    for switch in SWITCHES:
        lines.append(f"  {', '.join(switch.names)}".ljust(_HELP_COLUMN) + f" {switch.help}")
    return "\n".join(lines)
