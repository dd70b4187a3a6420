from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lemonpod.contract.vocabulary import Mode
from lemonpod.errors import ConfigError
from lemonpod.models.entry import CheckpointRef, ModelEntry, Origin
from lemonpod.models.json_file import MAX_BYTES
from lemonpod.models.labels import labelled_mode
from lemonpod.models.registry import ModelRegistry, Models


def models_of(folder: Path, user_models: Any, recipe_options: Any = None) -> Models:
    (folder / "user_models.json").write_text(json.dumps(user_models))
    if recipe_options is not None:
        (folder / "recipe_options.json").write_text(json.dumps(recipe_options))
    return ModelRegistry(folder).load()


def entry_of(folder: Path, **fields: Any) -> ModelEntry:
    models = models_of(folder, {"m": {"recipe": "r"} | fields})
    assert models.problems == ()
    return models.entries["user.m"]


def problem_of(folder: Path, value: Any, key: str = "m") -> str:
    models = models_of(folder, {key: value, "good": {"recipe": "r", "checkpoint": "a/b:c.gguf"}})
    assert list(models.entries) == ["user.good"], "one bad entry must not cost the others"
    return str(models.problems[0])


def test_the_shapes_of_user_models(tmp_path: Path) -> None:  # F13
    models = models_of(
        tmp_path,
        {
            "M": {"checkpoint": "org/repo:file.gguf", "recipe": "r"},
            "user.N": {
                "checkpoints": {"main": "a/b:c.gguf", "mmproj": "a/b:mmproj-F16.gguf"},
                "recipe": "r",
            },
            "bad": None,
            "W": {"checkpoint": "C:\\m\\x.gguf", "recipe": "r"},
        },
    )
    assert {name: dict(entry.checkpoints) for name, entry in models.entries.items()} == {
        "user.M": {"main": CheckpointRef(text="org/repo:file.gguf", origin=Origin.HUB)},
        "user.N": {
            "main": CheckpointRef(text="a/b:c.gguf", origin=Origin.HUB),
            "mmproj": CheckpointRef(text="a/b:mmproj-F16.gguf", origin=Origin.HUB),
        },
        "user.W": {"main": CheckpointRef(text="C:\\m\\x.gguf", origin=Origin.LOCAL_PATH)},
    }
    assert [str(problem) for problem in models.problems] == [
        f"{tmp_path}/user_models.json: bad: must be an object"
    ]
    assert set(models.refused) == {"user.bad"}


