"""Stands in for a registry or its token server: answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: Mapping[str, list[str]]
    authorization: str | None
    accept: str


@dataclass(frozen=True)
class Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class StandIn:
    host: str
    asked: list[Asked] = field(default_factory=list)
    answer: Callable[[Asked], Reply] = field(default=lambda asked: Reply(404))

    @property
    def url(self) -> str:
        return f"http://{self.host}"


@contextmanager
def stand_in(address: str = "127.0.0.1") -> Iterator[StandIn]:
    """One that listens until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            target = urlsplit(self.path)
            asked = Asked(
                self.command, target.path, parse_qs(target.query),
                self.headers.get("Authorization"), self.headers.get("Accept", ""),
            )  # fmt: skip
            served.asked.append(asked)
            reply = served.answer(asked)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(reply.body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        served = StandIn(f"{address}:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
