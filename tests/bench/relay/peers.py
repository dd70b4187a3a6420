"""The peers, each brought up in front of a stand-in engine, on the loopback and in a folder of its own."""

from __future__ import annotations

import json
import os
import platform
import random
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import psutil

from lemonpod import __version__ as lemonpod_version
from tests.bench import install
from tests.bench.figures import OURS
from tests.bench.install import MissingError, said_by
from tests.bench.relay.accounting import ProcessTree
from tests.bench.relay.client import API_KEY, MODEL, Address, chat_request
from tests.bench.relay.engine import MODULE
from tests.bench.relay.metrics import DIRECT

REPOSITORY: Final = Path(__file__).parents[3]
_PORTS: Final = range(21_000, 30_000)
_START: Final = 90.0  # LiteLLM needs twenty seconds on a slow machine
_STOP: Final = 20.0
_USUAL_PROXY: Final = "tests.bench.relay.usual_proxy"
STAND_IN: Final = (sys.executable, "-m", MODULE, "--port", "{port}")
"""How to start the stand-in engine; its port goes where the word in braces is."""


class Work(Enum):
    """What a peer can be asked to do."""

    REQUESTS = auto()
    STREAMS = auto()
    FILES = auto()


_ALL: Final = frozenset(Work)
_AIOHTTP: Final = f"aiohttp {version('aiohttp')}, Python {platform.python_version()}"
_UVLOOP: Final = f"uvloop {version('uvloop')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a peer is given: its folder and port, the engine to stand before, programs that were made."""

    folder: Path
    port: int
    engine: Address
    cache: Path


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a peer; its environment is the caller's and `environ`."""

    argv: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """One peer of the table."""

    command: Callable[[Place], Command]
    version: Callable[[Path], str]
    """What exactly it is; takes the folder of programs that were made."""
    work: frozenset[Work] = _ALL
    slow: bool = False
    """It carries no more than a few of the streams that the others carry, and is left out where haste is."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that answers. `tree` is None for the engine itself, before which nothing stands."""

    name: str
    address: Address
    tree: ProcessTree | None
    work: frozenset[Work]
    version: str
    slow: bool = False


