"""A program that answers on a socket as a container engine does, with what a test gives it to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

PODMAN: Mapping[str, str] = {"Libpod-Api-Version": "5.4.2", "Api-Version": "1.41"}
DOCKER: Mapping[str, str] = {"Api-Version": "1.45"}


@contextmanager
def daemon(
    socket: Path,
    headers: Mapping[str, str],
    answers: Mapping[str, Any] | None = None,
    *,
    ping: int = 200,
) -> Iterator[list[str]]:
    """Serve on `socket`; yields the paths that were asked for. Paths without an answer are 404."""
    said = dict(answers or {})
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            known = self.path == "/_ping" or self.path in said
            self.send_response(ping if self.path == "/_ping" else 200 if known else 404)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(said.get(self.path)).encode())

        def address_string(self) -> str:
            return "socket"

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingUnixStreamServer(str(socket), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()
