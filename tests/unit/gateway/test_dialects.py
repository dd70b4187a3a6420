"""Engines of whisper.cpp and stable-diffusion.cpp behind OpenAI's routes, as variants."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.sd_images import generation_body
from tests.fakes.driver import Connection
from tests.unit.gateway.wire import ok
from tests.unit.gateway.world import Starter, World, install_variant

BOUNDARY = "-x-"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
EXTRA = re.compile(r"(.*?) <sd_cpp_extra_args>(.*)</sd_cpp_extra_args>", re.DOTALL)
IMAGES = {"created": 5, "data": [{"b64_json": "aGk="}], "output_format": "png"}
DEFAULTS = {"sample_params": {"sample_steps": 20, "guidance": {"txt_cfg": 7.0}}}

Field = tuple[str, bytes] | tuple[str, bytes, str]


def form(*fields: Field) -> bytes:
    """A form; a third element is a file's name."""
    data = b""
    for name, content, *file in fields:
        more = f'; filename="{file[0]}"\r\nContent-Type: image/x-test' if file else ""
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
        data += head.encode() + content + b"\r\n"
    return data + f"--{BOUNDARY}--\r\n".encode()


def fields_of(body: bytes) -> list[tuple[str, bytes]]:
    """What an engine finds in a form."""
    parts = body.removesuffix(f"--{BOUNDARY}--\r\n".encode()).split(f"--{BOUNDARY}\r\n".encode())[1:]
    found = []
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]*)"', head)
        assert name is not None
        found.append((name[1].decode(), content.removesuffix(b"\r\n")))
    return found


async def variant(start: Starter, folder: Path, base: str, program: str, answer: bytes, **more: Any) -> World:
    """A gateway whose recipe is an installed variant, every request to which is answered so."""
    install_variant(folder, program)

    async def script(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(answer)

    return await start(script, variant_of=base, platforms={"linux": {"cpu": {"binary": program}}}, **more)


async def sd(start: Starter, folder: Path, **more: Any) -> World:
    answer = ok(json.dumps(IMAGES).encode(), "application/json")
    return await variant(start, folder, "sd-cpp", "sd-server", answer, capabilities=["image"], **more)


def told(world: World) -> tuple[str, Mapping[str, Any]]:
    """The prompt of the last request of JSON, and what rode in it."""
    match = EXTRA.fullmatch(json.loads(world.driver.received[-1].body)["prompt"])
    assert match is not None
    return match[1], json.loads(match[2])


@pytest.mark.parametrize("loaded", [False, True])
async def test_a_generation(start: Starter, tmp_path: Path, loaded: bool) -> None:
    world = await sd(start, tmp_path)
    if loaded:
        await world.post("/v1/load", {"model_name": "m"})

    reply = await world.post("/v1/images/generations", {"model": "m", "prompt": "a <pod>", "n": 2})

    assert reply.status == 200
    assert json.loads(reply.body) == IMAGES
    received = world.driver.received[-1]
    assert received.target == "/v1/images/generations"
    body = json.loads(received.body)
    assert (body["n"], body["size"]) == (2, "512x512")
    assert told(world) == ("a <pod>", DEFAULTS)


@pytest.mark.parametrize(
    ("said", "size", "extra"),
    [
        ({"size": "64x32"}, "64x32", DEFAULTS),
        ({"size": "auto"}, "512x512", DEFAULTS),
        ({"width": 8, "height": "16"}, "8x16", DEFAULTS),
        ({"width": 8}, "512x512", DEFAULTS),
        (
            {"steps": 4, "cfg_scale": 0, "sample_method": "euler", "flow_shift": 1.5, "seed": 7},
            "512x512",
            {
                "sample_params": {
                    "sample_steps": 4,
                    "sample_method": "euler",
                    "flow_shift": 1.5,
                    "guidance": {"txt_cfg": 0.0},
                },
                "seed": 7,
            },
        ),
    ],
)
async def test_what_a_generation_says_besides(
    start: Starter, tmp_path: Path, said: dict[str, Any], size: str, extra: dict[str, Any]
) -> None:
    world = await sd(start, tmp_path)
    await world.post("/v1/images/generations", {"model": "m", "prompt": "p", **said})
    body = json.loads(world.driver.received[-1].body)
    assert body["size"] == size
    assert not body.keys() & said.keys() - {"size"}
    assert told(world) == ("p", extra)


async def test_a_negative_seed_is_drawn(start: Starter, tmp_path: Path) -> None:
    world = await sd(start, tmp_path)
    await world.post("/v1/images/generations", {"model": "m", "prompt": "p", "seed": -1})
    assert told(world)[1]["seed"] >= 0


async def test_a_prompt_that_says_it_all_itself(start: Starter, tmp_path: Path) -> None:
    world = await sd(start, tmp_path)
    prompt = 'p <sd_cpp_extra_args>{"seed": 1}</sd_cpp_extra_args>'
    await world.post("/v1/images/generations", {"model": "m", "prompt": prompt})
    assert json.loads(world.driver.received[-1].body)["prompt"] == prompt


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"steps": 1.5}, "'steps' must be a whole number"),
        ({"steps": True}, "'steps' must be a whole number"),
        ({"cfg_scale": "much"}, "'cfg_scale' must be a number"),
        ({"seed": []}, "'seed' must be a whole number"),
        ({"steps": 10**400}, "'steps' must be a whole number"),
        ({"cfg_scale": 10**400}, "'cfg_scale' must be a number"),
        ({"prompt": 5}, "'prompt' must be a string"),
        ({"size": {"width": 5}}, "'size' must be a string"),
        ({"sample_method": ["euler"]}, "'sample_method' must be a string"),
    ],
)
async def test_a_generation_that_says_nonsense(
    start: Starter, tmp_path: Path, said: dict[str, Any], reason: str
) -> None:
    world = await sd(start, tmp_path)
    for _ in range(2):  # while it loads, and when it is ready
        reply = await world.post("/v1/images/generations", {"model": "m", "prompt": "p", **said})
        assert reply.status == 400
        assert reason in reply.body.decode()
        await world.post("/v1/load", {"model_name": "m"})
    assert not world.driver.received


