"""How an engine's answer reaches the client of another API: read, and told in that one's words."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from lemonpod.errors import LemonpodError, UpstreamError
from lemonpod.gateway.data.activity import Ending, ending_by
from lemonpod.gateway.data.answers import Failure, Kept
from lemonpod.gateway.data.heads import closing_lines, status_line
from lemonpod.gateway.data.streamed import Streamed
from lemonpod.gateway.data.usage import StreamMeter, usage_in
from lemonpod.gateway.data.usual import Body, Told
from lemonpod.gateway.data.way import Turn, Way
from lemonpod.gateway.engine_errors import engine_envelope
from lemonpod.gateway.errors import Answer, answer_to
from lemonpod.gateway.json_body import BIG
from lemonpod.gateway.translate.answer import written
from lemonpod.gateway.translate.question import Document, Stream, Took, Whole
from lemonpod.gateway.wording import worded
from lemonpod.launch.scrub import scrub

log = logging.getLogger(__name__)

_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r")
_MAX_EVENT: Final = 16 << 20
_MAX_WHOLE: Final = 256 << 20
"""Vectors of thousands of texts."""
_DONE: Final = b"[DONE]"


class Retelling(Turn, Protocol):
    """The request, of whose answer another API's client is told."""

    def took(self, first: float | None) -> Took:
        """How long it took so far; `first` is when the first words came."""

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what would hold up others, and answer with what it raises."""


def way_to_retell(turn: Retelling, tell: Whole | Stream, status: int, head: Told) -> Way:
    """How to answer the turn with what the engine says."""
    if status >= 400:
        return Failure(turn, status, head)
    if callable(tell):
        return _Whole(turn, status, head, tell)
    if head.body is not Body.EVENTS:
        return _Other(turn)
    return _Stream(turn, tell)


class _Other(Way):
    """No stream, where one was asked for."""

    __slots__ = ()

    def end(self) -> None:
        self._turn.fail(
            UpstreamError(f"{self._turn.plan.recipe} answered without the stream it was asked for")
        )


class _Whole(Kept):
    """Told when it is complete."""

    __slots__ = ("_retelling", "_tell")

    def __init__(self, turn: Retelling, status: int, head: Told, tell: Whole) -> None:
        super().__init__(turn, status, head)
        self._retelling = turn
        self._tell = tell

    def piece(self, data: bytes) -> None:
        super().piece(data)
        if self._size > _MAX_WHOLE:
            self._turn.fail(UpstreamError(f"{self._turn.plan.recipe} sent an answer without an end"))

    def end(self) -> None:
        body = b"".join(self._pieces)
        if len(body) > BIG:
            self._retelling.aside(self._end_aside(body))
            return
        try:
            self._answer(body, self._told(body))
        except LemonpodError as error:
            self._turn.fail(error)

    async def _end_aside(self, body: bytes) -> None:
        self._answer(body, await asyncio.to_thread(self._told, body))

    def _told(self, body: bytes) -> bytes:
        document = _object(body)
        if document is None:
            raise UpstreamError(f"{self._turn.plan.recipe} answered with what is no JSON object")
        return written(self._tell(document, self._retelling.took(None))).encode()

    def _answer(self, body: bytes, told: bytes) -> None:
        turn = self._turn
        turn.usage = usage_in(body)
        turn.sent = len(told)
        turn.client.write(
            b"%bContent-Type: application/json\r\nContent-Length: %d\r\n%b%b"
            % (status_line(self._status), len(told), closing_lines(turn.request, turn.client.clock), told)
        )
        turn.finish()


class _Stream(Streamed):
    """Told event by event."""

    __slots__ = ("_events", "_meter", "_retelling", "_tell")

    def __init__(self, turn: Retelling, tell: Stream) -> None:
        super().__init__(turn, 200, b"Content-Type: %b\r\n" % tell.content_type)
        turn.stats.streams[turn.plan.model] += 1
        self._retelling = turn
        self._tell = tell
        self._meter = StreamMeter()
        self._events = EventReader()

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        return self._meter.events.done

    def piece(self, data: bytes) -> None:
        self._meter.feed(data, self._turn.client.clock.exact())
        told: list[bytes] = []
        try:
            for name, payload in self._events.feed(data):
                if payload == _DONE:
                    continue
                document = _object(payload)
                if name == b"error" or document is None or document.get("error"):
                    self._send_all(told)
                    self._fail(payload)
                    return
                told.append(self._tell.event(document))
        except LemonpodError as error:
            self._send_all(told)
            self.broken(error)
            return
        self._send_all(told)

    def end(self) -> None:
        try:
            last = self._tell.end(self._retelling.took(self._meter.first_words))
        except LemonpodError as error:
            self.broken(error)
            return
        self._send(last)
        self._finish(Ending.COMPLETE)

    def broken(self, error: LemonpodError) -> None:
        log.warning("%s: %s", self._turn.request.shown, error)
        self._tell_failure(answer_to(error), ending_by(error))

    def close(self) -> None:
        turn = self._turn
        turn.stats.streams[turn.plan.model] -= 1
        turn.usage = self._meter.usage(turn.started)

    def probe(self) -> bool:
        if not self._tell.ping:
            return False
        self._send(self._tell.ping)
        return True

    def _fail(self, payload: bytes) -> None:
        """The engine tells of an error."""
        turn = self._turn
        text = scrub(payload.decode("utf-8", "replace"), turn.plan)
        log.warning("%s: %s told of an error in its stream", turn.request.shown, turn.plan.recipe)
        self._tell_failure(Answer(500, engine_envelope(500, text, recipe=turn.plan.recipe)), Ending.ERROR)

    def _tell_failure(self, answer: Answer, ending: Ending) -> None:
        self._send(self._tell.failure(worded(self._turn.request.path, answer).envelope))
        self._finish(ending)

    def _send_all(self, told: list[bytes]) -> None:
        if data := b"".join(told):
            self._send(data)
        else:
            self.flush()


class EventReader:
    """Takes an event stream apart, segment by segment."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, segment: bytes) -> list[tuple[bytes, bytes]]:
        """The events that are complete now: name and data. Raises UpstreamError for one without an end."""
        data, at = self._held + segment, 0
        events = []
        for end in _EVENT_END.finditer(data, max(len(self._held) - 2, 0)):
            if event := _read(data[at : end.end()]):
                events.append(event)
            at = end.end()
        self._held = data[at:]
        if len(self._held) > _MAX_EVENT:
            raise UpstreamError("the engine sent an event without an end")
        return events


def _read(text: bytes) -> tuple[bytes, bytes] | None:
    """An event's name and data. Older llama.cpp servers tell of errors in a line of their own."""
    name, data = b"", []
    for line in text.splitlines():
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value
        elif field == b"error":
            return b"error", value
        elif field == b"data":
            data.append(value)
    return (name, b"\n".join(data)) if any(data) else None


def _object(text: bytes) -> Document | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
