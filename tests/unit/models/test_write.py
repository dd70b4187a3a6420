from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lemonpod.errors import ConfigError, InvalidModelError
from lemonpod.models import edited
from lemonpod.models.registry import ModelRegistry
from lemonpod.models.write import register, save_options

REGISTER_SOME = """
import sys
from pathlib import Path
from lemonpod.models.write import register
folder, worker, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    register(folder, f"w{worker}-{number}", recipe="engine", checkpoints={"main": f"org/repo:{number}.gguf"})
"""


def content(folder: Path) -> Any:
    return json.loads((folder / "user_models.json").read_text())


def test_a_registered_model_is_read_back(tmp_path: Path) -> None:
    done = register(
        tmp_path / "new",
        "user.M",
        recipe="engine",
        checkpoints={"main": "org/repo:m.gguf"},
        labels=["embeddings", "embeddings"],
        recipe_options={"ctx_size": 4096},
    )
    assert (done.id, done.replaced, done.path) == ("user.M", False, tmp_path / "new" / "user_models.json")
    assert content(tmp_path / "new") == {
        "M": {
            "checkpoint": "org/repo:m.gguf",
            "recipe": "engine",
            "labels": ["embeddings"],
            "recipe_options": {"ctx_size": 4096},
        }
    }
    models = ModelRegistry(tmp_path / "new").load()
    assert list(models.entries) == ["user.M"]
    assert models.problems == ()


def test_several_checkpoints_a_file_and_none(tmp_path: Path) -> None:
    register(tmp_path, "a", recipe="engine", checkpoints={"main": "o/r:m.gguf", "mmproj": "o/r:p.gguf"})
    register(tmp_path, "b", recipe="engine", checkpoints={"main": "/models/b.gguf"})
    register(tmp_path, "c", recipe="engine", checkpoints={})
    assert content(tmp_path) == {
        "a": {"checkpoints": {"main": "o/r:m.gguf", "mmproj": "o/r:p.gguf"}, "recipe": "engine"},
        "b": {"checkpoint": "/models/b.gguf", "recipe": "engine", "source": "local_path"},
        "c": {"recipe": "engine"},
    }
    assert ModelRegistry(tmp_path).load().problems == ()


def test_what_others_wrote_stays_in_its_order(tmp_path: Path) -> None:
    before = {
        "z": {"recipe": "llamacpp", "checkpoint": "a/b:c", "new_field": {"deep": [1, 2.5, None, "ü"]}},
        "broken": None,
        "user.m": {"recipe": "old", "checkpoint": "a/b:c", "system_prompt": "Be brief.", "labels": ["tts"]},
        "a": {"recipe": "r", "seed": 12345678901234567890123},
    }
    (tmp_path / "user_models.json").write_text(json.dumps(before))
    done = register(tmp_path, "m", recipe="engine", checkpoints={"main": "o/r:m.gguf"})
    assert done.replaced
    after = content(tmp_path)
    assert list(after) == ["z", "broken", "user.m", "a"]
    assert after["user.m"] == {
        "checkpoint": "o/r:m.gguf",
        "recipe": "engine",
        "system_prompt": "Be brief.",
    }
    assert {key: after[key] for key in ("z", "broken", "a")} == {
        key: before[key] for key in ("z", "broken", "a")
    }


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_the_mode_of_the_file_stays(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "user_models.json"
    file.write_text("{}")
    file.chmod(mode)
    register(tmp_path, "m", recipe="engine", checkpoints={})
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_of_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "user_models.json"
    file.write_text("{}")
    os.chown(file, 65534, 65534)
    register(tmp_path, "m", recipe="engine", checkpoints={})
    assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65534)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "config").mkdir()
    real, link = tmp_path / "real" / "models.json", tmp_path / "config" / "user_models.json"
    real.write_text('{"z": {"recipe": "r"}}')
    link.symlink_to("../real/models.json")
    register(tmp_path / "config", "m", recipe="engine", checkpoints={})
    assert link.is_symlink()
    assert list(json.loads(real.read_text())) == ["z", "m"]


