"""Where the API of a container engine is: what a command line, the environment or docker's contexts name.

`podman_addresses` and `docker_addresses` say where to look, in order, as the programs themselves do; what
somebody named is the only place then. `reach` finds out whether anybody answers there, and why not. Reading
contexts and connecting both block.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lemonpod.contract.location import shown
from lemonpod.errors import RuntimeUnavailableError
from lemonpod.launch.container import Runtime

USUAL_PLACE: Final = "its usual place"
"""The origin of an address that nobody named."""

_FORMS: Final = "unix:///path/of/the.sock, tcp://host:port or https://host:port"
_ONLY_BY_CLI: Final = frozenset({"ssh", "npipe"})
_OVER_TCP: Final = frozenset({"tcp", "http", "https"})
_DOCKER_PORT: Final = 2375
_DOCKER_TLS_PORT: Final = 2376
_MAX_BYTES: Final = 1 << 20
_NO_CONTEXT: Final = "default"  # docker's name for what is not one of its stored contexts


class OnlyByCliAddressError(RuntimeUnavailableError):
    """An address that podman's or docker's own program reaches, and an API client does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How to speak to an engine over TLS; None is a file that is not used."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Address:
    """One place where an engine may answer."""

    url: str
    """`unix:///path`, `tcp://host:port`, `http://…` or `https://…`."""
    origin: str
    """Who says so, in words for people: `--url`, `DOCKER_HOST`, `the docker context 'x'`."""
    tls: Tls | None = None
    start: str | None = None
    """The command that starts what listens there, where that is known."""

    @property
    def socket(self) -> Path | None:
        """The socket's path, or None where the engine is reached over TCP."""
        return Path(self.url.removeprefix("unix://")) if self.url.startswith("unix://") else None

    def __str__(self) -> str:
        return f"{self.url} ({self.origin})"


def addresses(
    runtime: Runtime,
    url: str | None,
    context: str | None,
    environ: Mapping[str, str],
    *,
    home: Path,
    euid: int,
) -> tuple[Address, ...]:
    """Where an engine of `runtime` may be; `url` and `context` are what the command line says.

    Raises RuntimeUnavailableError for what is no address, and OnlyByCliAddressError for what is none to us.
    """
    if runtime is Runtime.PODMAN:
        return podman_addresses(url, environ, euid)
    return docker_addresses(url, context, environ, home, euid)


def podman_addresses(given: str | None, environ: Mapping[str, str], euid: int) -> tuple[Address, ...]:
    """Where podman's service may be; raises RuntimeUnavailableError for an address that is none.

    `given` is the command line's `--url`.
    """
    if given:
        return (_address(given, "--url"),)
    if named := environ.get("CONTAINER_HOST"):
        return (_address(named, "CONTAINER_HOST"),)
    own = f"unix://{_runtime_folder(environ, euid)}/podman/podman.sock"
    return (
        Address(own, USUAL_PLACE, start="systemctl --user enable --now podman.socket"),
        Address(
            "unix:///run/podman/podman.sock",
            USUAL_PLACE,
            start="sudo systemctl enable --now podman.socket",
        ),
    )


def docker_addresses(
    given_host: str | None,
    given_context: str | None,
    environ: Mapping[str, str],
    home: Path,
    euid: int,
) -> tuple[Address, ...]:
    """Where docker's daemon may be; raises RuntimeUnavailableError for an address or context that is none.

    The arguments that are given are the command line's `-H` and `--context`.
    """
    if given_host and given_context:
        raise RuntimeUnavailableError("--host and --context exclude each other", hint="name one engine")
    folder = Path(environ.get("DOCKER_CONFIG") or home / ".docker")
    tls = _docker_tls(environ, folder)
    if given_host:
        return (_docker_address(given_host, "--host", tls),)
    if given_context:
        context, origin = given_context, "--context"
    elif host := environ.get("DOCKER_HOST"):
        return (_docker_address(host, "DOCKER_HOST", tls),)
    elif named := environ.get("DOCKER_CONTEXT"):
        context, origin = named, "DOCKER_CONTEXT"
    else:
        context, origin = _current_context(folder / "config.json")
    if context != _NO_CONTEXT:
        return (_of_context(context, origin, folder / "contexts"),)
    if tls:
        return (Address(f"tcp://localhost:{_DOCKER_TLS_PORT}", "DOCKER_TLS_VERIFY", tls),)
    own = f"unix://{_runtime_folder(environ, euid)}/docker.sock"
    return (
        Address(own, USUAL_PLACE, start="systemctl --user start docker"),
        Address("unix:///var/run/docker.sock", USUAL_PLACE, start="sudo systemctl start docker"),
    )


