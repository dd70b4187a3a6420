"""`/system-info`: this machine, the recipes it can run, and the manifests that were refused."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from lemonpod.contract.bases import base_problem
from lemonpod.contract.manifest import Block, CustomOption, Manifest
from lemonpod.contract.templates import tokens_of
from lemonpod.contract.vocabulary import BUILTIN_RECIPES, Accelerator, Mode, SlotPolicy, modes_of
from lemonpod.discovery.catalog import Catalog, Descriptor, Rejected, Scope
from lemonpod.errors import LaunchError, PlatformNotSupportedError, Problem
from lemonpod.gateway import keys
from lemonpod.gateway.machine_api import describe_machine
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.bases.base import Base
from lemonpod.launch.bases.table import BASES, BUILTIN_MANIFESTS
from lemonpod.launch.installed import artifact_of
from lemonpod.launch.select import Selection, match_arch, select_block
from lemonpod.launch.started import ContainerDriving, known_only_by_cli

_MODALITIES: Final = {
    Mode.CHAT: "Text generation",
    Mode.EMBEDDINGS: "Embeddings",
    Mode.RERANKING: "Reranking",
    Mode.TRANSCRIPTION: "Speech-to-text",
    Mode.TTS: "Text-to-speech",
    Mode.IMAGE: "Image generation",
    Mode.AUDIO_GENERATION: "Audio generation",
    Mode.CLASSIFICATION: "Text classification",
    Mode.MODEL_3D: "3D generation",
}
_BUILTIN_MESSAGE: Final = "lemonpod has no command line for it; a manifest can describe one"
# Lemonade's clients sort recipes by this; its own come first.
_FIRST_ORDER: Final = 1000


@dataclass(frozen=True, slots=True)
class _Standing:
    """How it stands with a recipe: Lemonade's word for it, why it cannot run, what to do, what would run."""

    state: str
    message: str = ""
    action: str = ""
    block: Block | None = None


async def system_info(request: web.Request) -> web.Response:
    """What Lemonade's clients ask for first."""
    inventory = request.app[keys.INVENTORY]
    catalog = inventory.catalog
    recipes = await asyncio.to_thread(_recipes, inventory, catalog)
    return web.json_response(
        {
            **describe_machine(await request.app[keys.MACHINE].facts()),
            "recipes": recipes,
            "rejected_manifests": [_rejected(rejected) for rejected in catalog.rejected],
            "unavailable_recipes": {},
            "no_fetch_executables": True,
            "model_storage": await asyncio.to_thread(_storage, inventory.hub),
            "cloud": {"providers": []},
        }
    )


