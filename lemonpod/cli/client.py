"""The CLI's side of the HTTP API. Standard library only, to start fast."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlencode

from lemonpod.errors import ConfigError, LemonpodError

_CONNECT_TIMEOUT: Final = 5.0


class ServerError(LemonpodError):
    """The server answered with an error; `message` is the server's own."""

    code = "server_error"

    def __init__(self, status: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Client:
    """One server. Every call opens a connection of its own and closes it when its answer is read."""

    def __init__(
        self, host: str, port: int, api_key: str | None, *, answer_timeout: float | None = None
    ) -> None:
        """A load or a long prompt may take minutes: answers have no time limit unless one is given."""
        self._host = host
        self._port = port
        self._answer_timeout = answer_timeout
        self._key = api_key or os.environ.get("LEMONADE_ADMIN_API_KEY") or os.environ.get("LEMONADE_API_KEY")

    def get(self, path: str, *, holding: Collection[str] = ()) -> dict[str, Any]:
        """The answer, an object; raises ConfigError unless it holds the keys that are asked for."""
        return self._json("GET", path, None, holding)

    def post(self, path: str, body: Mapping[str, Any], *, holding: Collection[str] = ()) -> dict[str, Any]:
        """As `get`."""
        return self._json("POST", path, body, holding)

    def delete(self, path: str, *, holding: Collection[str] = ()) -> dict[str, Any]:
        """As `get`."""
        return self._json("DELETE", path, None, holding)

    def lines(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Generator[str, None, None]:
        """The answer's lines as they arrive. Leaving the loop closes the connection."""
        connection, response = self._send(method, _with_query(path, query), body)
        with closing(connection):
            while line := self._received(response.readline):
                yield line.decode("utf-8", "replace").rstrip("\r\n")

    def authorization(self) -> dict[str, str]:
        """The header that carries the key, if there is one."""
        if self._key and not (self._key.isascii() and self._key.isprintable()):
            raise ConfigError("the API key holds a character that cannot be sent", hint="copy it anew")
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def parse(self, text: str | bytes, holding: Collection[str] = ()) -> dict[str, Any]:
        """An object that the server sent; raises ConfigError where no server of ours would send that."""
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict) or not document.keys() >= set(holding):
            raise ConfigError(
                f"what answers on {self._host}:{self._port} is no lemonpod server",
                hint="say where it is with --host and --port",
            )
        return document

    def _json(
        self, method: str, path: str, body: Mapping[str, Any] | None, holding: Collection[str]
    ) -> dict[str, Any]:
        connection, response = self._send(method, path, body)
        with closing(connection):
            return self.parse(self._received(response.read), holding)

    def _received(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except (OSError, http.client.HTTPException) as error:
            raise ConfigError(
                f"the server on {self._host}:{self._port} broke off its answer: {error}",
                hint="does it still run? `lemonpod status` says so",
            ) from error

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        headers = self.authorization()
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = None
        try:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT_TIMEOUT)
            connection.connect()
            connection.sock.settimeout(self._answer_timeout)
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
        except (
            OSError,
            http.client.HTTPException,
            UnicodeError,
        ) as error:  # UnicodeError: of the host's name
            if connection is not None:
                connection.close()
            raise ConfigError(
                f"no lemonpod server answers on {self._host}:{self._port}: {error}",
                hint="start one with `lemonpod serve`, or say where it is with --host and --port",
            ) from error
        if response.status >= 400:
            with closing(connection):
                raise _server_error(response)
        return connection, response


def _with_query(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _server_error(response: http.client.HTTPResponse) -> ServerError:
    try:
        text = response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):  # the status says enough
        text = ""
    try:
        error = json.loads(text)["error"]
        message = error if isinstance(error, str) else error["message"]
    except (ValueError, KeyError, TypeError):
        message = None
    if not isinstance(message, str):
        message = text.strip() or f"{response.status} {response.reason}"
    hint = "pass --api-key, or set LEMONADE_API_KEY" if response.status == 401 else None
    return ServerError(response.status, message, hint=hint)
