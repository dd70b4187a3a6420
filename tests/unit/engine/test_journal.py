from __future__ import annotations

import asyncio
import json
import re

import pytest

from lemonpod.engine.journal import Journal


def texts(journal: Journal, after: int = 0, limit: int = 100) -> list[str]:
    return [entry.text for entry in journal.read(after, limit)]


def test_lines_of_all_are_in_one_order() -> None:
    journal = Journal()
    one, other = journal.buffer("user.a"), journal.buffer("user.b")
    one.extend([b"1"])
    other.extend([b"2"])
    journal.extend("Warning", "gateway", [b"3"])
    one.extend([b"4", b"5"])

    entries = journal.read(0, 100)

    assert [(entry.seq, entry.tag, entry.severity, entry.text) for entry in entries] == [
        (1, "user.a", "Info", "1"),
        (2, "user.b", "Info", "2"),
        (3, "gateway", "Warning", "3"),
        (4, "user.a", "Info", "4"),
        (5, "user.a", "Info", "5"),
    ]
    assert one.tail(9) == ("1", "4", "5")


@pytest.mark.parametrize(
    ("after", "limit", "expected"), [(0, 2, "12"), (2, 2, "34"), (4, 9, ""), (9, 9, "1234")]
)
def test_who_comes_again_reads_on(after: int, limit: int, expected: str) -> None:
    """A number that is still to come is of another life of the server."""
    journal = Journal()
    journal.extend("Info", "x", [b"1", b"2", b"3", b"4"])

    assert texts(journal, after, limit) == list(expected)


def test_what_was_forgotten_is_told_of() -> None:
    journal = Journal(max_entries=3)
    journal.extend("Info", "x", [b"%d" % number for number in range(1, 11)])

    assert texts(journal) == ["8", "9", "10"]  # who has just come has missed nothing
    assert texts(journal, 7) == ["8", "9", "10"]
    notice, *rest = journal.read(2, 100)
    assert (notice.seq, notice.text) == (
        7,
        "5 lines were skipped here: they came faster than they were read",
    )
    assert [entry.seq for entry in rest] == [8, 9, 10]


def test_it_is_bounded_in_bytes_as_well() -> None:
    journal = Journal(max_bytes=100)
    for number in range(50):
        journal.extend("Info", "x", [b"%d" % number + b"x" * 28])

    assert [text.rstrip("x") for text in texts(journal)] == ["47", "48", "49"]


def test_an_entry_is_lemonades() -> None:
    journal = Journal(clock=lambda: 1743344521.123)
    journal.extend("Info", "Server", [b"\x1b[1mStarting\x1b[0m with --api-key=abc \xff"])

    document = journal.read(0, 1)[0].as_json()

    stamp = document.pop("timestamp")
    assert isinstance(stamp, str)
    assert re.fullmatch(r"2025-03-30 \d\d:\d\d:01\.123", stamp)
    assert document == {
        "seq": 1,
        "severity": "Info",
        "tag": "Server",
        "line": f"{stamp} [Info] (Server) Starting with --api-key=… \ufffd",
    }
    json.dumps(document)


async def test_news_wakes_everybody() -> None:
    journal = Journal()
    waiting = [asyncio.create_task(journal.news()) for _ in range(3)]
    await asyncio.sleep(0)

    journal.extend("Info", "x", [b"1"])

    await asyncio.wait_for(asyncio.gather(*waiting), 1)
