from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from lemonpod.models.hub import hub_dir


# M09: each variable, alone and against the others, with ~, $VAR and empty values.
@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "/home/u/.cache/huggingface/hub"),
        ({"HF_HUB_CACHE": "/b", "HUGGINGFACE_HUB_CACHE": "/a", "HF_HOME": "/c"}, "/b"),
        ({"HUGGINGFACE_HUB_CACHE": "/a", "HF_HOME": "/c"}, "/a"),
        ({"HF_HOME": "/c", "XDG_CACHE_HOME": "/d"}, "/c/hub"),
        ({"XDG_CACHE_HOME": "/d"}, "/d/huggingface/hub"),
        ({"HF_HOME": "~/hf"}, "/home/u/hf/hub"),
        ({"HF_HOME": "~"}, "/home/u/hub"),
        ({"HF_HUB_CACHE": "$BIG/hub", "BIG": "/data"}, "/data/hub"),
        ({"HF_HUB_CACHE": "${BIG}/hub", "BIG": "/data"}, "/data/hub"),
        ({"HF_HUB_CACHE": "/x/$UNSET"}, "/x/$UNSET"),
        ({"HF_HUB_CACHE": "", "HF_HOME": "/c"}, "/c/hub"),
        ({"HF_HUB_CACHE": "", "HUGGINGFACE_HUB_CACHE": "", "HF_HOME": "", "XDG_CACHE_HOME": ""},
         "/home/u/.cache/huggingface/hub"),
        ({"HF_HUB_CACHE": "/a/../b"}, "/a/../b"),
    ],
)  # fmt: skip
def test_the_environment_says_where_the_cache_is(environ: dict[str, str], expected: str) -> None:
    assert hub_dir({"HOME": "/home/u"} | environ) == Path(expected)


@pytest.mark.parametrize("unset", [None, "", "auto"])
def test_the_setting_models_dir_wins_unless_it_is_unset(unset: str | None) -> None:
    environ = {"HOME": "/home/u", "HF_HUB_CACHE": "/b"}
    assert hub_dir(environ, "~/models") == Path("/home/u/models")
    assert hub_dir(environ, unset) == Path("/b")


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert hub_dir({"HF_HOME": "hf"}) == tmp_path / "hf" / "hub"


def test_the_callers_environment_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", "/elsewhere")
    assert hub_dir({"HOME": "/home/u"}) == Path("/home/u/.cache/huggingface/hub")


def test_the_home_of_another_user_comes_from_the_user_database() -> None:
    assert hub_dir({"HF_HOME": "~root/hf"}) == Path(pwd.getpwnam("root").pw_dir) / "hf" / "hub"