# F13
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"checkpoint": "o/r:m.gguf", "mmproj": "mmproj.gguf"}, ("hub", "o/r:mmproj.gguf")),
        ({"checkpoint": "o/r", "mmproj": "vision/mmproj.gguf"}, ("hub", "o/r:vision/mmproj.gguf")),
        ({"checkpoint": "o/r:m.gguf", "mmproj": "o/other:mmproj.gguf"}, ("hub", "o/other:mmproj.gguf")),
        ({"checkpoint": "o/r:m.gguf", "mmproj": "/a/mmproj.gguf"}, ("local_path", "/a/mmproj.gguf")),
        ({"checkpoint": "/a/m.gguf", "mmproj": "mmproj.gguf"}, ("local_path", "/a/mmproj.gguf")),
        ({"checkpoint": "D:\\a\\m.gguf", "mmproj": "p.gguf"}, ("local_path", "D:\\a\\p.gguf")),
        ({"checkpoint": "/a/m.gguf", "mmproj": "o/r:mmproj.gguf"}, ("hub", "o/r:mmproj.gguf")),
        ({"checkpoints": {"mmproj": "p.gguf", "main": "o/r"}}, ("hub", "o/r:p.gguf")),
        ({"checkpoints": {"mmproj": "o/p", "main": "o/r"}}, ("hub", "o/p")),
        ({"checkpoint": "up/m.gguf", "source": "local_upload", "mmproj": "p.gguf"},
         ("local_upload", "up/p.gguf")),
        ({"checkpoint": "o/r:m", "registry_source": "modelscope", "mmproj": "p.gguf"},
         ("modelscope", "o/r:p.gguf")),
    ],
)  # fmt: skip
def test_a_further_checkpoint_is_where_its_text_says_or_beside_the_main_one(
    tmp_path: Path, fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    refs = entry_of(tmp_path, **fields).checkpoints
    assert list(refs) == ["main", "mmproj"]
    assert (refs["mmproj"].origin, refs["mmproj"].text) == expected


# F13
@pytest.mark.parametrize(
    ("size", "expected"),
    [(4, 4.0), (4.25, 4.25), ("4.2", 4.2), (" 4.2 GB", 4.2), (0, 0.0), (None, None)],
)
def test_a_size_may_be_text(tmp_path: Path, size: Any, expected: float | None) -> None:
    assert entry_of(tmp_path, size=size).size_gb == expected


@pytest.mark.parametrize("size", ["large", True, -1, [], "4,2", "9" * 400])
def test_a_size_that_is_none_is_said_but_costs_no_model(tmp_path: Path, size: Any) -> None:
    models = models_of(tmp_path, {"m": {"recipe": "r", "size": size}})
    assert models.entries["user.m"].size_gb is None
    assert "m.size" in str(models.problems[0])


def test_an_entry_keeps_what_it_says(tmp_path: Path) -> None:
    entry = entry_of(
        tmp_path,
        labels=["vision", "embeddings"],
        recipe_options={"ctx_size": 4096},
        suggested=True,
        source="local_path",
        checkpoint="/a/b.gguf",
        image_defaults={"steps": 4},
        system_prompt="Be brief.",
    )
    assert entry.labels == ("vision", "embeddings")
    assert entry.recipe_options == {"ctx_size": 4096}
    assert entry.suggested
    assert entry.source == "local_path"


# F13 and its near relatives
@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        (None, "m", "must be an object"),
        ([], "m", "must be an object"),
        ("org/repo", "m", "must be an object"),
        ({}, "m.recipe", "is missing"),
        ({"recipe": ""}, "m.recipe", "is missing"),
        ({"recipe": 3}, "m.recipe", "must be a string"),
        ({"recipe": "r", "checkpoint": ["a/b"]}, "m.checkpoint", "must be a string"),
        ({"recipe": "r", "checkpoint": "a/b", "checkpoints": {"main": "a/b"}}, "m.checkpoints", "beside"),
        ({"recipe": "r", "checkpoints": []}, "m.checkpoints", "must be an object"),
        ({"recipe": "r", "checkpoints": {"mmproj": "a/b:c"}}, "m.checkpoints", "has no 'main'"),
        ({"recipe": "r", "mmproj": "c.gguf"}, "m.checkpoints", "has no 'main'"),
        ({"recipe": "r", "checkpoints": {"main": None}}, "m.checkpoints.main", "non-empty string"),
        ({"recipe": "r", "checkpoints": {"main": "a/b", "x y": "a/b"}}, "m.checkpoints", "'x y'"),
        ({"recipe": "r", "checkpoints": {"main": "a", "mmproj": "c"}, "mmproj": "d"}, "m.mmproj", "differs"),
        ({"recipe": "r", "checkpoint": "a/b:\u0000"}, "m.checkpoints.main", "control character"),
        ({"recipe": "r", "checkpoint": "a/b\n"}, "m.checkpoints.main", "control character"),
        ({"recipe": "r", "checkpoint": "m.gguf", "source": "local_path"}, "m.checkpoint", "absolute"),
        ({"recipe": "r", "labels": "tts"}, "m.labels", "list of strings"),
        ({"recipe": "r", "labels": [1]}, "m.labels", "list of strings"),
        ({"recipe": "r", "labels": ["tts", "image"]}, "m.labels", "'tts' and 'image'"),
        ({"recipe": "r", "recipe_options": []}, "m.recipe_options", "must be an object"),
    ],
)  # fmt: skip
def test_a_bad_entry_is_skipped_with_file_key_and_reason(
    tmp_path: Path, value: Any, place: str, words: str
) -> None:
    problem = problem_of(tmp_path, value)
    assert problem.startswith(f"{tmp_path}/user_models.json: {place}: ")
    assert words in problem


@pytest.mark.parametrize(
    "key", ["", "user.", " m", "builtin.m", "extra.m", "Builtin.m", "USER.m", "a\nb", "a//b", "../m", "/m"]
)
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, key: str) -> None:  # F01
    assert "invalid model name" in problem_of(tmp_path, {"recipe": "r"}, key)


