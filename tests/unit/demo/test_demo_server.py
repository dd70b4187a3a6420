"""What the demo's own server is shielded from, and that nothing of it stays behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lemonpod.demo.server import DemoServer, private_environ


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leaving the context ignores further signals, for good in a program that ends right after."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_the_users_own_server_is_left_alone(tmp_path: Path) -> None:
    environ = private_environ(
        {
            "PATH": "/bin",
            "LEMONADE_API_KEY": "secret",
            "LEMONADE_CACHE_DIR": "/var/cache/lemonade",
            "STATE_DIRECTORY": "/var/lib/lemonade",
            "CACHE_DIRECTORY": "/var/cache/lemonade",
            "XDG_CONFIG_HOME": "/home/u/.config",
        },
        tmp_path,
    )

    assert environ == {
        "PATH": "/bin",
        "XDG_CONFIG_HOME": str(tmp_path / "xdg-config"),
        "XDG_CACHE_HOME": str(tmp_path / "xdg-cache"),
    }


def test_the_folder_goes_with_the_context() -> None:
    with DemoServer({}) as server:
        assert server.folder.is_dir()

    assert not server.folder.exists()


def test_a_kept_server_keeps_its_folder() -> None:
    with DemoServer({}) as server:
        server.kept = True

    assert server.folder.is_dir()
    server.folder.rmdir()
