"""How an engine's answer reaches the client: events as they come, JSON renamed, errors in one shape."""

from __future__ import annotations

import logging
from typing import Final

from lemonpod.errors import LemonpodError
from lemonpod.gateway.data.activity import Ending, ending_by
from lemonpod.gateway.data.heads import BODILESS, closing_lines, own_answer, status_line
from lemonpod.gateway.data.rename import EventRenamer, renamed
from lemonpod.gateway.data.streamed import CHUNKED, LAST_CHUNK, Streamed
from lemonpod.gateway.data.trouble import EventScrubber
from lemonpod.gateway.data.usage import StreamMeter, usage_in
from lemonpod.gateway.data.usual import Body, Told
from lemonpod.gateway.data.way import Turn, Way
from lemonpod.gateway.dialects import as_plain_text
from lemonpod.gateway.engine_errors import MAX_READ, engine_answer
from lemonpod.gateway.errors import Answer, envelope, typed_envelope
from lemonpod.gateway.headers import as_lines
from lemonpod.gateway.sse import DONE, PING, error_event
from lemonpod.gateway.wording import worded
from lemonpod.launch.plan import Dialect

log = logging.getLogger(__name__)

MAX_LOOKED_INTO: Final = 1 << 20
"""A longer JSON answer passes unread: looking into it would hold up everybody else's tokens."""
_NO_OUTPUT: Final = (
    "Generation failed: the backend produced no output (it likely crashed or ran out of GPU memory). "
    "Check the server logs."
)
_NOT_IN_EVENTS: Final = frozenset({b"cache-control", b"x-accel-buffering"})
_LENGTH: Final = b"Content-Length: %b\r\n"


def way_to_answer(turn: Turn, status: int, head: Told, length: bytes | None) -> Way:
    """How to answer the turn with what the engine says."""
    if status >= 400:
        return Failure(turn, status, head)
    if turn.request.method == b"HEAD" or status in BODILESS:
        return _Bodiless(turn, status, head, length)
    if head.body is Body.EVENTS:
        return _Events(turn, status, head)
    if head.body is Body.JSON:
        return _Json(turn, status, head, length)
    if turn.plan.dialect is Dialect.WHISPER_CPP:
        head = Told(as_plain_text(head.fields))
    elif turn.wants_output and head.is_untyped and (kind := turn.output_type):
        head = _typed(head, kind)
    return _Bytes(turn, status, head, length)


def _typed(head: Told, kind: bytes) -> Told:
    others = [(name, value) for key, name, value in head.fields if key != b"content-type"]
    return Told((*others, (b"Content-Type", kind)))


class _Bodiless(Way):
    __slots__ = ("_head",)

    is_over = True

    def __init__(self, turn: Turn, status: int, head: Told, length: bytes | None) -> None:
        super().__init__(turn)
        self._head = b"%b%b%b%b" % (
            status_line(status),
            head.lines,
            b"" if length is None or status == 204 else _LENGTH % length,
            closing_lines(turn.request, turn.client.clock),
        )

    def end(self) -> None:
        self._turn.client.write(self._head)
        self._turn.finish()


class _Bytes(Way):
    """The body as it comes, framed by the length that the engine gave, or in chunks."""

    __slots__ = ("_begun", "_chunked", "_keep", "_unsent")

    def __init__(self, turn: Turn, status: int, head: Told, length: bytes | None) -> None:
        super().__init__(turn)
        self._chunked = length is None and not turn.request.is_old
        self._keep = length is not None or self._chunked
        if not self._keep:
            turn.request.keep_alive = False
        self._begun = False
        self._unsent = b"%b%b%b%b%b" % (
            status_line(status),
            head.lines,
            b"" if length is None else _LENGTH % length,
            CHUNKED if self._chunked else b"",
            closing_lines(turn.request, turn.client.clock),
        )

    def piece(self, data: bytes) -> None:
        self._begun = True
        client = self._turn.client
        self._turn.sent += len(data)
        if self._chunked:
            client.write(b"%b%x\r\n%b\r\n" % (self._unsent, len(data), data))
        elif self._unsent:
            client.write(self._unsent + data)
        else:
            client.write(data)
        self._unsent = b""

    def flush(self) -> None:
        if self._unsent and not self._turn.wants_output:
            self._begun = True
            self._turn.client.write(self._unsent)
            self._unsent = b""

    def end(self) -> None:
        turn = self._turn
        if turn.wants_output and not self._begun:
            _refuse_nothing(turn)
            return
        last = self._unsent + (LAST_CHUNK if self._chunked else b"")
        if last:
            turn.client.write(last)
        turn.finish(keep=self._keep)

    def broken(self, error: LemonpodError) -> None:
        if not self._begun:
            self._turn.fail(error)
            return
        _warn(self._turn, error)
        self._turn.client.break_off()
        self._turn.finish(ending_by(error), keep=False)


