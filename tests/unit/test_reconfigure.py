"""Settings that clients see, change while the server runs, and keep."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemonpod.config import Folders, Settings, load_settings, settle
from lemonpod.errors import ConfigError, MalformedRequestError
from lemonpod.reconfigure import Configuration, document_of


class Server:
    """The settings of one that was started with this file."""

    def __init__(self, folder: Path, document: Any = None, environ: dict[str, str] | None = None) -> None:
        self.file = folder / "config.json"
        self.used: list[Settings] = []
        if document is not None:
            self.file.write_text(json.dumps(document))
        self.environ = environ or {"HOME": str(folder)}
        self.folders = Folders(cache=folder, config=folder)
        self.configuration = Configuration(
            load_settings(self.environ, self.folders), self.environ, self.used.append
        )

    @property
    def kept(self) -> Any:
        return json.loads(self.file.read_text()) if self.file.exists() else None

    def restarted(self) -> Settings:
        return load_settings(self.environ, self.folders)


def test_all_settings_are_shown(tmp_path: Path) -> None:
    server = Server(tmp_path, {"port": 8000, "broadcast": False, "llamacpp": {"args": "--x"}})

    values = server.configuration.values()

    assert (values["port"], values["max_loaded_models"], values["broadcast"]) == (8000, 1, False)
    assert values["llamacpp"] == {"args": "--x"}
    assert values["lemonpod"]["stop_grace"] == 5.0  # type: ignore[index,call-overload]
    assert server.configuration.defaults()["port"] == 13305


def test_keys_of_the_api_are_not_shown(tmp_path: Path) -> None:
    server = Server(tmp_path, environ={"HOME": str(tmp_path), "LEMONADE_API_KEY": "very-secret"})

    assert "very-secret" not in json.dumps(server.configuration.values())


@pytest.mark.parametrize("value", [True, 1.0])
async def test_what_only_equals_the_default_is_no_setting(tmp_path: Path, value: object) -> None:
    server = Server(tmp_path)

    with pytest.raises(MalformedRequestError, match="must be of type int"):
        await server.configuration.keep({"max_loaded_models": value})  # type: ignore[dict-item]

    assert not server.used


def test_a_change_works_at_once_and_is_not_kept(tmp_path: Path) -> None:
    server = Server(tmp_path)

    server.configuration.change({"log_level": "debug", "ctx_size": 8192, "llamacpp_args": "--no-mmap"})

    (used,) = server.used
    assert (used.log_level, used.launch_options) == ("debug", {"ctx_size": 8192})
    assert used.recipe_options == {"llamacpp": {"args": "--no-mmap"}}
    assert server.configuration.values()["ctx_size"] == 8192
    assert server.kept is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "non-empty JSON object"),
        ({"prot": 1}, "unknown key 'prot'"),
        ({"log_level": "loud"}, "log_level must be one of"),
        ({"max_loaded_models": 0}, "max_loaded_models must be above zero"),
        ({"port": "x"}, "port must be of type int"),
        ({"lemonpod": {"stop_grace": -1}}, "lemonpod.stop_grace must not be negative"),
        ({"lemonpod": 5}, "lemonpod must be of type dict"),
        ({"llamacpp": 5, "llamacpp_args": "x"}, "'llamacpp' must be an object"),
    ],
)
async def test_a_mistake_changes_nothing(tmp_path: Path, changes: Any, told: str) -> None:
    server = Server(tmp_path, {"port": 8000})
    before = server.configuration.values()

    with pytest.raises(MalformedRequestError, match=told):
        server.configuration.change(
            {**changes, "log_level": changes.get("log_level", "debug")} if changes else {}
        )
    with pytest.raises(MalformedRequestError, match=told):
        await server.configuration.keep(changes)

    assert server.used == []
    assert server.configuration.values() == before
    assert server.kept == {"port": 8000}


def test_what_needs_a_restart_cannot_change_for_now(tmp_path: Path) -> None:
    server = Server(tmp_path)

    with pytest.raises(
        MalformedRequestError, match=r"'port' cannot change while the server runs .*internal/set"
    ):
        server.configuration.change({"port": 8000})
    server.configuration.change({"port": 13305})  # as it is

    assert server.configuration.values()["port"] == 13305


async def test_what_is_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path, {"llamacpp": {"backend": "cpu"}, "broadcast": True})

    kept = await server.configuration.keep(
        {"ctx_size": 4096, "llamacpp": {"args": "--x"}, "max_loaded_models": 3}
    )

    assert kept.message is None
    assert kept.updated == {"ctx_size": 4096, "llamacpp": {"args": "--x"}, "max_loaded_models": 3}
    assert server.used[-1].max_loaded_models == 3
    assert server.used[-1].recipe_options == {"llamacpp": {"backend": "cpu", "args": "--x"}}
    restarted = server.restarted()
    assert document_of(restarted) == server.configuration.values()
    assert server.kept == {
        "llamacpp": {"backend": "cpu", "args": "--x"},
        "broadcast": True,
        "ctx_size": 4096,
        "max_loaded_models": 3,
    }


async def test_it_is_told_what_waits_for_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path)

    kept = await server.configuration.keep(
        {"port": 8000, "lemonpod": {"stop_grace": 1.0, "max_queue": 256}, "broadcast": False, "offline": True}
    )

    assert kept.message == (
        "port, lemonpod.stop_grace: used from the next start of the server on; "
        "broadcast: changes nothing here"
    )
    assert server.configuration.values()["port"] == 13305
    assert server.used[-1].offline
    assert (server.restarted().port, server.restarted().engine.stop_grace) == (8000, 1.0)


async def test_the_file_stays_sparse(tmp_path: Path) -> None:
    server = Server(tmp_path, {"port": 8000, "log_level": "info", "ctx_size": 4096})

    await server.configuration.keep({"port": 13305, "ctx_size": None, "lemonpod": {"heartbeat": 15.0}})

    assert server.kept == {"log_level": "info"}  # which nobody has touched
    assert "ctx_size" not in server.configuration.values()


async def test_a_value_of_a_defaults_file_is_no_default_of_ours(tmp_path: Path) -> None:
    (tmp_path / "defaults.json").write_text(json.dumps({"port": 9000}))
    environ = {"HOME": str(tmp_path), "LEMONADE_DEFAULTS_PATH": str(tmp_path / "defaults.json")}
    server = Server(tmp_path, environ=environ)

    await server.configuration.keep({"port": 13305})

    assert server.kept == {"port": 13305}
    assert server.restarted().port == 13305


async def test_a_change_for_now_outlives_another_that_is_kept(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.configuration.change({"log_level": "debug"})

    await server.configuration.keep({"ctx_size": 4096})

    assert server.used[-1].log_level == "debug"
    assert server.kept == {"ctx_size": 4096}


async def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.file.write_text("{")

    with pytest.raises(ConfigError, match=r"config\.json.*nothing was changed"):
        await server.configuration.keep({"ctx_size": 4096})

    assert server.file.read_text() == "{"
    assert server.used == []


async def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    server = Server(tmp_path)

    await asyncio.gather(
        *(server.configuration.keep({"llamacpp": {f"option{number}": number + 1}}) for number in range(8))
    )

    assert server.kept == {"llamacpp": {f"option{number}": number + 1 for number in range(8)}}
    assert server.configuration.values()["llamacpp"] == server.kept["llamacpp"]


VALUES = {
    "port": st.integers(1, 65535),
    "log_level": st.sampled_from(["debug", "info", "error"]),
    "offline": st.booleans(),
    "max_loaded_models": st.integers(1, 9) | st.just(-1),
    "ctx_size": st.integers(1, 1 << 20),
    "models_dir": st.sampled_from(["auto", "/models"]),
    "extra_models_dir": st.sampled_from(["", "/extra", "extra"]),
    "broadcast": st.booleans(),
    "llamacpp": st.dictionaries(st.sampled_from(["args", "backend"]), st.text("ab", min_size=1), min_size=1),
    "lemonpod": st.fixed_dictionaries(
        {"stop_grace": st.floats(0, 100)}, optional={"watchdog": st.booleans()}
    ),
}


@given(document=st.fixed_dictionaries({}, optional=VALUES))
def test_what_is_shown_is_what_there_is(document: dict[str, Any]) -> None:
    """A document of settings comes to the same settings again."""
    folders = Folders(cache=Path("/cache"), config=Path("/config"))
    settings = settle([("test", document)], {}, folders)

    assert settle([("test", document_of(settings))], {}, folders) == settings
