"""One data request, from its head to the last byte of its answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

from lemonpod.contract.vocabulary import Body, Capability
from lemonpod.engine.api import NO_WAIT
from lemonpod.engine.instance import EngineLease
from lemonpod.errors import EngineError, EngineStoppedError, LemonpodError, UpstreamError
from lemonpod.gateway.data.activity import Activity, Ending, ending_by
from lemonpod.gateway.data.answers import way_to_answer
from lemonpod.gateway.data.call import asked_in, for_engine, pump
from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.engine_connection import STOPPED, EngineConnection, ReplyFields
from lemonpod.gateway.data.pipe import BodyPipe
from lemonpod.gateway.data.relay import Relay, Target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.upstream import Upstream
from lemonpod.gateway.data.usual import Told, told
from lemonpod.gateway.data.way import Way
from lemonpod.gateway.dialects import aside_of, body_of, route_of
from lemonpod.gateway.errors import Answer, answer_to, row_of
from lemonpod.gateway.intake import (
    Intake,
    Upload,
    check_size,
    is_plain,
    json_aside,
    json_now,
    received,
)
from lemonpod.gateway.json_body import BIG
from lemonpod.gateway.media import MEMBERS, type_of_output
from lemonpod.gateway.routes import require
from lemonpod.gateway.stats import UNKNOWN, Stats
from lemonpod.launch.plan import Dialect, LaunchPlan

log = logging.getLogger(__name__)

_USUAL: Final = Dialect.OPENAI
_EXIT_NOTICE: Final = 0.1
"""From the end of a process's sockets to the news of its exit."""
# Other statuses end no request, and clients cannot read them.
_FIRST_FINAL, _LAST_FINAL = 200, 599
_ENDS_WITH_DONE: Final = frozenset({Capability.CHAT_COMPLETION, Capability.COMPLETION})


