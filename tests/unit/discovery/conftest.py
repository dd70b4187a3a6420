"""A machine's discovery directories, all empty."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.vocabulary import BUILTIN_RECIPES
from lemonpod.discovery.catalog import Catalog, Changes, Rejected, changes, scan
from lemonpod.discovery.paths import DiscoveryPaths
from tests.factories import make_document

EUID = os.geteuid()


@dataclass
class Machine:
    """Files and a clock that a test moves; `scan` scans as a server would, from its last catalog."""

    root: Path
    now: float = 4e9
    catalog: Catalog | None = None
    changes: Changes | None = None
    paths: DiscoveryPaths = field(init=False)

    def __post_init__(self) -> None:
        names = ("config", "cache", "system", "shipped")
        config, cache, system, shipped = (self.root / name / "backends" for name in names)
        for directory in (config, cache, system, shipped):
            directory.mkdir(parents=True)
        self.config, self.cache, self.system, self.shipped = config, cache, system, shipped
        self.paths = DiscoveryPaths(
            user_config=(config,), user_cache=(cache,), system=(system,), shipped=(shipped,)
        )

    def write(self, path: Path, text: str | bytes | None = None, **fields: Any) -> Path:
        """A manifest of `fields`, or the given content, written in place."""
        content = json.dumps(make_document(**fields)) if text is None else text
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(0o644)
        return path

    def scan(self, *, euid: int = EUID) -> Catalog:
        before = self.catalog
        self.now += 3600
        clock = int(self.now * 1e9)
        self.catalog = scan(self.paths, before, builtin=BUILTIN_RECIPES, euid=euid, clock=lambda: clock)
        self.changes = changes(before, self.catalog)
        return self.catalog

    @property
    def recipes(self) -> Mapping[str, Path]:
        """Which file provides each recipe."""
        assert self.catalog is not None
        return {recipe: descriptor.source.path for recipe, descriptor in self.catalog.descriptors.items()}

    def rejected(self, path: Path) -> Rejected:
        assert self.catalog is not None
        (one,) = (rejected for rejected in self.catalog.rejected if rejected.path == path)
        return one

    def reasons(self, path: Path) -> list[str]:
        return [problem.message for problem in self.rejected(path).problems]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")
