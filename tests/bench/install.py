"""Programs of peers that no distribution carries, made once and kept in a folder of their own.

llama-swap is taken from the PATH or from the folder; else it is built by the Go toolchain, from
`llama-swap-source` in the folder if that is there. LiteLLM gets an environment of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TIME: Final = 600.0
_LLAMA_SWAP: Final = "github.com/mostlygeek/llama-swap"


class MissingError(Exception):
    """A peer cannot be had here; the message says why."""


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "lemonpod-bench")


def on_path(program: str, package: str) -> str:
    """The program's path; raises MissingError naming the package that has it."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if found is None:
        raise MissingError(f"no {program} here: apt-get install {package}")
    return found


def said_by(argv: Sequence[str]) -> str:
    """The first line that a program says when it is asked for its version, whatever it ends with."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().partition("\n")[0]


def litellm(cache: Path) -> str:
    """LiteLLM's proxy, from PyPI."""
    folder = cache / "litellm"
    program = folder / "bin" / "litellm"
    if not program.exists():
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin" / "pip"), "install", "--quiet", "litellm[proxy]"])
    return str(program)


def litellm_version(cache: Path) -> str:
    """Of the package; its program would take seconds to say so."""
    ask = "from importlib.metadata import version; print('LiteLLM', version('litellm'))"
    return said_by([str(cache / "litellm" / "bin" / "python"), "-c", ask])


def llama_swap(cache: Path) -> str:
    """llama-swap, without its web page."""
    program = _own_llama_swap(cache)
    if found := shutil.which("llama-swap"):
        return found
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            raise MissingError("neither llama-swap nor a Go toolchain here")
        source = _source(cache)
        cache.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            _run([go, "build", "-o", str(program), "."], folder=source)
        else:
            environ = {**os.environ, "GOBIN": str(cache), "GOFLAGS": "-mod=mod"}
            _run([go, "install", f"{_LLAMA_SWAP}@latest"], environ=environ)
    return str(program)


def llama_swap_version(cache: Path) -> str:
    """What the program says; one that was built from a folder knows nothing, but the folder does."""
    program, source = llama_swap(cache), _source(cache)
    if program == str(_own_llama_swap(cache)) and source.is_dir():
        return f"llama-swap {said_by(['git', '-C', str(source), 'describe', '--tags', '--always'])}"
    return f"llama-swap {said_by([program, '-version'])}"


def _own_llama_swap(cache: Path) -> Path:
    return cache / "llama-swap"


def _source(cache: Path) -> Path:
    return cache / "llama-swap-source"


def _run(
    argv: Sequence[str], *, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> None:
    try:
        done = subprocess.run(
            argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=_TIME, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MissingError(f"{' '.join(argv)} took more than {_TIME:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MissingError(f"{' '.join(argv)}: {said[-1] if said else done.returncode}")
