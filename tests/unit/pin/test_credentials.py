"""Logins where podman and docker keep them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from lemonpod.errors import ConfigError
from lemonpod.pin.credentials import Credentials, Login, credential_files
from lemonpod.pin.source import DigestError


def auth(user: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:p:w".encode()).decode()}


def store(path: Path, **document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`docker-credential-test`, which knows r.example."""
    program = tmp_path / "bin/docker-credential-test"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\nread -r server\n"
        '[ "$1 $server" = "get r.example" ] || { echo credentials not found; exit 1; }\n'
        'echo \'{"Username": "kept", "Secret": "s"}\'\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return program


def test_the_files_are_those_of_podman_then_docker() -> None:
    environ = {"XDG_RUNTIME_DIR": "/run/user/1", "PATH": "/bin"}

    assert [str(path) for path in credential_files(environ, "/home/u")] == [
        "/run/user/1/containers/auth.json",
        "/home/u/.config/containers/auth.json",
        "/home/u/.docker/config.json",
    ]
    moved = {"XDG_CONFIG_HOME": "/c", "DOCKER_CONFIG": "/d"}
    assert credential_files(moved, None) == (Path("/c/containers/auth.json"), Path("/d/config.json"))
    assert credential_files({**environ, "REGISTRY_AUTH_FILE": "/x"}, "/home/u") == (Path("/x"),)


def test_the_first_file_that_has_one_counts(tmp_path: Path) -> None:
    first = store(tmp_path / "a/auth.json", auths={"other.example": auth("no")})
    second = store(tmp_path / "b/auth.json", auths={"r.example": auth("yes")})
    files = (tmp_path / "absent", first, second)

    assert Credentials(files).login("r.example", "a/b") == Login("yes", "p:w")
    assert Credentials(files).login("third.example", "a/b") is None


def test_the_most_special_key_counts(tmp_path: Path) -> None:
    file = store(
        tmp_path / "auth.json",
        auths={"r.example": auth("all"), "r.example/a": auth("a"), "r.example/a/b": auth("ab")},
    )

    def user(repository: str) -> str | None:
        login = Credentials((file,)).login("r.example", repository)
        return login.user if login else None

    assert [user("a/b"), user("a/c"), user("b/a")] == ["ab", "a", "all"]


@pytest.mark.parametrize(
    ("key", "registry"),
    [
        ("https://index.docker.io/v1/", "docker.io"),
        ("index.docker.io", "docker.io"),
        ("docker.io", "docker.io"),
        ("https://r.example/v1/", "r.example"),
        ("https://r.example", "r.example"),
        ("r.example:5000", "r.example:5000"),
    ],
)
def test_older_spellings_of_a_registry_are_known(tmp_path: Path, key: str, registry: str) -> None:
    file = store(tmp_path / "config.json", auths={key: auth("me")})

    assert Credentials((file,)).login(registry, "a/b") == Login("me", "p:w")
    assert Credentials((file,)).login("elsewhere.example", "a/b") is None


@pytest.mark.parametrize(
    "entry", [{}, None, {"auth": "%"}, {"auth": 3}, {"auth": "bm8="}, {"identitytoken": "x"}]
)
def test_an_entry_without_a_login_is_none(tmp_path: Path, entry: Any) -> None:
    file = store(tmp_path / "config.json", auths={"r.example": entry})

    assert Credentials((file,)).login("r.example", "a/b") is None


@pytest.mark.parametrize("field", [{"credHelpers": {"r.example": "test"}}, {"credsStore": "test"}])
def test_a_helper_is_asked(tmp_path: Path, helper: Path, field: dict[str, Any]) -> None:
    file = store(tmp_path / "config.json", auths={"r.example": {}}, **field)

    assert Credentials((file,)).login("r.example", "a/b") == Login("kept", "s")
    assert Credentials((file,)).login("other.example", "a/b") is None


def test_a_helper_that_is_broken_says_so(tmp_path: Path, helper: Path) -> None:
    def login(name: str) -> Login | None:
        file = store(tmp_path / "config.json", credsStore=name)
        return Credentials((file,)).login("r.example", "a/b")

    with pytest.raises(DigestError, match="docker-credential-absent, which fails"):
        login("absent")
    with pytest.raises(DigestError, match="no name of a credential helper"):
        login("../../bin/sh")
    helper.write_text("#!/bin/sh\necho nonsense\n")
    with pytest.raises(DigestError, match="something else than a login"):
        login("test")
    helper.write_text('#!/bin/sh\necho \'{"Username": "<token>", "Secret": "s"}\'\n')
    assert login("test") is None


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text("{")

    with pytest.raises(ConfigError, match=r"auth\.json: line 1"):
        Credentials((tmp_path / "auth.json",)).login("r.example", "a/b")


def test_a_login_is_not_shown() -> None:
    assert "secret" not in repr(Login("me", "secret"))