def nginx(place: Place) -> Command:
    """One worker that buffers nothing and keeps its connections to the engine."""
    folder = place.folder
    temporary = "\n".join(
        f"  {name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"""
{"user root;" if os.geteuid() == 0 else ""}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off;
{temporary}
  client_max_body_size 0;
  keepalive_requests 1000000000;
  upstream engine {{
    server 127.0.0.1:{place.engine.port};
    keepalive 256;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{place.port} backlog=2048;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
    }}
  }}
}}
"""
    )
    return Command([_nginx(), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "error.log"])


def _nginx() -> str:
    return install.on_path("nginx", "nginx-light")


def usual_aiohttp(place: Place) -> Command:
    """aiohttp's server and client, as its documentation shows them: on asyncio's own loop."""
    return Command([sys.executable, "-m", _USUAL_PROXY, str(place.port), place.engine.url])


def aiohttp_on_uvloop(place: Place) -> Command:
    """The same on uvloop."""
    return Command([*usual_aiohttp(place).argv, "uvloop"])


def litellm(place: Place) -> Command:
    """One worker; telemetry and price lists from the network are switched off."""
    program = install.litellm(place.cache)
    config = {
        "model_list": [
            {
                "model_name": MODEL,
                "litellm_params": {
                    "model": f"openai/{MODEL}",
                    "api_base": f"{place.engine.url}/v1",
                    "api_key": "none",
                },
            }
        ],
        "general_settings": {"master_key": API_KEY},
    }
    path = place.folder / "config.json"
    path.write_text(json.dumps(config))  # which is YAML too
    argv = [program, "--config", str(path), "--host", "127.0.0.1", "--port", str(place.port)]
    return Command(
        [*argv, "--num_workers", "1", "--telemetry", "False"],
        {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "REPEATED_STREAMING_CHUNK_LIMIT": "1000000",  # the stand-in engine says but one word
        },
    )


def llama_swap(place: Place) -> Command:
    """It starts an engine of its own."""
    return llama_swap_with(place, {MODEL: STAND_IN})


def llama_swap_with(place: Place, engines: Mapping[str, Sequence[str]]) -> Command:
    """In front of these engines, by the model that each serves, of which one runs at a time."""
    program = install.llama_swap(place.cache)
    config = {
        "logLevel": "error",
        "startPort": free_port(),
        "apiKeys": [API_KEY],
        "models": {
            name: {
                "cmd": shlex.join(argv).replace("{port}", "${PORT}"),
                "checkEndpoint": "/health",
                "concurrencyLimit": 10_000,  # 10 otherwise; the others have no limit
            }
            for name, argv in engines.items()
        },
    }
    path = place.folder / "config.yaml"
    path.write_text(json.dumps(config))
    return Command([program, "-config", str(path), "-listen", f"127.0.0.1:{place.port}"])


def lemonpod(place: Place) -> Command:
    """As a user runs it: a manifest, a registered model, an API key; it starts an engine of its own."""
    return lemonpod_with(place, manifests=[manifest("bench-engine")], models={MODEL: model("bench-engine")})


def lemonpod_with(
    place: Place, *, manifests: Sequence[Mapping[str, Any]], models: Mapping[str, Mapping[str, Any]]
) -> Command:
    """`lemonpod serve` in front of these manifests and models."""
    config, xdg = place.folder / "config", place.folder / "xdg"
    backends = xdg / "lemonade" / "backends"
    config.mkdir()
    backends.mkdir(parents=True)
    for document in manifests:
        path = backends / f"{document['recipe']}.json"
        path.write_text(json.dumps(document))
        path.chmod(0o644)
    first = free_port()
    ports = {"first_port": first, "last_port": first}
    (config / "config.json").write_text(json.dumps({"lemonpod": ports}))
    (config / "user_models.json").write_text(json.dumps(models))
    serve = ["serve", str(place.folder / "cache"), str(config), "--host", "127.0.0.1"]
    environ = {
        "HOME": str(place.folder),
        "XDG_CONFIG_HOME": str(xdg),
        "HF_HOME": str(place.folder / "hf"),
        "LEMONADE_API_KEY": API_KEY,
    }
    return Command([sys.executable, "-m", "lemonpod", *serve, "--port", str(place.port)], environ)


def manifest(recipe: str, argv: Sequence[str] = STAND_IN, **probe: Any) -> dict[str, Any]:
    """A manifest that runs an engine on the port that is put into its arguments."""
    block = {"command": argv[0], "args": list(argv[1:]), "working_dir": str(REPOSITORY)}
    return {
        "recipe": recipe,
        "display_name": "An engine to be measured",
        "api_contract_version": "1",
        "model_management": "self_managed",
        "capabilities": ["chat_completion", "embeddings", "transcription", "tts"],
        "health_probe": {"type": "http", "endpoint": "/health", "timeout_seconds": 30, **probe},
        "platforms": {"linux": {"cpu": block}},
    }


def model(recipe: str) -> dict[str, Any]:
    """An entry of user_models.json."""
    return {"checkpoint": "tests/stand-in", "recipe": recipe}


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "nginx": Kind(nginx, lambda cache: said_by([_nginx(), "-v"]).removeprefix("nginx version: ")),
        "aiohttp": Kind(usual_aiohttp, lambda cache: f"{_AIOHTTP}, asyncio's loop"),
        "aiohttp+uvloop": Kind(aiohttp_on_uvloop, lambda cache: f"{_AIOHTTP}, {_UVLOOP}"),
        "litellm": Kind(
            litellm, install.litellm_version, frozenset({Work.REQUESTS, Work.STREAMS}), slow=True
        ),
        "llama-swap": Kind(llama_swap, install.llama_swap_version),
        OURS: Kind(lemonpod, lambda cache: f"lemonpod {lemonpod_version}, {_AIOHTTP}, {_UVLOOP}"),
    }
)


def on_port(argv: Sequence[str], port: int) -> list[str]:
    """How to start an engine there."""
    return [word.replace("{port}", str(port)) for word in argv]


@contextmanager
def engine(folder: Path) -> Iterator[Peer]:
    """The stand-in engine that those share which start none."""
    address = Address(free_port())
    with running("engine", Command(on_port(STAND_IN, address.port)), address, folder):
        yield Peer(DIRECT, address, None, _ALL, "the stand-in engine itself")


@contextmanager
def peer(name: str, engine_address: Address, folder: Path, cache: Path) -> Iterator[Peer]:
    """The peer, ready to be measured; raises MissingError where it cannot be had."""
    kind = KINDS[name]
    mine = folder / name
    mine.mkdir()
    address = Address(free_port())
    command = kind.command(Place(folder=mine, port=address.port, engine=engine_address, cache=cache))
    with running(name, command, address, mine) as process:
        yield Peer(name, address, ProcessTree(process.pid), kind.work, kind.version(cache), kind.slow)


@contextmanager
def running(name: str, command: Command, address: Address, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start it, wait until it answers a chat, and end it with everything that it started."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command.argv,
            env={**os.environ, **command.environ},
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _START
        while (problem := _problem(address)) is not None:
            if process.poll() is not None or time.monotonic() > deadline:
                last = log.read_text(errors="replace").strip()[-600:]
                raise MissingError(f"it did not come up: {problem}; its log ends with: {last}")
            time.sleep(0.05)
        yield process
    finally:
        _end(process)


def _problem(address: Address) -> str | None:
    """Why a chat is not answered, if it is not."""
    try:
        with closing(socket.create_connection(address.pair, _START)) as connection:
            connection.sendall(chat_request())
            answer = connection.recv(65536)
    except OSError as error:
        return str(error)
    return None if answer.startswith(b"HTTP/1.1 200") else answer.decode(errors="replace")[:300]


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, left = psutil.wait_procs(below, timeout=2)
    for one in left:
        one.kill()


def free_port() -> int:
    """One that nobody has, and below those that the kernel gives to outgoing connections."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
