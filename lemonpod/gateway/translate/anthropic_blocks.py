"""The blocks of a streamed message. One is open at a time; what belongs to a later one waits for its turn.

Engines tell of several tool calls at the same time, in any order. Nothing says where one ends but its JSON.
"""

from __future__ import annotations

import re
import uuid
from collections import deque
from typing import Any, Final

from lemonpod.errors import UpstreamError
from lemonpod.gateway.translate.answer import ToolPart, is_another, written
from lemonpod.gateway.translate.question import Document

_MARKS: Final = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


def event(kind: str, **members: Any) -> bytes:
    """One event of the stream."""
    return f"event: {kind}\ndata: {written({'type': kind, **members})}\n\n".encode()


def new_id(prefix: str) -> str:
    """An id for what the engine gave none."""
    return f"{prefix}_{uuid.uuid4().hex[:24]}"


class Blocks:
    """What the methods return is to be sent at once."""

    def __init__(self) -> None:
        self._made = 0
        self._open: deque[_Block] = deque()
        """The first is; the others wait."""
        self._calls: dict[int, _Block] = {}
        """The latest call of each number."""

    @property
    def have_calls(self) -> bool:
        """Whether the message holds tool calls."""
        return bool(self._calls)

    def thinking(self, text: str) -> bytes:
        return self._words("thinking", {"thinking": "", "signature": ""}, "thinking_delta", text)

    def text(self, text: str) -> bytes:
        return self._words("text", {"text": ""}, "text_delta", text)

    def tool(self, part: ToolPart) -> bytes:
        """Raises UpstreamError for what continues a call that has ended."""
        block, told = self._calls.get(part.number), b""
        if block is None or (block.part is not None and is_another(part, block.part)):
            if block is not None:
                block.is_whole = True
            call = {"id": part.id or new_id("toolu"), "name": part.name, "input": {}}
            block, told = self._begin("tool_use", call, part)
            self._calls[part.number] = block
        if not part.arguments:
            return told
        if block not in self._open:
            if part.arguments.isspace():
                return told
            raise UpstreamError("the engine goes on with a tool call whose arguments were complete")
        block.follow(part.arguments)
        return told + self._add(block, {"type": "input_json_delta", "partial_json": part.arguments})

    def end(self) -> bytes:
        """There is no more."""
        told = b""
        while self._open:
            told += self._close()
        return told

    def _words(self, kind: str, members: Document, delta: str, text: str) -> bytes:
        block, told = (self._open[-1] if self._open else None), b""
        if block is None or block.kind != kind:
            block, told = self._begin(kind, members)
        return told + self._add(block, {"type": delta, kind: text})

    def _begin(self, kind: str, members: Document, part: ToolPart | None = None) -> tuple[_Block, bytes]:
        block = _Block(kind, self._made, part)
        self._made += 1
        content = {"type": kind, **members}
        block.held.append(event("content_block_start", index=block.index, content_block=content))
        self._open.append(block)
        return block, self._proceed()

    def _add(self, block: _Block, delta: Document) -> bytes:
        block.held.append(event("content_block_delta", index=block.index, delta=delta))
        return self._proceed()

    def _proceed(self) -> bytes:
        told = self._open[0].told()
        while len(self._open) > 1 and self._open[0].is_whole:
            told += self._close() + self._open[0].told()
        return told

    def _close(self) -> bytes:
        block = self._open.popleft()
        return block.told() + event("content_block_stop", index=block.index)


class _Block:
    def __init__(self, kind: str, index: int, part: ToolPart | None) -> None:
        self.kind = kind
        self.index = index
        self.part = part
        """How the call began."""
        self.held: list[bytes] = []
        """What has not been told of it."""
        self.is_whole = part is None
        """It can end as soon as there is another one."""
        self._depth = 0
        self._in_string = False
        self._escapes = False
        """The first character of what comes next means nothing."""

    def told(self) -> bytes:
        held, self.held = self.held, []
        return b"".join(held)

    def follow(self, arguments: str) -> None:
        """Find out whether this fragment is the end of the JSON object."""
        mark = ""
        for mark in _MARKS.findall(arguments, int(self._escapes)):
            if mark == '"':
                self._in_string = not self._in_string
            elif self._in_string or mark[0] == "\\":
                continue
            else:
                self._depth += 1 if mark in "{[" else -1
                self.is_whole = self.is_whole or self._depth == 0
        self._escapes = mark == "\\"
