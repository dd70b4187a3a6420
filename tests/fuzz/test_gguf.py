"""Headers of GGUF files: what the format's own library has written is read, and nothing else does harm."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path, PosixPath
from typing import Any, ClassVar, Final
from unittest.mock import patch

import pytest
from gguf import GGUFValueType as Kind
from gguf import GGUFWriter
from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.models import gguf
from lemonpod.models.gguf import Header, read_header

# The names are the writer's.
TEXTS: Final = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS: Final[Mapping[Kind, st.SearchStrategy[Any]]] = {
    Kind.UINT8: st.integers(0, (1 << 8) - 1),
    Kind.INT8: st.integers(-1 << 7, (1 << 7) - 1),
    Kind.UINT16: st.integers(0, (1 << 16) - 1),
    Kind.INT16: st.integers(-1 << 15, (1 << 15) - 1),
    Kind.UINT32: st.integers(0, (1 << 32) - 1),
    Kind.INT32: st.integers(-1 << 31, (1 << 31) - 1),
    Kind.FLOAT32: st.floats(width=32),
    Kind.BOOL: st.booleans(),
    Kind.STRING: TEXTS,
    Kind.UINT64: st.integers(0, (1 << 64) - 1),
    Kind.INT64: st.integers(-1 << 63, (1 << 63) - 1),
    Kind.FLOAT64: st.floats(),
}
VALUES: Final = st.sampled_from(list(SCALARS)).flatmap(
    lambda kind: (
        st.tuples(st.just(kind), SCALARS[kind])
        | st.tuples(st.just(Kind.ARRAY), st.lists(SCALARS[kind], min_size=1, max_size=5), st.just(kind))
    )
)
ARCHITECTURES: Final = ("llama", "bert", "gemma3n", "é")
KEYS: Final = st.sampled_from(
    ["general.type", "general.name", "tokenizer.chat_template", "tokenizer.chat_template.tool_use"]
    + [f"{name}.context_length" for name in ARCHITECTURES]
) | TEXTS.filter(lambda key: key != "general.architecture")
USUAL: Final = st.fixed_dictionaries(
    {
        "llama.context_length": st.just((Kind.UINT32, 4096)),
        "tokenizer.ggml.tokens": st.just((Kind.ARRAY, ["<s>", "a"], Kind.STRING)),
        "tokenizer.chat_template": st.just((Kind.STRING, "{{ messages }}")),
    }
)
PAIRS: Final = st.lists(st.tuples(KEYS, VALUES), max_size=8).map(dict) | USUAL
FOUR: Final = st.integers(0, (1 << 32) - 1).map(struct.Struct("<I").pack)
EIGHT: Final = st.sampled_from([0, 1, 255, 4096, 1 << 20, 1 << 40, 1 << 62, (1 << 64) - 1]).map(
    struct.Struct("<Q").pack
)
EDITS: Final = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 8), st.binary(max_size=12) | FOUR | EIGHT), max_size=4
)
STEP: Final = 4 << 10
LIMIT: Final = 1 << 20


class Counted(PosixPath):
    """A path of which it is known how much was read."""

    read: ClassVar[int] = 0

    def open(self, *_: Any, **__: Any) -> Any:
        return _CountedFile(self)


class _CountedFile(io.FileIO):
    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size)
        Counted.read += len(data)
        return data


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New ones, since what was read of a file is remembered."""
    folder = tmp_path_factory.mktemp("gguf")
    return (folder / f"{number}.gguf" for number in count())


def write(path: Path, architecture: str, pairs: Mapping[str, tuple[Any, ...]]) -> bytes:
    writer = GGUFWriter(path, architecture)
    for key, (kind, value, *of) in pairs.items():
        writer.add_key_value(key, value, kind, *of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path.read_bytes()


@given(st.sampled_from(ARCHITECTURES), PAIRS)
@settings(max_examples=200)
def test_what_the_library_writes_is_read(
    paths: Iterator[Path], architecture: str, pairs: dict[str, tuple[Any, ...]]
) -> None:
    def text(key: str) -> str | None:
        kind, value, *_ = pairs.get(key, (None, None))
        return value or None if kind is Kind.STRING else None

    _, length, *_ = pairs.get(f"{architecture}.context_length", (None, None))
    makes_sense = type(length) is int and 0 < length < 1 << 31
    write(path := next(paths), architecture, pairs)

    assert read_header(path) == Header(
        architecture=architecture,
        type=text("general.type"),
        context_length=length if makes_sense else None,
        chat_template=text("tokenizer.chat_template"),
    )


@given(PAIRS, EDITS, st.integers(0, 400) | st.none(), st.booleans())
@settings(max_examples=300)
def test_what_is_damaged_is_read_to_its_limit_or_not_at_all(
    paths: Iterator[Path],
    pairs: dict[str, tuple[Any, ...]],
    edits: list[tuple[int, int, bytes]],
    end: int | None,
    without_end: bool,
) -> None:
    data = write(path := next(paths), "llama", pairs)
    for at, removed, added in edits:
        data = data[:at] + added + data[at + removed :]
    path.write_bytes(data[:end])
    if without_end:
        os.truncate(path, 2 * LIMIT)
    Counted.read = 0

    with patch.object(gguf, "_LIMIT", LIMIT), patch.object(gguf, "_STEP", STEP):
        header = read_header(Counted(path))

    assert header is None or isinstance(header, Header)
    assert Counted.read <= LIMIT
