"""The model's name in answers: whatever an engine calls it, the client reads the name that it asked for.

Nothing is ever held back. Of the name's string only the text between the quotes is exchanged: the new one
goes out when the opening quote has come, the old one is dropped as it comes. All other bytes pass.

An answer is followed by its quotes and brackets alone (`JsonRenamer`). That takes a step for each of them,
so whole events and bodies are first tried with a few searches that run in C; these leave to the steps what
they are not sure of, and so never decide otherwise. An engine's name may be the path of a file, which is
why none is asked for here: what stands in the place of the name is replaced.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from lemonpod.gateway.data.words import WORDS

_MODEL: Final = b'"model"'
_ESCAPED_LETTER: Final = b"\\u006"
"""Where it is absent every key `model` is written so: its letters are U+0064 to U+006F."""
_BLANK_LINE: Final = (b"\n\n", b"\n\r\n")
"""Where one ends, lines that end with a lone CR aside."""
_KEYS: Final = frozenset({b"model"})
_EVENT_HOLDERS: Final = frozenset({b"response"})
"""Members of an event that hold the name in its stead (OpenAI's Responses API)."""
_MAX_LABEL: Final = 6 * len("response") + 1
"""A key that is longer is none of ours, however it is escaped."""
_MAX_FORM: Final = 4096
"""Longer events are rare, and so are not worth to be remembered."""
_MAX_NEAR: Final = 16 << 10
"""A name that stands farther on is found in steps: one try that fails takes its time."""
_DEPTH: Final = 8
"""Lists and objects within each other that are tried in one go."""

_QUOTE, _LF, _CR, _COLON, _COMMA = b'"\n\r:,'

# No two neighbours in a pattern match the same byte, so giving back never finds another way.
_SPACE: Final = re.compile(rb"[ \t\n\r]*")
_EVENT_END: Final = re.compile(rb"\n\r?\n")
_LINE: Final = re.compile(rb"[^\r\n]*")
_TEXT: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_MEMBERS: Final = re.compile(rb'[^"{}\[\]:,]*')
_NESTED: Final = re.compile(rb'[^"{}\[\]]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"{}\[\]]*)*', re.DOTALL)


class _Try:
    """Finds the name in one go, where its object begins after `start` and holds none of the bytes `no`."""

    def __init__(self, start: str, no: str) -> None:
        space = "[ \\t]*" if no else "[ \\t\\n\\r]*"
        any_byte = f"[^{no}]" if no else "."
        text = rf'[^"\\{no}]*(?:\\{any_byte}[^"\\{no}]*)*'
        plain = rf'[^"{{}}\[\]{no}]*'
        string = value = f'"{text}"'
        for _ in range(_DEPTH):
            value = rf"(?:{string}|[\[{{]{plain}(?:{value}{plain})*[\]}}])"
        before = rf"{start}{space}\{{(?:{plain}(?:{value}{plain})*,)?{space}"
        self._before = re.compile(before.encode(), re.DOTALL)
        self._member = re.compile(rf'"model"{space}:{space}"({text})"'.encode(), re.DOTALL)
        self.to_a_text = re.compile(rf'{start}[^"{no}]*(?:{string}[^"{no}]*)*"'.encode(), re.DOTALL)
        self.text = re.compile(text.encode(), re.DOTALL)

    def find(self, data: bytes) -> tuple[int, int] | None:
        """Where the name's text starts and ends, if it is the only one there and near; None if not sure."""
        at = data.find(_MODEL, 0, _MAX_NEAR)
        if at < 0 or data.find(_MODEL, at + 1) >= 0 or _ESCAPED_LETTER in data:
            return None
        if not self._before.fullmatch(data, 0, at):
            return None
        member = self._member.match(data, at)
        return member.span(1) if member else None


_IN_BODY: Final = _Try("", "")
_IN_EVENT: Final = _Try(r"(?:[^d\r\n][^\r\n]*\r?\n)*data:", r"\r\n")


def renamed(body: bytes, name: str) -> bytes:
    """A JSON object with the text of its member `model` replaced, if it is a string."""
    found = _IN_BODY.find(body)
    if found is None:
        return JsonRenamer(name).feed(body)
    start, end = found
    return b"".join((body[:start], _text(name), body[end:]))


class _String(Enum):
    """What a string is that has begun."""

    LABEL = auto()
    """A key where `model` may be one."""
    NAME = auto()
    OTHER = auto()


class JsonRenamer:
    """Replaces the name in JSON that comes piece by piece; `holders` are members that may hold it too."""

    def __init__(self, name: str, holders: frozenset[bytes] = frozenset()) -> None:
        self._name = _text(name)
        self._holders = holders
        self.reset()

    def reset(self) -> None:
        """Expect a new object."""
        self._lost = False
        self._depth = 0
        self._open = 0
        """How many of the outermost levels are objects that may have the member."""
        self._label = b""
        self._colon = False
        self._string: _String | None = None
        self._escape = False

    def end_line(self) -> None:
        """Take note of the end of a line, where lines are more than space: no string goes on after it."""
        if self._string or self._lost:
            self.reset()

    def feed(self, data: bytes) -> bytes:
        """The bytes to send for `data`."""
        out: list[bytes] = []
        kept = at = 0
        size = len(data)
        while at < size and not self._lost:
            if self._string:
                start, at = at, self._through_string(data, at)
                if self._string is _String.NAME:
                    kept = at
                elif self._string is _String.LABEL:
                    self._label = (self._label + data[start : min(at, start + _MAX_LABEL)])[:_MAX_LABEL]
                if at < size:
                    self._string = None
                    at += 1
            elif self._depth == 0:
                at = _end(_SPACE, data, at)
                if at < size:
                    at = self._begin(data, at)
            else:
                at = _end(_MEMBERS if self._depth == self._open else _NESTED, data, at)
                if at < size:
                    begins = self._step(data[at])
                    at += 1
                    if begins is _String.NAME:
                        out += (data[kept:at], self._name)
                        kept = at
        if not out and not kept:
            return data
        out.append(data[kept:])
        return b"".join(out)

    def _begin(self, data: bytes, at: int) -> int:
        self._lost = not data.startswith((b"{", b"["), at)
        self._open = int(data.startswith(b"{", at))
        self._depth = 1
        return at + 1

    def _through_string(self, data: bytes, at: int) -> int:
        """Where the string ends: at its quote, or at the end of the data."""
        if self._escape:
            self._escape = False
            at += 1
        at = _end(_TEXT, data, at)
        if data.startswith(b"\\", at):  # whose other half is yet to come
            self._escape = True
            at += 1
        return at

    def _step(self, mark: int) -> _String | None:
        """Note what `mark` says, and return which string it begins."""
        watched = self._depth == self._open
        if mark == _QUOTE:
            if watched and not self._colon:
                self._string = _String.LABEL
            elif watched and self._says(_KEYS):
                self._string = _String.NAME
            else:
                self._string = _String.OTHER
            self._label = b""
        elif mark == _COLON:
            self._colon = True
            return None
        elif mark == _COMMA:
            self._label = b""
        elif mark in b"{[":
            if watched and self._colon and mark == 0x7B and self._depth == 1 and self._says(self._holders):
                self._open = 2
            self._depth += 1
            self._label = b""
        else:
            self._depth -= 1
            self._open = min(self._open, self._depth)
            self._label = b""
        self._colon = False
        return self._string

    def _says(self, keys: frozenset[bytes]) -> bool:
        if b"\\" not in self._label:
            return self._label in keys
        try:
            return json.loads(b'"%b"' % self._label).encode() in keys
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class _Form:
    """What stands around an event's words; the next events of an engine often differ in them alone."""

    head: bytes
    tail: bytes
    new_head: bytes
    new_tail: bytes
    changes: bool

    @staticmethod
    def of(event: bytes, new: bytes, name: int) -> _Form | None:
        """The form of an event that holds its name at `name`, and is `new` with the other."""
        words = WORDS.search(event)
        if not words or not _IN_EVENT.to_a_text.fullmatch(event, 0, words.end()):
            return None
        start = words.end()
        end = _end(_IN_EVENT.text, event, start)
        if not event.startswith(b'"', end):
            return None
        shift = len(new) - len(event) if name < start else 0
        return _Form(event[:start], event[end:], new[: start + shift], new[end + shift :], new != event)

    def fill(self, event: bytes) -> bytes | None:
        """The event with its new name, if it has this form, and words in it."""
        if not event.startswith(self.head) or not event.endswith(self.tail):
            return None
        start, end = len(self.head), len(event) - len(self.tail)
        if start >= end or not _IN_EVENT.text.fullmatch(event, start, end):
            return None
        return self.new_head + event[start:end] + self.new_tail if self.changes else event


class EventRenamer:
    """Replaces the name in each event of a stream."""

    def __init__(self, name: str) -> None:
        self._name = _text(name)
        self._as_asked = b'"model":"%b"' % self._name
        self._json = JsonRenamer(name, _EVENT_HOLDERS)
        self._line = b""
        """How the line begins that has come in part: as much of it as tells whether it is data."""
        self._after_cr = False
        self._between = True
        self._form: _Form | None = None

    def usual(self, segment: bytes) -> bytes | None:
        """The bytes to send for `segment` if that is one event, whole, which differs from one before in its
        words alone; else it is to be fed."""
        return self._form.fill(segment) if self._between and self._form else None

    def feed(self, segment: bytes) -> bytes:
        """The bytes to send for `segment`; the very same object where nothing had to change."""
        if self._between and segment.endswith(_BLANK_LINE):
            whole = self._try(segment)
            if whole is not None:
                return whole
        out: list[bytes] = []
        at, size = 0, len(segment)
        while at < size:
            blank = _EVENT_END.search(segment, at) if self._between else None
            whole = self._try(segment[at : blank.end()]) if blank else None
            if blank and whole is not None:
                out.append(whole)
                at = blank.end()
            else:
                at = self._follow(segment, at, out)
        return b"".join(out)

    def _try(self, events: bytes) -> bytes | None:
        """Whole events renamed; None if that takes a closer look."""
        if self._form and (whole := self._form.fill(events)) is not None:
            return whole
        if _ESCAPED_LETTER not in events and events.count(_MODEL) == events.count(self._as_asked):
            return events
        found = _IN_EVENT.find(events)
        if found is None:
            return None
        start, end = found
        same = events[start:end] == self._name
        new = events if same else b"".join((events[:start], self._name, events[end:]))
        if len(events) <= _MAX_FORM:
            self._form = _Form.of(events, new, start) or self._form
        return new

    def _follow(self, data: bytes, at: int, out: list[bytes]) -> int:
        """Go through the lines up to the end of the event, or of the data; returns where that is."""
        size = len(data)
        if self._after_cr and data[at] == _LF:
            self._after_cr = False
            out.append(b"\n")
            at += 1
        while at < size:
            end = _end(_LINE, data, at)
            if end > at:
                self._after_cr = self._between = False
                out.append(self._of_line(data[at:end]))
            if end < size:
                at = end + (2 if data.startswith(b"\r\n", end) else 1)
                out.append(data[end:at])
                self._after_cr = data[at - 1] == _CR
                if self._end_line():
                    return at
            else:
                at = size
        return at

    def _of_line(self, text: bytes) -> bytes:
        missing = 5 - len(self._line)
        self._line += text[:missing]
        if self._line != b"data:":
            return text
        return text[:missing] + self._json.feed(text[missing:])

    def _end_line(self) -> bool:
        """Whether it was a blank one, which ends an event."""
        blank = not self._line
        self._line = b""
        if blank:
            self._json.reset()
            self._between = not self._after_cr  # whose other half may be yet to come
        else:
            self._json.end_line()
        return blank


@lru_cache(maxsize=64)
def _text(name: str) -> bytes:
    return json.dumps(name)[1:-1].encode()


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = pattern.match(data, at)
    return match.end() if match else at
