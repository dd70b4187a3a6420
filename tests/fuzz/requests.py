"""Makes streams of requests: most are right, some are broken in one of the ways that matter."""

from __future__ import annotations

from random import Random
from typing import Final

_METHODS: Final = (
    b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH", b"QUERY", b"CONNECT", b"get",
    b"FOO", b"G\x00T", b"", b"GET ", b"PRI",
)  # fmt: skip
_TARGETS: Final = (
    b"/", b"/v1/chat/completions", b"/v1/models/a%2Fb", b"/a?b=c&d=%20", b"/a?x={}|^'\"<>", b"/a#b",
    b"/a?b#c", b"/a/../b", b"//a", b"http://h/x?y", b"http://h", b"*", b"/\xff", b"/a?\xff", b"/a b", b"",
    b"x", b"/\x00", b"/a\tb", b"h:1", b"/%zz", b"/" + b"a" * 300,
)  # fmt: skip
_VERSIONS: Final = (
    b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2",
    b"HTTP/1.11", b"http/1.1", b"HTTP/1.", b"HTTP", b"", b"RTSP/1.0", b"HTTP/ 1.1", b"HTTP/1.1 ",
)  # fmt: skip
_ENDS: Final = (b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n ", b" \r\n", b"")
_NAMES: Final = (
    b"X-B", b"X-A", b"x-a", b"Accept", b"Cookie", b"Connection", b"Content-Type", b"Expect", b"User-Agent",
    b"X_A", b"X A", b" X", b"X ", b"X\t", b"", b"X:", b"X\x00", b"\xff", b"(x)",
)  # fmt: skip
_VALUES: Final = (
    b"", b"a", b" a ", b"\ta\t", b"a, b", b"close", b"keep-alive", b"caf\xe9", b"a\x01b", b"a\x00",
    b"a\rb", b"a\nb", b"a\r\n b", b"a\r\n\tb", b"\x7f", b"100-continue", b"x" * 300,
)  # fmt: skip
_LENGTHS: Final = (
    b"0", b"5", b"05", b"+5", b"-5", b"5 ", b" 5", b"5,5", b"5, 5", b"0x5", b"5a", b"", b"\xb2",
    b"18446744073709551616", b"99999999999999999999999", b"5\x00", b"1_0",
)  # fmt: skip
# None is empty: aiohttp's llhttp is older, and takes such a one for none.
_CODINGS: Final = (
    b"chunked", b"Chunked", b" chunked ", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip",
    b"identity", b"xchunked", b"chunked;q=1", b"\tchunked", b"chunked\x0b", b",chunked", b"chunked,",
    b"\"chunked\"",
)  # fmt: skip
_SIZES: Final = (
    b"5", b"005", b"5;a=b", b"5;a", b"5;", b"5 ;a", b"5 ", b" 5", b"+5", b"-5", b"0x5", b"5\t", b"G", b"",
    b"fffffffffffffffff", b"5;a=\"b\r\nc\"", b"5;\x00", b"4", b"6",
)  # fmt: skip


def make_stream(random: Random) -> bytes:
    """Some requests, one behind the other, and perhaps a piece of one more."""
    count = random.randint(1, 3)
    # aiohttp's parser takes trailers for headers of the next request.
    data = b"".join(_request(random, trailers=at == count - 1) for at in range(count))
    odd = random.random()
    if odd < 0.1:
        data = data[: random.randint(0, len(data))]
    elif odd < 0.2 and data:
        at = random.randrange(len(data))
        data = data[:at] + bytes([random.choice(b"\x00\r\n \t:;,0a\xff")]) + data[at + random.randint(0, 1) :]
    elif odd < 0.25:
        data = random.choice((b"\r\n", b"\n", b" ", b"\r\n\r\n", b"\x16\x03\x01")) + data
    return data


def split(random: Random, data: bytes) -> list[bytes]:
    """The same bytes in pieces."""
    pieces = []
    while data:
        size = random.choice((1, 1, 2, 3, 7, 20, 100, len(data)))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def _pick(random: Random, choices: tuple[bytes, ...], right: int) -> bytes:
    """One of the first `right`, which are as they should be; seldom another."""
    return random.choice(choices if random.random() < 0.015 else choices[:right])


def _request(random: Random, *, trailers: bool) -> bytes:
    end = _pick(random, _ENDS, 1)
    line = b" ".join((_pick(random, _METHODS, 8), _pick(random, _TARGETS, 12), _pick(random, _VERSIONS, 4)))
    fields = [(b"Host", b"h")] if random.random() < 0.99 else []
    fields += [(_pick(random, _NAMES, 5), _pick(random, _VALUES, 8)) for _ in range(random.randint(0, 4))]
    body = b""
    framing = random.random()
    if framing < 0.3:
        fields.append((b"Content-Length", _pick(random, _LENGTHS, 3)))
        body = b"hello" if fields[-1][1].strip() != b"0" else b""
    elif framing < 0.6:
        fields.append(
            (random.choice((b"Transfer-Encoding", b"transfer-encoding")), _pick(random, _CODINGS, 2))
        )
        body = _chunks(random, trailers=trailers)
    elif framing < 0.63:
        fields += [(b"Content-Length", b"5"), (b"Transfer-Encoding", b"chunked")]
        body = random.choice((b"hello", b"5\r\nhello\r\n0\r\n\r\n"))
    if random.random() < 0.05:
        fields.append(random.choice(fields) if fields else (b"Content-Length", b"5"))
    random.shuffle(fields)
    lines = b"".join(
        name + random.choice((b": ", b":", b":  ")) + value + _pick(random, _ENDS, 1)
        for name, value in fields
    )
    return line + end + lines + _pick(random, _ENDS, 1) + body


def _chunks(random: Random, *, trailers: bool) -> bytes:
    chunks = [
        _pick(random, _SIZES, 4) + _pick(random, _ENDS, 1) + b"hello" + _pick(random, _ENDS, 1)
        for _ in range(random.randint(0, 3))
    ]
    lines = [
        _pick(random, _NAMES, 5) + b": " + _pick(random, _VALUES, 8) + b"\r\n"
        for _ in range(random.choice((0, 0, 0, 1, 2)) if trailers else 0)
    ]
    return b"".join(
        (*chunks, _pick(random, (b"0\r\n", b"00\r\n", b"0;x\r\n", b"0\n", b"0"), 3), *lines, b"\r\n")
    )
