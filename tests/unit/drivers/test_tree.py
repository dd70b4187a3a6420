"""What listens beside a process, as the kernel writes it down for its network namespace."""

from __future__ import annotations

import os
import socket

import pytest

from lemonpod.drivers.tree import Listener, listeners_beside


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_every_listener_is_found_with_its_address(host: str) -> None:  # L11
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        assert Listener(host, port, None) in listeners_beside(os.getpid())
    assert port not in {one.port for one in listeners_beside(os.getpid())}


def test_a_process_that_is_gone_says_nothing() -> None:
    with pytest.raises(OSError, match="No such file"):
        listeners_beside(2**22 + 1)
