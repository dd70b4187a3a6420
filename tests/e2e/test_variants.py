"""Real servers as variants of built-in backends, and as these themselves."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import REPOSITORY, LemonpodServer, manifest
from tests.lab.errors import LabError
from tests.lab.native import make_programs
from tests.tiny_whisper import make_tone, write_tiny_whisper

FORK = {
    "recipe": "fork",
    "variant_of": "llamacpp",
    "capabilities": ["chat_completion", "completion", "embeddings", "reranking", "slots", "tokenize"],
    "capability_enable_args": {"embeddings": ["--pooling", "mean"]},
    "platforms": {"linux": {"cpu": {"binary": "llama-server", "argv_extra": ["--no-warmup"]}}},
}
BOUNDARY = "the-boundary"
pytestmark = pytest.mark.timeout(300)  # the native servers may have to be fetched first


def console_program(folder: Path) -> None:
    """Our own console program, under the name that the backend knows."""
    program = folder / "llama-server"
    program.write_text(
        f"#!{sys.executable}\n"
        f"import sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from lemonpod.demo.llama_server import main\nmain()\n"
    )
    program.chmod(0o755)


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `llama-server` and `whisper-server`."""
    folder = tmp_path_factory.mktemp("native")
    try:
        make_programs(folder)
    except LabError as error:
        pytest.skip(f"no native servers: {error}")
    return folder


@pytest.fixture(params=["console", "native"])
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a `llama-server`."""
    if request.param == "native":
        folder: Path = request.getfixturevalue("native")
        return folder
    folder = tmp_path / "programs"
    folder.mkdir()
    console_program(folder)
    return folder


@pytest.fixture
def server(tmp_path: Path, tiny_gguf: Path, programs: Path) -> Iterator[LemonpodServer]:
    """A server whose PATH has the programs, with one model for each mode of a variant."""
    yield from _serving(tmp_path, tiny_gguf, programs)


@pytest.fixture
def hearing(tmp_path: Path, tiny_gguf: Path, native: Path) -> Iterator[LemonpodServer]:
    """The same, with whisper.cpp's server."""
    yield from _serving(tmp_path, tiny_gguf, native)


def _serving(root: Path, weights: Path, programs: Path) -> Iterator[LemonpodServer]:
    server = LemonpodServer(root, more_environ={"PATH": f"{programs}:{os.environ['PATH']}"})
    server.prepare(weights)
    server.write_manifest(manifest(**FORK))
    ear = write_tiny_whisper(root / "whisper.bin")
    labelled = {"embed": ["embeddings"], "rank": ["reranking"], "chat": []}
    server.write_models(
        **{
            name: {"checkpoint": str(weights), "recipe": "fork", "labels": labels}
            for name, labels in labelled.items()
        },
        own={"checkpoint": str(weights), "recipe": "llamacpp"},
        ear={"checkpoint": str(ear), "recipe": "whispercpp"},
    )
    server.start()
    try:
        yield server
    finally:
        assert server.stop() == 0, server.log


def test_a_variant_of_llama_cpp_answers_chat_embeddings_and_rerank(server: LemonpodServer) -> None:
    messages = [{"role": "user", "content": "the lemon"}]
    for model in ("chat", "own"):
        chat = server.post(
            "/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": 4, "temperature": 0}
        )
        assert chat["usage"]["completion_tokens"] == 4
        assert chat["model"] == model

    one, other = server.post("/v1/embeddings", {"model": "embed", "input": ["the lemon", "a pod"]})["data"]
    assert len(one["embedding"]) == 64
    assert one["embedding"] != other["embedding"]

    ranked = server.post("/v1/rerank", {"model": "rank", "query": "lemon", "documents": ["a", "b"]})
    assert sorted(result["index"] for result in ranked["results"]) == [0, 1]

    assert server.post("/v1/tokenize", {"model": "chat", "content": "hello"})["tokens"]
    assert server.get("/v1/slots?model=own")[0]["n_ctx"] == 2048
    recipes = server.get("/v1/system-info")["recipes"]
    assert recipes["fork"]["backends"]["fork"]["state"] == "installed"
    assert recipes["llamacpp"]["backends"]["cpu"]["state"] == "installed"
    assert recipes["llamacpp"]["default_backend"] == "cpu"


def test_the_argument_line_is_the_bases(server: LemonpodServer, programs: Path) -> None:
    server.load("user.embed")
    [item] = server.loaded()
    port = item["backend_url"].rpartition(":")[2].partition("/")[0]
    weights = item["checkpoint"]
    assert item["launch_command"] == [
        *(str(programs / "llama-server"), "-m", weights, "--ctx-size", "8192", "--port", port),
        *("--jinja", "--metrics", "--embeddings", "--no-warmup", "--pooling", "mean"),
    ]


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ("json", "application/json"),
        ("verbose_json", "application/json"),
        ("vtt", "text/plain; charset=utf-8"),
    ],
)
def test_whisper_cpp_transcribes(hearing: LemonpodServer, wanted: str, kind: str) -> None:
    with transcription(hearing, wanted, make_tone()) as reply:
        answer = reply.read()
    assert reply.headers["Content-Type"] == kind
    if kind == "application/json":
        assert "text" in json.loads(answer)
    else:
        assert answer.startswith(b"WEBVTT")


def test_whisper_cpp_says_what_it_cannot_hear(hearing: LemonpodServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as failed:
        transcription(hearing, "json", b"no sound")
    with failed.value as error:
        assert error.code == 400
        told = json.load(error)["error"]
    assert told["message"]
    assert told["details"]["backend"] == "whispercpp"


def transcription(server: LemonpodServer, wanted: str, sound: bytes) -> Any:
    fields = {"model": b"ear", "response_format": wanted.encode(), 'file"; filename="a.wav': sound}
    body = b"".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
        for name, value in fields.items()
    )
    return urllib.request.urlopen(
        urllib.request.Request(
            f"{server.url}/v1/audio/transcriptions",
            body + f"--{BOUNDARY}--\r\n".encode(),
            {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
        ),
        timeout=30,
    )
