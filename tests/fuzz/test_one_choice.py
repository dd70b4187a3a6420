"""What is selected, installed, planned and served is one thing, over any manifest and any machine.

Everything runs as it does for people: `install-external` and `manifest plan` as commands, the server's plan
from the server's own inventory. Only the machine is another.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lemonpod import bootstrap
from lemonpod.cli.app import run
from lemonpod.config import find_folders, load_settings
from lemonpod.contract.parse import parse_manifest
from lemonpod.contract.vocabulary import Accelerator, Os
from lemonpod.errors import LemonpodError
from lemonpod.host.facts import HostFacts
from lemonpod.launch.installed import (
    FILES,
    RECEIPT,
    Artifact,
    Receipt,
    all_artifacts,
    artifact_of,
    install_folder,
    receipt_as_json,
)
from lemonpod.launch.plan import describe
from lemonpod.launch.select import Selection, select_block
from tests.factories import make_document
from tests.fuzz.test_install_choice import ACCELERATORS, KEYS, documents, hosts
from tests.hardware import FILES as MACHINES
from tests.hardware import facts_of, machine
from tests.unit.models.hub import make_repo

RECIPE = "test-engine"
BINARIES = ("server", "other-server")

real_hosts = st.sampled_from([facts_of(machine(file.stem)) for file in MACHINES])
aliases = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["short", "long"]), max_size=2)
templates = st.sampled_from([[], ["--for", "{arch_alias}"], ["{rocm_arch}.{cuda_arch}"]])
passthrough = st.builds(
    lambda args, arch, names: make_document(
        platforms={"linux": {name: {"command": "/bin/true", "args": args, "arch": arch} for name in names}}
    ),
    templates,
    st.dictionaries(st.sampled_from(KEYS), st.builds(lambda args: {"args": args}, templates), max_size=3),
    st.lists(ACCELERATORS, unique=True, min_size=1, max_size=3),
)


@st.composite
def recipes(draw: st.DrawFn) -> dict[str, Any]:
    """Mostly variants; with names that depend on the architecture, and options of the recipe's own."""
    document = draw(st.one_of(documents(), documents(), passthrough))
    document["arch_aliases"] = draw(aliases)
    if "variant_of" in document:
        for block in document["platforms"]["linux"].values():
            block["argv_extra"] = draw(templates)
    device = draw(st.none() | st.sampled_from(sorted(document["platforms"]["linux"])) | ACCELERATORS)
    return document if device is None else {**document, "recipe_options": {"device": device}}


