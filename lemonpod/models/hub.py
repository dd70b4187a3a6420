"""Where the Hugging Face cache is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_AUTO: Final = "auto"
_VARIABLE: Final = re.compile(r"\$(?:\{([^}]*)\}|(\w+))")

# Each variable, and what is appended to its value, strongest first: huggingface_hub's own order.
_SOURCES: Final = (
    ("HF_HUB_CACHE", ()),
    ("HUGGINGFACE_HUB_CACHE", ()),
    ("HF_HOME", ("hub",)),
    ("XDG_CACHE_HOME", ("huggingface", "hub")),
)


def hub_dir(environ: Mapping[str, str], models_dir: str | None = None) -> Path:
    """The hub folder: the setting `models_dir` unless unset or "auto", else what the environment says.

    A variable that is set but empty counts as unset, and `~` and `$VAR` are expanded as huggingface_hub does.
    """
    if models_dir and models_dir != _AUTO:
        return _expanded(models_dir, environ)
    for name, below in _SOURCES:
        if value := environ.get(name):
            return _expanded(value, environ).joinpath(*below)
    return _home(environ) / ".cache" / "huggingface" / "hub"


def _expanded(text: str, environ: Mapping[str, str]) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        text = str(_home(environ)) + text[1:]
    elif text.startswith("~"):
        text = os.path.expanduser(text)  # another user's home, from the user database

    def value(match: re.Match[str]) -> str:
        return environ.get(match[1] or match[2], match[0])

    # Absolute, for `{hf_cache}` ends up in mounts; lexically, for a link in it may be somebody's intent.
    return Path(_VARIABLE.sub(value, text)).absolute()


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~"))
