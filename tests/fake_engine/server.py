"""HTTP by hand: one thread a connection, raw requests kept as they came."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.fake_engine import routes
from tests.fake_engine.habits import Habits


class ClientGone(Exception):
    """The client closed the connection while we were answering."""


class Aborted(Exception):
    """We closed the connection on purpose."""


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    """As it came, query and all."""
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Server:
    def __init__(self, listener: socket.socket, habits: Habits, *, model: str) -> None:
        self.habits = habits
        self.model = model
        self.started = time.monotonic()
        self.counts = {"connections": 0, "requests": 0, "active": 0, "aborted": 0, "completed": 0}
        self.last: dict[str, Any] | None = None
        self._listener = listener
        self._lock = threading.Lock()

    def serve_forever(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            self.count("connections")
            if not self.habits.accept_but_silent:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def count(self, what: str, by: int = 1) -> None:
        with self._lock:
            self.counts[what] += by

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = connection.makefile("rb")
        try:
            while request := self._read(reader):
                self._answer(connection, request)
                if request.header("connection").lower() == "close":
                    break
        except (Aborted, OSError):
            pass
        finally:
            reader.close()
            connection.close()

    def _read(self, reader: Any) -> Request | None:
        line = reader.readline(65_536)
        if not line:
            return None
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = []
        while (line := reader.readline(65_536)) not in (b"\r\n", b"\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name, value.strip()))
        request = Request(method, target, headers, b"")
        if request.header("transfer-encoding").lower() == "chunked":
            body = b"".join(read_chunks(reader))
        else:
            body = reader.read(int(request.header("content-length") or 0))
        return Request(method, target, headers, body)

    def _answer(self, connection: socket.socket, request: Request) -> None:
        answer = Answer(connection, request)
        if request.path.startswith("/__") or request.path in routes.QUIET:
            routes.quiet(self, request, answer)
            return
        asked = request.json()
        habits = self.habits.changed_by(asked.get("fake") if isinstance(asked, dict) else None)
        self.last = {
            "method": request.method,
            "target": request.target,
            "headers": request.headers,
            "body": request.body.decode("utf-8", "surrogateescape"),
            "json": asked,
        }
        if habits.crash_on_request:
            os.write(2, b"fatal: the fake engine was told to crash\n")
            os._exit(3)
        self.count("requests")
        self.count("active")
        try:
            answer.pause(habits.first_delay)
            routes.infer(self, request, answer, habits)
            self.count("completed")
        except (ClientGone, OSError):
            self.count("aborted")
            raise Aborted from None
        finally:
            self.count("active", -1)


class Answer:
    """The reply to one request, written piece by piece."""

    def __init__(self, connection: socket.socket, request: Request) -> None:
        self._connection = connection
        self._bodiless = request.method == "HEAD"

    def pause(self, seconds: float) -> None:
        """Wait, and raise ClientGone as soon as the client leaves."""
        readable, _, _ = select.select([self._connection], [], [], seconds)
        if readable and not self._connection.recv(1, socket.MSG_PEEK):
            raise ClientGone
        if readable:
            time.sleep(seconds)

    def send(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "application/json",
        *,
        headers: Iterable[tuple[str, str]] = (),
        gzip: bool = False,
        length: int | None = None,
    ) -> None:
        fields = [("Content-Type", content_type), *headers]
        if gzip:
            packer = zlib.compressobj(wbits=31)
            body = packer.compress(body) + packer.flush()
            fields.append(("Content-Encoding", "gzip"))
        fields.append(("Content-Length", str(len(body) if length is None else length)))
        self._head(status, fields)
        if not self._bodiless:
            self._connection.sendall(body)

    def start_chunks(self, content_type: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        self._head(200, [("Content-Type", content_type), *headers, ("Transfer-Encoding", "chunked")])

    def chunk(self, data: bytes) -> None:
        self._connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def end_chunks(self) -> None:
        self._connection.sendall(b"0\r\n\r\n")

    def reset(self) -> None:
        reset(self._connection)

    def close(self) -> None:
        raise Aborted

    def _head(self, status: int, fields: list[tuple[str, str]]) -> None:
        lines = [
            f"HTTP/1.1 {status} Fake",
            "Server: fake-engine",
            *(f"{name}: {value}" for name, value in fields),
        ]
        self._connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))


def reset(connection: socket.socket) -> None:
    """Close with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())
    raise Aborted


def read_chunks(reader: Any) -> Iterable[bytes]:
    while size := int(reader.readline(1024).partition(b";")[0], 16):
        yield reader.read(size)
        reader.readline(1024)
    while reader.readline(65_536) not in (b"\r\n", b"\n", b""):
        pass