def test_a_link_to_nothing_gets_its_file(tmp_path: Path) -> None:
    (tmp_path / "user_models.json").symlink_to("later.json")
    register(tmp_path, "m", recipe="engine", checkpoints={})
    assert list(json.loads((tmp_path / "later.json").read_text())) == ["m"]


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"a": 1, "a": 2}', b'{"a": NaN}', b"\xff\xfe", b""], ids=repr
)
def test_a_broken_file_is_refused_and_not_overwritten(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "user_models.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"user_models\.json.*nothing was changed"):
        register(tmp_path, "m", recipe="engine", checkpoints={})
    assert file.read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".json") == [file.name]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "invalid model name"),
        ({"name": "user."}, "invalid model name"),
        ({"name": "a\nb"}, "invalid model name"),
        ({"name": "a\u2028b"}, "invalid model name"),
        ({"name": " a"}, "invalid model name"),
        ({"name": "builtin.a"}, "reserved"),
        ({"name": "user.extra.a"}, "reserved"),
        ({"name": "a/../b"}, "between slashes"),
        ({"recipe": "Engine"}, "invalid recipe"),
        ({"recipe": "engine\n"}, "invalid recipe"),
        ({"recipe": ""}, "invalid recipe"),
        ({"checkpoints": {"main": "model.gguf"}}, "neither 'org/repo'"),
        ({"checkpoints": {"main": "~/model.gguf"}}, "neither 'org/repo'"),
        ({"checkpoints": {"main": "org/repo:../../etc/passwd"}}, "relative path"),
        ({"checkpoints": {"main": "org/repo:/etc/passwd"}}, "relative path"),
        ({"checkpoints": {"main": "..:x"}}, "neither 'org/repo'"),
        ({"checkpoints": {"main": "org/..:x"}}, "neither 'org/repo'"),
        ({"checkpoints": {"main": "org/repo:a\\b"}}, "relative path"),
        ({"checkpoints": {"main": "org/repo:a\x00"}}, "control character"),
        ({"checkpoints": {"main": "C:\\m.gguf"}}, "not an absolute path on this machine"),
        ({"checkpoints": {"mmproj": "org/repo:a"}}, "has no 'main'"),
        ({"checkpoints": {"main": "org/repo", "a b": "org/repo"}}, "invalid checkpoint name"),
        ({"checkpoints": {"main": ""}}, "non-empty|is empty"),
        ({"labels": ["tts", "image"]}, "different modes"),
        ({"recipe_options": {"x": float("nan")}}, "JSON"),
        ({"recipe_options": {"x": "\ud800"}}, "JSON"),
        ({"recipe_options": {"x": json.loads("[" * 70 + "]" * 70)}}, "nested deeper than 64 levels"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    arguments = {"name": "m", "recipe": "engine", "checkpoints": {"main": "org/repo:m.gguf"}} | fields
    with pytest.raises(ConfigError, match=words):
        register(tmp_path, arguments.pop("name"), **arguments)
    assert list(tmp_path.glob("*.json")) == []


def test_a_recipe_with_its_own_weights_takes_any_text(tmp_path: Path) -> None:
    register(tmp_path, "m", recipe="engine", checkpoints={"main": "llama3:8b"}, free_checkpoints=True)
    assert content(tmp_path)["m"]["checkpoint"] == "llama3:8b"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/user_models\.json.*cannot be written"):
        register(tmp_path / "file", "m", recipe="engine", checkpoints={})


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, "m", recipe="engine", checkpoints={})
    before = sorted(path.name for path in tmp_path.iterdir())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        register(tmp_path, "n", recipe="engine", checkpoints={})
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert list(content(tmp_path)) == ["m"]


def test_a_lock_that_is_never_free_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edited, "_LOCK_TIMEOUT", 0.05)
    with (tmp_path / "user_models.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another program"):
            register(tmp_path, "m", recipe="engine", checkpoints={})


def test_processes_that_register_at_once_lose_nothing(tmp_path: Path) -> None:
    workers, count = 4, 15
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", REGISTER_SOME, str(tmp_path), str(worker), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        for worker in range(workers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.communicate(b"go\n", timeout=30)
    assert [process.returncode for process in processes] == [0] * workers
    expected = {f"user.w{worker}-{number}" for worker in range(workers) for number in range(count)}
    assert set(ModelRegistry(tmp_path).load().entries) == expected


def test_saved_options_are_merged_and_a_null_takes_one_out(tmp_path: Path) -> None:
    save_options(tmp_path, "user.m", {"ctx_size": 4096, "threads": 2, "args": "-x"})
    save_options(tmp_path, "user.m", {"ctx_size": 8192, "threads": None})
    save_options(tmp_path, "user.n", {"threads": 1})

    assert json.loads((tmp_path / "recipe_options.json").read_text()) == {
        "user.m": {"ctx_size": 8192, "args": "-x"},
        "user.n": {"threads": 1},
    }


def test_options_saved_under_a_bare_name_stay_there(tmp_path: Path) -> None:
    (tmp_path / "recipe_options.json").write_text('{"m": {"threads": 3}, "other": {}}')

    save_options(tmp_path, "user.m", {"ctx_size": 1})

    assert json.loads((tmp_path / "recipe_options.json").read_text()) == {
        "m": {"threads": 3, "ctx_size": 1},
        "other": {},
    }


def test_saved_options_are_read_back(tmp_path: Path) -> None:
    register(tmp_path, "m", recipe="test-engine", checkpoints={"main": "org/repo:m.gguf"})
    save_options(tmp_path, "user.m", {"threads": 7})

    assert ModelRegistry(tmp_path).load().entries["user.m"].saved_options == {"threads": 7}


def test_a_broken_options_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "recipe_options.json").write_text("{")

    with pytest.raises(ConfigError, match=r"recipe_options\.json"):
        save_options(tmp_path, "user.m", {"threads": 7})

    assert (tmp_path / "recipe_options.json").read_text() == "{"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (json.loads("[" * 64 + "]" * 64), "'user.m': nested deeper than 64 levels"),
        (10**200, "'user.m': a number of 201 digits"),
        ("x" * (8 << 20), "larger than 8 MiB"),
    ],
    ids=["deep", "long", "large"],
)
def test_nothing_is_saved_that_would_spoil_the_file(tmp_path: Path, value: Any, words: str) -> None:
    save_options(tmp_path, "user.m", {"threads": 7})
    with pytest.raises(InvalidModelError, match=rf"recipe_options\.json: {words}.*nothing was changed"):
        save_options(tmp_path, "user.m", {"args": value})
    assert json.loads((tmp_path / "recipe_options.json").read_text()) == {"user.m": {"threads": 7}}
