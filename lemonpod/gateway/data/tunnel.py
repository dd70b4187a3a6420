"""A WebSocket between a client and an engine, byte for byte.

The engine shakes hands first, so the client is told what the engine chose. From then on only the frames'
beginnings are looked at, for three ends: none is longer than allowed, what ends a socket before its time is
told in a close frame where one may stand, and whether both sides took leave is known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final
from urllib.parse import parse_qs

from aiohttp import WSCloseCode

from lemonpod.engine.api import NO_WAIT
from lemonpod.engine.instance import EngineLease
from lemonpod.errors import EngineError, EngineStoppedError, LemonpodError, UpstreamError
from lemonpod.gateway.data import handshake
from lemonpod.gateway.data.activity import Activity, Ending, ending_by
from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.engine_connection import EngineConnection, ReplyFields
from lemonpod.gateway.data.frames import Frames, close_frame
from lemonpod.gateway.data.heads import switching
from lemonpod.gateway.data.relay import Relay, Target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.unread import Unread
from lemonpod.gateway.data.usual import told
from lemonpod.gateway.engine_errors import MAX_READ
from lemonpod.gateway.errors import Answer, answer_to, row_of
from lemonpod.gateway.routes import require
from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.scrub import scrub

log = logging.getLogger(__name__)

_SWITCHING: Final = 101
_MAX_EARLY: Final = 64 << 10
"""Of what a client sends before it has heard that it may."""
_HANDSHAKE: Final = 30.0
"""From the question to the engine until its answer."""
_MAX_SHOWN: Final = 500
_LEFT: Final = "it ended the connection"


class Tunnel:
    """Answers one request, which lasts as long as the socket."""

    _plan: LaunchPlan
    _is_leased = False
    """There is a plan, and somebody to call."""
    _status: int | None = None
    _sent = 0
    _wait = NO_WAIT
    _connection: EngineConnection | None = None
    _refused: int | None = None
    """The status of an engine that does not want to."""
    _said = b""
    """Why."""
    _is_open = False
    _is_over = False
    _draining: asyncio.Task[None] | None = None
    _unread: Unread

    def __init__(self, relay: Relay, client: ClientConnection, request: Request, target: Target) -> None:
        self._relay = relay
        self._client = client
        self._request = request
        self._target = target
        self._from_client = Frames(relay.settings.max_frame)
        self._from_engine = Frames(relay.settings.max_frame)
        self._started = client.clock.exact()
        self._arrived = time.time()
        self._asked: str | None = None
        self._named: str | None = None
        self._answer_due = float("inf")
        self._task: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The engine's side has ended, and how."""

    # --- the client's side --------------------------------------------------------------------------------

    def start(self) -> None:
        try:
            refusal = self._relay.refusal(self._request)
            if refusal is None:
                self._relay.check_socket(self._request, self._target, handshake.offered(self._request))
                refusal = handshake.refusal(self._request)
        except LemonpodError as error:
            self._fail(error)
            return
        if refusal is not None:
            self._refuse(refusal, Ending.ERROR)
            return
        names = parse_qs(self._target.query, keep_blank_values=True).get("model", [])
        self._asked = self._named = names[0] if names else None
        self._task = asyncio.create_task(self._watched())

    def on_body(self) -> None:
        connection = self._connection
        if connection is None or not self._is_open:
            if sum(map(len, self._request.pieces)) > _MAX_EARLY:
                self._client.pause_reading()
            return
        if passed := self._from_client.feed(self._request.take()):
            connection.send(passed)
        if self._from_client.too_long:
            self._too_long("client")
        elif connection.is_full and self._draining is None:
            self._client.pause_reading()
            self._draining = asyncio.create_task(self._drain(connection))

    def pause(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    def probe(self) -> bool:
        return False

    def tick(self, now: float) -> None:
        if now >= self._answer_due:
            self._engine_gone(f"it did not answer the handshake within {_HANDSHAKE:g} s")
        elif self._is_open and self._unread.since(now) >= self._relay.settings.write_timeout:
            self._engine_gone(f"it has read nothing for {self._relay.settings.write_timeout:g} s")

    def lost(self, ending: Ending, told: Answer | None = None) -> None:
        if told is not None:
            self._status = told.status
        self._end(Ending.COMPLETE if self._from_client.closed else ending)

    # --- the engine's side --------------------------------------------------------------------------------

    def connected(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._answer_due = self._client.clock.exact() + _HANDSHAKE
        connection.take_upgrade()
        connection.send(handshake.for_engine(self._request, self._target, self._plan))

    def on_head(self, status: int, fields: ReplyFields) -> None:
        connection = self._connection
        if status != _SWITCHING or connection is None:
            self._refused = status
            return
        head, _ = told(fields)
        try:
            lines = handshake.for_client(self._request, head, self._plan.recipe)
        except UpstreamError as error:
            self._fail(error)
            return
        self._open(connection, lines)

    def on_piece(self, data: bytes) -> None:
        if self._is_open:
            if passed := self._from_engine.feed(data):
                self._sent += len(passed)
                self._client.write(passed)
            if self._from_engine.too_long:
                self._too_long("engine")
        elif self._refused is not None:
            self._said += data
            if len(self._said) > MAX_READ:
                self._turned_down()

    def on_nothing(self) -> None:
        pass

    def on_end(self) -> None:
        self._connection = None
        self._turned_down()

    def on_eof(self) -> None:
        self._connection = None
        if self._refused is not None:
            self._turned_down()
        else:
            self._engine_gone(_LEFT)

    def on_break(self, reason: str) -> None:
        self._connection = None
        self._engine_gone(_LEFT if self._is_open else reason)

    def on_bug(self, error: Exception) -> None:
        self._connection = None
        self._client.fail(error)

    # --- from the beginning to the end --------------------------------------------------------------------

    async def _watched(self) -> None:
        try:
            await self._live()
        except LemonpodError as error:
            self._fail(error)
        except Exception as error:
            self._client.fail(error)

    async def _live(self) -> None:
        route = self._target.route
        model = await self._relay.choose(route, self._asked)
        self._named = self._asked or model
        async with self._relay.pool.lease(model) as lease:
            require(route, lease.plan)  # the manifest may have changed since it was chosen
            self._plan, self._wait, self._is_leased = lease.plan, lease.wait, True
            upstream = self._relay.upstream(lease, self._client.clock, self._client.outbox)
            upstream.call(self, fresh=True)
            try:
                reason = await self._gone
                await self._part(lease, reason)
            finally:
                upstream.leave(self)

    def _open(self, connection: EngineConnection, lines: bytes) -> None:
        self._is_open = True
        self._status = _SWITCHING
        self._answer_due = float("inf")
        self._unread = Unread(connection.transport)
        self._relay.stats.streams[self._plan.model] += 1
        self._client.write(switching(self._request, self._client.clock, lines))
        if self._client.paused:
            connection.pause()
        self._client.resume_reading()
        self.on_body()

    async def _drain(self, connection: EngineConnection) -> None:
        await connection.drained()
        self._draining = None
        self._client.resume_reading()

    def _engine_gone(self, reason: str) -> None:
        self._answer_due = float("inf")
        if not self._gone.done():
            self._gone.set_result(reason)

    async def _part(self, lease: EngineLease, reason: str) -> None:
        """The engine's side has ended: tell the client, as well as it can be told."""
        if self._from_engine.closed or self._from_client.closed:
            self._end(Ending.COMPLETE)
            self._let_client_go()
            return
        cause = await lease.why()
        error: EngineError | UpstreamError
        if isinstance(cause, EngineStoppedError):
            error = cause
        else:
            error = UpstreamError(f"{lease.plan.recipe} broke off: {cause or reason}")
        if not self._is_open:
            self._fail(error)
            return
        log.warning("%s: %s", self._request.shown, error)
        stopped = isinstance(error, EngineStoppedError)
        code = WSCloseCode.SERVICE_RESTART if stopped else WSCloseCode.INTERNAL_ERROR
        self._close(code, str(error), ending_by(error))

    def _too_long(self, sender: str) -> None:
        limit = self._relay.settings.max_frame
        reason = f"a frame of the {sender} is longer than {limit} bytes (see max_frame)"
        log.warning("%s: %s", self._request.shown, reason)
        self._close(WSCloseCode.MESSAGE_TOO_BIG, reason, Ending.ERROR)

    def _close(self, code: WSCloseCode, reason: str, ending: Ending) -> None:
        """End both sides, each with a close frame if it stands between two frames."""
        connection, client = self._connection, self._client
        if connection is not None and self._from_client.between and not self._from_client.closed:
            connection.send(close_frame(code, reason, masked=True))
        self._end(ending)
        if not self._from_engine.between:
            client.break_off()
            return
        client.write(close_frame(code, reason, masked=False))
        self._let_client_go()

    def _let_client_go(self) -> None:
        self._client.resume_reading()  # it may say that it leaves
        self._client.done(keep=False)

    def _turned_down(self) -> None:
        """The engine has answered, and not with a WebSocket."""
        said = scrub(self._said[:MAX_READ].decode("utf-8", "replace").strip(), self._plan)[:_MAX_SHOWN]
        text = f"{self._plan.recipe} refused the WebSocket with status {self._refused}"
        self._fail(UpstreamError(f"{text}: {said}" if said else text))

    def _fail(self, error: LemonpodError) -> None:
        if row_of(type(error)).status >= 500:
            log.warning("%s: %s", self._request.shown, error)
        self._refuse(answer_to(error, model=self._named), ending_by(error))

    def _refuse(self, answer: Answer, ending: Ending) -> None:
        if self._is_over:
            return
        self._status = answer.status
        self._request.keep_alive = False
        self._end(ending)
        self._client.answer(answer)

    def _end(self, ending: Ending) -> None:
        """Let go of all that was held; idempotent."""
        if self._is_over:
            return
        self._is_over = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.leave()
        if self._draining is not None:
            self._draining.cancel()
        if self._is_open:
            self._relay.stats.streams[self._plan.model] -= 1
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._relay.activities.add(
            Activity(
                started=self._arrived,
                method=self._request.method.decode(),
                path=self._request.target.partition(b"?")[0].decode("latin-1"),
                model=self._named,
                recipe=self._plan.recipe if self._is_leased else None,
                status=self._status,
                ending=ending,
                bytes_in=self._request.size,
                bytes_out=self._sent,
                wait=self._wait,
                total=self._client.clock.exact() - self._started,
                engine_of=self._plan.model if self._is_leased else None,
            )
        )
