"""Which origins may call."""

from __future__ import annotations

import pytest

from lemonpod.gateway.cors import is_allowed


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:3000",
        "https://localhost",
        "tauri://localhost",
        "http://tauri.localhost",
        "http://127.0.0.1:13305",
        "http://127.8.8.8",
        "http://[::1]:80",
        "http://192.168.1.5:13305",
        "https://app.example",
    ],
)
def test_allowed(origin: str) -> None:
    assert is_allowed(origin, host="192.168.1.5:13305", allowed=["https://app.example"])


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.example",
        "http://localhost.evil.example",
        "http://evil.example#localhost",
        "http://localhost@evil.example",
        "http://127.0.0.1.evil.example",
        "http://192.168.1.6:13305",
        "http://192.168.1.5:13306",
        "https://app.example.evil.example",
        "http://app.example",
        "http://[",
        "http://rebound.example:13305",
    ],
)
def test_refused(origin: str) -> None:
    assert not is_allowed(origin, host="192.168.1.5:13305", allowed=["https://app.example"])


def test_a_rebound_name_is_no_proof_of_being_the_same_page() -> None:
    assert not is_allowed("http://rebound.example:13305", host="rebound.example:13305", allowed=[])


def test_an_entry_is_read_kindly() -> None:
    assert is_allowed("https://app.example", host="", allowed=["https://App.example/"])


def test_a_star_allows_all() -> None:
    assert is_allowed("null", host="", allowed=["*"])
