"""Rubbish in the files that people edit: told with file and key, and what is right in them goes on."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod import bootstrap
from lemonpod.cli.app import EXIT_BUG, run
from lemonpod.config import Folders, load_settings, settle
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import ConfigError, LemonpodError
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.models.registry import ModelRegistry
from lemonpod.reconfigure import Configuration
from tests.factories import make_document, make_facts
from tests.fakes.driver import Connection
from tests.fuzz.near import near
from tests.unit.gateway.world import RECIPE, Starter
from tests.unit.models.hub import make_repo

TEXTS: Final = st.sampled_from(
    ["", "m", "user.m", "auto", "-1", "a/b", "a/b:c.gguf", "/", "~", "../x", "a\0b", "a\nb", "\x1b[2J",
     "\ud800", "é🍋", "x" * 300, "/" + "x" * 300, "a/b:" + "x/" * 3000, "C:\\x", "{ctx_size}", "--port",
     "embeddings"]
)  # fmt: skip
NUMBERS: Final = st.sampled_from(
    [
        0,
        1,
        -1,
        -2,
        4096,
        65536,
        1 << 31,
        1 << 63,
        10**99,
        10**101,
        0.0,
        0.5,
        -0.5,
        1e300,
        1e-300,
        float("nan"),
    ]
)
SCALARS: Final = st.none() | st.booleans() | TEXTS | NUMBERS
DEEP: Final = st.integers(50, 900).map(lambda depth: json.loads("[" * depth + "]" * depth))
ANYTHING: Final = DEEP | st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
CONFIG: Final[dict[str, Any]] = {
    "host": "localhost",
    "port": 13305,
    "log_level": "info",
    "models_dir": "auto",
    "extra_models_dir": "extra",
    "offline": True,
    "max_loaded_models": 1,
    "ctx_size": 4096,
    "auto_evict": True,
    "downsize_idle_timeout": 60,
    "evict_idle_timeout": 300.0,
    "telemetry": {"enabled": False},
    RECIPE: {"ctx_size": 512, "args": "--x", "device": "cpu"},
    "lemonpod": {
        name: value
        for kind in (EngineSettings(), GatewaySettings())
        for name, value in asdict(kind).items()
        if isinstance(value, int | float)
    }
    | {"container_driver": "auto"},
}
MODELS: Final[dict[str, Any]] = {
    "m": {
        "recipe": RECIPE,
        "checkpoints": {"main": "org/repo:m.gguf", "mmproj": "org/repo:p.gguf"},
        "labels": ["vision", "custom"],
        "recipe_options": {"ctx_size": 512, "args": ["--x"], "pinned": False, "evict_idle_timeout": 5},
        "size": 1.5,
        "source": "local_upload",
        "registry_source": "modelscope",
    },
    "user.n": {"recipe": RECIPE, "checkpoint": "/a/b.gguf", "mmproj": "p.gguf", "suggested": True},
}
OPTIONS: Final[dict[str, Any]] = {"user.m": {"threads": 3, "merge_args": True}, "n": {"ctx_size": -1}}
ALIASES: Final[dict[str, Any]] = {"short": "user.m", "n": "m"}


@st.composite
def contents(draw: st.DrawFn, good: dict[str, Any]) -> bytes:
    """Of a file: mostly JSON that resembles the good one, in a few cases hardly that."""
    data = json.dumps(draw(near(good, ANYTHING))).encode()
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 4)) :]
    return data


FILES: Final = st.fixed_dictionaries(
    {
        "config.json": contents(CONFIG),
        "user_models.json": contents(MODELS),
        "recipe_options.json": contents(OPTIONS),
        "aliases.json": contents(ALIASES),
    }
)


@given(contents(CONFIG))
@settings(max_examples=200)
def test_settings_are_read_or_refused_with_file_and_key(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "config.json")
        file.write_bytes(data)
        try:
            load_settings({"HOME": name}, Folders(cache=Path(name), config=Path(name)))
        except ConfigError as error:
            said = error.message
        else:
            return
    assert said.startswith(f"{file}: ")
    assert "line " in said or any(key in said for key in keys(data)), said


def keys(data: bytes) -> Iterator[str]:
    """The keys at the top and in our own section; all is one where the file is no JSON."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        yield ""
        return
    ours = document.get("lemonpod")
    yield from (*document, *(ours if isinstance(ours, dict) else ()))


