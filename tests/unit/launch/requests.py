"""Launch requests that are valid by default; a test says what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from lemonpod.launch.request import LaunchRequest, LaunchSettings
from lemonpod.models.entry import CheckpointFile, CheckpointRef, Origin
from tests.factories import make_document, make_entry, make_facts

HUB = Path("/hub")
MAIN_TEXT = "org/repo:m.gguf"
MAIN_PATH = HUB / "models--org--repo" / "snapshots" / "abc" / "m.gguf"


def make_manifest(**overrides: Any) -> Manifest:
    return parse_manifest(make_document(**overrides))


def block_manifest(*args: str, command: str = "/opt/bin/engine", **block: Any) -> Manifest:
    """A manifest whose only block has these args; what is no block field goes to the top."""
    fields = {"env", "stop_command", "stop_command_args", "working_dir", "arch"}
    top = {name: block.pop(name) for name in list(block) if name not in fields}
    cpu = {"command": command, "args": list(args), **block}
    return make_manifest(platforms={"linux": {"cpu": cpu}}, **top)


def checkpoint(text: str = MAIN_TEXT, path: Path | None = MAIN_PATH, problem: str = "gone") -> CheckpointFile:
    ref = CheckpointRef(text=text, origin=Origin.HUB)
    return CheckpointFile(ref=ref, path=path, problem=problem if path is None else None)


def make_request(manifest: Manifest, **overrides: Any) -> LaunchRequest:
    """A request for `manifest`. `options` are those of user_models.json, `saved` of recipe_options.json."""
    files: Mapping[str, CheckpointFile] = overrides.pop("files", {"main": checkpoint()})
    entry = make_entry(
        recipe=manifest.recipe,
        checkpoints={name: file.ref for name, file in files.items()},
        recipe_options=overrides.pop("options", {}),
        saved_options=overrides.pop("saved", {}),
        labels=overrides.pop("labels", ()),
    )
    settings = LaunchSettings(hf_cache=HUB, cache_dir=Path("/cache"))
    request = LaunchRequest(
        manifest=manifest,
        entry=replace(entry, id=overrides.pop("model", entry.id)),
        files=files,
        overrides={},
        facts=make_facts(),
        port=8001,
        settings=replace(settings, **overrides.pop("settings", {})),
        env={},
    )
    return replace(request, **overrides)
