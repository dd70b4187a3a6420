"""When an engine is asked its version: for what old ones pass over, once, and before a refusal again."""

from __future__ import annotations

from pathlib import Path

import pytest

from lemonpod.drivers.address import Address
from lemonpod.drivers.podman import PodmanRuntime
from lemonpod.drivers.versions import Version, version_of
from lemonpod.errors import SpawnError
from tests.fakes.daemon import PODMAN, daemon
from tests.unit.launch.argv.corpus import spec_of


@pytest.mark.parametrize(
    ("text", "version"),
    [("5.4.2", (5, 4, 2)), ("1.41", (1, 41)), ("4.10.0-rc1", (4, 10, 0)), ("dev", ()), ("", ())],
)
def test_a_version_is_its_numbers(text: str, version: Version) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(("here", "asked"), [("4.4.0", 1), ("4.3.1", 2)])
def test_its_version_is_asked_when_it_matters(tmp_path: Path, here: str, asked: int) -> None:
    socket = tmp_path / "podman.sock"
    plain, gated = (spec_of("podman", "run", *flags, "img") for flags in ([], ["--group-entry", "x"]))
    with daemon(socket, PODMAN) as paths:
        runtime = PodmanRuntime(Address(f"unix://{socket}", "the test"))
        with pytest.raises(SpawnError):  # this daemon makes no containers
            runtime.create(plain, {})
        runtime.close()
    assert paths == []
    version = "/v5.8.0/libpod/version"
    with daemon(tmp_path / "second.sock", PODMAN, {version: {"Version": here}}) as paths:
        runtime = PodmanRuntime(Address(f"unix://{tmp_path}/second.sock", "the test"))
        for _ in range(2):
            with pytest.raises(SpawnError, match="501" if here == "4.4.0" else "in silence"):
                runtime.create(gated, {})
        runtime.close()
    assert paths == [version] * asked
