"""Whatever stands behind the offer of a WebSocket, split anywhere: it is that socket's, and no request."""

from __future__ import annotations

from random import Random

import pytest

from lemonpod.gateway.data.reader import RequestReader
from tests.fuzz.requests import make_stream, split

ROUNDS = 3000
LIVE = b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n"
_PATHS = (b"/realtime", b"/v1/realtime?model=m", b"/api/v0/logs/stream", b"/logs/stream?api_key=%00")
_UPGRADES = (b"websocket", b"WebSocket", b"h2c, websocket", b"websocket,x")
_CONNECTIONS = (
    b"Upgrade",
    b"upgrade",
    b"keep-alive, Upgrade",
    b"close, upgrade",
    b"Upgrade, sec-websocket-key",
)
_MORE = (b"", b"Content-Length: 0\r\n", b"Expect: 100-continue\r\n", b"Origin: http://localhost\r\n")
# Each of these makes it a request like any other, or none.
_SPOILS = (
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: x\r\n",
)


def offer(random: Random, more: bytes, path: bytes | None = None) -> bytes:
    lines = [
        b"Host: a\r\n",
        b"Upgrade: " + random.choice(_UPGRADES) + b"\r\n",
        b"Connection: " + random.choice(_CONNECTIONS) + b"\r\n",
        more,
    ]
    random.shuffle(lines)
    return b"GET " + (path or random.choice(_PATHS)) + b" HTTP/1.1\r\n" + b"".join(lines) + b"\r\n"


def read(random: Random, data: bytes) -> RequestReader:
    reader = RequestReader()
    for piece in split(random, data):
        reader.feed(piece)
    return reader


def test_what_stands_behind_a_taken_offer_is_its_own() -> None:
    for seed in range(ROUNDS):
        random = Random(seed)
        count, behind = random.randint(0, 3), make_stream(random)
        reader = read(random, LIVE * count + offer(random, random.choice(_MORE)) + behind)

        *others, last = reader.queue
        assert (len(others), reader.fault, reader.over) == (count, None, False), seed
        assert last.is_socket, seed
        assert not any(request.is_socket for request in others), seed
        assert (b"".join(last.pieces), last.ended, last.keep_alive) == (behind, False, False), seed
        reader.close()


@pytest.mark.parametrize(
    "path", [b"/v1/models", b"/live", b"/v1/realtime/", b"/realtimes", b"/v1/Realtime", b"*"]
)
def test_an_offer_elsewhere_changes_nothing(path: bytes) -> None:
    for seed in range(100):
        random = Random(seed)
        reader = read(random, offer(random, b"", path) + LIVE)

        assert not any(request.is_socket for request in reader.queue), seed
        assert all(request.ended for request in reader.queue), seed
        reader.close()


@pytest.mark.parametrize("more", _SPOILS)
def test_an_offer_with_a_body_is_none(more: bytes) -> None:
    for seed in range(100):
        random = Random(seed)
        reader = read(random, offer(random, more) + b"5\r\nabcde\r\n0\r\n\r\n" + LIVE)

        assert not any(request.is_socket for request in reader.queue), seed
        reader.close()