@dataclass
class Home:
    """A user's folders, with one recipe, a model of it, and some of what can be installed."""

    path: Path
    environ: Mapping[str, str]

    @classmethod
    def made(cls, path: Path, document: dict[str, Any]) -> Home:
        config = path / ".config/lemonade"
        (config / "backends").mkdir(parents=True)
        file = config / "backends/test-engine.json"
        file.write_text(json.dumps(document))
        file.chmod(0o644)
        hub = path / ".cache/huggingface/hub"
        hub.mkdir(parents=True)
        make_repo(hub, "m.gguf")
        model = {"recipe": RECIPE, "checkpoint": "org/repo:m.gguf"}
        (config / "user_models.json").write_text(json.dumps({"m": model}))
        return cls(path, {"PATH": os.environ["PATH"], "HOME": str(path)})

    @property
    def cache(self) -> Path:
        return self.path / ".cache/lemonade"

    def install(self, artifact: Artifact, number: int) -> Path:
        """What installing it would leave, without the download."""
        folder = install_folder(self.cache, RECIPE) / f"{number:04}-{number:012x}"
        (folder / FILES).mkdir(parents=True)
        for name in BINARIES:
            (folder / FILES / name).write_text("#!/bin/sh\n")
            (folder / FILES / name).chmod(0o755)
        sha256 = artifact.sha256 or f"sha256:{number:064}"
        receipt = Receipt(source=artifact.source, sha256=sha256, binaries={name: name for name in BINARIES})
        (folder / RECEIPT).write_text(json.dumps(receipt_as_json(receipt)))
        return folder

    def command(self, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a command, without a terminal."""
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = run(words)
        return code, out.getvalue(), err.getvalue()

    def asked_to_install(self, *words: str) -> dict[str, str] | None:
        """What people are told before they are asked; None for an error."""
        code, out, err = self.command("backends", "install-external", RECIPE, *words)
        if "External backend: " not in out:
            assert code == 1
            event(err.partition(";")[0].partition("(")[0])
            return None
        lines = (line.strip().partition(": ") for line in out.splitlines() if line.startswith("  "))
        return {name: value for name, _, value in reversed([*lines])}  # the first of a name counts

    def planned(self, *words: str) -> Any:
        """The plan as the command prints it, or its error."""
        code, out, err = self.command("manifest", "plan", RECIPE, "--model", "m", "--json", *words)
        return json.loads(out) if code == 0 else err

    def served(self, overrides: Mapping[str, Any]) -> Any:
        """The plan that the server starts an engine from, or its error."""
        inventory = bootstrap.make_inventory(
            load_settings(self.environ, find_folders(self.environ)), self.environ
        )
        try:
            return json.loads(json.dumps(describe(asyncio.run(inventory.plan("m", overrides, 8001)))))
        except LemonpodError as error:
            return error


def place_of(selection: Selection) -> str:
    return selection.path + (f".arch.{selection.override}" if selection.override else "")


@pytest.mark.timeout(300)
@settings(max_examples=100)
@given(recipes(), hosts | real_hosts, st.data())
def test_one_choice(document: dict[str, Any], facts: HostFacts, data: st.DataObject) -> None:
    manifest = parse_manifest(document)
    named = st.sampled_from(sorted(manifest.platforms[Os.LINUX]))
    accelerator = data.draw(st.none() | named | named | ACCELERATORS)
    option = document.get("recipe_options", {}).get("device")
    selection = select_block(manifest, facts, accelerator or option)
    artifact = artifact_of(manifest, selection.block)
    offered = [*dict.fromkeys(all_artifacts(manifest, Os.LINUX))]
    there = data.draw(st.lists(st.sampled_from(offered), unique=True) if offered else st.just([]))
    with tempfile.TemporaryDirectory() as name:
        home = Home.made(Path(name), document)
        with (
            patch.dict(os.environ, home.environ, clear=True),
            patch.object(bootstrap, "detect", lambda: facts),
        ):
            folders = {one: home.install(one, number) for number, one in enumerate(there, 1)}
            said = [] if accelerator is None else ["--option", f"device={accelerator}"]
            planned = home.planned(*said)
            served = home.served({} if accelerator is None else {"device": accelerator.value})
            if isinstance(served, LemonpodError):
                assert served.message in planned
                event(type(served).__name__)
            else:
                assert planned == served
                assert planned["block"] == selection.path
                assert planned["selection"][: len(selection.lines)] == [*selection.lines]
            told = home.asked_to_install(*([] if accelerator is None else ["--accelerator", accelerator]))
            if told is not None:
                assert told["block"] == place_of(selection)
                assert told["source"] == (artifact.source if artifact else "(user-provided binary)")
                assert told.get("sha256", "").startswith("sha256:") is bool(artifact and artifact.sha256)
            if artifact is None:
                return
            fitting = [folder for one, folder in folders.items() if same(one, artifact)]
            if not isinstance(served, LemonpodError):
                assert Path(served["argv"][0]).parents[1] in fitting
            elif not fitting:
                # It names a command, which installs just what is missing.
                words = shlex.split(served.hint or "")
                assert words[:3] == ["lemonpod", "backends", "install-external"]
                mended = home.asked_to_install(*words[4:])
                assert mended is not None
                assert (mended["block"], mended["source"]) == (place_of(selection), artifact.source)


def same(one: Artifact, other: Artifact) -> bool:
    """Whether what was installed of one is right for the other."""
    return one.source == other.source if other.sha256 is None else one.sha256 == other.sha256


@pytest.mark.parametrize("file", MACHINES, ids=lambda file: file.stem)
def test_every_machine_has_its_own(file: Path, tmp_path: Path) -> None:
    """A block for every accelerator, an artifact for every architecture: what is fetched is what is run."""
    facts = facts_of(machine(file.stem))
    archs = sorted({gpu.arch for gpu in facts.gpus if gpu.arch}) or ["none"]

    def source(*names: str) -> dict[str, str]:
        return {"source": f"https://example.invalid/{'/'.join(names)}", "version_policy": "roll_forward"}

    blocks = {
        name: {"binary": "server", **source(name), "arch": {arch: source(name, arch) for arch in archs}}
        for name in Accelerator
    }
    document = make_document(variant_of="llamacpp", platforms={"linux": blocks})
    manifest = parse_manifest(document)
    home = Home.made(tmp_path, document)
    with patch.dict(os.environ, home.environ, clear=True), patch.object(bootstrap, "detect", lambda: facts):
        for number, accelerator in enumerate(facts.accelerators, 1):
            told = home.asked_to_install("--accelerator", accelerator)
            arch = facts.arch_of(accelerator)
            assert told is not None
            assert told["source"] == source(accelerator, *([arch] if arch else []))["source"]
            artifact = artifact_of(manifest, select_block(manifest, facts, accelerator).block)
            assert artifact is not None
            folder = home.install(artifact, number)
            planned = home.planned("--option", f"device={accelerator}")
            assert planned == home.served({"device": accelerator.value})
            assert Path(planned["argv"][0]).parents[1] == folder