def test_an_unknown_field_is_said_but_costs_no_model(tmp_path: Path) -> None:
    models = models_of(tmp_path, {"m": {"recipe": "r", "chekpoint": "a/b"}})
    assert list(models.entries) == ["user.m"]
    assert "m.chekpoint: unknown field, ignored" in str(models.problems[0])


def test_all_that_is_wrong_with_an_entry_is_said_at_once(tmp_path: Path) -> None:
    models = models_of(tmp_path, {"m": {"recipe": 1, "labels": 1, "recipe_options": 1}})
    assert [problem.location.rpartition(".")[2] for problem in models.problems] == [
        "recipe",
        "labels",
        "recipe_options",
    ]


def test_a_name_with_and_without_prefix_is_one_model(tmp_path: Path) -> None:
    models = models_of(tmp_path, {"m": {"recipe": "r"}, "user.m": {"recipe": "other"}})
    assert models.entries["user.m"].recipe == "r"
    assert "registered twice" in str(models.problems[0])


def test_saved_options_belong_to_the_model_of_that_id(tmp_path: Path) -> None:
    models = models_of(
        tmp_path,
        {"m": {"recipe": "r"}, "n": {"recipe": "r"}, "o": {"recipe": "r"}},
        {"user.m": {"ctx_size": 1}, "n": {"ctx_size": 2}, "builtin.x": {"ctx_size": 3}, "o": 4},
    )
    assert [dict(entry.saved_options) for entry in models.entries.values()] == [
        {"ctx_size": 1},
        {"ctx_size": 2},
        {},
    ]
    assert [str(problem) for problem in models.problems] == [
        f"{tmp_path}/recipe_options.json: o: must be an object"
    ]


@pytest.mark.parametrize(
    ("labels", "mode"),
    [
        ([], None),
        (["vision", "hot"], None),
        (["embedding"], Mode.EMBEDDINGS),
        (["embeddings", "embedding"], Mode.EMBEDDINGS),
        (["classifier"], Mode.CLASSIFICATION),
        (["3d"], Mode.MODEL_3D),
        (["audio-generation"], Mode.AUDIO_GENERATION),
        (["tts", "chat"], Mode.CHAT),
        (["tts", "image", "chat"], Mode.CHAT),
    ],
)
def test_labels_name_the_mode(labels: list[str], mode: Mode | None) -> None:
    assert labelled_mode(labels) is mode


def test_labels_that_name_two_modes_are_an_error() -> None:
    with pytest.raises(ConfigError, match="'tts' and 'image'"):
        labelled_mode(["tts", "image"])


# M15: one canonicaliser, whatever form a client uses.
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("M", "user.M"),
        ("user.M", "user.M"),
        ("M:latest", "user.M"),
        ("user.M:latest", "user.M"),
        ("user.M:LATEST", "user.M"),
        ("m", "user.M"),
        ("USER.m", "user.M"),
        ("user.m:latest", "user.M"),
        ("org/repo:Q4_K_M", "user.org/repo:Q4_K_M"),
        ("ORG/repo:q4_k_m", "user.org/repo:Q4_K_M"),
        ("twin", "user.twin"),
        ("TWIN", None),
        ("tagged:latest", "user.tagged:latest"),
        ("tagged", "user.tagged"),
        ("builtin.M", None),
        ("extra.M", None),
        ("Mm", None),
        ("", None),
        (":latest", None),
    ],
)
def test_a_name_finds_its_model(tmp_path: Path, name: str, found: str | None) -> None:
    names = ["M", "org/repo:Q4_K_M", "twin", "Twin", "tagged", "tagged:latest"]
    models = models_of(tmp_path, {key: {"recipe": "r"} for key in names})
    entry = models.find(name)
    assert (entry.id if entry else None) == found


def test_every_id_leads_back_to_itself(tmp_path: Path) -> None:  # M15
    names = ["M", "m", "user.N", "a/b", "a:latest", "a", "ünï", "x.user.y"]
    models = models_of(tmp_path, {key: {"recipe": "r"} for key in names})
    assert len(models.entries) == len(names)
    for id_, entry in models.entries.items():
        assert models.find(id_) is entry


def test_no_file_means_no_models(tmp_path: Path) -> None:
    models = ModelRegistry(tmp_path / "nowhere").load()
    assert (models.entries, models.problems) == ({}, ())


