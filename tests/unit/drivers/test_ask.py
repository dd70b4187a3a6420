"""One question to an engine: over a socket, over TCP, over TLS that cannot be."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from lemonpod.drivers.address import Address, Tls
from lemonpod.drivers.ask import ask
from lemonpod.errors import RuntimeUnavailableError
from tests.fakes.daemon import DOCKER, daemon
from tests.waiting import unused_port


def test_an_answer_over_a_socket(tmp_path: Path) -> None:
    with daemon(tmp_path / "s", DOCKER, {"/x?a=1": {"b": 2}}) as asked:
        address = Address(f"unix://{tmp_path}/s", "--host")
        answer = ask(address, "/x?a=1")
        missing = ask(address, "/y")

    assert (answer.status, answer.headers["api-version"], answer.json()) == (200, "1.45", {"b": 2})
    assert (missing.status, missing.json()) == (404, {})
    assert asked == ["/x?a=1", "/y"]


def test_an_answer_over_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

        thread = threading.Thread(target=answer)
        thread.start()
        found = ask(Address(f"tcp://127.0.0.1:{server.getsockname()[1]}", "DOCKER_HOST"), "/_ping")
        thread.join()

    assert (found.status, found.json()) == (200, {})


def test_nobody_there_says_what_to_do() -> None:
    address = Address(f"tcp://127.0.0.1:{unused_port()}", "DOCKER_HOST")
    with pytest.raises(RuntimeUnavailableError, match="no answer of an engine: Connection refused") as caught:
        ask(address, "/_ping")
    assert caught.value.hint == "restart what listens there, or correct DOCKER_HOST"
    with pytest.raises(RuntimeUnavailableError) as caught:
        ask(Address(address.url, "its usual place", start="systemctl start x"), "/_ping")
    assert caught.value.hint == "systemctl start x"


@pytest.mark.parametrize("name", ["ca", "cert"])
def test_certificates_that_are_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.pem").write_text("x")
    bad = tmp_path / "bad.pem"
    tls = Tls(ca=bad) if name == "ca" else Tls(cert=bad, verify=False)

    with pytest.raises(RuntimeUnavailableError, match="its certificates cannot be used"):
        ask(Address("tcp://127.0.0.1:1", "DOCKER_HOST", tls), "/_ping")
