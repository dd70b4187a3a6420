"""Which block of a manifest runs: operating system, accelerator, arch override (RFC sections 4.6 and 9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lemonpod.contract.manifest import Block, Manifest
from lemonpod.contract.vocabulary import Accelerator
from lemonpod.errors import PlatformNotSupportedError
from lemonpod.host.choice import missing
from lemonpod.host.facts import HostFacts

_OWN_NAMES: Final = frozenset({Accelerator.CPU, Accelerator.NPU})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The block with its arch override merged in, and how it was found: one line a decision."""

    block: Block
    path: str
    accelerator: Accelerator
    arch: str | None
    """The GPU architecture that overrides and aliases are looked up by."""
    lacks: str | None
    """The fact that is missing for the accelerator, where it was chosen though this host lacks it."""
    override: str | None
    """The key of the arch override in it."""
    lines: tuple[str, ...]

    @property
    def doubt(self) -> str | None:
        """Why an engine of the block may fail here."""
        return _doubt(self.accelerator, self.lacks) if self.lacks else None

    @property
    def device(self) -> str:
        """What clients are told: Lemonade knows cpu, npu, and calls all else gpu."""
        return self.accelerator.value if self.accelerator in _OWN_NAMES else Accelerator.GPU.value


def select_block(
    manifest: Manifest, facts: HostFacts, device: str | None, *, arch: str | None = None
) -> Selection:
    """The block for this host; `device` is what the model's options ask for, in lower case.

    `arch` is said by hand, and holds instead of what is known of this host.
    """
    blocks = manifest.platforms.get(facts.os)
    if not blocks:
        raise PlatformNotSupportedError(
            f"manifest has no platform block for host OS '{facts.os}'",
            hint=f"it has blocks for: {_names(manifest.platforms)}",
        )
    accelerator, why = _accelerator(blocks, manifest.default_accelerator, facts, device)
    lines = [f"operating system: {facts.os}", f"accelerator: {accelerator}, {why}"]
    if lacks := missing(facts, accelerator):
        lines.append(_doubt(accelerator, lacks))
    block, arch, key = blocks[accelerator], arch or facts.arch_of(accelerator), None
    if block.arch:
        key = match_arch(block.arch, arch)
        if key is not None:
            block = block.merged_with(block.arch[key])
            lines.append(f"arch override: '{key}', for {arch}")
        else:
            found = f"for {arch}" if arch else f"as no architecture for {accelerator} is known"
            lines.append(f"arch override: none {found}, of: {_names(block.arch)}")
    return Selection(
        block=block,
        path=f"platforms.{facts.os}.{accelerator}",
        accelerator=accelerator,
        arch=arch,
        lacks=lacks,
        override=key,
        lines=tuple(lines),
    )


def match_arch(patterns: Iterable[str], arch: str | None) -> str | None:
    """The key of `patterns` for `arch`: itself, else the first glob in sorted order that fits it."""
    if not arch:
        return None
    keys = sorted(patterns)
    if arch in keys:
        return arch
    return next((key for key in keys if is_glob(key) and _glob(key).fullmatch(arch)), None)


def _accelerator(
    blocks: Mapping[Accelerator, Block], default: Accelerator | None, facts: HostFacts, device: str | None
) -> tuple[Accelerator, str]:
    passed_over = ""
    if device is not None:
        if device in blocks:
            return Accelerator(device), "the option 'device' of this model"
        passed_over = f" (no block for the device '{device}')"
    if default is not None and default in blocks:
        return default, f"the manifest's default_accelerator{passed_over}"
    for accelerator in facts.accelerators:
        if accelerator in blocks:
            return accelerator, f"found on this host{passed_over}"
    return min(blocks), f"the first of the manifest's, none of which this host is known to have{passed_over}"


def _doubt(accelerator: Accelerator, lacks: str) -> str:
    return f"{accelerator} is not known to work here: {lacks}"


def is_glob(key: str) -> bool:
    """Whether it stands for several architectures."""
    return "*" in key or "?" in key


def _glob(key: str) -> re.Pattern[str]:
    # Not fnmatch: to it "[" begins a set, and here `*` and `?` are all the syntax there is.
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(char) or re.escape(char) for char in key), re.DOTALL)


def _names(keys: Iterable[str]) -> str:
    return ", ".join(sorted(keys))
