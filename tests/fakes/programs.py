"""A machine's programs, as a test says them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class FakePrograms:
    """`path`: what bare names stand for; `files`: other programs; `rocm`: folders of libraries by arch."""

    path: Mapping[str, str] = field(default_factory=dict)
    files: Collection[str] = ()
    rocm: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def usable(self, path: Path) -> bool:
        return str(path) in self.files

    def on_path(self, name: str) -> Path | None:
        return Path(self.path[name]) if name in self.path else None

    def below(self, folder: Path, name: str) -> Path | None:
        found = (Path(file) for file in sorted(self.files))
        return next((file for file in found if file.is_relative_to(folder) and file.name == name), None)

    def libraries(self, folder: Path, arch: str) -> tuple[Path, ...]:
        return tuple(folder / name for name in self.rocm.get(arch, ()))
