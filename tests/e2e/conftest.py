"""A real llama.cpp, a tiny real model, and real `lemonpod serve` processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.tiny_model import write_tiny_gguf

REPOSITORY: Final = Path(__file__).parents[2]
START_TIMEOUT: Final = 30.0
STOP_TIMEOUT: Final = 15.0
PORTS: Final = 10
# Below the kernel's ephemeral ports, another part of them for each test process of this machine.
_engine_ports: Final = itertools.count(10_000 + os.getpid() % 200 * 100, PORTS)

RECIPE: Final = "tiny-llama"
CHECKPOINT: Final = "tests/tiny-gguf:tiny.gguf"
ENGINE_ARGS: Final = (
    *("-m", "lemonpod.demo.llama_server", "--model", "{checkpoint:main}", "--host", "{host}"),
    *("--port", "{port}", "--ctx-size", "{ctx_size}", "--parallel", "2", "--no-warmup", "{custom_args}"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this folder is end to end, and needs the demo extra."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report tells what the servers logged, and what an unexpected status came with."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, LemonpodServer):
                report.sections.append((f"log of {name}", value.log))
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, urllib.error.HTTPError):
            with error:
                report.sections.append((f"body of {error}", error.read().decode()))
    return report


@pytest.fixture(autouse=True, scope="session")
def llama_cpp() -> None:
    pytest.importorskip("xllamacpp", reason="no llama.cpp here: pip install '.[demo]'")


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, written once."""
    return write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def engine_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`lemonpod-llama-server` on the PATH, whether or not this checkout is installed."""
    program = tmp_path / "bin" / "lemonpod-llama-server"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from lemonpod.demo.llama_server import main\n"
        "main()\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def wait_until(condition: Callable[[], object], *, within: float, what: str) -> None:
    """Poll until `condition` holds; fails saying `what` did not come true."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within:.0f} s: {what}")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def is_running(pid: int) -> bool:
    """Whether the process lives; one that only waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_naming(text: str) -> list[str]:
    """The command lines of all processes that name `text`, a folder of one test."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if text in line and process.pid != os.getpid():
            found.append(f"{process.pid}: {line}")
    return found


def manifest(**overrides: Any) -> dict[str, Any]:
    """A manifest that runs our llama.cpp from this checkout."""
    document: dict[str, Any] = {
        "recipe": RECIPE,
        "display_name": "Tiny llama.cpp",
        "api_contract_version": "1",
        "capabilities": ["chat_completion", "completion"],
        "health_probe": {"type": "http", "endpoint": "/health", "timeout_seconds": 30},
        "platforms": {
            "linux": {
                "cpu": {
                    "command": sys.executable,
                    "args": list(ENGINE_ARGS),
                    "working_dir": str(REPOSITORY),
                }
            }
        },
    }
    return document | overrides


