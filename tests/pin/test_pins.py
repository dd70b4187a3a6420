"""Pins against a real registry: a folder is checked, pinned, and verified after its tags have moved."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.cli.app import run
from lemonpod.contract.image import parse_image
from lemonpod.pin.credentials import Credentials
from lemonpod.pin.registry import Registry
from lemonpod.pin.source import NoSuchImageError, UnreachableError
from tests.factories import make_document
from tests.lab.engine import ContainerEngine
from tests.lab.registry import PASSWORD, USER
from tests.lab.registry import Registry as LabRegistry
from tests.pin.images import Images
from tests.waiting import unused_port

STALE = "sha256:" + "0123456789abcdef" * 4


@pytest.fixture
def images(registry: LabRegistry) -> Images:
    return Images(registry.address)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    return folder


def pin(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and what is told of each image."""
    code = run(["pin", *arguments, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def verdicts(found: list[dict[str, Any]]) -> dict[str, str]:
    return {one["location"].removeprefix("platforms.linux."): one["verdict"] for one in found}


def write_json(folder: Path, images: dict[str, str]) -> Path:
    """A manifest whose blocks and overrides name an image each."""
    cpu = {
        "command": "podman",
        "args": ["run", "--rm", "-e", "IMAGE=" + images["tagged"], images["tagged"], "serve"],
        "arch": {
            "gfx1151": {"args": ["run", images["pinned"]]},
            "gfx1150": {"args": ["run", images["untagged"]]},
            "gfx115*": {"args": ["run", "--", images["tag@digest"]]},
        },
    }
    rocm = {
        "command": "sudo",
        "args": ["-n", "podman", "run", images["short"]],
        "arch": {"gfx90a": {"args": ["docker", "run", images["tagged"]]}},
    }
    file = folder / "odd.json"
    document = make_document(recipe="odd", platforms={"linux": {"cpu": cpu, "rocm": rocm}})
    file.write_bytes(json.dumps(document, indent="\t").replace("\n", "\r\n").encode())
    return file


def write_yaml(folder: Path, images: dict[str, str]) -> Path:
    file = folder / "plain.yaml"
    file.write_text(
        "# how it was: " + images["tagged"] + "\n"
        "recipe: plain\n"
        "display_name: 'Plain'   # 😀\n"
        'api_contract_version: "1"\n'
        "capabilities: [completion]\n"
        "platforms:\n  linux:\n    cpu:\n"
        "      command: docker\n"
        f"      args: [run, --rm, {images['tagged']}, serve, '{images['tagged']}']\n"
        "      arch:\n        gfx1151:\n          args:\n"
        f"          - run\n          - '{images['untagged']}'\n          - serve\n"
    )
    return file


def test_a_folder_is_checked_pinned_and_verified(
    images: Images, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = images.host
    first, latest = images.push("team/engine", "1", "one"), images.push("team/engine", "latest", "new")
    named = {
        "pinned": f"{host}/team/engine@{first}",
        "tagged": f"{host}/team/engine:1",
        "untagged": f"{host}/team/engine",
        "short": "engine:1",
        "tag@digest": f"{host}/team/engine:1@{STALE}",
    }
    odd, plain = write_json(folder, named), write_yaml(folder, named)
    before = {file: file.read_bytes() for file in (odd, plain)}

    code, found = pin(capsys, "check", str(folder))
    assert code == 1
    assert verdicts(found[:6]) == {
        "cpu.args[4]": "unpinned",
        "cpu.arch.gfx1151.args[1]": "pinned",
        "cpu.arch.gfx1150.args[1]": "unpinned",
        "cpu.arch.gfx115*.args[2]": "pinned",
        "rocm.args[3]": "unpinned",
        "rocm.arch.gfx90a.args[2]": "unpinned",
    }
    assert verdicts(found[6:]) == {"cpu.args[2]": "unpinned", "cpu.arch.gfx1151.args[1]": "unpinned"}
    assert {one["image"] for one in found} == set(named.values())
    assert {one["resolved"] for one in found} == {None}

    code, found = pin(capsys, "check", "--resolve", str(plain))
    assert (code, [one["resolved"] for one in found]) == (1, [first, latest])

    code, found = pin(capsys, "update", "--dry-run", str(folder))
    assert {file: file.read_bytes() for file in before} == before
    code, told = pin(capsys, "update", str(folder))
    assert (code, told) == (1, found)  # for the short name
    assert verdicts(told[:6]) == {
        "cpu.args[4]": "changed",
        "cpu.arch.gfx1151.args[1]": "skipped",
        "cpu.arch.gfx1150.args[1]": "changed",
        "cpu.arch.gfx115*.args[2]": "changed",
        "rocm.args[3]": "refused",
        "rocm.arch.gfx90a.args[2]": "changed",
    }
    assert "docker.io/library/engine:1" in told[4]["problem"]
    new = odd.read_bytes()
    tagged, untagged = f'"{named["tagged"]}"', f'"{named["untagged"]}"'
    expected = (
        before[odd].decode()
        .replace(tagged, f'{tagged[:-1]}@{first}"')
        .replace(untagged, f'{untagged[:-1]}:latest@{latest}"')
        .replace(STALE, first)
    )  # fmt: skip
    assert new.decode() == expected
    text = before[plain].decode()
    expected = text.replace(f"--rm, {named['tagged']}", f"--rm, {named['tagged']}@{first}")
    expected = expected.replace(f"'{named['untagged']}'", f"'{named['untagged']}:latest@{latest}'")
    assert plain.read_text() == expected

    assert pin(capsys, "update", str(plain)) == (0, pin(capsys, "update", str(plain))[1])
    assert pin(capsys, "verify", str(plain))[0] == 0
    second = images.push("team/engine", "1", "two")
    code, found = pin(capsys, "verify", str(folder))
    assert code == 1
    moved = [one for one in found if one["verdict"] == "moved"]
    assert {(one["digest"], one["resolved"]) for one in moved} == {(first, second)}
    assert [one["location"].removeprefix("platforms.linux.") for one in moved] == [
        "cpu.args[4]", "cpu.arch.gfx115*.args[2]", "rocm.arch.gfx90a.args[2]", "cpu.args[2]",
    ]  # fmt: skip
    assert run(["pin", "verify", str(plain)]) == 1
    out = capsys.readouterr().out
    assert first in out
    assert second in out


def test_what_a_registry_has(images: Images) -> None:
    asking = Registry(Credentials(()))
    amd, arm = images.push("many", "amd", "amd"), images.push("many", "arm", "arm")
    index = images.push_index("many", "1", amd, arm)
    image = parse_image(f"{images.host}/many:1")

    assert asking.digest(image) == index
    assert asking.digest(parse_image(f"{images.host}/many@{amd}")) == amd
    assert [asking.includes(image, one) for one in (index, amd, arm, STALE)] == [True, True, True, False]
    for absent in ("many:2", "none:1", f"many@{STALE}"):
        with pytest.raises(NoSuchImageError):
            asking.digest(parse_image(f"{images.host}/{absent}"))


def test_a_digest_that_was_cleared_away_is_gone(  # C25
    images: Images, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = images.push("cleared", "1", "one")
    block = {"command": "docker", "args": ["run", f"{images.host}/cleared:1@{old}"]}
    override = {"gfx1151": {"args": ["run", f"{images.host}/cleared@{old}"]}}
    file = folder / "x.json"
    file.write_text(json.dumps(make_document(platforms={"linux": {"cpu": {**block, "arch": override}}})))
    assert pin(capsys, "verify", str(file))[0] == 0

    new = images.push("cleared", "1", "two")
    images.delete("cleared", old)

    code, (tagged, bare) = pin(capsys, "verify", str(file))
    assert (code, tagged["verdict"], tagged["resolved"], bare["verdict"]) == (1, "moved", new, "gone")
    assert "can no longer be pulled" in tagged["problem"]


def test_a_registry_that_does_not_answer_is_3(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = f"127.0.0.1:{unused_port()}/x:1@{STALE}"
    file = folder / "x.json"
    block = {"command": "docker", "args": ["run", image]}
    file.write_text(json.dumps(make_document(platforms={"linux": {"cpu": block}})))

    for command in (
        ["verify"],
        ["update", "--from", "registry"],
        ["check", "--resolve", "--from", "registry"],
    ):
        code, (one,) = pin(capsys, *command, str(file))
        assert (code, one["verdict"]) == (3, "unknown")
        assert "cannot be reached: Connection refused" in one["problem"]
    with pytest.raises(UnreachableError):
        Registry(Credentials(())).digest(parse_image(image))


def test_a_login_is_read_where_podman_keeps_it(
    login_registry: LabRegistry,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = {"command": "docker", "args": ["run", f"{login_registry.address}/none:1@{STALE}"]}
    file = folder / "x.json"
    file.write_text(json.dumps(make_document(platforms={"linux": {"cpu": block}})))
    code, (one,) = pin(capsys, "verify", str(file))
    assert (code, one["verdict"]) == (3, "unknown")
    assert "denies access" in one["problem"]

    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (folder / "auth").write_text(json.dumps({"auths": {login_registry.address: {"auth": login}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(folder / "auth"))

    code, (one,) = pin(capsys, "verify", str(file))
    assert (code, one["verdict"]) == (1, "gone")  # which nobody hears who is not let in


def test_an_engine_is_asked_for_what_it_has_pulled(
    engine: ContainerEngine,
    images: Images,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C09: it knows an image by the digests of its repository, and never by the image's id."""
    for variable, value in engine.env.items():
        monkeypatch.setenv(variable, value)
    other, variable = (
        ("docker", "DOCKER_HOST") if engine.runtime == "podman" else ("podman", "CONTAINER_HOST")
    )
    monkeypatch.setenv(variable, f"unix://{folder}/none.sock")
    name = f"{images.host}/pulled/{engine.name}"
    plain = images.push(f"pulled/{engine.name}", "plain", f"plain-{engine.name}")
    parts = [images.push(f"pulled/{engine.name}", f"part-{a}", f"{a}-{engine.name}") for a in "ab"]
    index = images.push_index(f"pulled/{engine.name}", "index", *parts)

    def asked(command: str, image: str, *, of: str = engine.runtime) -> tuple[int, str, str | None]:
        file = folder / "x.json"
        block = {"command": of, "args": ["run", image]}
        file.write_text(json.dumps(make_document(platforms={"linux": {"cpu": block}})))
        code, (one,) = pin(capsys, command, "--from", "engine", str(file))
        return code, one["verdict"], one["resolved"]

    assert asked("update", f"{name}:plain") == (3, "unknown", None)
    for tag in ("plain", "index"):
        engine.run_cli("pull", f"{name}:{tag}")
    try:
        assert asked("update", f"{name}:plain") == (0, "changed", plain)
        assert asked("update", f"{name}:plain", of=other) == (3, "unknown", None)
        assert asked("verify", f"{name}:plain@{plain}") == (0, "current", plain)
        assert asked("verify", f"{name}@{index}") == (0, "current", index)
        assert asked("verify", f"{name}:plain@{STALE}") == (3, "unknown", None)
    finally:
        engine.run_cli("rmi", f"{name}:plain", f"{name}:index")
