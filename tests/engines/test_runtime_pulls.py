"""Pulling images from real registries into real engines."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from lemonpod.drivers.runtime import ContainerRuntime, Halt, Halted
from lemonpod.errors import ImageNotFoundError, PullError
from lemonpod.launch.container import Platform, PullPolicy
from tests.engines.runtimes import Background, runtime_of
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.lab.random_image import put_random_image
from tests.lab.registry import PASSWORD, USER, Registry, slowed
from tests.lab.waiting import wait_until
from tests.waiting import unused_port

Pull = Callable[..., list[tuple[int, int | None]]]

_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@pytest.fixture
def runtime(engine: ContainerEngine) -> Iterator[ContainerRuntime]:
    runtime = runtime_of(engine)
    yield runtime
    runtime.close()


@pytest.fixture
def pull(engine: ContainerEngine, runtime: ContainerRuntime) -> Iterator[Pull]:
    """Pulls, and tells of each progress; the images go after the test."""
    pulled: list[str] = []

    def pull(
        reference: str,
        policy: PullPolicy = PullPolicy.ALWAYS,
        platform: Platform | None = None,
        halt: Halt | None = None,
        progress: list[tuple[int, int | None]] | None = None,
    ) -> list[tuple[int, int | None]]:
        heard: list[tuple[int, int | None]] = [] if progress is None else progress
        pulled.append(reference)
        runtime.pull(
            reference,
            policy=policy,
            platform=platform,
            received=lambda done, total: heard.append((done, total)),
            halt=halt or Halt(),
        )
        return heard

    yield pull
    for reference in pulled:
        engine.try_cli("rmi", "-f", reference)


def digest_of(registry: Registry, reference: str) -> str:
    return registry.digest(reference.partition("/")[2])


def by_another_address(reference: str, registry: Registry, other: Registry) -> str:
    return reference.replace(registry.address, other.address)


def put_index(registry: Registry, name: str, digest: str, platform: Platform) -> None:
    """An index `name:index` with one manifest of `name` in it."""
    connection = HTTPConnection(registry.address, timeout=10)
    try:
        connection.request("GET", f"/v2/{name}/manifests/{digest}", headers={"Accept": _MANIFEST})
        size = len(connection.getresponse().read())
        said = {"os": platform.os, "architecture": platform.arch}
        entry = {"mediaType": _MANIFEST, "size": size, "digest": digest, "platform": said}
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}
        content = json.dumps(index)
        connection.request("PUT", f"/v2/{name}/manifests/index", content, {"Content-Type": _INDEX})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
    finally:
        connection.close()


def test_a_pull_tells_of_bytes(
    engine: ContainerEngine, runtime: ContainerRuntime, registry: Registry, pull: Pull
) -> None:
    image = put_random_image(registry, f"bytes-{engine.name}:1", megabytes=6)
    with slowed(registry, 3 << 20) as slow:
        reference = by_another_address(image, registry, slow)
        progress = pull(reference)
    done = [part for part, _ in progress]
    assert done == sorted(done)
    assert 0 < done[0] < done[-1]
    assert progress[-1][0] == progress[-1][1]
    assert progress[-1][0] >= 6 << 20
    found = runtime.image(reference)
    assert found is not None
    repository = reference.rpartition(":")[0]
    assert f"{repository}@{digest_of(registry, image)}" in found.digests  # C09


@pytest.mark.parametrize("with_tag", [False, True], ids=["digest", "tag-and-digest"])
def test_what_a_digest_names(
    engine: ContainerEngine, runtime: ContainerRuntime, registry: Registry, pull: Pull, with_tag: bool
) -> None:
    image = put_random_image(registry, f"digest-{engine.name}:1", megabytes=1)
    with slowed(registry, 64 << 20) as here:
        name = by_another_address(image, registry, here)
        repository = name.rpartition(":")[0]
        digest = digest_of(registry, image)
        reference = f"{name if with_tag else repository}@{digest}"
        put_random_image(registry, f"digest-{engine.name}:1", megabytes=1)  # the tag moves
        pull(reference)
    found = runtime.image(reference)
    assert found is not None
    assert f"{repository}@{digest}" in found.digests
    # C25: the registry is gone, the image is here.
    assert pull(reference, PullPolicy.MISSING) == []


def test_always_asks_the_registry_for_what_is_here(registry: Registry, pull: Pull) -> None:
    image = put_random_image(registry, "always:1", megabytes=1)
    with slowed(registry, 64 << 20) as here:
        reference = by_another_address(image, registry, here)
        pull(reference)
    with pytest.raises(PullError):
        pull(reference, PullPolicy.ALWAYS)


def test_a_digest_that_is_not_there(registry: Registry, pull: Pull) -> None:  # C25
    put_random_image(registry, "wrong:1", megabytes=1)
    with pytest.raises(ImageNotFoundError) as raised:
        pull(f"{registry.address}/wrong@sha256:{'0' * 64}")
    assert "no such image" in (raised.value.hint or "")


def test_always_fetches_what_a_tag_has_now(
    engine: ContainerEngine, runtime: ContainerRuntime, registry: Registry, pull: Pull
) -> None:
    reference = put_random_image(registry, f"moves-{engine.name}:1", megabytes=1)
    pull(reference)
    first = runtime.image(reference)
    put_random_image(registry, f"moves-{engine.name}:1", megabytes=1)
    pull(reference, PullPolicy.MISSING)
    assert runtime.image(reference) == first
    pull(reference, PullPolicy.NEWER if engine.runtime == "podman" else PullPolicy.ALWAYS)
    assert runtime.image(reference) != first


@pytest.mark.parametrize(
    ("name", "kind", "reason", "hint"),
    [
        ("{registry}/none:1", ImageNotFoundError, "manifest", "no such image"),
        ("{nobody}/none:1", PullError, "refused", "cannot reach"),
        ("{login}/tiny:1", PullError, "(?i)auth", "login {login}"),
    ],
    ids=["no-image", "nobody", "denied"],
)
def test_why_a_pull_fails(  # C05
    registry: Registry,
    login_registry: Registry,
    runtime: ContainerRuntime,
    pull: Pull,
    name: str,
    kind: type[PullError],
    reason: str,
    hint: str,
) -> None:
    places = {
        "registry": registry.address,
        "nobody": f"127.0.0.1:{unused_port()}",
        "login": login_registry.address,
    }
    reference = name.format(**places)
    with pytest.raises(kind, match=reason) as raised:
        pull(reference)
    assert reference in raised.value.message
    assert hint.format(**places) in (raised.value.hint or ""), str(raised.value)
    assert runtime.image(reference) is None


def test_a_short_name_that_podman_cannot_resolve(engine: ContainerEngine, pull: Pull) -> None:  # C05, C07
    if engine.runtime == "docker":
        pytest.skip("to docker a short name is one of docker.io, which no test reaches")
    with pytest.raises(PullError, match="short-name") as raised:
        pull("nosuchshort")
    assert "whole name" in (raised.value.hint or "")


def test_a_short_name_that_is_here_is_not_pulled(
    engine: ContainerEngine, runtime: ContainerRuntime
) -> None:  # C07
    """As the engine resolves it: podman has it in localhost."""
    name = TINY.removeprefix("localhost/") if engine.runtime == "podman" else TINY
    policy = PullPolicy.MISSING
    runtime.pull(name, policy=policy, platform=None, received=lambda *_: None, halt=Halt())


def test_an_image_for_another_platform(engine: ContainerEngine, registry: Registry, pull: Pull) -> None:
    image = put_random_image(registry, f"platform-{engine.name}:1", megabytes=1)
    other = Platform(os="linux", arch="s390x")
    with pytest.raises(PullError, match="s390x"):
        pull(image, platform=other)
    put_index(
        registry, f"platform-{engine.name}", digest_of(registry, image), Platform(os="linux", arch="amd64")
    )
    with pytest.raises(PullError) as raised:
        pull(f"{image.rpartition(':')[0]}:index", platform=other)
    assert "platform" in (raised.value.hint or "")


def test_a_halt_ends_a_pull(
    engine: ContainerEngine, runtime: ContainerRuntime, registry: Registry, pull: Pull
) -> None:
    image = put_random_image(registry, f"halted-{engine.name}:1", megabytes=8)
    heard: list[tuple[int, int | None]] = []
    with slowed(registry, 2 << 20) as slow:
        reference = by_another_address(image, registry, slow)
        background = Background(lambda halt: pull(reference, halt=halt, progress=heard))
        wait_until(lambda: heard, "the first bytes")
        background.halt.call()
        assert isinstance(background.end(), Halted)
        assert runtime.image(reference) is None


@pytest.mark.filterwarnings("ignore:docker-credential-no-such")
def test_docker_logs_in_as_its_user_does(
    engine: ContainerEngine,
    login_registry: Registry,
    pull: Pull,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if engine.runtime == "podman":
        pytest.skip("podman's service reads the auth file of its own user")
    known = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {login_registry.address: {"auth": known}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(ImageNotFoundError):  # so it was let in
        pull(f"{login_registry.address}/none:1")
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {login_registry.address: "no-such"}}))
    with pytest.raises(PullError, match="login"):
        pull(f"{login_registry.address}/none:1")