def _runtime_folder(environ: Mapping[str, str], euid: int) -> str:
    """Unset by sudo and in units of the system, where the user's own engine is there all the same."""
    return environ.get("XDG_RUNTIME_DIR") or f"/run/user/{euid}"


def _address(text: str, origin: str, tls: Tls | None = None, *, port: int | None = None) -> Address:
    """The address that `text` is; `port` is the one of a TCP address without."""
    scheme, separator, rest = text.partition("://")
    if not separator and text.startswith("unix:/"):  # a URL too
        scheme, rest = "unix", text.removeprefix("unix:")
    elif not separator:
        hint = f"write unix://{text}" if text.startswith("/") else f"write {_FORMS}"
        raise _nonsense(text, origin, "it has no scheme", hint)
    if scheme in _ONLY_BY_CLI:
        text = f"{origin} is '{shown(text)}', and {scheme} is spoken by the program alone"
        raise OnlyByCliAddressError(text, hint=f"for the API use {_FORMS}")
    if scheme == "unix":
        if not rest.startswith("/"):
            raise _nonsense(text, origin, "the path of its socket is not absolute")
        return Address(f"unix://{rest}", origin)
    if scheme not in _OVER_TCP:
        raise _nonsense(text, origin, f"there is no scheme '{shown(scheme)}'")
    try:
        parts = urlsplit(f"//{rest}")
        host, named_port = parts.hostname, parts.port
    except ValueError:
        raise _nonsense(text, origin, "it names no host and port") from None
    if not host:
        raise _nonsense(text, origin, "it names no host")
    if named_port is None and scheme == "tcp":
        if port is None:
            raise _nonsense(text, origin, "it names no port")
        rest = f"{parts.netloc.removesuffix(':')}:{port}{parts.path}"
    return Address(f"{scheme}://{rest}", origin, tls)


def _nonsense(text: str, origin: str, why: str, hint: str | None = None) -> RuntimeUnavailableError:
    return RuntimeUnavailableError(
        f"{origin} is '{shown(text)}', which is no address of an engine: {why}",
        hint=hint or f"write {_FORMS}",
    )


def _docker_address(text: str, origin: str, tls: Tls | None) -> Address:
    if "://" not in text and ":" in text and "/" not in text:
        text = f"tcp://{text}"  # docker takes HOST:PORT for that
    return _address(text, origin, tls, port=_DOCKER_TLS_PORT if tls else _DOCKER_PORT)


def _docker_tls(environ: Mapping[str, str], folder: Path) -> Tls | None:
    """The TLS that docker's variables ask for; to docker any value but an empty one is a yes."""
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verify and not environ.get("DOCKER_TLS"):
        return None
    return _tls_files(Path(environ.get("DOCKER_CERT_PATH") or folder), verify=verify)


def _tls_files(folder: Path, *, verify: bool) -> Tls:
    """The files that docker looks for in a folder, those of them that are there."""

    def there(name: str) -> Path | None:
        path = folder / name
        return path if path.is_file() else None

    return Tls(ca=there("ca.pem"), cert=there("cert.pem"), key=there("key.pem"), verify=verify)


def _current_context(config: Path) -> tuple[str, str]:
    """The context that `docker context use` chose, and who says so."""
    named = _json_object(config).get("currentContext") or _NO_CONTEXT
    if not isinstance(named, str):
        raise RuntimeUnavailableError(
            f"{config}: currentContext is no name", hint="docker context use default"
        )
    return named, str(config)


def _of_context(name: str, origin: str, store: Path) -> Address:
    """The engine of a stored context; docker keeps each under the hash of its name."""
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = store / "meta" / key / "meta.json"
    if not meta.is_file():
        text = f"{origin} names the docker context '{shown(name)}', and there is none"
        raise RuntimeUnavailableError(text, hint="docker context ls shows those that are there")
    endpoints = _json_object(meta).get("Endpoints")
    endpoint = endpoints.get("docker") if isinstance(endpoints, dict) else None
    host = endpoint.get("Host") if isinstance(endpoint, dict) else None
    if not isinstance(endpoint, dict) or not isinstance(host, str):
        raise RuntimeUnavailableError(f"{meta} names no engine", hint=f"docker context inspect {shown(name)}")
    material = store / "tls" / key / "docker"
    verify = not endpoint.get("SkipTLSVerify")
    tls = _tls_files(material, verify=verify) if material.is_dir() or not verify else None
    return _docker_address(host, f"the docker context '{shown(name)}'", tls)


def _json_object(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file. Raises RuntimeUnavailableError."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror}"
        raise RuntimeUnavailableError(text, hint=f"chown or chmod {path}") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RuntimeUnavailableError(f"{path} is no JSON object", hint="correct or remove it")
    return found
