"""What may be removed, and when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lemonpod.contract.parse import parse_manifest
from lemonpod.discovery.files import Descriptor, Source
from lemonpod.discovery.paths import Scope
from lemonpod.drivers.spawn import spawn
from lemonpod.errors import InstallError
from lemonpod.install.uninstalling import uninstall
from lemonpod.inventory.installed import find_installs
from tests.https_site import Site
from tests.unit.install.recipes import digest, run, variant

SLEEPER = b"#!/bin/sh\nexec sleep 600\n"


def described(path: Path, scope: Scope, source: str = "https://127.0.0.1:9/a") -> Descriptor:
    manifest = parse_manifest(variant(source, digest(SLEEPER)))
    path.touch()
    return Descriptor(manifest=manifest, source=Source(path=path, scope=scope, sha256="0" * 64))


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        (Scope.SYSTEM, "it is a system descriptor. Remove it with the package manager."),
        (Scope.SHIPPED, "it comes with lemonpod."),
    ],
)
def test_what_is_not_the_users_is_refused(tmp_path: Path, scope: Scope, message: str) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InstallError) as error:
        uninstall(described(path, scope), tmp_path)

    assert error.value.message == f"Refusing to remove '{path}': {message}"
    assert path.exists()


@pytest.mark.parametrize("scope", [Scope.USER_CONFIG, Scope.USER_CACHE])
def test_what_is_the_users_is_removed(tmp_path: Path, scope: Scope) -> None:
    path, folder = tmp_path / "x.json", tmp_path / "external/test-engine"
    folder.mkdir(parents=True)
    (folder / "mine").touch()

    assert uninstall(described(path, scope), tmp_path) == folder
    assert not path.exists()
    assert not folder.exists()


def test_an_engine_that_runs_keeps_all_of_it(site: Site, tmp_path: Path) -> None:
    descriptor = described(tmp_path / "x.json", Scope.USER_CONFIG, site.add("/a", SLEEPER))
    program = run(descriptor.manifest, tmp_path)
    (install,) = find_installs(tmp_path / "external/test-engine").installs
    process = spawn([str(program)], env={"PATH": os.environ["PATH"]}, cwd=None, held=install.folder)
    try:
        with pytest.raises(InstallError, match="an engine runs from"):
            uninstall(descriptor, tmp_path)
        assert program.exists()
        assert descriptor.source.path.exists()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    uninstall(descriptor, tmp_path)
    assert not program.exists()
