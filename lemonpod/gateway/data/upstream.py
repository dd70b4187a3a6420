"""The connections to one engine.

A connection is used again where that does no harm. Many engines give every connection a thread, of which
they have few: one that is kept open for nothing keeps others waiting. So none is kept while a request waits
for its answer for long, and none for more than a moment.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Final

from lemonpod.gateway.data.clock import Clock
from lemonpod.gateway.data.engine_connection import NO_CONNECTION, NO_FILE, Caller, EngineConnection
from lemonpod.gateway.data.wire import Outbox

_MAX_IDLE: Final = 64
_IDLE: Final = 1.0
"""Engines close idle connections after 5 s and more."""
_LONG: Final = 0.02
"""No engine that has a thread to spare takes so long for every answer of a burst."""

_RACE: Final = 1.0
"""A connection that had ended when it was used again says so at once."""


class Upstream:
    """One engine's, from its first request to the end of its life."""

    def __init__(
        self, host: str, port: int, cut: asyncio.Event, clock: Clock, outbox: Outbox,
        connect_timeout: float, on_end: Callable[[asyncio.Event], None],
    ) -> None:  # fmt: skip
        self.clock = clock
        self.outbox = outbox
        self._host, self._port = host, port
        self._connect_timeout = connect_timeout
        self._cut = cut
        self._on_end = on_end
        self._idle: list[EngineConnection] = []
        self._busy: dict[EngineConnection, None] = {}
        self._waiting: dict[EngineConnection, float] = {}
        """Since when, the oldest first."""
        self._opening: dict[Caller, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._check: asyncio.TimerHandle | None = None
        self._end = self._loop.create_task(self._until_cut())
        clock.join(self)

    def call(self, caller: Caller, *, fresh: bool = False) -> None:
        """Give the caller a connection: in this step if one is there."""
        if self._idle and not fresh:
            connection = self._idle.pop()
            connection.begin(caller)
            self._begun(connection)
        else:
            self._opening[caller] = self._loop.create_task(self._open(caller))

    def leave(self, caller: Caller) -> None:
        """The caller wants no connection any more."""
        if task := self._opening.pop(caller, None):
            task.cancel()

    def close(self) -> None:
        """Break all connections."""
        self._end.cancel()
        self._over()

    def tick(self, now: float) -> None:
        for connection in [c for c in self._idle if now - c.since >= _IDLE]:
            connection.abort()

    # --- for its connections ------------------------------------------------------------------------------

    def answered(self, connection: EngineConnection) -> None:
        """The head of its answer is there."""
        self._waiting.pop(connection, None)

    def give_back(self, connection: EngineConnection) -> None:
        """It could be used again."""
        del self._busy[connection]
        if len(self._idle) >= _MAX_IDLE or self._has_a_long_wait():
            connection.abort()
            return
        connection.since = self.clock.now
        self._idle.append(connection)
        if self._waiting and self._check is None:
            self._check = self._loop.call_later(_LONG, self._check_waits)

    def has_just_begun(self, connection: EngineConnection) -> bool:
        """Whether its request is so new that it may never have come to the engine."""
        return self._loop.time() - self._waiting.get(connection, -_RACE) < _RACE

    def lost(self, connection: EngineConnection) -> None:
        """Idempotent."""
        self._busy.pop(connection, None)
        self._waiting.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)

    # ------------------------------------------------------------------------------------------------------

    def _begun(self, connection: EngineConnection) -> None:
        self._busy[connection] = None
        self._waiting[connection] = self._loop.time()

    def _has_a_long_wait(self) -> bool:
        return bool(self._waiting) and self._loop.time() - next(iter(self._waiting.values())) > _LONG

    def _check_waits(self) -> None:
        self._check = None
        if self._has_a_long_wait():
            for connection in list(self._idle):
                connection.abort()
        elif self._waiting and self._idle:
            self._check = self._loop.call_later(_LONG, self._check_waits)

    async def _open(self, caller: Caller) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await self._loop.create_connection(
                    lambda: EngineConnection(self), self._host, self._port
                )
        except (OSError, TimeoutError) as error:
            self._opening.pop(caller, None)
            caller.on_break(NO_FILE if error.errno in (errno.EMFILE, errno.ENFILE) else NO_CONNECTION)
            return
        if self._opening.pop(caller, None) is None:
            connection.abort()
            return
        connection.begin(caller)
        self._begun(connection)
        caller.connected(connection)

    async def _until_cut(self) -> None:
        await self._cut.wait()
        self._over()

    def _over(self) -> None:
        self.clock.leave(self)
        if self._check is not None:
            self._check.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.cut()
        for caller in list(self._opening):
            self.leave(caller)
            caller.on_break(NO_CONNECTION)
        self._on_end(self._cut)
