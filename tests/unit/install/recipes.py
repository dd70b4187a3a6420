"""Manifests of variants, installed from a site."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.vocabulary import Os
from lemonpod.install.choice import choose
from lemonpod.install.installing import install
from tests.factories import make_document, make_facts

NO_REPORT: Callable[..., None] = lambda *_: None  # noqa: E731


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def variant(source: str, sha256: str | None, binary: str = "server", **document: Any) -> dict[str, Any]:
    """A manifest document with one block; without a digest it rolls forward."""
    pin = {"version_policy": "roll_forward"} if sha256 is None else {"sha256": sha256}
    block = {"binary": binary, "source": source, **pin}
    return make_document(**{"variant_of": "llamacpp", "platforms": {"linux": {"cpu": block}}, **document})


def parsed(source: str, sha256: str | None, binary: str = "server") -> Manifest:
    return parse_manifest(variant(source, sha256, binary))


def run(manifest: Manifest, cache: Path, **chosen: str) -> Path:
    """Install it as the command would."""
    return install(choose(manifest, make_facts(), **chosen), Os.LINUX, cache, report=NO_REPORT)
