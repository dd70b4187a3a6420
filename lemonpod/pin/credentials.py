"""Names and passwords for registries, read where podman and docker keep them, once a registry asks."""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import ConfigError
from lemonpod.models.json_file import parse_object, read_bytes
from lemonpod.pin.source import DOCKER_HUB, DigestError

_HUB_KEYS: Final = ("https://index.docker.io/v1/", "index.docker.io")
_HELPER_TIMEOUT: Final = 30.0
"""One may have to unlock a keyring."""
_IDENTITY_TOKEN: Final = "<token>"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    password: str

    def basic(self) -> str:
        """As the value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def __repr__(self) -> str:
        return f"Login({self.user!r}, …)"


class Credentials:
    """The logins that this user has; the first file that has one for a registry counts."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        self._files = files

    def login(self, registry: str, repository: str) -> Login | None:
        """The login for a repository; raises ConfigError for a broken file, DigestError for a helper."""
        for file in self._files:
            if found := _login(_read(file), registry, repository):
                return found
        return None


def credential_files(environ: Mapping[str, str], home: str | None) -> tuple[Path, ...]:
    """Where podman, then docker, keep logins."""
    if named := environ.get("REGISTRY_AUTH_FILE"):
        return (Path(named),)
    files = []
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        files.append(Path(runtime, "containers/auth.json"))
    if config := environ.get("XDG_CONFIG_HOME") or (home and f"{home}/.config"):
        files.append(Path(config, "containers/auth.json"))
    if docker := environ.get("DOCKER_CONFIG") or (home and f"{home}/.docker"):
        files.append(Path(docker, "config.json"))
    return tuple(files)


def _read(file: Path) -> dict[str, JsonValue]:
    try:
        data = read_bytes(file)
        return parse_object(data) if data else {}
    except ConfigError as error:
        raise ConfigError(f"{file}: {error.message}", hint=error.hint) from error


def _login(document: Mapping[str, Any], registry: str, repository: str) -> Login | None:
    """Of one file: a registry's own helper, else what is written down, else the helper for all."""
    server = _HUB_KEYS[0] if registry == DOCKER_HUB else registry
    helpers = _object(document, "credHelpers")
    if helper := helpers.get(registry) or helpers.get(server):
        return _ask(helper, server)
    entries = {_bare(key): entry for key, entry in _object(document, "auths").items()}
    for key in _keys(registry, repository):
        if found := _written(entries.get(key)):
            return found
    if store := document.get("credsStore"):
        return _ask(store, server)
    return None


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _bare(key: str) -> str:
    """A key without the scheme and the version of the API that older programs wrote into it."""
    return key.removeprefix("https://").removeprefix("http://").removesuffix("/").removesuffix("/v1")


def _keys(registry: str, repository: str) -> Iterator[str]:
    """From the most special: the repository, the namespaces that it is in, its registry."""
    parts = repository.split("/")
    yield from ("/".join([registry, *parts[:length]]) for length in range(len(parts), -1, -1))
    if registry == DOCKER_HUB:
        yield from map(_bare, _HUB_KEYS)


def _written(entry: Any) -> Login | None:
    if not isinstance(entry, dict):
        return None
    user, password = entry.get("username"), entry.get("password")
    if not (user and password):
        try:
            text = base64.b64decode(entry.get("auth") or "").decode()
        except (binascii.Error, UnicodeDecodeError, TypeError):
            return None
        user, _, password = text.partition(":")
    return Login(user, password.rstrip("\0")) if user and password else None


def _ask(helper: Any, server: str) -> Login | None:
    program = f"docker-credential-{helper}"
    if "/" in program:
        raise DigestError(f"'{program}' is no name of a credential helper")
    try:
        done = subprocess.run(
            [program, "get"],
            input=server,
            capture_output=True,
            text=True,
            timeout=_HELPER_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DigestError(f"the login for {server} is kept by {program}, which fails: {error}") from error
    if done.returncode:  # which is also how it says that it has none
        return None
    try:
        answer = json.loads(done.stdout)
        login = Login(answer["Username"], answer["Secret"])
    except (ValueError, KeyError, TypeError) as error:
        raise DigestError(f"{program} answers something else than a login") from error
    return None if login.user == _IDENTITY_TOKEN else login
