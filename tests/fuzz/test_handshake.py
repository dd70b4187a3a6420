"""Whatever a WebSocket's offer and its engine's answer say: what crosses is one head, without secrets."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import parse_qs

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lemonpod.contract.vocabulary import Capability
from lemonpod.errors import MalformedRequestError, UpstreamError
from lemonpod.gateway.auth import keys_of_socket
from lemonpod.gateway.data import handshake
from lemonpod.gateway.data.reader import RequestReader
from lemonpod.gateway.data.relay import find_target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.usual import told
from tests.factories import make_plan

PLAN = make_plan(
    "engine",
    port=8001,
    model="user.a&model=b c",
    engine_paths={Capability.STREAMING_TRANSCRIPTION: "/ws?x=1"},
)
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = base64.b64encode(hashlib.sha1(KEY + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
SECRET = "sk-17"

QUERIES = st.lists(
    st.sampled_from(
        ["model=m", "mod%65l=m", "model", f"api_key={SECRET}", f"api%5Fkey={SECRET}", f"api_ke%79={SECRET}",
         "", "x=%20+", "x=%0d%0aX:1", "é=1", "%", "a=b=c", "x;api_key=1", "#f", "?"]
    ),
    max_size=4,
).map("&".join)  # fmt: skip
ITEMS = st.sampled_from(
    [
        "realtime",
        "lemonade-realtime",
        f"openai-insecure-api-key.{SECRET}",
        "bearer.c2stMTc",
        "",
        " ",
        "é",
        "a b",
    ]
)
LISTS = st.lists(ITEMS, max_size=4).map(",".join)
FIELDS = st.lists(
    st.tuples(
        st.sampled_from(
            ["Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions", "sec-websocket-accept", "X-A", "Origin",
             "Accept-Encoding", "Content-Type", "Sec-WebSocket-Version", "Sec-WebSocket-Key"]
        ),
        LISTS
        | st.sampled_from(["13", "8", KEY.decode(), "short", "permessage-deflate; x=1", "\x0b", "a\x7f"]),
    ),
    max_size=4,
)  # fmt: skip
SECRETS = [("Authorization", f"Bearer {SECRET}"), ("Cookie", SECRET), ("X-Api-Key", SECRET)]
CONNECTIONS = st.sampled_from(["Upgrade", "keep-alive, upgrade", "upgrade, x-a, sec-websocket-protocol"])


def read(data: bytes) -> list[Request]:
    reader = RequestReader()
    reader.feed(data)
    assert not reader.queue or reader.fault is None
    return list(reader.queue)


def offer(query: str, fields: Sequence[tuple[str, str]], connection: str = "Upgrade") -> bytes:
    lines = [f"GET /v1/realtime{query and '?'}{query} HTTP/1.1", "Host: a", "Upgrade: websocket"]
    lines += [f"Connection: {connection}", *(f"{name}: {value}" for name, value in [*fields, *SECRETS])]
    return "\r\n".join([*lines, "", ""]).encode()


@given(QUERIES, FIELDS, CONNECTIONS, st.booleans())
@settings(max_examples=300)
def test_the_engine_is_asked_once_and_without_secrets(
    query: str, fields: list[tuple[str, str]], connection: str, usual: bool
) -> None:
    usually = [("Sec-WebSocket-Key", KEY.decode()), ("Sec-WebSocket-Version", "13")] if usual else []
    requests = read(offer(query, [*usually, *fields], connection))
    assume(requests)
    (request,) = requests
    target = find_target(request.method, request.target)
    assume(target is not None and target.query.isascii())
    assert target is not None
    with suppress(MalformedRequestError):
        if handshake.refusal(request) is not None:
            return
        (asked,) = read(handshake.for_engine(request, target, PLAN))

        assert asked.known[b"sec-websocket-key"] == request.known[b"sec-websocket-key"]
        assert asked.known[b"host"] == b"127.0.0.1:8001"
        assert not asked.known.keys() & {b"authorization", b"cookie", b"x-api-key", b"origin"}
        path, _, said = asked.target.decode().partition("?")
        assert path == "/ws"
        names = parse_qs(said, keep_blank_values=True)
        assert names.get("model", [PLAN.model]) == [PLAN.model] * len(names.get("model", [1]))
        assert keys_of_socket(b"", said, handshake.offered(asked)) == []


HEADS = st.lists(
    st.tuples(
        st.sampled_from(
            [b"Sec-WebSocket-Accept", b"sec-websocket-protocol", b"Sec-WebSocket-Extensions", b"Upgrade",
             b"Connection", b"Set-Cookie", b"Content-Length", b"Content-Type", b"Transfer-Encoding", b"X-B"]
        ),
        st.sampled_from([ACCEPT, b"", b"realtime", b"realtime, other", b"x-b", b"1", b"a\x0bb", b"a\xff"]),
    ),
    max_size=5,
)  # fmt: skip


@given(LISTS, HEADS, st.booleans())
def test_the_client_is_told_what_it_offered(
    protocols: str, head: list[tuple[bytes, bytes]], accepts: bool
) -> None:
    (request,) = read(offer("", [("Sec-WebSocket-Key", KEY.decode()), ("Sec-WebSocket-Protocol", protocols)]))
    accepted = [(b"Sec-WebSocket-Accept", ACCEPT)] if accepts else []
    with suppress(UpstreamError):
        lines = handshake.for_client(request, told([*accepted, *head])[0], "r")

        (seen,) = read(b"GET / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n")
        assert seen.known[b"sec-websocket-accept"] == ACCEPT
        chosen = handshake.offered(seen)
        assert len(chosen) <= 1
        assert set(chosen) <= set(handshake.offered(request))
        assert seen.known[b"connection"] == b"Upgrade"
        assert not seen.known.keys() & {b"set-cookie", b"content-length", b"transfer-encoding"}
