"""Where a server may send us on to."""

from __future__ import annotations

import pytest

from lemonpod.pin.transport import is_loopback, may_name


@pytest.mark.parametrize(
    ("server", "url", "allowed"),
    [
        ("https://r.example/", "https://cdn.example/x", True),
        ("https://r.example/", "http://cdn.example/x", False),
        ("https://r.example/", "http://127.0.0.1/x", False),
        ("https://r.example/", "file:///etc/passwd", False),
        ("http://127.0.0.1:5000/", "http://localhost:5001/x", True),
        ("http://127.0.0.1:5000/", "http://r.example/x", False),
        ("http://127.0.0.1:5000/", "ftp://127.0.0.1/x", False),
        ("http://127.0.0.1:5000/", "https://[half", False),
    ],
)
def test_only_over_https_or_within_this_machine(server: str, url: str, allowed: bool) -> None:
    assert may_name(server, url) is allowed


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost:5000", True), ("127.8.9.1", True), ("[::1]:5000", True),
        ("127.0.0.1.example", False), ("localhost.example", False), ("10.0.0.1", False), ("", False),
    ],
)  # fmt: skip
def test_this_machine_is_known_by_its_own_names(host: str, own: bool) -> None:
    assert is_loopback(f"http://{host}/v2/") is own