@dataclass
class LemonpodServer:
    """One `lemonpod serve` with folders of its own; it may be stopped, killed and started again."""

    root: Path
    port: int = field(default_factory=free_port)
    first_engine_port: int = field(default_factory=lambda: next(_engine_ports))
    process: subprocess.Popen[bytes] | None = None
    more_environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def backends(self) -> Path:
        return self.root / "xdg" / "lemonade" / "backends"

    @property
    def hub(self) -> Path:
        return self.root / "hf" / "hub"

    @property
    def log(self) -> str:
        return (self.root / "server.log").read_text(encoding="utf-8", errors="replace")

    @property
    def environ(self) -> dict[str, str]:
        """Only these two are ours; the rest is what every process has."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "XDG_CONFIG_HOME": str(self.root / "xdg"),
            "HF_HOME": str(self.root / "hf"),
            "HF_HUB_OFFLINE": "1",
            **self.more_environ,
        }

    def prepare(self, weights: Path) -> None:
        """The tiny model as `user.tiny`, the recipe that runs it, and a port range that no other run uses."""
        self.config.mkdir(parents=True)
        ports = {"first_port": self.first_engine_port, "last_port": self.first_engine_port + PORTS - 1}
        (self.config / "config.json").write_text(json.dumps({"lemonpod": ports}), encoding="utf-8")
        self.add_checkpoint(weights)
        self.write_manifest(manifest())
        self.write_models(tiny={"checkpoint": CHECKPOINT, "recipe": RECIPE})

    def write_manifest(self, document: Mapping[str, Any] | str, name: str = "tiny.json") -> Path:
        """Put a manifest into the user's folder, replacing the file in one move as an editor does."""
        self.backends.mkdir(parents=True, exist_ok=True)
        text = document if isinstance(document, str) else json.dumps(document, indent=2)
        path = self.backends / name
        scratch = path.with_suffix(".new")
        scratch.write_text(text, encoding="utf-8")
        scratch.chmod(0o644)
        return scratch.replace(path)

    def write_models(self, **models: Mapping[str, Any]) -> None:
        (self.config / "user_models.json").write_text(json.dumps(models), encoding="utf-8")

    def add_checkpoint(self, weights: Path) -> None:
        """The file as the Hugging Face cache keeps it: a blob, and a snapshot that links to it."""
        repository = self.hub / "models--tests--tiny-gguf"
        snapshot = repository / "snapshots" / "0123abcd"
        for folder in (repository / "blobs", repository / "refs", snapshot):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(weights, repository / "blobs" / "tiny")
        (repository / "refs" / "main").write_text("0123abcd", encoding="utf-8")
        (snapshot / "tiny.gguf").symlink_to(Path("../../blobs/tiny"))

    def start(self) -> None:
        """Start `serve` and wait until it answers."""
        (self.root / "home").mkdir(exist_ok=True)
        serve = ["serve", str(self.root / "cache"), str(self.config), "--port", str(self.port)]
        with (self.root / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lemonpod", *serve],
                env=self.environ,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, within=START_TIMEOUT, what=f"/live answers, or it ended:\n{self.log}")

    def stop(self) -> int:
        """TERM it and return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT)

    def kill(self) -> None:
        """End it as the out-of-memory killer would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> Any:
        return self._json(path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json(path, body)

    def error(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and body of a request that has to fail."""
        with pytest.raises(urllib.error.HTTPError) as failed:
            self.post(path, body)
        with failed.value as error:
            return error.code, json.load(error)

    def open(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The raw answer, to be read as it arrives."""
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        return urllib.request.urlopen(request, timeout=30)

    def loaded(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get("/api/v1/health")["all_models_loaded"]
        return items

    def load(self, model: str) -> int:
        """Load a model and return its engine's pid."""
        self.post("/api/v1/load", {"model_name": model})
        [item] = [item for item in self.loaded() if item["model_name"] == model]
        pid: int = item["pid"]
        return pid

    def _json(self, path: str, body: Mapping[str, Any] | None) -> Any:
        with self.open(path, body) as response:
            return json.load(response)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            pytest.fail(f"serve ended with code {self.process.returncode}:\n{self.log}")
        with contextlib.suppress(OSError):
            return bool(self.get("/live") == {"status": "ok"})
        return False


@pytest.fixture
def lemonpod_server(tmp_path: Path, tiny_gguf: Path) -> Iterator[LemonpodServer]:
    """A server with the tiny model as `user.tiny`; at the end it must stop cleanly and leave nothing."""
    server = LemonpodServer(tmp_path)
    server.prepare(tiny_gguf)
    server.start()
    try:
        yield server
    finally:
        code = server.stop() if server.process is not None and server.process.poll() is None else 0
        left = processes_naming(str(tmp_path))
        for line in left:
            psutil.Process(int(line.partition(":")[0])).kill()
    assert code == 0, server.log
    assert not left


@pytest.fixture
def server_with_embeddings(lemonpod_server: LemonpodServer) -> LemonpodServer:
    """Also with `user.embed`, a model that is deployed for embeddings."""
    lemonpod_server.write_manifest(
        manifest(
            recipe="tiny-embed",
            capabilities=["embeddings"],
            capability_enable_args={"embeddings": ["--embeddings", "--pooling", "mean"]},
        ),
        "embed.json",
    )
    lemonpod_server.write_models(
        tiny={"checkpoint": CHECKPOINT, "recipe": RECIPE},
        embed={"checkpoint": CHECKPOINT, "recipe": "tiny-embed"},
    )
    return lemonpod_server