class Exchange:
    """Answers one request: without a task where the model is ready and the body small, else with one."""

    asked: str | None = None
    status: int | None = None
    sent = 0
    usage = UNKNOWN
    plan: LaunchPlan
    name: str
    _lease: EngineLease
    _upstream: Upstream
    _called = False
    """There is a lease, and so a plan and the connections to its engine."""
    _connection: EngineConnection | None = None
    _way: Way | None = None
    _head = b""
    _body: bytes | Upload = b""
    _named: str | None = None
    """The model, in words of the client's where it said any; None until it is known."""
    _wait = NO_WAIT
    _pipe: BodyPipe | None = None
    _task: asyncio.Task[None] | None = None
    _pumping: asyncio.Task[None] | None = None
    _explaining: asyncio.Task[None] | None = None
    _over: asyncio.Future[None] | None = None
    _is_over = False

    def __init__(self, relay: Relay, client: ClientConnection, request: Request, target: Target) -> None:
        self.client = client
        self.request = request
        self.started = client.clock.exact()
        self._arrived = time.time()
        self._relay = relay
        self._target = target
        self._route = target.route

    # --- for its way to answer ----------------------------------------------------------------------------

    @property
    def heartbeat(self) -> float:
        return self._relay.settings.heartbeat

    @property
    def stats(self) -> Stats:
        return self._relay.stats

    @property
    def wants_done(self) -> bool:
        return self._route.capability in _ENDS_WITH_DONE

    @property
    def wants_output(self) -> bool:
        return self._route.capability in MEMBERS

    @property
    def output_type(self) -> bytes | None:
        return type_of_output(self._route.capability, self._body)

    # --- the client's side --------------------------------------------------------------------------------

    def start(self) -> None:
        try:
            refusal = self._relay.refusal(self.request)
            if refusal is not None:
                self.refuse(refusal)
                return
            self._relay.check(self.request, self._target)
            kind = self._route.spec.body
            if kind is Body.MULTIPART or (
                kind is Body.JSON and not is_plain(self.request.known.get(b"content-encoding", b""))
            ):
                self._pipe = BodyPipe(self.client, self.request)
                self._task = self._run(self._receive(self._pipe))
            elif kind is Body.JSON:
                check_size(self.request.content_length, self._relay.settings.max_body, "max_body")
            self.client.ask_for_body()
        except LemonpodError as error:
            self.fail(error)

    def on_body(self) -> None:
        if self._pipe is not None:
            self._pipe.wake()
            return
        request = self.request
        try:
            if self._route.spec.body is Body.NONE:
                request.take()
                if request.ended:
                    self._ask(None)
                return
            check_size(request.size, self._relay.settings.max_body, "max_body")
            if not request.ended:
                return
            self._take(request.take())
        except LemonpodError as error:
            self.fail(error)

    def pause(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    def probe(self) -> bool:
        return self._way is not None and self._way.probe()

    def tick(self, now: float) -> None:
        if self._way is not None:
            self._way.tick(now)

    def lost(self, ending: Ending, told: Answer | None = None) -> None:
        if told is not None:
            self.status = told.status
        elif not self.client.has_begun:
            self.status = None  # whatever the engine said
        if self._task is not None:
            self._task.cancel()
        if self._explaining is not None:
            self._explaining.cancel()
        self._let_go()
        self._note(ending)

    # --- from the body to the engine ----------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """The body is there, as JSON."""
        if len(data) <= BIG:
            self._ask(json_now(self._route, data))
        else:
            self._task = self._run(self._read(data))

    def _ask(self, intake: Intake) -> None:
        """Call the engine, at once or when it is loaded."""
        self._understand(intake)
        lease = self._relay.try_lease(self._route, self.asked)
        if lease is not None:
            self._call(lease, intake)
        else:
            self._task = self._run(self._load(intake))

    async def _read(self, data: bytes) -> None:
        await self._ask_and_wait(await json_aside(self._route, data))

    async def _receive(self, pipe: BodyPipe) -> None:
        async with received(self._route, pipe, self._relay.settings) as intake:
            await self._ask_and_wait(intake)

    async def _ask_and_wait(self, intake: Intake) -> None:
        self._understand(intake)
        await self._load(intake)

    async def _load(self, intake: Intake) -> None:
        model = await self._relay.choose(self._route, self.asked)
        self._named = self._named or model
        async with self._relay.lease(model, intake) as lease:
            require(self._route, lease.plan)  # the manifest may have changed since it was chosen
            self._wait = lease.wait
            self._over = asyncio.get_running_loop().create_future()
            kind = self.request.known.get(b"content-type", b"")
            async with aside_of(self._route, intake, lease.plan, kind) as spoken:
                self._call(lease, spoken)
                await self._over

    def _understand(self, intake: Intake) -> None:
        self.asked = self._named = asked_in(intake, self._target)

    def _call(self, lease: EngineLease, intake: Intake) -> None:
        self._lease = lease
        self.plan = lease.plan
        self.name = self._named = self._named or lease.plan.model
        upstream = self._upstream = self._relay.upstream(lease, self.client.clock, self.client.outbox)
        self._called = True
        target = self._target
        if lease.plan.dialect is not _USUAL:
            if (route := route_of(target.route, lease.plan)) is not target.route:
                target = replace(target, route=route)
            intake = body_of(route, intake, lease.plan)
        self._head, self._body = self._for_engine(target, intake)
        # A file cannot be read from its start while it is still read for a connection that has just ended.
        upstream.call(self, fresh=isinstance(self._body, Upload))

    def _for_engine(self, target: Target, intake: Intake) -> tuple[bytes, bytes | Upload]:
        return for_engine(self.request, target, self.plan, intake)

    # --- the engine's side --------------------------------------------------------------------------------

    def connected(self, connection: EngineConnection) -> None:
        self._connection = connection
        if self.client.paused:
            connection.pause()
        if isinstance(self._body, bytes):
            connection.send(self._head + self._body)
        else:
            connection.keep_for_this_one()
            connection.send(self._head)
            self._pumping = asyncio.create_task(pump(self._body, connection))

    def on_head(self, status: int, fields: ReplyFields) -> None:
        if not _FIRST_FINAL <= status <= _LAST_FINAL:
            self._hang_up()
            self.on_break(f"it answered with status {status}")
            return
        self.status = status
        way = self._way = self._way_to_answer(status, *told(fields))
        if self.request.method == b"HEAD":
            self._hang_up()  # it has no body, which only we know
            way.end()

    def _way_to_answer(self, status: int, head: Told, length: bytes | None) -> Way:
        return way_to_answer(self, status, head, length)

    def on_piece(self, data: bytes) -> None:
        if self._way is not None:
            self._way.piece(data)

    def on_nothing(self) -> None:
        if self._way is not None:
            self._way.flush()

    def on_end(self) -> None:
        self._connection = None
        if self._way is not None:
            self._way.end()

    def on_eof(self) -> None:
        self._connection = None
        self._explaining = self._run(self._check_end())

    def on_break(self, reason: str) -> None:
        self._connection = None
        if self._way is not None and self._way.is_over:
            self._way.end()
        else:
            self._explaining = self._run(self._explain(reason))

    def on_bug(self, error: Exception) -> None:
        self._connection = None
        self.client.fail(error)

    async def _check_end(self) -> None:
        """With neither a length nor chunks, the end of the connection looks the same dead or alive."""
        cause = None
        try:
            async with asyncio.timeout(_EXIT_NOTICE):
                cause = await self._lease.why()
        except TimeoutError:
            pass
        if cause is not None:
            self._break(cause, STOPPED)
        elif self._way is not None:
            self._way.end()

    async def _explain(self, reason: str) -> None:
        self._break(await self._lease.why(), reason)

    def _break(self, cause: EngineError | None, reason: str) -> None:
        """Tell the client of an engine that broke off: how it ended, else what the socket said."""
        error: LemonpodError
        if isinstance(cause, EngineStoppedError):
            error = cause
        else:
            error = UpstreamError(f"{self.plan.recipe} broke off: {cause or reason}")
        if self._way is not None:
            self._way.broken(error)
        else:
            self.fail(error)

    # --- the answer ---------------------------------------------------------------------------------------

    def become(self, way: Way, begun: bytes) -> None:
        self._way = way
        way.piece(begun)

    def finish(self, ending: Ending = Ending.COMPLETE, *, keep: bool = True) -> None:
        self._let_go()
        self._note(ending)
        self.client.done(keep=keep)

    def fail(self, error: LemonpodError) -> None:
        if row_of(type(error)).status >= 500:
            log.warning("%s: %s", self.request.shown, error)
        self.refuse(answer_to(error, model=self._named), ending_by(error))

    def refuse(self, answer: Answer, ending: Ending = Ending.ERROR) -> None:
        self.status = answer.status
        self._let_go()
        self._note(ending)
        self.client.answer(answer)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def _let_go(self) -> None:
        """Of all that was held for this request."""
        if self._is_over:
            return
        self._is_over = True
        way, self._way = self._way, None
        if way is not None:
            way.close()
        self._hang_up()
        if self._called:
            self._upstream.leave(self)
        if self._pumping is not None:
            self._pumping.cancel()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
        elif self._called:
            self._lease.release()

    def _note(self, ending: Ending) -> None:
        """Keep what came of the request."""
        request = self.request
        self._relay.activities.add(
            Activity(
                started=self._arrived,
                method=request.method.decode(),
                path=request.path,
                model=self._named,
                recipe=self.plan.recipe if self._called else None,
                status=self.status,
                ending=ending,
                bytes_in=request.size,
                bytes_out=self.sent,
                wait=self._wait,
                total=self.client.clock.exact() - self.started,
                usage=self.usage,
                engine_of=self.plan.model if self._called else None,
            )
        )

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._watched(work))
        task.add_done_callback(lambda _: work.close())  # where it was cancelled before it began
        return task

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LemonpodError as error:
            self.fail(error)
        except Exception as error:
            self.client.fail(error)
