"""An engine's HTTP API, asked raw over its Unix socket."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from typing import Any


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(url: str, method: str, target: str, body: Any = None, *, timeout: float = 60.0) -> tuple[int, Any]:
    """Status and JSON (or text) of one request; `url` is unix:///path."""
    connection = _UnixConnection(url.removeprefix("unix://"), timeout)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, target, sent, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    finally:
        connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text


def answers(url: str) -> bool:
    """Whether an engine answers there now."""
    try:
        return ask(url, "GET", "/_ping", timeout=5)[0] == 200
    except OSError:
        return False
