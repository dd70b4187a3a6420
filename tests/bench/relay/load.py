"""What is asked of a peer, and how it is timed."""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.relay.client import (
    API_KEY,
    Address,
    chat,
    chat_request,
    speech_request,
    upload_parts,
)
from tests.bench.relay.engine import CHAT

_TIMEOUT: Final = 120.0
_PIECE: Final = 256 << 10
_UNMEASURED: Final = 20  # first requests of a connection, which find caches cold
_FILES: Final = 8192
"""1,000 streams are 2,000 sockets of the proxy, and the usual limit is 1,024 open files."""

# wrk says what it counted in words; its own Lua hook can say it in JSON.
_SCRIPT: Final = """
wrk.method = "POST"
wrk.body = %s
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"requests": %%d, "seconds": %%f, "failed": %%d, "p50": %%f, "p90": %%f, "p99": %%f}\\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e6, latency:percentile(90) / 1e6, latency:percentile(99) / 1e6))
end
"""


class LoadError(Exception):
    """A load generator could not do its work, or a peer answered wrongly."""


def raise_file_limit() -> None:
    """For this process and all that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


@dataclass(frozen=True, slots=True)
class Requests:
    """Small requests over one stretch of time."""

    requests: int
    seconds: float
    failed: int
    p50: float
    p90: float
    p99: float


def write_wrk_script(path: Path) -> None:
    # The body is JSON of ASCII, so a JSON text of it is a Lua text too.
    path.write_text(_SCRIPT % (json.dumps(chat().decode()), API_KEY))


def small_requests(script: Path, address: Address, connections: int, seconds: float) -> Requests:
    """As many as go through `connections`."""
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(script)]
    done = subprocess.run([*argv, address.url + CHAT], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
    return Requests(**json.loads(done.stdout.splitlines()[-1]))


def first_bytes(addresses: Sequence[Address], pairs: int) -> list[list[float]]:
    """For each peer the seconds from a request to its first byte back; they take turns, a connection each."""
    request = chat_request()
    times: list[list[float]] = [[] for _ in addresses]
    connections = [_connect(address) for address in addresses]
    try:
        with _no_collection():
            for turn in range(pairs + _UNMEASURED):
                for connection, measured in zip(connections, times, strict=True):
                    took = _first_byte(connection, request)
                    if turn >= _UNMEASURED:
                        measured.append(took)
    finally:
        for connection in connections:
            connection.close()
    return times


def _first_byte(connection: socket.socket, request: bytes) -> float:
    begun = time.perf_counter()
    connection.sendall(request)
    answer = connection.recv(65536)
    took = time.perf_counter() - begun
    _finish(connection, answer)
    return took


def download(address: Address, size: int) -> float:
    """Seconds that an answer of so many bytes takes."""
    with closing(_connect(address)) as connection:
        begun = time.perf_counter()
        connection.sendall(speech_request(size))
        got = _finish(connection, connection.recv(65536))
        took = time.perf_counter() - begun
    if got < size:
        raise LoadError(f"{got} of {size} bytes came")
    return took


def upload(address: Address, size: int) -> float:
    """Seconds until a request of so many bytes is answered."""
    before, after = upload_parts(size)
    piece = bytes(_PIECE)
    with closing(_connect(address)) as connection:
        begun = time.perf_counter()
        connection.sendall(before)
        for sent in range(0, size, _PIECE):
            connection.sendall(piece[: size - sent])
        connection.sendall(after)
        _finish(connection, connection.recv(65536))
        return time.perf_counter() - begun


class StreamLoad:
    """The loader of many streams, in a process of its own; each step is a line that it says."""

    def __init__(self, address: Address, streams: int, rate: float, seconds: float, hold: float) -> None:
        numbers = {"streams": streams, "rate": rate, "seconds": seconds, "hold": hold}
        options = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.relay.streams", str(address.port), *options],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def step(self) -> dict[str, Any]:
        """The next line: `open`, then `events`, then `errors` and gaps."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LoadError(f"the loader of streams ended with code {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _connect(address: Address) -> socket.socket:
    connection = socket.create_connection(address.pair, _TIMEOUT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _finish(connection: socket.socket, answer: bytes) -> int:
    """Read the rest of an answer; returns the size of its body, as it is framed."""
    while b"\r\n\r\n" not in answer:
        answer += _received(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise LoadError(f"a peer answered {answer[:500]!r}")
    fields = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:])
    size = len(body)
    if b"content-length" in fields:
        length = int(fields[b"content-length"])
        while size < length:
            size += len(_received(connection))
        return size
    tail = body
    while not tail.endswith(b"0\r\n\r\n"):
        piece = _received(connection)
        size += len(piece)
        tail = (tail + piece)[-5:]
    return size


def _received(connection: socket.socket) -> bytes:
    piece = connection.recv(_PIECE)
    if not piece:
        raise LoadError("a peer closed the connection in the middle of its answer")
    return piece


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
