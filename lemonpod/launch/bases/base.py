"""What a built-in backend is: its options, its routes, and the step from a model to a command line.

The step spawns nothing and looks at nothing: a variant has the same command line as the backend itself, for
it is the same function of the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Final, Protocol

from lemonpod.contract.manifest import CustomOption, HealthProbe
from lemonpod.contract.vocabulary import Accelerator, Capability, Mode, Os
from lemonpod.errors import ReservedArgError
from lemonpod.launch.custom_args import as_text
from lemonpod.launch.options import Options
from lemonpod.launch.plan import Dialect
from lemonpod.launch.substitute import check_passable

START_TIMEOUT: Final = 600.0
"""Seconds that the backends may take to load a model, where a manifest does not say."""
LIBRARIES: Final = "LD_LIBRARY_PATH"

_PRIME: Final = "__NV_PRIME_RENDER_OFFLOAD"
_SEEN: Final = "CUDA_VISIBLE_DEVICES"
_SEEN_OPTION: Final = "cuda_visible_devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a command line is made from. `checkpoint` gives the path of a checkpoint that the model has."""

    executable: str
    port: int
    os: Os
    accelerator: Accelerator
    mode: Mode | None
    labels: frozenset[str]
    options: Options
    custom_args: tuple[str, ...]
    appends_custom_args: bool
    """Whether they follow the backend's own, or stand where the manifest puts them."""
    checkpoints: frozenset[str]
    checkpoint: Callable[[str], str]
    loads_from_hub: str | None
    """The checkpoint's name, where the engine is to fetch it itself."""
    debug: bool
    rocm_libraries: tuple[str, ...]
    inherited_libraries: str | None
    cuda_of_one_kind: tuple[str, ...]
    """The GPUs to show to CUDA, on a host whose GPUs are of several architectures."""
    variables: frozenset[str]
    """The names that the server's environment or the manifest has a value for."""

    @property
    def folder(self) -> str:
        """Where the executable lies, and the libraries that came with it."""
        pure = PureWindowsPath if self.os is Os.WINDOWS else PurePosixPath
        return str(pure(self.executable).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What would be spawned."""

    executable: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: Path | None


class Plan(Protocol):
    """A backend's own part: its arguments and its environment."""

    def __call__(self, start: Start) -> tuple[list[str], dict[str, str]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A built-in backend that has a launch plan."""

    recipe: str
    display_name: str
    program: str
    section: str
    """Its object in config.json."""
    options: tuple[CustomOption, ...]
    renamed: Mapping[str, str]
    """Its own names of the options that every recipe has."""
    capabilities: tuple[Capability, ...]
    accelerators: Mapping[Os, tuple[Accelerator, ...]]
    probe: HealthProbe
    reserved: frozenset[str]
    """What users' arguments may not say."""
    plan: Plan
    engine_paths: Mapping[Capability, str] = field(default_factory=lambda: MappingProxyType({}))
    dialect: Dialect = Dialect.OPENAI
    reserved_if_used: frozenset[str] = frozenset()
    canonical: Callable[[str], str] = str
    """The one spelling of a flag that the program takes in several."""

    def step(self, start: Start) -> Step:
        """The backend's launch plan; raises ReservedArgError for what it keeps to itself, and TokenError."""
        args, env = self.plan(start)
        for text in (*args, *env.values()):
            check_passable(text)
        self._check(start.custom_args, self.reserved | self.reserved_if_used.intersection(args))
        return Step(
            executable=start.executable,
            args=(*args, *(start.custom_args if start.appends_custom_args else ())),
            env=MappingProxyType(env),
            working_dir=Path(start.folder) if start.os is Os.WINDOWS else None,
        )

    def _check(self, args: tuple[str, ...], reserved: frozenset[str]) -> None:
        for arg in args:
            flag = arg.partition("=")[0]
            if self.canonical(flag) in reserved:
                raise ReservedArgError(
                    f"Invalid custom {self.program} arguments:\n"
                    f"Argument '{flag}' is managed by Lemonade and cannot be overridden.\n"
                    f"Reserved arguments: {', '.join(sorted(reserved))}",
                    hint="take it out of 'args'",
                )


def ready_at(endpoint: str) -> HealthProbe:
    """The probe of a backend that is ready when it answers there."""
    return HealthProbe(endpoint=endpoint, timeout=START_TIMEOUT)


def library_path(start: Start) -> dict[str, str]:
    """Where the dynamic loader looks: ROCm's libraries, those beside the program, those of the server."""
    if start.os is Os.WINDOWS:
        return {}
    rocm = start.rocm_libraries if start.accelerator is Accelerator.ROCM else ()
    folders = [*rocm, start.folder, start.inherited_libraries]
    return {LIBRARIES: ":".join(folder for folder in folders if folder)}


def cuda_env(start: Start, *, names_device: bool = False) -> dict[str, str]:
    """The GPU that computes, which on a laptop with two is not the one that draws.

    Which GPUs are seen is said where somebody or this host's mixture of them says it, unless the command line
    counts GPUs by itself. What a variable says already holds.
    """
    if start.accelerator is not Accelerator.CUDA:
        return {}
    env = {_PRIME: "1"}
    chosen = start.options.get(_SEEN_OPTION)
    seen = as_text(chosen.value) if chosen and chosen.chosen else ",".join(start.cuda_of_one_kind)
    if seen and not names_device:
        env[_SEEN] = seen
    return {name: value for name, value in env.items() if name not in start.variables}
