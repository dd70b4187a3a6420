"""Every template of a manifest, with its place, and what they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from lemonpod.contract.location import Path as DocumentPath
from lemonpod.contract.manifest import Block, Manifest
from lemonpod.contract.tokens import CHECKPOINT_TOKENS, Template

MAIN_CHECKPOINT: Final = "main"
_OF_THE_MAIN_CHECKPOINT: Final = frozenset({"resolved_path", "model_relative_path", "model_dir"})


def templates_of(manifest: Manifest) -> Iterator[tuple[DocumentPath, Template]]:
    """Every template that a launch may resolve, and where it is in the document."""
    for capability, args in manifest.capability_enable_args.items():
        yield from (
            (("capability_enable_args", str(capability), index), text) for index, text in enumerate(args)
        )
    for system, blocks in manifest.platforms.items():
        for accelerator, block in blocks.items():
            path: DocumentPath = ("platforms", str(system), str(accelerator))
            yield from _block_templates(path, block)
            for pattern, override in block.arch.items():
                yield from _block_templates((*path, "arch", pattern), override)


def tokens_of(block: Block) -> frozenset[str]:
    """The names of all tokens that a block asks for."""
    return frozenset(token.name for _, text in _block_templates((), block) for token in text.tokens)


def checkpoints_of(manifest: Manifest) -> frozenset[str]:
    """The names of the checkpoints that some launch of the manifest may need."""
    tokens = [token for _, template in templates_of(manifest) for token in template.tokens]
    named = {token.argument for token in tokens if token.name in CHECKPOINT_TOKENS and token.argument}
    implied = {MAIN_CHECKPOINT for token in tokens if token.name in _OF_THE_MAIN_CHECKPOINT}
    return frozenset(named | implied)


def asks_for_weights(manifest: Manifest) -> bool:
    """Whether a model of it must have a main checkpoint; the backend of every variant takes one."""
    return manifest.variant_of is not None or MAIN_CHECKPOINT in checkpoints_of(manifest)


def _block_templates(path: DocumentPath, block: Block) -> Iterator[tuple[DocumentPath, Template]]:
    for field in fields(block):
        match value := getattr(block, field.name):
            case Template():
                yield (*path, field.name), value
            case tuple():
                templates = ((index, text) for index, text in enumerate(value) if isinstance(text, Template))
                yield from (((*path, field.name, index), text) for index, text in templates)
            case Mapping() if field.name == "env":
                yield from (((*path, "env", name), text) for name, text in value.items())
