"""What every test gets: an environment of its own, and no way out of this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The test command says of the same code the same; `just nightly` looks for what these inputs do not find.
# Neither judges by time, for the machine may be busy.
_unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _unhurried, derandomize=True)
settings.register_profile("random", _unhurried, derandomize=False, print_blob=True)
settings.load_profile("same")

pytest_plugins = ("tests.lab.fixtures",)

_KEPT = {"PATH", "LANG", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "CI"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the caller's environment reaches a test, and every home folder is a fresh one."""
    for name in set(os.environ) - _KEPT:
        if not name.startswith(("COV_", "PYTEST_", "LC_")):
            monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that dials another machine fails instead of waiting for it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in {
            "127.0.0.1",
            "::1",
            "localhost",
        }:
            raise AssertionError(f"a test tried to connect to {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
