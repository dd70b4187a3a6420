"""One question to a container engine without its SDK: for what examines a machine and needs no container."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from lemonpod.drivers.address import Address
from lemonpod.errors import RuntimeUnavailableError

_TIMEOUT: Final = 5.0
_MAX_BYTES: Final = 4 << 20
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    """By their names in lower case."""
    body: bytes

    def json(self) -> dict[str, Any]:
        """The object that was answered; empty where it was something else."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def ask(address: Address, path: str) -> Answer:
    """What `GET path` answers. Blocks; raises RuntimeUnavailableError where there is no answer of HTTP."""
    connection = _connection(address)
    try:
        connection.request("GET", path, headers={"Host": "d"})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read(_MAX_BYTES))
    except TimeoutError:
        raise _no_answer(address, f"nothing within {_TIMEOUT:.0f} s") from None
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise _no_answer(address, why) from None
    finally:
        connection.close()


def _no_answer(address: Address, why: str) -> RuntimeUnavailableError:
    hint = address.start or f"restart what listens there, or correct {address.origin}"
    return RuntimeUnavailableError(f"{address}: no answer of an engine: {why}", hint=hint)


class _OverSocket(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("d", timeout=_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_TIMEOUT)
        self.sock.connect(self._path)


def _connection(address: Address) -> HTTPConnection:
    if address.socket is not None:
        return _OverSocket(str(address.socket))
    parts = urlsplit(address.url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    if address.tls is None and parts.scheme != "https":
        return HTTPConnection(host, port, timeout=_TIMEOUT)
    return HTTPSConnection(host, port, timeout=_TIMEOUT, context=_tls(address))


def _tls(address: Address) -> ssl.SSLContext:
    """Raises RuntimeUnavailableError for files that are no certificates."""
    tls = address.tls
    try:
        context = ssl.create_default_context(cafile=tls.ca if tls else None)
        if tls is not None and not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls is not None and tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as error:
        text = f"{address}: its certificates cannot be used: {error}"
        raise RuntimeUnavailableError(text, hint="correct DOCKER_CERT_PATH or the docker context") from None
    return context
