"""The examples of the RFC's sections 13.3 to 13.5, installed from a real HTTPS server and launched."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.vocabulary import BUILTIN_RECIPES, Accelerator, Os
from lemonpod.discovery.paths import DiscoveryPaths
from lemonpod.drivers.process import ProcessDriver
from lemonpod.engine.settings import EngineSettings
from lemonpod.errors import NotInstalledError
from lemonpod.install import place
from lemonpod.install.choice import choose
from lemonpod.install.installing import install
from lemonpod.inventory.inventory import Inventory
from lemonpod.launch.plan import LaunchPlan, ProcessSpec
from lemonpod.launch.request import LaunchSettings
from lemonpod.models.registry import ModelRegistry
from tests.archives import tar_of, zip_of
from tests.factories import make_facts
from tests.https_site import Site
from tests.unit.install.recipes import NO_REPORT, digest
from tests.unit.models.hub import make_repo
from tests.waiting import until

EXAMPLES = Path(__file__).parents[2] / "data/manifests/valid"


class World:
    """A machine with one manifest and a model of it."""

    def __init__(self, folder: Path, document: dict[str, Any], **facts: Any) -> None:
        self.cache = folder / "cache"
        self.facts = make_facts(**facts)
        backends, config, hub = (folder / name for name in ("backends", "config", "hub"))
        for path in (backends, config, hub):
            path.mkdir(mode=0o755, exist_ok=True)
        manifest = backends / "x.json"
        manifest.write_text(json.dumps(document))
        manifest.chmod(0o644)
        if not any(hub.iterdir()):
            make_repo(hub, "m.gguf")
        model = {"recipe": document["recipe"], "checkpoint": "org/repo:m.gguf"}
        (config / "user_models.json").write_text(json.dumps({"m": model}))
        self.recipe = document["recipe"]
        self.inventory = Inventory(
            paths=DiscoveryPaths(user_config=(backends,), user_cache=(), system=(), shipped=()),
            registry=ModelRegistry(config),
            hub=hub,
            facts=self.facts,
            settings=LaunchSettings(hf_cache=hub, cache_dir=self.cache),
            env={"PATH": os.environ["PATH"]},
            builtin=BUILTIN_RECIPES,
            euid=os.geteuid(),
        )
        self.inventory.refresh()

    def install(self, **said: str) -> Path:
        manifest = self.inventory.catalog.descriptors[self.recipe].manifest
        return install(choose(manifest, self.facts, **said), Os.LINUX, self.cache, report=NO_REPORT)

    def plan(self, **overrides: Any) -> LaunchPlan:
        """As `manifest plan` and the server make it."""
        return self.inventory.plan_now("m", overrides, 9)


def program(name: str) -> bytes:
    """Prints what it is and how it was called."""
    return f'#!/bin/sh\necho {name} "$@"\n'.encode()


def output(plan: LaunchPlan) -> str:
    done = subprocess.run(plan.spec.argv, env=dict(plan.env), capture_output=True, text=True, check=True)
    return done.stdout


def example(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text())
    return document


def artifact(site: Site, path: str, content: bytes) -> dict[str, str]:
    return {"source": site.add(path, content), "sha256": digest(content)}


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "tar.gz": lambda content: tar_of({"llama-b1/llama-server": content}, "gz"),
    "tar.xz": lambda content: tar_of({"llama-server": content}, "xz"),
    "tar.bz2": lambda content: tar_of({"bin/llama-server": content}, "bz2"),
    "zip": lambda content: zip_of([("build/bin/llama-server", content, 0)]),
    "bin": lambda content: content,
}


@pytest.mark.parametrize("form", FORMS)
def test_one_artifact(site: Site, tmp_path: Path, form: str) -> None:
    """13.3"""
    made = artifact(site, f"/llama-server-linux-rocm.{form}", FORMS[form](program("nightly")))
    world = World(tmp_path, {**example("rocm-nightly"), **made}, accelerators=(Accelerator.ROCM,))
    with pytest.raises(NotInstalledError) as error:
        world.plan()
    assert error.value.hint == ("lemonpod backends install-external llamacpp-rocm-nightly --accelerator rocm")

    path = world.install()
    plan = world.plan()
    assert plan.spec.argv[0] == str(path)
    said = output(plan)
    assert said.startswith("nightly -m ")
    assert said.endswith("--gpu-layers 0\n")


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("accelerator", ["rocm", "cuda", "cpu"])
def test_one_artifact_per_accelerator(site: Site, tmp_path: Path, accelerator: str, everything: bool) -> None:
    """13.4; the others installed as well, or not."""
    document = example("per-platform")
    forms = {"rocm": "tar.xz", "cuda": "tar.bz2", "cpu": "zip"}
    for name, block in document["platforms"]["linux"].items():
        block |= artifact(site, f"/linux-{name}.{forms[name]}", FORMS[forms[name]](program(f"linux-{name}")))
    world = World(tmp_path, document, accelerators=(Accelerator(accelerator), Accelerator.CPU))
    for name in ("rocm", "cuda", "cpu") if everything else (accelerator,):
        world.install(accelerator=name)

    assert output(world.plan()).startswith(f"linux-{accelerator} -m ")
    for name in {"rocm", "cuda", "cpu"} - {accelerator}:
        if everything:
            assert output(world.plan(device=name)).startswith(f"linux-{name} ")
        else:
            with pytest.raises(NotInstalledError, match="only another artifact is there"):
                world.plan(device=name)


@pytest.mark.parametrize(
    ("arch", "expected"), [("gfx1151", "gfx1151 -m "), ("gfx1150", "gfx115x -m "), ("gfx1152", "gfx115x -m ")]
)
def test_one_artifact_per_arch(site: Site, tmp_path: Path, arch: str, expected: str) -> None:
    """13.5"""
    document = example("arch-overrides")
    document["arch_aliases"]["gfx115*"] = "strix-point"
    overrides = document["platforms"]["linux"]["rocm"]["arch"]
    overrides["gfx1151"] |= artifact(site, "/gfx1151", program("gfx1151"))
    overrides["gfx115*"] |= artifact(site, "/gfx115x.tar.gz", FORMS["tar.gz"](program("gfx115x")))
    world = World(tmp_path, document, accelerators=(Accelerator.ROCM,), rocm_arch=arch)
    path = world.install(arch=arch)

    said = output(world.plan())
    assert said.startswith(expected)
    assert said.endswith("--mtp\n" if arch == "gfx1151" else "--device-name strix-point\n")
    assert world.plan().spec.argv[0] == str(path)


def test_an_edited_digest_is_not_launched_with_the_old_program(site: Site, tmp_path: Path) -> None:
    document = {**example("rocm-nightly"), **artifact(site, "/a", program("old"))}
    World(tmp_path, document).install()
    world = World(tmp_path, {**document, **artifact(site, "/b", program("new"))})

    with pytest.raises(NotInstalledError, match="only another artifact is there"):
        world.plan()
    world.install()
    assert output(world.plan()).startswith("new ")


def test_what_rolls_forward(site: Site, tmp_path: Path) -> None:
    document = {
        **example("rocm-nightly"),
        "source": site.add("/a", program("one")),
        "version_policy": "roll_forward",
    }
    world = World(tmp_path, document)
    world.install()
    assert output(world.plan()).startswith("one ")
    site.add("/a", program("two"), etag='"2"')
    assert output(world.plan()).startswith("one ")
    world.install()
    assert output(world.plan()).startswith("two ")


def test_an_install_that_was_damaged(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, {**example("rocm-nightly"), **artifact(site, "/a", program("x"))})
    world.install().unlink()
    with pytest.raises(NotInstalledError, match="is gone, or no executable file"):
        world.plan()

    world.install()
    assert output(world.plan()).startswith("x ")


async def test_a_running_engine_keeps_its_files(site: Site, tmp_path: Path) -> None:
    """As the server starts it; once it has ended, the next install sweeps."""
    document = {
        **example("rocm-nightly"),
        "health_probe": {"type": "process"},
        "version_policy": "roll_forward",
        "source": site.add("/a", b"#!/bin/sh\nexec sleep 600\n"),
    }
    world = World(tmp_path, document)
    old = world.install()
    plan = world.plan()
    assert isinstance(plan.spec, ProcessSpec)
    assert plan.spec.held == old.parents[1]
    driver = ProcessDriver(tmp_path / "state", os.environ, EngineSettings())
    engine = driver.create(plan)
    await engine.start()
    world.install()
    assert old.exists()

    await engine.stop(grace=0.0)
    await driver.aclose()
    await until(lambda: place.in_use(old.parents[2]) is None)
    world.install()
    assert not old.exists()
