"""HTTP calls to the API of one container engine, over sessions that its SDK makes.

A session of requests is for one thread at a time, so each call borrows one. A call that streams has its own,
because nothing but the shutdown of its socket from another thread wakes a reader.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lemonpod.drivers.address import Address
from lemonpod.drivers.reach import reach
from lemonpod.drivers.runtime import Halt
from lemonpod.drivers.unavailable import check_reachable, unavailable
from lemonpod.errors import RuntimeUnavailableError

if TYPE_CHECKING:
    import requests

READ_TIMEOUT: Final = 60.0
"""For an answer: an engine that hangs must not hang us, and a busy one may take its time."""
_CONNECT_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True)
class Client:
    """A session, and the URL that the paths of its engine's API follow."""

    session: requests.Session
    root: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine answered, whole."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status < 400  # 304 is "already so"

    def json(self) -> Any:
        """Raises ValueError."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """What the engine complains of, in its own words."""
        with suppress(ValueError):
            said = self.json()
            if isinstance(said, dict) and said.get("message"):
                return str(said["message"]).strip()
        return self.body.decode(errors="replace").strip()[:1000] or f"HTTP status {self.status}"


class Stream:
    """An answer that is read as it comes."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self.status = response.status_code

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_content(chunk_size=None)

    def whole(self) -> Answer:
        """The rest of it, all at once."""
        return Answer(self.status, self._response.content)


class Calls:
    """Calls to the engine at `address`; `connect` makes a client, and may ask the engine for its version."""

    def __init__(self, address: Address, connect: Callable[[], Client]) -> None:
        self._address = address
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: list[Client] = []
        self._closed = False

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        timeout: float | None = READ_TIMEOUT,
    ) -> Answer:
        """The answer, whatever its status; raises RuntimeUnavailableError where none comes."""
        with self._answered(), self._borrowed() as client:
            response = client.session.request(
                method,
                client.root + path,
                params=query,
                json=body,
                timeout=(_CONNECT_TIMEOUT, timeout),
                allow_redirects=False,
            )
            return Answer(response.status_code, response.content)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        halt: Halt,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Stream]:
        """An answer that may take for ever; in the block, too, a lost engine is RuntimeUnavailableError."""
        line = _Line()
        with halt.closing(line.cut), self._answered():
            client = self._new_client()
            try:
                with closing(_send(client, line, method, path, query, headers)) as response:
                    yield Stream(response)
            finally:
                line.close()  # before the session is closed, which would read what is left
                client.session.close()

    def hung_up(self) -> RuntimeUnavailableError:
        """The error for an answer that ended in good order before all of it was there."""
        return unavailable(self._address, EOFError())

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.session.close()

    @contextmanager
    def _borrowed(self) -> Iterator[Client]:
        """An idle client, or a new one; one that failed is not used again."""
        with self._lock:
            client = self._idle.pop() if self._idle else None
        client = client or self._new_client()
        try:
            yield client
        except BaseException:
            client.session.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(client)
                return
        client.session.close()

    def _new_client(self) -> Client:
        """Not where it would fail at once: the SDKs leave the socket of a refused connection open."""
        check_reachable(self._address)
        return self._connect()

    @contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            # The SDKs leave the socket of a connection that fails open, to be found by the garbage collector.
            if self._address.socket is not None and reach(self._address) is not None:
                raise ConnectionError
            yield
        except _transport_errors() as error:
            raise unavailable(self._address, error) from error


def is_tls(address: Address) -> bool:
    """Whether the engine at the address speaks TLS."""
    return address.tls is not None or address.url.startswith("https://")


def secure(session: requests.Session, address: Address) -> None:
    """Have `session` use the address's TLS files, and nothing of the environment: no proxy is between us."""
    session.trust_env = False
    if address.tls is not None:
        tls = address.tls
        session.verify = str(tls.ca) if tls.verify and tls.ca else tls.verify
        if tls.cert and tls.key:
            session.cert = (str(tls.cert), str(tls.key))


class _Line:
    """The sockets of one call, so that another thread can cut them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def add(self, connected: socket.socket) -> None:
        with self._lock:
            self._sockets.append(connected)
            if self._is_cut:
                _shut(connected)

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for connected in self._sockets:
                _shut(connected)

    def close(self) -> None:
        """Cut, and leave none to the garbage collector: the session does not close those that it had lent."""
        self.cut()
        for connected in self._sockets:
            connected.close()


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # that of TLS would take apart what is being read


def _send(
    client: Client,
    line: _Line,
    method: str,
    path: str,
    query: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
) -> requests.Response:
    import requests

    session = client.session
    session.close()  # as a pool of connections: one that is there already would not be watched
    asked = requests.Request(method, client.root + path, params=query, headers=dict(headers or {}))
    request = session.prepare_request(asked)
    _watch(session, request, line)
    return session.send(request, stream=True, timeout=(_CONNECT_TIMEOUT, None), allow_redirects=False)


def _watch(session: requests.Session, request: requests.PreparedRequest, line: _Line) -> None:
    """Have `line` hear of each socket for `request` as it is connected.

    Neither requests nor the SDKs tell before the head of the answer has come, and that can be hours.
    """
    from requests.adapters import HTTPAdapter

    adapter = session.get_adapter(request.url or "")
    assert isinstance(adapter, HTTPAdapter)  # noqa: S101 - the SDKs' own are made of it
    pool: Any = adapter.get_connection_with_tls_context(request, session.verify, cert=session.cert)
    make = pool._new_conn

    def watched() -> Any:
        connection: Any = make()
        connect = connection.connect

        def connect_watched() -> None:
            connect()
            line.add(connection.sock)

        connection.connect = connect_watched
        return connection

    pool._new_conn = watched


def _transport_errors() -> tuple[type[Exception], ...]:
    """What the SDKs' sessions raise; that of requests is OSError. Only called once something is raised."""
    from urllib3.exceptions import HTTPError

    return OSError, HTTPError
