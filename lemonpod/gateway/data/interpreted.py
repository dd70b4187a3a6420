"""A data request of another API: an exchange like any other, whose words are translated both ways."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, Final, cast

from lemonpod.contract.vocabulary import CAPABILITIES
from lemonpod.gateway.data.activity import Ending
from lemonpod.gateway.data.call import head_for_engine
from lemonpod.gateway.data.client import ClientConnection
from lemonpod.gateway.data.exchange import Exchange
from lemonpod.gateway.data.pipe import BodyPipe
from lemonpod.gateway.data.relay import Relay, Target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.data.retold import way_to_retell
from lemonpod.gateway.data.usual import Told
from lemonpod.gateway.data.way import Way
from lemonpod.gateway.errors import Answer
from lemonpod.gateway.headers import as_lines, to_engine
from lemonpod.gateway.intake import Intake, Upload, payload_for, read_body
from lemonpod.gateway.json_body import BIG, JsonBody, parsed
from lemonpod.gateway.routes import ROUTES
from lemonpod.gateway.translate.endpoints import ENDPOINTS
from lemonpod.gateway.translate.question import (
    Ask,
    Call,
    Document,
    Endpoint,
    Load,
    Question,
    Stream,
    Took,
    Unload,
    Whole,
)

_ENDPOINTS: Final = {path.encode(): endpoint for path, endpoint in ENDPOINTS.items()}
_TARGETS: Final = {
    capability: Target(next(route for route in ROUTES if route.capability is capability), None, "")
    for capability in CAPABILITIES
    if CAPABILITIES[capability].routes
}
_RESTATED: Final = frozenset({b"accept", b"accept-encoding", b"content-type"})
# What is compressed cannot be translated.
_OUR_LINES: Final = b"Accept-Encoding: identity\r\nContent-Type: application/json\r\n"
_BEFORE_MODEL: Final = b'{"model": '


def find_endpoint(request: Request) -> Endpoint | None:
    """The path of another API that is asked for."""
    return _ENDPOINTS.get(request.target.partition(b"?")[0]) if request.method == b"POST" else None


class Interpreted(Exchange):
    """Answers one request of another API's client."""

    _tell: Whole | Stream
    _unload = False

    def __init__(self, relay: Relay, client: ClientConnection, request: Request, endpoint: Endpoint) -> None:
        super().__init__(relay, client, request, _TARGETS[endpoint.capability])
        self._endpoint = endpoint

    # --- for its way to answer ----------------------------------------------------------------------------

    def took(self, first: float | None) -> Took:
        """How long it took so far; `first` is when the first words came."""
        total = self.client.clock.exact() - self.started
        return Took(total, self._wait.loaded or 0.0, None if first is None else first - self.started)

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what would hold up others, and answer with what it raises."""
        self._explaining = self._run(work)

    def finish(self, ending: Ending = Ending.COMPLETE, *, keep: bool = True) -> None:
        super().finish(ending, keep=keep)
        if self._unload:
            self._relay.later(self._unload_unused())

    # --- from the body to the engine ----------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        if len(data) > BIG:
            self._task = self._run(self._read(data))
            return
        question = self._endpoint.read(parsed(data))
        if isinstance(question, Ask) and len(question.calls) == 1:
            self._ask(self._begin(question, question.calls[0]))
        else:
            self._task = self._run(self._settle(question))

    async def _receive(self, pipe: BodyPipe) -> None:
        await self._read(await read_body(pipe, self._relay.settings))

    async def _read(self, data: bytes) -> None:
        await self._settle(await asyncio.to_thread(lambda: self._endpoint.read(parsed(data))))

    async def _settle(self, question: Question) -> None:
        self._named = question.model
        match question:
            case Ask(calls=calls):
                wanted = await self._relay.prefer([call.capability for call in calls], question.model)
                call = next(call for call in calls if call.capability is wanted)
                await self._ask_and_wait(await asyncio.to_thread(self._begin, question, call))
            case Load():
                await self._relay.load(question.model)
                self._say(question.told)
            case Unload():
                await self._relay.unload(question.model)
                self._say(question.told)

    def _begin(self, question: Ask, call: Call) -> JsonBody:
        self._tell, self._unload = call.tell, question.unload
        self._target = _TARGETS[call.capability]
        self._route = self._target.route
        return openai_body(question.model, call.body)

    def _for_engine(self, target: Target, intake: Intake) -> tuple[bytes, bytes | Upload]:
        body = payload_for(cast(JsonBody, intake), self.plan.model)
        lines = as_lines(to_engine(self.request.fields, self.request.known), without=_RESTATED)
        lines += b"%bContent-Length: %d\r\n" % (_OUR_LINES, len(body))
        return head_for_engine(b"POST", target, self.plan, lines), body

    def _way_to_answer(self, status: int, head: Told, length: bytes | None) -> Way:
        return way_to_retell(self, self._tell, status, head)

    def _say(self, told: Document) -> None:
        """Answer without an engine's words."""
        self.refuse(Answer(200, dict(told)), Ending.COMPLETE)

    async def _unload_unused(self) -> None:
        if self._task is not None:
            await asyncio.wait({self._task})  # which holds the model until it ends
        await self._relay.unload(self.plan.model)


def openai_body(model: str, members: Document) -> JsonBody:
    """The engine's request, with the model's name where it is found again."""
    name, rest = json.dumps(model).encode(), json.dumps(members).encode()
    data = b"%b%b, %b" % (_BEFORE_MODEL, name, rest[1:])
    start = len(_BEFORE_MODEL)
    return JsonBody(data, {"model": model}, {"model": (start, start + len(name))})
