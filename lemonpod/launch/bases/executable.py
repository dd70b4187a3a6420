"""Where the program of a variant or of a built-in backend is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lemonpod.contract.vocabulary import Accelerator
from lemonpod.errors import LaunchError, NotInstalledError
from lemonpod.launch.bases.base import Base
from lemonpod.launch.bases.words import PREFER_SYSTEM, section_of
from lemonpod.launch.installed import artifact_of, artifacts_of, install_command, install_folder, installed
from lemonpod.launch.request import LaunchRequest
from lemonpod.launch.select import Selection

SYSTEM: Final = "system"
"""As a backend's name: whatever program the PATH has."""

_PATH: Final = "PATH"
# Lemonade would fetch a program for these; lemonpod fetches none.
_NO_PATHS: Final = frozenset({"", "auto", "builtin", "latest"})


@dataclass(frozen=True, slots=True)
class Found:
    """A program, and the place that led to it."""

    path: Path
    origin: str
    held: Path | None = None
    """The folder of the install, which stays while the program runs."""


def program_of_variant(request: LaunchRequest, selection: Selection) -> Found:
    """What was installed of the block's artifact; where it has none, what users put there or on the PATH.

    One that is fetched is pinned, and nothing else may take its place.
    """
    manifest, programs, name = request.manifest, request.programs, selection.block.binary
    if name is None:
        raise LaunchError("a variant's block must set 'binary'")
    if (artifact := artifact_of(manifest, selection.block)) is not None:
        install = installed(manifest, selection, artifact, request.installs)
        path = install.executable(name)
        if path is None or not programs.usable(path):
            raise NotInstalledError(
                f"binary is not installed: {path} is gone, or no executable file",
                hint=install_command(manifest.recipe, selection),
            )
        return Found(path, f"installed from {install.receipt.source}", held=install.folder)
    folder = install_folder(request.settings.cache_dir, manifest.recipe)
    if (path := programs.below(folder, name)) is not None:
        return Found(path, "installed")
    if (path := programs.on_path(name)) is not None:
        return Found(path, _PATH)
    others = ", ".join(sorted(key for key in artifacts_of(manifest, selection.block) if key))
    why = (
        f"the manifest's sources are for other GPUs ({others})"
        if others
        else "the manifest names no source for it"
    )
    raise NotInstalledError(
        f"binary '{name}' is not there, and {why}",
        hint=f"put it into {folder}, or on the PATH of the server",
    )


def programs_of_builtin(request: LaunchRequest, base: Base, asked: str | None) -> Mapping[Accelerator, Found]:
    """The program for each accelerator that the backend could use here; `asked` narrows it to one.

    Raises LaunchError where there is none.
    """
    known = base.accelerators.get(request.facts.os, ())
    if asked is not None and asked != SYSTEM and asked not in known:
        raise LaunchError(
            f"'{asked}' is no backend of {base.recipe} on {request.facts.os}",
            hint=f"it has: auto, {SYSTEM}, {', '.join(known)}",
        )
    wanted = known if asked in (None, SYSTEM) else (Accelerator(asked),)
    for found in _stages(request, base, wanted, only_system=asked == SYSTEM):
        if found and (here := {name: at for name, at in found.items() if name in request.facts.accelerators}):
            return here
        if found and asked is not None:
            return found
    raise LaunchError(
        f"there is no {base.program} for {asked or base.recipe}",
        hint=f"install {base.program} so that it is on the PATH of the server, or name it in config.json: "
        f'"{base.section}": {{"{wanted[0] if wanted else "cpu"}_bin": "/path/to/{base.program}"}}',
    )


def _stages(
    request: LaunchRequest, base: Base, wanted: tuple[Accelerator, ...], *, only_system: bool
) -> Iterator[Mapping[Accelerator, Found]]:
    """By accelerator, from the most wanted place to the least."""
    section = section_of(request, base)
    path = request.programs.on_path(base.program)
    system = {} if path is None else dict.fromkeys(wanted, Found(path, _PATH))
    if not only_system:
        yield {name: found for name in wanted if (found := _configured(request, base, name))}
        if section.get(PREFER_SYSTEM, True) is not True:
            yield _cached(request, base, wanted)
    yield system
    if not only_system:
        yield _cached(request, base, wanted)


def _configured(request: LaunchRequest, base: Base, accelerator: Accelerator) -> Found | None:
    key = f"{accelerator}_bin"
    value = section_of(request, base).get(key)
    if value is None or value in _NO_PATHS:
        return None
    origin = f"config.json: {base.section}.{key}"
    if not isinstance(value, str) or not Path(value).is_absolute():
        raise LaunchError(f"{origin} must be the absolute path of {base.program}, not {value!r}")
    if not request.programs.usable(Path(value)):
        raise LaunchError(f"{origin}: {value} is no executable file", hint="correct it, or chmod +x the file")
    return Found(Path(value), origin)


def _cached(
    request: LaunchRequest, base: Base, wanted: tuple[Accelerator, ...]
) -> Mapping[Accelerator, Found]:
    """What Lemonade has installed with the same cache folder."""
    folder = request.settings.cache_dir / "bin" / base.recipe
    paths = {name: request.programs.below(folder / name, base.program) for name in wanted}
    return {name: Found(path, str(folder / name)) for name, path in paths.items() if path is not None}