class Kept(Way):
    """What is kept back for now."""

    __slots__ = ("_head", "_pieces", "_size", "_status")

    def __init__(self, turn: Turn, status: int, head: Told) -> None:
        super().__init__(turn)
        self._status = status
        self._head = head
        self._pieces: list[bytes] = []
        self._size = 0

    def piece(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)


class _Json(Kept):
    """Kept back until it is whole, then sent with the name that the client knows."""

    __slots__ = ("_length",)

    def __init__(self, turn: Turn, status: int, head: Told, length: bytes | None) -> None:
        super().__init__(turn, status, head)
        self._length = length

    def piece(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > MAX_LOOKED_INTO:
            turn = self._turn
            turn.become(_Bytes(turn, self._status, self._head, self._length), b"".join(self._pieces))

    def end(self) -> None:
        turn = self._turn
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        if not body and turn.wants_output:
            _refuse_nothing(turn)
            return
        turn.usage = usage_in(body)
        turn.sent = len(body)
        body = renamed(body, turn.name)
        turn.client.write(
            b"".join(
                (
                    status_line(self._status),
                    self._head.lines,
                    b"Content-Length: %d\r\n" % len(body),
                    closing_lines(turn.request, turn.client.clock),
                    body,
                )
            )
        )
        turn.finish()


class _Events(Streamed):
    """Event by event, each with the name that the client knows; silence is filled, and the end made plain."""

    __slots__ = ("_meter", "_renamer", "_scrubber", "_time")

    def __init__(self, turn: Turn, status: int, head: Told) -> None:
        super().__init__(turn, status, as_lines(head.fields, without=_NOT_IN_EVENTS))
        turn.stats.streams[turn.plan.model] += 1
        self._meter = StreamMeter()
        self._renamer: EventRenamer | None = EventRenamer(turn.name)
        self._scrubber: EventScrubber | None = None
        """For the errors in it, from the first one on."""
        self._time = turn.client.clock.exact

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        return self._meter.events.done

    def piece(self, data: bytes) -> None:
        now = self._time()
        if self._renamer is not None and (usual := self._renamer.usual(data)) is not None:
            self._meter.another(now)
            data = usual
        else:
            self._meter.feed(data, now)
            if self._meter.events.trouble:
                data = self._scrubbed(data)
            elif self._renamer is not None:
                data = self._renamer.feed(data)
        if data:
            self._send(data)
        else:
            self.flush()

    def end(self) -> None:
        turn, events = self._turn, self._meter.events
        self._send_held()
        if events.failed:
            log.warning("%s: %s told of an error in its stream", _name(turn), turn.plan.recipe)
        elif turn.wants_done and not events.done:
            self._send(events.closing(DONE))
        self._finish(Ending.ERROR if events.failed else Ending.COMPLETE)

    def broken(self, error: LemonpodError) -> None:
        turn = self._turn
        if self.is_over:
            self.end()
            return
        _warn(turn, error)
        self._send_held()
        self._send(self._meter.events.closing(error_event(envelope(error))))
        turn.client.cut()
        turn.finish(ending_by(error), keep=False)

    def close(self) -> None:
        turn = self._turn
        turn.stats.streams[turn.plan.model] -= 1
        turn.usage = self._meter.usage(turn.started)

    def probe(self) -> bool:
        if self._meter.events.between_events:
            self._send(PING)
        return True  # else the rest of the event is on its way

    def _scrubbed(self, data: bytes) -> bytes:
        if self._scrubber is None:
            self._scrubber = EventScrubber(self._turn.plan, self._meter.events.trouble, self._renamer)
            self._renamer = None
        return self._scrubber.feed(data)

    def _send_held(self) -> None:
        """What is left of an error's event that never ended."""
        rest = b"" if self._scrubber is None else self._scrubber.end()
        if rest:
            self._send(rest)


class Failure(Kept):
    """An engine's error, read up to a bound."""

    __slots__ = ()

    def piece(self, data: bytes) -> None:
        super().piece(data)
        if self._size > MAX_READ:
            self.end()

    def end(self) -> None:
        turn = self._turn
        said = b"".join(self._pieces)
        answer, kept = engine_answer(self._status, self._head.fields, said, turn.plan)
        answer = worded(turn.request.path, answer)
        turn.status = answer.status
        turn.client.write(own_answer(answer, turn.request, turn.client.clock, as_lines(kept)))
        turn.finish(Ending.ERROR)


def _refuse_nothing(turn: Turn) -> None:
    log.warning("%s: %s answered with nothing", _name(turn), turn.plan.recipe)
    turn.refuse(Answer(502, typed_envelope(_NO_OUTPUT, "backend_error")))


def _warn(turn: Turn, error: LemonpodError) -> None:
    log.warning("%s: %s", _name(turn), error)


def _name(turn: Turn) -> str:
    return turn.request.shown