@pytest.mark.parametrize("size", [3, 3 << 20])
async def test_an_edit(start: Starter, tmp_path: Path, size: int) -> None:
    world = await sd(start, tmp_path)
    image = bytes(range(256)) * (size // 256) + b"\r\n--" + b"z" * (size % 256)
    data = form(
        ("model", b"m"),
        ("image", image, 'a "b".png'),
        ("mask", b"M", "mask.png"),
        ("prompt", "ein Löwe".encode()),
        ("steps", b"3"),
        ("n", b"2"),
    )

    reply = await world.post("/v1/images/edits", data, FORM)

    assert json.loads(reply.body) == IMAGES
    received = world.driver.received[-1]
    assert received.target == "/v1/images/edits"
    assert received.values("Content-Type") == [FORM["Content-Type"]]
    (_, prompt), *rest = fields_of(received.body)
    match = EXTRA.fullmatch(prompt.decode())
    assert match is not None
    assert match[1] == "ein Löwe"
    assert json.loads(match[2]) == {"sample_params": {"sample_steps": 3, "guidance": {"txt_cfg": 7.0}}}
    assert rest == [("size", b"512x512"), ("model", b"m"), ("image[]", image), ("mask", b"M"), ("n", b"2")]
    assert b'filename="a %22b%22.png"' in received.body
    assert b"Content-Type: image/x-test" in received.body


async def test_a_variation_is_an_edit(start: Starter, tmp_path: Path) -> None:
    world = await sd(start, tmp_path)
    data = form(("model", b"m"), ("image", b"", "a.png"), ("prompt", b"no"), ("flow_shift", b"2"))

    reply = await world.post("/v1/images/variations", data, FORM)

    assert reply.status == 200
    received = world.driver.received[-1]
    assert received.target == "/v1/images/edits"
    fields = dict(fields_of(received.body))
    match = EXTRA.fullmatch(fields["prompt"].decode())
    assert match is not None
    assert match[1] == "variation"
    assert json.loads(match[2]) == DEFAULTS
    assert fields["image[]"] == b""


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (("steps", b"x"), "'steps' must be a whole number"),
        (("prompt", b"\xff"), "The field 'prompt' is not UTF-8"),
        (("prompt", b"x" * (1 << 20) + b"y"), "The field 'prompt' is too long"),
    ],
)
async def test_an_edit_that_says_nonsense(start: Starter, tmp_path: Path, field: Field, reason: str) -> None:
    world = await sd(start, tmp_path)
    reply = await world.post("/v1/images/edits", form(("model", b"m"), field, ("prompt", b"p")), FORM)
    assert reply.status == 400
    assert reason in reply.body.decode()


def test_a_generation_nested_as_deep_as_no_parser_goes() -> None:
    """What is let in is just below that, and how much depth is left here depends on who calls."""
    with pytest.raises(MalformedRequestError, match="nested too deeply"):
        generation_body(b'{"prompt": "p", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {})


async def test_an_engine_that_refuses_keeps_its_words(start: Starter, tmp_path: Path) -> None:
    body = json.dumps({"error": "prompt required"})
    refusal = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    world = await variant(start, tmp_path, "sd-cpp", "sd-server", refusal, capabilities=["image"])
    reply = await world.post("/v1/images/generations", {"model": "m"})
    assert reply.status == 400
    assert json.loads(reply.body)["error"]["message"] == "prompt required"


@pytest.mark.parametrize(
    ("kind", "answer", "told_as"),
    [
        ("application/json", b'{"text":" Hi\\n"}', "application/json"),
        ("text/html; charset=utf-8", b" Hi\n", "text/plain; charset=utf-8"),
        ("application/x-subrip", b"1\n", "text/plain; charset=utf-8"),
        ("text/vtt", b"WEBVTT\n\n", "text/plain; charset=utf-8"),
    ],
)
async def test_a_transcription(
    start: Starter, tmp_path: Path, kind: str, answer: bytes, told_as: str
) -> None:  # H25
    world = await variant(
        start, tmp_path, "whispercpp", "whisper-server", ok(answer, kind), capabilities=["transcription"]
    )
    data = form(("file", b"RIFF", "a.wav"), ("model", b"m"), ("response_format", b"srt"))

    reply = await world.post("/v1/audio/transcriptions", data, FORM)

    assert reply.body == answer
    assert reply.values("Content-Type") == [told_as]
    received = world.driver.received[-1]
    assert received.target == "/inference"
    assert received.body == data