@contextmanager
def home(files: Mapping[str, bytes]) -> Iterator[Path]:
    """A user's home with these files, a recipe and a model of it; the config folder."""
    with tempfile.TemporaryDirectory() as name:
        config = Path(name, ".config/lemonade")
        (config / "backends").mkdir(parents=True)
        manifest = config / "backends" / f"{RECIPE}.json"
        manifest.write_text(json.dumps(make_document(recipe=RECIPE)))
        manifest.chmod(0o644)
        make_repo(Path(name, ".cache/huggingface/hub"), "m.gguf", "p.gguf")
        put(files, config=config, cache=Path(name, ".cache/lemonade"))
        environ = {"HOME": name, "PATH": os.environ["PATH"]}
        with patch.dict(os.environ, environ, clear=True), patch.object(bootstrap, "detect", make_facts):
            yield config


def put(files: Mapping[str, bytes], *, config: Path, cache: Path) -> None:
    cache.mkdir(exist_ok=True)
    for name, data in files.items():
        ((cache if name == "aliases.json" else config) / name).write_bytes(data)


def command(*words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(words)
    return code, out.getvalue(), err.getvalue()


COMMANDS: Final = (
    ("list",),
    ("manifest", "plan", RECIPE, "--model", "m"),
    ("manifest", "plan", RECIPE, "--model", "n", "--option", "args=x", "--json"),
    ("doctor", "--port", "1"),
    ("list", "--json"),
)


@given(FILES, st.sampled_from(COMMANDS))
@settings(max_examples=35)
def test_commands_say_what_is_wrong(files: dict[str, bytes], words: tuple[str, ...]) -> None:
    with home(files) as config:
        code, out, err = command(*words)
        assert code != EXIT_BUG, err
        if code == 0 and "--json" in words:
            json.loads(out)
        before = (config / "user_models.json").read_bytes()
        code, _, err = command("register", "new", "--recipe", RECIPE, "--checkpoint", "org/repo:m.gguf")
        assert code != EXIT_BUG, err
        if code == 0:
            assert "user.new" in ModelRegistry(config).load().entries
        else:
            assert (config / "user_models.json").read_bytes() == before


async def answers(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


REQUESTS: Final = (
    ("GET", "/v1/models?show_all=true", None),
    ("GET", "/v1/models/m", None),
    ("GET", "/v1/models/m/options", None),
    ("GET", "/v1/models/m/files", None),
    ("GET", "/v1/health", None),
    ("GET", "/v1/system-info", None),
    ("GET", "/api/tags", None),
    ("POST", "/api/show", {"model": "n"}),
    ("POST", "/v1/load", {"model_name": "m"}),
    ("POST", "/v1/load", {"model_name": "short", "args": "x", "save_options": True}),
    ("POST", "/v1/load", {"model_name": "n", "evict_idle_timeout": 10**400, "save_options": True}),
    ("POST", "/v1/load", {"model_name": "n", "ctx_size": 10**400, "evict_weight_factor": 5e-324}),
    ("POST", "/v1/models/n/options", {"threads": 1}),
    ("POST", "/v1/models/m/options", {"args": json.loads("[" * 100 + "]" * 100)}),
    ("POST", "/v1/chat/completions", {"model": "m"}),
    ("GET", "/internal/aliases", None),
)


CHANGES: Final = st.tuples(
    st.just("POST"), st.sampled_from(["/internal/set", "/v1/params"]), near(CONFIG, ANYTHING)
)


@given(st.lists(FILES, min_size=1, max_size=3), st.data())
@settings(max_examples=30)
async def test_a_server_goes_on(versions: list[dict[str, bytes]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with Starter(Path(name)) as start:
            world = await start(answers)
            for files in versions:
                put(files, config=Path(name), cache=Path(name, "cache"))
                requests = data.draw(st.permutations([*REQUESTS, data.draw(CHANGES)]))
                for method, target, body in requests:
                    sent = b"" if body is None else json.dumps(body).encode()
                    reply = await world.request(method, target, {}, sent)
                    assert b"Internal server error" not in reply.body, (target, body)
                    assert reply.json is not None


@given(contents(CONFIG), near(CONFIG, ANYTHING))
def test_what_is_kept_can_be_read(before: bytes, changes: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folders = Folders(cache=Path(name), config=Path(name))
        file = Path(name, "config.json")
        file.write_bytes(before)
        configuration = Configuration(settle([], {}, folders), {}, lambda _: None)
        try:
            asyncio.run(configuration.keep(json.loads(json.dumps(changes))))
        except LemonpodError:
            assert file.read_bytes() == before
        else:
            load_settings({}, folders)
