"""Headers of GGUF files: what they say, and that nothing they say does harm."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from lemonpod.models.gguf import Header, has_magic, read_header
from tests.tiny_model import write_tiny_gguf


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def gguf(*pairs: bytes, version: int = 3, count: int | None = None) -> bytes:
    head = struct.pack("<IQQ", version, 0, len(pairs) if count is None else count)
    return b"GGUF" + head + b"".join(pairs)


ARCH = pair("general.architecture", 8, text("llama"))
TEMPLATE = pair("tokenizer.chat_template", 8, text("{{ messages }}"))


def context(value: bytes, kind: int = 4) -> bytes:
    return pair("llama.context_length", kind, value)


def header(tmp_path: Path, data: bytes) -> Header | None:
    file = tmp_path / "m.gguf"
    file.write_bytes(data)
    return read_header(file)


def test_a_real_file(tmp_path: Path) -> None:
    found = read_header(write_tiny_gguf(tmp_path / "tiny.gguf"))
    assert found is not None
    assert (found.architecture, found.context_length) == ("llama", 2048)
    assert found.chat_template is not None
    assert found.chat_template.startswith("{% for message in messages %}")


def test_arrays_are_passed_over(tmp_path: Path) -> None:
    words = struct.pack("<IQ", 8, 3) + text("a") + text("b" * 100) + text("")
    numbers = struct.pack("<IQ", 6, 4) + b"\0" * 16
    found = header(
        tmp_path,
        gguf(ARCH, pair("tokenizer.ggml.tokens", 9, words), pair("scores", 9, numbers), TEMPLATE),
    )
    assert found == Header(architecture="llama", chat_template="{{ messages }}")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (struct.pack("<I", 4096), 4, 4096),
        (struct.pack("<Q", 131072), 10, 131072),
        (struct.pack("<I", 0), 4, None),
        (struct.pack("<i", -1), 5, None),
        (struct.pack("<Q", 2**63), 10, None),
        (struct.pack("<f", 4096.0), 6, None),
        (b"\1", 7, None),
        (text("4096"), 8, None),
    ],
)
def test_a_context_length_is_a_number_that_makes_sense(
    tmp_path: Path, value: bytes, kind: int, expected: int | None
) -> None:
    found = header(tmp_path, gguf(ARCH, context(value, kind)))
    assert found is not None
    assert found.context_length == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGU",
        b"GGML" + b"\0" * 100,
        gguf(ARCH, version=1),
        gguf(ARCH, version=99),
        b"GGUF" + struct.pack(">I", 3) + b"\0" * 100,
        gguf(ARCH, count=2),
        gguf(ARCH, count=2**63),
        gguf(pair("x", 99, b"")),
        gguf(pair("x", 9, struct.pack("<IQ", 9, 1))),
        gguf(pair("x", 9, struct.pack("<IQ", 8, 2**40))),
        gguf(pair("x", 9, struct.pack("<IQ", 10, 2**62))),
        gguf(struct.pack("<Q", 2**62)),
        gguf(pair("x", 8, struct.pack("<Q", 2**63))),
    ],
)
def test_what_makes_no_sense_says_nothing(tmp_path: Path, data: bytes) -> None:
    assert header(tmp_path, data) is None


def test_a_text_without_end_is_not_kept(tmp_path: Path) -> None:
    long = pair("general.name", 8, text("x" * (2 << 20)))
    assert header(tmp_path, gguf(long, ARCH)) == Header(architecture="llama")


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    assert header(tmp_path, gguf(ARCH)) == Header(architecture="llama")
    assert header(tmp_path, gguf(ARCH, TEMPLATE)) == Header(
        architecture="llama", chat_template="{{ messages }}"
    )


def test_the_magic(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    for data, expected in ((b"GGUFx", True), (b"version https://git-lfs", False), (b"", False)):
        file.write_bytes(data)
        assert has_magic(file) is expected


def test_no_heavy_library_is_needed() -> None:
    import subprocess

    script = "import sys, lemonpod.models.gguf; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