BROKEN = [
    (b'{"m": ', "not valid JSON"),
    (b"", "not valid JSON"),
    (b"[]", "must hold a JSON object"),
    (b'{"m": {"recipe": "r"}, "m": {"recipe": "s"}}', "'m' appears twice"),
    (b'{"m": {"size": NaN}}', "'m': NaN is not JSON"),
    (b'{"m": {"size": 1e999}}', "too large"),
    (b'{"m": ' + b"1" * 5000 + b"}", "5000 digits"),
    (b'{"m": "\\ud800"}', "'m': holds half of a surrogate pair"),
    (b'{"m": "caf\xe9"}', "not UTF-8 at byte 10"),
    ('{"m": 1}'.encode("utf-16"), "not UTF-8"),
    (b"[" * 100_000, "nested deeper than 64 levels"),
    (b'{"m": ' + b"[" * 64 + b"]" * 64 + b"}", "'m': nested deeper than 64 levels"),
    (b" " * (MAX_BYTES + 1), "larger than 8 MiB"),
    (b"// m\n{}", "not valid JSON"),
    (b'{"m": 1,}', "not valid JSON"),
]


@pytest.mark.parametrize(("data", "words"), BROKEN, ids=[words for _, words in BROKEN])
def test_a_broken_file_keeps_the_last_good_version_and_says_so(
    tmp_path: Path, data: bytes, words: str
) -> None:  # F03, F07
    file = tmp_path / "user_models.json"
    file.write_text('{"m": {"recipe": "r"}}')
    registry = ModelRegistry(tmp_path)
    good = registry.load()
    file.write_bytes(data)
    broken = registry.load()
    assert broken.entries == good.entries
    (problem,) = broken.problems
    assert problem.location == str(file)
    assert words in problem.message
    assert "last good version stays in use" in problem.message
    file.write_text('{"n": {"recipe": "r"}}')
    mended = registry.load()
    assert list(mended.entries) == ["user.n"]
    assert mended.problems == ()


def test_a_file_that_was_never_good_says_that_nothing_of_it_counts(tmp_path: Path) -> None:
    (tmp_path / "user_models.json").write_text("{")
    models = ModelRegistry(tmp_path).load()
    assert "nothing in it is used" in models.problems[0].message


def test_a_byte_order_mark_is_let_through(tmp_path: Path) -> None:
    (tmp_path / "user_models.json").write_bytes(b'\xef\xbb\xbf{"m": {"recipe": "r"}}')
    assert list(ModelRegistry(tmp_path).load().entries) == ["user.m"]


def test_a_pair_of_surrogates_is_a_character(tmp_path: Path) -> None:
    (tmp_path / "user_models.json").write_text('{"m\\ud83c\\udf4b": {"recipe": "r"}}')
    assert list(ModelRegistry(tmp_path).load().entries) == ["user.m🍋"]


def test_what_has_not_changed_is_the_same_object(tmp_path: Path) -> None:
    (tmp_path / "user_models.json").write_text('{"m": {"recipe": "r"}}')
    registry = ModelRegistry(tmp_path)
    assert registry.load() is registry.load()


def test_an_edit_that_no_time_stamp_shows_is_seen(tmp_path: Path) -> None:  # F07
    file = tmp_path / "user_models.json"
    file.write_text('{"m": {"recipe": "r"}}')
    registry = ModelRegistry(tmp_path)
    registry.load()
    stat = file.stat()
    file.write_text('{"n": {"recipe": "r"}}')
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert list(registry.load().entries) == ["user.n"]


def test_a_file_that_goes_takes_its_models_along(tmp_path: Path) -> None:
    file = tmp_path / "user_models.json"
    file.write_text('{"m": {"recipe": "r"}}')
    registry = ModelRegistry(tmp_path)
    registry.load()
    file.unlink()
    assert registry.load().entries == {}


def test_a_file_that_cannot_be_read_keeps_the_last_good_version(tmp_path: Path) -> None:
    file = tmp_path / "user_models.json"
    file.write_text('{"m": {"recipe": "r"}}')
    registry = ModelRegistry(tmp_path)
    registry.load()
    file.unlink()
    file.mkdir()
    models = registry.load()
    assert list(models.entries) == ["user.m"]
    assert "cannot be read" in models.problems[0].message
    assert registry.load() is models