def _recipes(inventory: Inventory, catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Every recipe; looks for the programs of some."""
    recipes: dict[str, dict[str, Any]] = {}
    for order, name in enumerate(sorted(BUILTIN_RECIPES)):
        base = BASES.get(name)
        recipes[name] = _builtin(name, order) if base is None else _own(base, inventory, order)
    for order, (name, descriptor) in enumerate(sorted(catalog.descriptors.items()), _FIRST_ORDER):
        recipes[name] = _external(descriptor, inventory, order)
    return recipes


def _external(descriptor: Descriptor, inventory: Inventory, order: int) -> dict[str, Any]:
    manifest, facts = descriptor.manifest, inventory.facts
    standing = _standing(manifest, inventory)
    modes = modes_of(manifest.capabilities)
    return {
        "display_name": manifest.display_name,
        "web_display_name": manifest.display_name,
        "modality": _MODALITIES[modes[0]] if modes else "",
        "is_external": True,
        "experimental": False,
        "order": order,
        "slot_policy": manifest.slot_policy,
        "selectable_backend": False,
        "uses_ctx_size": True,
        "default_backend": manifest.recipe,
        "backends": {
            manifest.recipe: {
                "devices": sorted(manifest.platforms.get(facts.os, {})),
                "state": standing.state,
                "message": standing.message,
                "action": standing.action,
                "by_cli": _by_cli(standing.block, inventory.container_driver),
                "can_uninstall": descriptor.source.scope in (Scope.USER_CONFIG, Scope.USER_CACHE),
            }
        },
        "capabilities": list(manifest.capabilities),
        "variant_of": manifest.variant_of,
        "source": {
            "path": str(descriptor.source.path),
            "scope": descriptor.source.scope,
            "sha256": descriptor.source.sha256,
        },
        "support": [],
        "options": [_option(option) for option in manifest.custom_options],
    }


def _standing(manifest: Manifest, inventory: Inventory) -> _Standing:
    """Whether a model of the recipe can run here; looks for the program of a variant."""
    if manifest.variant_of and (problem := base_problem(manifest.variant_of, external=False)):
        return _Standing("unsupported", problem)
    facts = inventory.facts
    try:
        selection = select_block(manifest, facts, inventory.device_of(manifest))
    except PlatformNotSupportedError as error:
        return _Standing("unsupported", str(error))
    except LaunchError as error:  # an option of config.json
        return _Standing("action_required", error.message, error.hint or "")
    if (lacking := _lacking(manifest, selection, facts)) is not None:
        return lacking
    if manifest.variant_of is not None:
        try:
            inventory.program_of(manifest)
        except LaunchError as error:
            state = "installable" if artifact_of(manifest, selection.block) else "action_required"
            return _Standing(state, error.message, error.hint or "", selection.block)
    return _Standing("installed", block=selection.block)


def _lacking(manifest: Manifest, selection: Selection, facts: HostFacts) -> _Standing | None:
    """The fact of this host that keeps the recipe from running, if there is one."""
    block, accelerator = selection.block, selection.accelerator
    if selection.lacks is not None:
        # A GPU that is there and not open to this user is somebody's to open.
        there = any(accelerator in gpu.ways for gpu in facts.gpus)
        message = f"{accelerator} does not work here: {selection.lacks}"
        return _Standing("action_required" if there else "unsupported", message, block=block)
    if "arch_alias" in tokens_of(block) and match_arch(manifest.arch_aliases, selection.arch) is None:
        arch = selection.arch or "no GPU architecture that is known"
        message = f"no entry of arch_aliases is for this host, which has {arch}"
        return _Standing("unsupported", message, block=block)
    return None


def _by_cli(block: Block | None, driving: ContainerDriving) -> str | None:
    """Why a container of this recipe is run by its command line and not over an API."""
    if block is None or block.command is None:
        return None
    return known_only_by_cli([str(block.command), *map(str, block.args or ())], driving)


def _option(option: CustomOption) -> dict[str, Any]:
    return {
        "name": option.name,
        "cli_flag": option.cli_flag,
        "default": option.default,
        "type_name": option.type_name,
        "help": option.help,
        "group": option.group,
    }


def _own(base: Base, inventory: Inventory, order: int) -> dict[str, Any]:
    """A built-in backend that has a launch plan: one of Lemonade's backends for each accelerator."""
    facts = inventory.facts
    default: Accelerator | None = None
    program = reason = cure = ""
    try:
        selection, found = inventory.program_of(BUILTIN_MANIFESTS[base.recipe])
        default, program = selection.accelerator, str(found.path)
    except LaunchError as error:
        reason, cure = error.message, error.hint or ""
    backends = {
        str(name): _own_backend(name in facts.accelerators, program, reason, cure)
        for name in base.accelerators.get(facts.os, ())
    }
    return {
        "display_name": base.display_name,
        "web_display_name": base.display_name,
        "modality": _MODALITIES[modes_of(base.capabilities)[0]],
        "is_external": False,
        "experimental": False,
        "order": order,
        "slot_policy": SlotPolicy.STANDARD,
        "selectable_backend": True,
        "uses_ctx_size": Mode.CHAT in modes_of(base.capabilities),
        "default_backend": default or next(iter(backends), ""),
        "backends": backends,
        "capabilities": list(base.capabilities),
        "support": [],
        "options": [_option(option) for option in base.options],
    }


def _own_backend(here: bool, program: str, reason: str, cure: str) -> dict[str, Any]:
    state = "installed" if program else "action_required"
    return {
        "devices": [],
        "state": state if here else "unsupported",
        "message": (program or reason) if here else "this machine is not known to have one",
        "action": cure if here else "",
        "can_uninstall": False,
    }


def _builtin(name: str, order: int) -> dict[str, Any]:
    return {
        "display_name": name,
        "web_display_name": name,
        "modality": "",
        "is_external": False,
        "experimental": False,
        "order": order,
        "selectable_backend": False,
        "uses_ctx_size": False,
        "default_backend": "cpu",
        "backends": {
            "cpu": {
                "devices": [],
                "state": "unsupported",
                "message": _BUILTIN_MESSAGE,
                "action": "",
                "can_uninstall": False,
            }
        },
        "support": [],
        "options": [],
    }


def _rejected(rejected: Rejected) -> dict[str, Any]:
    return {
        "path": str(rejected.path),
        "recipe": rejected.recipe,
        "reasons": [_reason(problem) for problem in rejected.problems],
        "kept": rejected.kept,
    }


def _reason(problem: Problem) -> dict[str, Any]:
    return {"field": problem.location, "reason": problem.message, "hint": problem.hint}


def _storage(hub: Path) -> dict[str, Any]:
    """The disk that the models are on; the folder itself may not be there yet."""
    existing = next(path for path in (hub, *hub.parents) if os.path.exists(path))  # or may not be looked at
    usage = shutil.disk_usage(existing)
    return {
        "path": str(hub),
        "used_bytes": usage.used,
        "total_bytes": usage.total,
        "free_bytes": usage.free,
    }
