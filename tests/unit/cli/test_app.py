"""Exit codes and messages: what a script and a person see of an error."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from lemonpod import __version__, errors
from lemonpod.cli.app import EXIT_CODES, exit_code, run
from lemonpod.cli.values import parse_options
from tests.factories import make_document


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's manifest folder of a fresh home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config/lemonade/backends"
    folder.mkdir(parents=True)
    return folder


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    path.chmod(0o644)
    return path


def test_every_error_has_an_exit_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]

    assert len(kinds) > 20
    for kind in kinds:
        assert exit_code(kind.__new__(kind)) in {1, 2, 3}
    assert set(EXIT_CODES.values()) == {1, 2, 3}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"lemonpod {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["serve", "--port", "x"],
        ["serve", "--port", "99999"],
        ["serve", "--log-level", "loud"],
        ["register", "m"],
        ["register", "m", "--recipe", "r", "--checkpoint", "a/b", "--file", "c"],
        ["manifest", "plan", "r", "--model", "m", "--option", "=1"],
        ["manifest", "validate"],
    ],
)
def test_wrong_usage_is_2_and_says_what(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "Error" in capsys.readouterr().err


@pytest.mark.parametrize(("theirs", "ours"), [("ps", "status"), ("rm", "delete"), ("recipes", "backends")])
def test_a_command_of_another_program_is_told_by_our_name(
    theirs: str, ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([theirs, "x"]) == 2
    assert f"Here it is `lemonpod {ours}`." in capsys.readouterr().err


def test_a_server_that_is_not_there_is_3_with_the_cure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--port", "1"]) == 3

    error = capsys.readouterr().err
    assert "no lemonpod server answers on 127.0.0.1:1" in error
    assert "lemonpod serve" in error


def test_a_bug_is_70_and_keeps_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("lemonpod.cli.local.inventory", broken)

    assert run(["list"]) == 70
    error = capsys.readouterr().err
    assert "on purpose" in error
    assert "bug in lemonpod" in error


def test_validate_is_0_or_1_and_names_file_field_and_cure(
    backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(backends / "good.json", make_document())
    bad = write(backends / "bad.json", make_document(recipe="bad", capabilitys=["x"], capabilities=["chat"]))

    assert run(["manifest", "validate", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: ok\n"
    assert run(["manifest", "validate", str(bad)]) == 1
    out = capsys.readouterr().out
    assert f"{bad}: unknown field 'capabilitys'" in out
    assert "'capabilities'" in out
    assert "unknown capability 'chat'" in out


def test_validate_takes_a_folder_and_prints_json(backends: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(backends / "a.json", make_document())
    write(backends / "b.json", make_document(recipe="bb", extends="nowhere"))

    assert run(["manifest", "validate", str(backends), "--json"]) == 1

    good, bad = json.loads(capsys.readouterr().out)
    assert (good["valid"], bad["valid"]) == (True, False)
    assert "nowhere" in bad["findings"][0]["reason"]


def test_validate_of_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifest", "validate", str(tmp_path / "no.json")]) == 1
    assert "no.json" in capsys.readouterr().out


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifest", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["recipe"]


def test_backends_shows_what_is_used_and_with_all_what_was_refused(
    backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(backends / "good.json", make_document())
    write(backends / "bad.json", make_document(recipe="bad", slot_policy="none"))
    write(backends / "windows.json", make_document(recipe="windows", platforms={"windows": WINDOWS}))

    assert run(["backends"]) == 0
    out = capsys.readouterr().out
    assert "test-engine" in out
    assert str(backends / "windows.json") not in out
    assert "1 refused" in out
    assert run(["backends", "--all"]) == 0
    out = capsys.readouterr().out
    assert str(backends / "windows.json") in out
    assert "invalid 'slot_policy'" in out
    assert run(["backends", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "test-engine" in [recipe["recipe"] for recipe in document["recipes"]]
    [rejected] = document["rejected"]
    assert rejected["path"] == str(backends / "bad.json")
    assert rejected["reasons"][0]["field"] == "slot_policy"


WINDOWS = {"cpu": {"command": "x", "args": []}}


def test_register_list_plan_without_a_server(
    backends: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = {
        "command": "/opt/engine",
        "args": ["-m", "{checkpoint:main}", "-c", "{ctx_size}", "-p", "{port}"],
    }
    write(backends / "e.json", make_document(platforms={"linux": {"cpu": block}}))
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF")

    assert run(["register", "m", "--recipe", "test-engine", "--file", str(weights)]) == 0
    assert "registered user.m" in capsys.readouterr().out
    assert run(["list", "--json"]) == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    assert (model["id"], model["mode"], model["downloaded"]) == ("user.m", "chat", True)
    plan = ["manifest", "plan", "test-engine", "--model", "m", "--option", "ctx_size=123"]
    assert run([*plan, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["argv"] == ["/opt/engine", "-m", str(weights), "-c", "123", "-p", "8001"]
    assert document["values"]["{ctx_size}"] == {"value": "123", "from": "load request"}
    assert run(plan) == 0
    text = capsys.readouterr().out
    assert f"/opt/engine -m {weights} -c 123 -p 8001" in text
    assert "load request" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "nosuch"], "no manifest for recipe 'nosuch' is in use"),
        (["--recipe", "test-engine", "--file", "/no/such"], "there is no /no/such"),
        (["--recipe", "test-engine", "--file", "/" + "n" * 300], "cannot be read: File name too long"),
        (["--recipe", "test-engine", "--option", "ctx=1"], "recipe 'test-engine' has no option 'ctx'"),
        (["--recipe", "test-engine", "--label", "tts"], "the labels say tts, but recipe 'test-engine'"),
    ],
)
def test_register_refuses_what_cannot_work(
    arguments: list[str], message: str, backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(backends / "e.json", make_document())

    assert run(["register", "m", *arguments]) in {1, 3}

    assert message in capsys.readouterr().err
    assert not (backends.parent / "user_models.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m", "--checkpoint", "a/b:../c"], "'..'"),
        (["m", "--checkpoint", "c"], "neither 'org/repo'"),
        (["extra.m"], "the prefix 'extra.' is reserved"),
        (["m", "--label", "tts", "--label", "image"], "stand for different modes"),
    ],
)
def test_a_model_that_cannot_be_is_wrong_usage(
    arguments: list[str], message: str, backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(backends / "e.json", make_document())

    assert run(["register", "--recipe", "test-engine", *arguments]) == 2

    assert message in capsys.readouterr().err
    assert not (backends.parent / "user_models.json").exists()


def test_register_asks_for_the_file_that_the_recipe_needs(
    backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = {"command": "/opt/engine", "args": ["{resolved_path}"]}
    write(backends / "e.json", make_document(platforms={"linux": {"cpu": block}}))

    assert run(["register", "m", "--recipe", "test-engine"]) == 1
    assert "--file or --checkpoint" in capsys.readouterr().err
    assert run(["register", "m", "--recipe", "test-engine", "--force"]) == 0


@pytest.mark.parametrize("recipe", ["llamacpp", "fork"])
def test_register_takes_built_in_backends_and_their_own_options(
    recipe: str, backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = {"linux": {"cpu": {"binary": "llama-server"}}}
    write(backends / "e.json", make_document(recipe="fork", variant_of="llamacpp", platforms=block))
    command = ["register", "m", "--recipe", recipe]
    assert run(command) == 1
    assert f"recipe '{recipe}' asks for the model's file" in capsys.readouterr().err
    command += ["--checkpoint", "org/repo:Q4_0"]

    assert run([*command, "--option", "llamacpp_args=-t 1", "--option", "llamacpp_device=CPU"]) == 0
    assert run([*command, "--option", "sdcpp_args=-t 1"]) == 1
    assert f"recipe '{recipe}' has no option 'sdcpp_args'" in capsys.readouterr().err


def test_register_force_comes_before_the_recipe(backends: Path) -> None:
    options = ["--option", "new=1", "--label", "tts"]
    assert run(["register", "m", "--recipe", "later", "--file", "/no/such", *options, "--force"]) == 0
    assert json.loads((backends.parent / "user_models.json").read_text())["m"]["recipe"] == "later"


def test_host_says_what_the_machine_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["host", "--json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert facts["os"] == "linux"
    assert facts["machine"] == os.uname().machine
    assert facts["accelerators"] == ["cpu"]


def test_doctor_is_1_on_a_finding_and_gives_the_fix(
    backends: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(backends / "e.json", make_document())
    assert run(["register", "m", "--recipe", "test-engine"]) == 0
    assert run(["doctor", "--port", "1"]) == 1
    assert "cannot start /opt/engine: /opt/engine does not exist" in capsys.readouterr().out
    write(backends / "e.json", make_document(platforms={"linux": {"cpu": {"command": "true", "args": []}}}))
    assert run(["doctor", "--port", "1"]) == 0
    capsys.readouterr()
    (backends / "e.json").chmod(0o666)
    assert run(["doctor", "--port", "1", "--json"]) == 1
    failed = [check for check in json.loads(capsys.readouterr().out) if not check["ok"]]
    assert [str(backends / "e.json") in check["check"] for check in failed] == [True, False]
    assert "chmod go-w" in failed[0]["fix"]


def test_doctor_finds_nothing_wrong_with_a_manifest_in_the_place_of_a_shipped_one(
    backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(backends / "e.json", make_document(recipe="llama-server"))
    assert run(["doctor", "--port", "1", "--json"]) == 0
    (replaced,) = (c for c in json.loads(capsys.readouterr().out) if "llama-server.json" in c["check"])
    assert str(backends / "e.json") in replaced["found"]


def test_doctor_looks_for_the_program_where_a_start_does(
    backends: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = {"command": Path(sys.executable).name, "args": [], "env": {"PATH": str(tmp_path)}}
    write(backends / "e.json", make_document(platforms={"linux": {"cpu": block}}))
    assert run(["register", "m", "--recipe", "test-engine"]) == 0

    assert run(["doctor", "--port", "1"]) == 1
    assert f"cannot start {Path(sys.executable).name}: not found in {tmp_path}" in capsys.readouterr().out


def test_validate_of_a_folder_looks_at_what_discovery_looks_at(
    backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(backends / "UPPER.JSON", make_document())
    for ignored in (".hidden.json", "#saved.json", "~copy.json", "notes.txt"):
        (backends / ignored).write_text("{")

    assert run(["manifest", "validate", str(backends)]) == 0
    assert capsys.readouterr().out == f"{backends / 'UPPER.JSON'}: ok\n"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "[" * 100_000])
def test_an_option_that_is_no_json_is_a_text(value: str) -> None:
    assert parse_options([f"x={value}", "y=1.5"]) == {"x": value, "y": 1.5}


def test_doctor_says_everything_in_its_answer(backends: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(backends / "bad.json", make_document(slot_policy="none"))

    assert run(["doctor", "--port", "1"]) == 1
    printed = capsys.readouterr()
    assert "invalid 'slot_policy'" in printed.out
    assert printed.err == ""


def test_without_home_the_manifests_of_the_users_own_home_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("lemonpod.bootstrap.home_folder", lambda environ: str(tmp_path))
    monkeypatch.setattr("lemonpod.config.home_folder", lambda environ: str(tmp_path))
    folder = tmp_path / ".config/lemonade/backends"
    folder.mkdir(parents=True)
    write(folder / "e.json", make_document())

    assert run(["backends", "--json"]) == 0
    recipes = json.loads(capsys.readouterr().out)["recipes"]
    assert str(folder / "e.json") in [recipe["path"] for recipe in recipes]


def test_doctor_gives_a_command_where_an_error_says_no_cure(
    backends: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(backends / "e.json", make_document())
    assert run(["register", "m", "--recipe", "test-engine", "--option", "ctx_size=many"]) == 0

    assert run(["doctor", "--port", "1"]) == 1
    assert "fix: lemonpod manifest plan test-engine --model user.m" in capsys.readouterr().out


def test_backends_lists_built_in_ones_and_the_programs_of_variants(
    backends: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    program = tmp_path / "bin" / "llama-server"
    program.parent.mkdir()
    program.touch(mode=0o755)
    for recipe, binary in (("there", "llama-server"), ("gone", "llama-fork")):
        block = {"linux": {"cpu": {"binary": binary}}}
        document = make_document(recipe=recipe, variant_of="llamacpp", platforms=block)
        write(backends / f"{recipe}.json", document)
    folders = ["--cache-dir", str(tmp_path / "cache"), "--config-dir", str(tmp_path)]

    assert run(["backends", "--json", *folders]) == 0
    rows = {row["recipe"]: row for row in json.loads(capsys.readouterr().out)["recipes"]}

    assert rows["llamacpp"]["executable"] == rows["there"]["executable"] == str(program)
    assert rows["llamacpp"]["scope"] == "builtin"
    assert (rows["there"]["variant_of"], rows["gone"]["executable"]) == ("llamacpp", None)
    assert "names no source" in rows["gone"]["executable_problem"]
    assert "sd-cpp" not in rows
    assert run(["backends", "--all", *folders]) == 0
    table = capsys.readouterr().out
    assert "no program" in table
    assert run(["doctor", *folders]) in {0, 1}
    assert f"llamacpp: {program}, whispercpp: there is no whisper-server" in capsys.readouterr().out
