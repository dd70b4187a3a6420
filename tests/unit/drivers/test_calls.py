"""Calls to a server that behaves as no engine should, over both SDKs."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lemonpod.drivers.address import Address
from lemonpod.drivers.api_runtime import ApiRuntime
from lemonpod.drivers.docker import DockerRuntime
from lemonpod.drivers.podman import PodmanRuntime
from lemonpod.drivers.runtime import Halt, Halted
from lemonpod.errors import EngineError, RuntimeUnavailableError

Answer = Callable[[str, socket.socket], None]

VERSION = b'{"ApiVersion": "1.41", "Version": "4.3.1"}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def whole(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Answers `GET /version` as an engine does, and all else by `answer`; on a path, or on loopback."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            self.address_family = socket.AF_UNIX
        super().__init__(("127.0.0.1", 0) if path is None else str(path), _Connection)  # type: ignore[arg-type]
        self.url = f"unix://{path}" if path else f"tcp://127.0.0.1:{self.server_address[1]}"
        self.answer: Answer = self.silence
        self.asked: list[str] = []
        self.waiting = threading.Event()
        """Somebody was asked, and has not answered."""

    def silence(self, _: str, client: socket.socket) -> None:
        self.waiting.set()


class _Connection(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        while line := self.rfile.readline().decode():
            while self.rfile.readline().strip():
                pass
            if line.startswith("GET /version"):
                self.request.sendall(whole(VERSION))
            else:
                self.server.asked.append(line)
                self.server.answer(line, self.request)


@pytest.fixture(params=["unix", "tcp"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(tmp_path / "api.sock" if request.param == "unix" else None) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(params=[PodmanRuntime, DockerRuntime], ids=["podman", "docker"])
def runtime(server: Server, request: pytest.FixtureRequest) -> Iterator[ApiRuntime]:
    runtime: ApiRuntime = request.param(Address(server.url, "--url"))
    yield runtime
    runtime.close()


def cut(said: bytes) -> Answer:
    """Says that much, and hangs up."""

    def answer(_: str, client: socket.socket) -> None:
        client.sendall(said)
        client.shutdown(socket.SHUT_RDWR)

    return answer


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", CHUNKED, CHUNKED + b"5\r\n{"],
    ids=["nothing", "half", "head", "chunk"],
)
def test_an_answer_that_is_cut_says_nothing_of_containers(
    server: Server, runtime: ApiRuntime, said: bytes
) -> None:
    server.answer = cut(said)
    for ask in (
        lambda: runtime.inspect("x"),
        lambda: runtime.wait("x", Halt()),
        lambda: runtime.remove("x"),
        lambda: runtime.containers({}),
    ):
        with pytest.raises(RuntimeUnavailableError, match=r"--url.*hung up"):
            ask()


def test_a_wait_that_ends_well_and_says_nothing(server: Server, runtime: ApiRuntime) -> None:
    server.answer = lambda _, client: client.sendall(CHUNKED + b"0\r\n\r\n")
    with pytest.raises(RuntimeUnavailableError, match="hung up"):
        runtime.wait("x", Halt())


def test_a_page_that_is_not_found_is_not_a_container_that_is_gone(
    server: Server, runtime: ApiRuntime
) -> None:
    server.answer = lambda _, client: client.sendall(whole(b"page not found", "404 Not Found"))
    for ask in (
        lambda: runtime.inspect("x"),
        lambda: runtime.wait("x", Halt()),
        lambda: runtime.remove("x"),
        lambda: runtime.stop("x", 1),
        lambda: runtime.image("x"),
    ):
        with pytest.raises(EngineError, match="page not found"):
            ask()


def test_an_engine_that_hangs(server: Server, runtime: ApiRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = server.silence
    with pytest.raises(RuntimeUnavailableError, match="too long"):
        runtime._calls.ask("GET", "/containers/x/json", timeout=0.05)


@pytest.mark.parametrize("said", [b"", CHUNKED], ids=["before-the-head", "after-it"])
def test_a_halt_ends_what_never_answers(server: Server, runtime: ApiRuntime, said: bytes) -> None:
    def answer(line: str, client: socket.socket) -> None:
        client.sendall(said)
        server.silence(line, client)

    server.answer = answer
    halt = Halt()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            runtime.wait("x", halt)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    server.waiting.wait(10)
    halt.call()
    thread.join(10)
    assert [type(error) for error in raised] == [Halted]


def test_a_halt_that_was_called_before(server: Server, runtime: ApiRuntime) -> None:
    halt = Halt()
    halt.call()
    with pytest.raises(Halted):
        runtime.wait("x", halt)
    assert server.asked == []


def test_names_are_quoted(server: Server, runtime: ApiRuntime) -> None:  # C21
    server.answer = lambda _, client: client.sendall(
        whole(b'{"message": "no such container"}', "404 Not Found")
    )
    assert runtime.inspect("a/../b?c#d é") is None
    assert "/containers/a%2F..%2Fb%3Fc%23d%20%C3%A9/json" in server.asked[0]


def test_a_removal_in_progress_is_waited_for(server: Server, runtime: ApiRuntime) -> None:
    answers = iter(
        [
            whole(b'{"message": "removal of container x is already in progress"}', "409 Conflict"),
            whole(b'{"message": "No such container: x"}', "404 Not Found"),
        ]
    )
    server.answer = lambda _, client: client.sendall(next(answers))
    runtime.remove("x")
    assert len(server.asked) == 2


def test_no_proxy_of_the_environment_is_asked(
    server: Server, runtime: ApiRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:  # H35
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    gone = whole(b'{"message": "no such container"}', "404 Not Found")
    server.answer = lambda _, client: client.sendall(gone)

    assert runtime.inspect("x") is None
    runtime.wait("x", Halt())

    assert len(server.asked) > 1
    assert all(
        line.split()[1].startswith("/") for line in server.asked
    )  # a proxy would be told the whole address


def test_a_client_is_used_again(server: Server, runtime: ApiRuntime) -> None:
    server.answer = lambda _, client: client.sendall(whole(b"[]"))
    for _ in range(3):
        assert runtime.containers({}) == []
    assert len(runtime._calls._idle) == 1
