"""A manifest as a value: what `parse` makes of a document that holds every rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from lemonpod.contract.tokens import Template
from lemonpod.contract.vocabulary import (
    Accelerator,
    Capability,
    JsonValue,
    ModelManagement,
    Os,
    ProbeType,
    SlotPolicy,
    VersionPolicy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthProbe:
    """How readiness is told; times in seconds."""

    type: ProbeType = ProbeType.HTTP
    endpoint: str = "/health"
    expected_status: int = 200
    timeout: float = 90.0
    interval: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOption:
    """A knob that the recipe exposes in the CLI and in config files."""

    name: str
    cli_flag: str
    default: JsonValue
    help: str
    type_name: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """An execution block, or the partial one of an arch override: `None` means "not said here"."""

    command: Template | None = None
    args: tuple[Template, ...] | None = None
    env: Mapping[str, Template] = field(default_factory=lambda: MappingProxyType({}))
    stop_command: Template | None = None
    stop_command_args: tuple[Template, ...] | None = None
    working_dir: Template | None = None
    reserved_args: tuple[str, ...] | None = None
    binary: str | None = None
    argv_extra: tuple[Template, ...] | None = None
    source: str | None = None
    sha256: str | None = None
    version_policy: VersionPolicy | None = None
    arch: Mapping[str, Block] = field(default_factory=lambda: MappingProxyType({}))

    def merged_with(self, override: Block) -> Block:
        """This block with every field that `override` says; `env` merges key by key (section 4.6)."""
        said = {name: value for name in _MERGED_FIELDS if (value := getattr(override, name)) is not None}
        env = MappingProxyType({**self.env, **override.env})
        return replace(self, **said, env=env, arch=MappingProxyType({}))


_MERGED_FIELDS: Final = tuple(name for name in Block.__dataclass_fields__ if name not in {"env", "arch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One engine, described. `capabilities` keeps the order of the file: the first gives the default mode."""

    recipe: str
    display_name: str
    api_contract_version: str
    capabilities: tuple[Capability, ...]
    platforms: Mapping[Os, Mapping[Accelerator, Block]]
    capability_enable_args: Mapping[Capability, tuple[Template, ...]]
    probe: HealthProbe
    reserved_args: tuple[str, ...]
    slot_policy: SlotPolicy
    model_management: ModelManagement
    default_accelerator: Accelerator | None
    recipe_options: Mapping[str, JsonValue]
    custom_options: tuple[CustomOption, ...]
    endpoints: Mapping[Capability, str]
    downsize_endpoint: str | None
    arch_aliases: Mapping[str, str]
    extends: str | None
    variant_of: str | None
    source: str | None
    sha256: str | None
    version_policy: VersionPolicy | None
    extensions: Mapping[str, JsonValue]
