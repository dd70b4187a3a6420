"""The CLI's side of the HTTP API. Standard library only, to start fast."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Generator, Mapping
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

    def __init__(self, host: str, port: int, api_key: str | None) -> None:
        self._host = host
        self._port = port
        self._key = api_key or os.environ.get("LEMONADE_ADMIN_API_KEY") or os.environ.get("LEMONADE_API_KEY")

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return self._json("GET", _with_query(path, query), None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("POST", path, body)

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
            while line := response.readline():
                yield line.decode("utf-8", "replace").rstrip("\r\n")

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        connection, response = self._send(method, path, body)
        with closing(connection):
            return json.loads(response.read() or b"null")

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT_TIMEOUT)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.connect()
            # A load or a long prompt may take minutes: only connecting has a limit.
            connection.sock.settimeout(None)
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
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
    text = response.read().decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        message = error if isinstance(error, str) else error["message"]
    except (ValueError, KeyError, TypeError):
        message = text.strip() or f"{response.status} {response.reason}"
    retry = response.headers.get("Retry-After")
    hint = f"try again in {retry} s" if retry else None
    if response.status == 401:
        hint = "pass --api-key, or set LEMONADE_API_KEY"
    return ServerError(response.status, message, hint=hint)
