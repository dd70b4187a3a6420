"""`lemonpod pin`: the verdicts, the notations, the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.cli.app import run
from tests.factories import make_document

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "tests/data/manifests/valid"
DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's manifest folder of a fresh home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config/lemonade/backends"
    folder.mkdir(parents=True)
    return folder


def write(path: Path, image: str | None = None, **document: Any) -> Path:
    """A manifest, with one container of `image` or without a container."""
    block = {"command": "/opt/engine", "args": []}
    if image is not None:
        block = {"command": "podman", "args": ["run", "--rm", image, "serve", "--port", "{port}"]}
    text = json.dumps(
        make_document(recipe=path.stem, platforms={"linux": {"cpu": block}}, **document), indent=1
    )
    path.write_text(text)
    path.chmod(0o644)
    return path


def found(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_all_pinned_is_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(folder / "good.json", f"x:1@{DIGEST}")

    assert run(["pin", "check", str(file)]) == 0
    assert "1 of 1 images pinned" in capsys.readouterr().out


def test_no_container_is_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pin", "check", str(write(folder / "native.json"))]) == 0
    assert capsys.readouterr().out == "no container image is named\n"


def test_an_unpinned_image_is_1_and_shown_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(folder / "bad.json", "x:1")

    assert run(["pin", "check", str(file)]) == 1
    out = capsys.readouterr().out
    for text in ("x:1", str(file), "platforms.linux.cpu.args[2]", "1 of 1 images unpinned"):
        assert text in out


def test_a_folder_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(folder / "a1.json", f"x@{DIGEST}"), write(folder / "b1.json", "r.io:5000/x")

    assert run(["pin", "check", str(folder), "--format", "json"]) == 1
    place = "platforms.linux.cpu.args[2]"
    assert found(capsys) == [
        {"manifest": str(good), "recipe": "a1", "location": place, "image": f"x@{DIGEST}",
         "pinned": True, "digest": DIGEST, "verdict": "pinned", "resolved": None, "problem": None},
        {"manifest": str(bad), "recipe": "b1", "location": place, "image": "r.io:5000/x",
         "pinned": False, "digest": None, "verdict": "unpinned", "resolved": None, "problem": None},
    ]  # fmt: skip


def test_a_file_that_cannot_be_read_is_a_finding_that_says_why(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "half.json").write_text("{")
    wrong = write(folder / "wrong.json", f"x@{DIGEST}", slot_policy="none")

    files = [str(folder / "half.json"), str(wrong), str(folder / "absent.json")]
    assert run(["pin", "check", *files, "--format", "json"]) == 1
    half, field, absent = found(capsys)
    assert "the file ends too early" in half["problem"]
    assert (half["image"], half["pinned"], half["recipe"]) == (None, False, None)
    assert (field["recipe"], field["location"]) == ("wrong", "slot_policy")
    assert "No such file" in absent["problem"]
    assert run(["pin", "check", files[0]]) == 1
    assert "1 problem hid which images are named" in capsys.readouterr().out


def test_all_is_every_manifest_of_this_machine_also_one_that_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "good.json", f"x@{DIGEST}")
    write(folder / "twin.json", "y:1").write_text(
        (folder / "good.json").read_text().replace(f"x@{DIGEST}", "y")
    )
    (folder / "broken.json").write_text("[]")

    assert run(["pin", "check", "--all", "--format", "json"]) == 1
    seen = {(Path(one["manifest"]), one["image"]) for one in found(capsys)}
    own = {(path.name, image) for path, image in seen if path.parent == folder}
    assert own == {("good.json", f"x@{DIGEST}"), ("twin.json", "y"), ("broken.json", None)}
    assert "llama-podman.json" in {path.name for path, _ in seen}


@pytest.mark.parametrize(
    "arguments", [[], ["--all", "x.json"], ["x.json", "--format", "xml"], ["--format", "json"]]
)
@pytest.mark.parametrize("command", ["check", "update", "verify"])
def test_wrong_usage_is_2(command: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pin", command, *arguments]) == 2
    assert "Error" in capsys.readouterr().err


def test_an_empty_folder_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()

    assert run(["pin", "check", str(tmp_path / "empty")]) == 2
    assert "no manifest in the folder" in capsys.readouterr().err.replace("\n", " ")


def test_annotations_stand_at_their_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(folder / "bad.json", "x:1")
    line = next(n for n, text in enumerate(file.read_text().splitlines(), start=1) if '"x:1"' in text)
    write(folder / "good.json", f"x@{DIGEST}")

    assert run(["pin", "check", str(folder), "--format", "github"]) == 1
    (out,) = capsys.readouterr().out.splitlines()
    assert out.startswith(
        f"::warning file={file},line={line}::platforms.linux.cpu.args[2]: image not pinned:"
    )


def test_sarif_is_one_run_of_what_is_not_pinned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "bad.json", "x:1")
    write(folder / "good.json", f"x@{DIGEST}")

    assert run(["pin", "check", str(folder), "--format", "sarif"]) == 1
    log = found(capsys)
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    (result,) = one["results"]
    assert result["ruleId"] in {rule["id"] for rule in one["tool"]["driver"]["rules"]}
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == (folder / "bad.json").as_uri()
    assert physical["region"]["startLine"] > 1


def test_the_examples_of_the_rfc(capsys: pytest.CaptureFixture[str]) -> None:
    pinned, toolbox = EXAMPLES / "dflash-rocm.json", EXAMPLES / "arch-alias.json"

    assert run(["pin", "check", str(pinned), "--format", "json"]) == 0
    (one,) = found(capsys)
    assert (one["location"], one["pinned"]) == ("platforms.linux.rocm.args[16]", True)
    assert run(["pin", "check", str(toolbox), "--format", "json"]) == 1
    (one,) = found(capsys)
    assert one["image"] == "docker.io/kyuz0/amd-{arch_alias}-toolboxes:vulkan-radv"
    assert (one["location"], one["pinned"]) == ("platforms.linux.vulkan.args[2]", False)


def test_a_config_may_ask_for_pins(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "tagged.json", "r.example/x:1")
    models = {"m": {"recipe": "tagged"}}
    (folder.parent / "user_models.json").write_text(json.dumps(models))
    plan = ["manifest", "plan", "tagged", "--model", "m"]
    assert run(plan) == 0

    (folder.parent / "config.json").write_text('{"lemonpod": {"require_pinned_images": true}}')

    assert run(plan) == 1
    err = capsys.readouterr().err
    for text in ("recipe 'tagged'", "platforms.linux.cpu", "'r.example/x:1', at argv[3]", "pin update"):
        assert text in err
