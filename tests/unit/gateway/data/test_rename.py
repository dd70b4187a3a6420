"""The name in answers: the client's own, and not another byte changed."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.gateway.data.rename import EventRenamer, JsonRenamer, renamed

NAME = 'asked/"for" é'
NEW = json.dumps(NAME).encode()
PATH = b'"/srv/models/gemma.gguf"'


def by_events(data: bytes, *, size: int | None = None, name: str = NAME) -> bytes:
    renamer = EventRenamer(name)
    size = size or len(data) or 1
    return b"".join(renamer.feed(data[at : at + size]) for at in range(0, len(data), size))


NAMED = [  # what stands where the new name is to stand, as MODEL
    b'data: {"model":MODEL}\n\n',
    b'data:{"model" : MODEL , "a":1}\n\n',
    b'data: {"a":"\\"model\\":\\"x\\"","model":MODEL}\n\n',
    b'data: {"choices":[{"delta":{"content":"{\\\\"}}],"model":MODEL,"object":"o"}\r\n\r\n',
    b'data: {"choices":[{"delta":{"model":"not","content":"["}}],"model":MODEL}\n\n',
    b'data: {"a":{"model":"not"},"b":["model","model"],"c":"model","model":MODEL}\n\n',
    b'data: {"mod\\u0065l":MODEL}\n\n',
    b'event: response.created\ndata: {"type":"r","response":{"id":"x","model":MODEL,"a":{"model":"n"}}}\n\n',
    b'data: {"response":{"model":MODEL},"model":MODEL}\n\n',
    b'data: {"model":MODEL,"model":MODEL}\n\n',
    b'id: 1\r\ndata: {"a":1,\r\ndata: "model":MODEL}\r\n\r\n',
    b'data: {"a":1}\ndata: {"model":MODEL}\n\n',
    b'data: {"a":"broken\ndata: {"model":MODEL}\n\n',
    b'data: {"model":MODEL}\r\rdata: {"model":MODEL}\r\r',
    b'data: {"model":MODEL:"x"}\n\n',
    b'data: [DONE]\n\ndata: {"model":MODEL}',
    b': ping\n\n\n\ndata: {"a":' + b"[" * 12 + b"]" * 12 + b',"model":MODEL}\n\n',
    b'data: {"pad":"' + b"\\\\x" * 10_000 + b'","model":MODEL}\n\n',
]


@pytest.mark.parametrize("old", [PATH, b'""', b'"a\\"b\\\\"', b'"\xe6\x97\xa5\xff"', NEW])
@pytest.mark.parametrize("stream", NAMED)
def test_the_name_in_an_event_becomes_the_asked_one(stream: bytes, old: bytes) -> None:
    data = stream.replace(b"MODEL", old)
    expected = stream.replace(b"MODEL", NEW)

    assert by_events(data) == expected
    if stream.endswith((b"\n\n", b"\r\n\r\n")):
        assert by_events(data * 3) == expected * 3
    for size in (1, 2, 3, 7, 50):
        assert by_events(data, size=size) == expected


KEPT = [
    b"",
    b"\n",
    b'data: {"content":"\\"model\\":\\"x\\""}\n\n',
    b'data: {"content":"say \\"model"}\n\n',
    b'data: {"type":"model","x":["model"],"y":{"model":"z"}}\n\n',
    b'data: {"model":null}\n\ndata: {"model":{"model":"x"}}\n\ndata: {"model":["x"]}\n\n',
    b'data: [{"model":"x"}]\n\n',
    b'data: "model":"x"\n\n',
    b'data: x {"model":"x"}\n\n',
    b'event: {"model":"x"}\n: {"model":"x"}\nmodel: "x"\ndatax: {"model":"x"}\n\n',
    b'data: {"Model":"x"," model":"x","models":"x","mode":"x"}\n\n',
    b'data: {"response":[{"model":"x"}],"other":{"response":{"model":"x"}}}\n\n',
    b'data: {"response":"{","x":{"model":"x"}}\n\n',
    b'error: {"model":"x"}\n\ndata: [DONE]\n\n',
]


@pytest.mark.parametrize("data", KEPT)
def test_nothing_else_is_touched(data: bytes) -> None:
    for size in (len(data) or 1, 1, 2, 5):
        assert by_events(data, size=size) == data


CHUNKS = {
    "model first": b'data: {"id":"c-1","created":7,"model":MODEL,"choices":[{"d":{"content":WORDS}}]}\n\n',
    "model last": b'data: {"choices":[{"delta":{"content":WORDS}}],"created":7,"model":MODEL,"x":1}\n\n',
    "spaced": b'data: {"model": MODEL, "choices": [{"text": WORDS}]}\r\n\r\n',
    "no words": b'data: {"n":WORDS,"model":MODEL}\n\n',
}


@pytest.mark.parametrize("chunk", CHUNKS.values(), ids=list(CHUNKS))
def test_a_remembered_form_fits_nothing_else(chunk: bytes) -> None:
    words = [
        b'" a"', b'" b"', b'"\\"model\\":\\"x"', b'"\\\\"', b'"x","model":"/evil"',
        b'"}}],"model":"/evil","z":[{"x":{"y":"', b'"\\u006dodel"', b"null", b'""', b'"\xff"',
        b'"a\nb"', b'"c"',
    ]  # fmt: skip
    renamer = EventRenamer(NAME)

    for word in words:
        event = chunk.replace(b"WORDS", word)
        sent = renamer.feed(event.replace(b"MODEL", PATH))
        assert sent == by_events(event.replace(b"MODEL", PATH), size=1)
        if word.startswith(b'"x') or b"\n" in word or word.startswith(b'"}'):
            continue
        assert sent == event.replace(b"MODEL", NEW)


@pytest.mark.parametrize("chunk", CHUNKS.values(), ids=list(CHUNKS))
def test_the_segment_itself_is_returned_where_the_engine_says_the_same(chunk: bytes) -> None:
    renamer = EventRenamer(NAME)

    for word in (b'"a"', b'"b"', b'"c"', b'"d"'):
        segment = chunk.replace(b"MODEL", NEW).replace(b"WORDS", word)
        assert renamer.feed(segment) is segment


def test_an_event_is_sent_as_far_as_it_has_come() -> None:
    renamer = EventRenamer("new")

    assert renamer.feed(b"da") == b"da"
    assert renamer.feed(b'ta: {"mo') == b'ta: {"mo'
    assert renamer.feed(b'del"') == b'del"'
    assert renamer.feed(b':"') == b':"new'
    assert renamer.feed(b"/srv/old\\") == b""
    assert renamer.feed(b'"x') == b""
    assert renamer.feed(b'","a"') == b'","a"'


BODIES = [
    b'{"model":MODEL}',
    b' \r\n\t{ "model" : MODEL } \n',
    b'{\n  "choices": [\n    {"message": {"content": "\\"model\\": {"}}\n  ],\n  "model": MODEL\n}\n',
    b'{"a":{"model":"no"},"model":MODEL}',
    b'{"a":["model"],"b":"model","mod\\u0065l":MODEL,"c":1e999}',
    b'{"embedding":[' + b"0.125," * 10_000 + b'1],"model":MODEL}',
    b'{"a":"x\\\\","model":MODEL,"response":{"model":"kept"}}',
]


@pytest.mark.parametrize("body", BODIES)
def test_the_name_in_a_body_becomes_the_asked_one(body: bytes) -> None:
    data, expected = body.replace(b"MODEL", PATH), body.replace(b"MODEL", NEW)

    assert renamed(data, NAME) == expected
    renamer = JsonRenamer(NAME)
    assert b"".join(renamer.feed(data[at : at + 3]) for at in range(0, len(data), 3)) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b'"model"',
        b"[]",
        b'[{"model":"x"}]',
        b'{"model":1}',
        b'{"a":"model"}',
        b"\xff",
        b'{"model',
    ],
)
def test_a_body_without_a_name_is_kept(body: bytes) -> None:
    assert renamed(body, NAME) == body


TEXTS = st.text() | st.sampled_from(
    ["model", '"model":"x"', '{"model":"x"}', "\\", '\\"', "response", "data: [DONE]", '","model":"', "\n\n"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=4)


@st.composite
def events(draw: st.DrawFn) -> tuple[bytes, object]:
    """An event's line of data, and what the client should read."""
    before, after = draw(OBJECTS), draw(OBJECTS)
    document: dict[str, object] = {**before, **({"model": "/old"} if draw(st.booleans()) else {}), **after}
    if draw(st.booleans()):
        document["response"] = {**draw(OBJECTS), "model": "/old"}
    separators = (",", ":") if draw(st.booleans()) else (", ", ": ")
    text = json.dumps(document, ensure_ascii=draw(st.booleans()), separators=separators)
    wanted = dict(document)
    if isinstance(wanted.get("model"), str):
        wanted["model"] = NAME
    response = wanted.get("response")
    if isinstance(response, dict) and isinstance(response.get("model"), str):
        wanted["response"] = response | {"model": NAME}
    return text.encode(), json.loads(json.dumps(wanted))


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(marks)]


CUTS = st.lists(st.integers(0, 1 << 16), max_size=12)


@given(st.lists(events(), max_size=4), CUTS, st.sampled_from([b"\n", b"\r\n", b"\r"]))
@settings(max_examples=400)
def test_any_events_split_anywhere_read_the_same_but_for_the_name(
    told: list[tuple[bytes, object]], cuts: list[int], end: bytes
) -> None:
    data = b"".join(b"data: %b%b%b" % (text, end, end) for text, _ in told)

    renamer = EventRenamer(NAME)
    sent = b"".join([renamer.feed(segment) for segment in split(data, cuts)])

    assert sent == by_events(data) == by_events(data, size=1)
    lines = [line for line in sent.split(end) if line]
    assert [json.loads(line.removeprefix(b"data: ")) for line in lines] == [wanted for _, wanted in told]
