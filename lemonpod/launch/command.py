"""A command line that is about to be a plan, and the parts of it that all recipes have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType

from lemonpod.contract.manifest import Block, HealthProbe, Manifest
from lemonpod.contract.tokens import Template
from lemonpod.contract.vocabulary import CAPABILITIES, Capability, Mode, Os
from lemonpod.errors import LaunchError
from lemonpod.launch.options import Options
from lemonpod.launch.plan import Dialect
from lemonpod.launch.render import Renderer, within
from lemonpod.launch.select import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a recipe's way to describe an engine comes to. `templates` are those that it used."""

    options: Options
    selection: Selection
    render: Renderer
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None
    templates: tuple[Template, ...]
    probe: HealthProbe
    held: Path | None = None
    """The folder of an installed executable."""
    engine_paths: Mapping[Capability, str] = field(default_factory=lambda: MappingProxyType({}))
    """The engine's own, unless the manifest says otherwise."""
    dialect: Dialect = Dialect.OPENAI
    own_words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What clients call the options of this recipe that every recipe has."""


def enable_args(manifest: Manifest, mode: Mode | None, render: Renderer) -> tuple[str, ...]:
    """The arguments that turn on what the model's mode stands for."""
    argv: tuple[str, ...] = ()
    for capability in _enabled(manifest, mode):
        templates = manifest.capability_enable_args.get(capability, ())
        argv += render.vector(templates, f"capability_enable_args.{capability}")
    return argv


def working_dir(block: Block, render: Renderer, os: Os) -> Path | None:
    """The block's folder, if it names one."""
    if block.working_dir is None:
        return None
    with within("working_dir"):
        text = render.text(block.working_dir)
        pure = PureWindowsPath(text) if os is Os.WINDOWS else PurePosixPath(text)
        if not pure.is_absolute():
            raise LaunchError(
                f"'{text}' is not an absolute path",
                hint="write it in full, or begin it with a folder, as in {cache_dir}/work",
            )
        return Path(text)


def other_templates(block: Block, manifest: Manifest, mode: Mode | None) -> Iterator[Template]:
    """All templates but those of the command line, in the order in which people read one."""
    enabled = [manifest.capability_enable_args.get(c, ()) for c in _enabled(manifest, mode)]
    stop = [block.stop_command, *(block.stop_command_args or ())]
    rest = [*block.env.values(), block.working_dir, *stop]
    yield from (t for t in chain(*enabled, rest) if t is not None)


def _enabled(manifest: Manifest, mode: Mode | None) -> list[Capability]:
    """The declared capabilities that are on in `mode`: all that share it, for a model has one mode."""
    return [c for c in manifest.capabilities if mode is not None and CAPABILITIES[c].mode is mode]
