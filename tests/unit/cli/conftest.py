"""Servers that say one thing, whatever they are asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], str]]:
    """Starts a server that answers every request with the same bytes; returns its port."""
    listeners: list[socket.socket] = []

    def start(answer: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=_serve, args=(listener, answer), daemon=True).start()
        return str(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _serve(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)
            connection.sendall(answer)


def http(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + body
