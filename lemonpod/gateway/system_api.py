"""`/system-info`: this machine, the recipes it can run, and the manifests that were refused."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from lemonpod.contract.manifest import Block, CustomOption, Manifest
from lemonpod.contract.templates import tokens_of
from lemonpod.contract.vocabulary import BUILTIN_RECIPES, Mode, modes_of
from lemonpod.discovery.catalog import Descriptor, Rejected, Scope
from lemonpod.errors import PlatformNotSupportedError, Problem
from lemonpod.gateway import keys
from lemonpod.gateway.machine_api import describe_machine
from lemonpod.host.facts import HostFacts
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.select import match_arch, select_block
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
_BUILTIN_MESSAGE: Final = "lemonpod runs engines that manifests describe; it has none built in"
# Lemonade's clients sort recipes by this; its own come first.
_FIRST_ORDER: Final = 1000


async def system_info(request: web.Request) -> web.Response:
    """What Lemonade's clients ask for first."""
    inventory = request.app[keys.INVENTORY]
    catalog = inventory.catalog
    recipes = {name: _builtin(name, order) for order, name in enumerate(sorted(BUILTIN_RECIPES))}
    for order, (name, descriptor) in enumerate(sorted(catalog.descriptors.items()), _FIRST_ORDER):
        recipes[name] = _external(descriptor, inventory, order)
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


def _external(descriptor: Descriptor, inventory: Inventory, order: int) -> dict[str, Any]:
    manifest, facts = descriptor.manifest, inventory.facts
    state, problem, block = _selected(manifest, facts)
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
                "state": state,
                "message": problem,
                "action": "",
                "by_cli": _by_cli(block, inventory.container_driver),
                "can_uninstall": descriptor.source.scope in (Scope.USER_CONFIG, Scope.USER_CACHE),
            }
        },
        "capabilities": list(manifest.capabilities),
        "source": {
            "path": str(descriptor.source.path),
            "scope": descriptor.source.scope,
            "sha256": descriptor.source.sha256,
        },
        "support": [],
        "options": [_option(option) for option in manifest.custom_options],
    }


def _selected(manifest: Manifest, facts: HostFacts) -> tuple[str, str, Block | None]:
    """The state of a recipe here, why it cannot run, and the block that would."""
    if manifest.variant_of is not None:
        return "unsupported", "variant_of recipes cannot be started by this version", None
    try:
        selection = select_block(manifest, facts, None)
    except PlatformNotSupportedError as error:
        return "unsupported", str(error), None
    block, accelerator = selection.block, selection.accelerator
    if selection.lacks is not None:
        # A GPU that is there and not open to this user is somebody's to open.
        there = any(accelerator in gpu.ways for gpu in facts.gpus)
        message = f"{accelerator} does not work here: {selection.lacks}"
        return ("action_required" if there else "unsupported"), message, block
    if "arch_alias" in tokens_of(block) and match_arch(manifest.arch_aliases, selection.arch) is None:
        arch = selection.arch or "no GPU architecture that is known"
        return "unsupported", f"no entry of arch_aliases is for this host, which has {arch}", block
    return "installed", "", block


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
