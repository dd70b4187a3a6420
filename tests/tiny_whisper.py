"""A whisper model that is real and knows nothing: whisper.cpp takes one without weights, for tests."""

from __future__ import annotations

import io
import math
import struct
import wave
from pathlib import Path
from typing import Final

_MAGIC: Final = 0x67676D6C
_ENGLISH_ONLY: Final = 51864
_MELS, _BINS = 80, 201
_RATE: Final = 16_000


def write_tiny_whisper(path: Path) -> Path:
    """A model file of whisper.cpp's older format: sizes, mel filters and a few words."""
    audio_context, text_context, width, heads, layers, half_floats = 1500, 448, 64, 1, 4, 1
    sizes = (audio_context, width, heads, layers, text_context, width, heads, layers, _MELS, half_floats)
    words = [bytes([value]) for value in range(256)]
    path.write_bytes(
        b"".join(
            (
                struct.pack("<I11i", _MAGIC, _ENGLISH_ONLY, *sizes),
                struct.pack("<2i", _MELS, _BINS),
                struct.pack(f"<{_MELS * _BINS}f", *([1 / _BINS] * (_MELS * _BINS))),
                struct.pack("<i", len(words)),
                *(struct.pack("<I", len(word)) + word for word in words),
            )
        )
    )
    return path


def make_tone(seconds: float = 1.0) -> bytes:
    """A WAV file that holds one tone."""
    samples = (int(8000 * math.sin(n * 0.15)) for n in range(int(seconds * _RATE)))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(_RATE)
        writer.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()
