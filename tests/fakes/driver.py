"""Engines that are scripts on raw sockets: every byte of their answers is the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lemonpod.engine.api import EngineState, EngineStats, EngineStatus, ExitStatus, LogLine, Report
from lemonpod.errors import EngineError
from lemonpod.launch.plan import LaunchPlan


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        return next(iter(self.values(name)), None)


class Connection:
    """One accepted connection, in the hands of a script."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, engine: ScriptedEngine):
        self.reader = reader
        self.writer = writer
        self._engine = engine

    async def head(self) -> Received:
        """Read a request up to its body."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = tuple(
            (name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:-2])
        )
        return Received(method, target, headers, b"")

    async def request(self) -> Received:
        """Read a whole request, and keep it for the test to look at."""
        head = await self.head()
        body = b""
        if length := head.value("Content-Length"):
            body = await self.reader.readexactly(int(length))
        elif head.value("Transfer-Encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        received = Received(head.method, head.target, head.headers, body)
        self._engine.received.append(received)
        return received

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the other side has hung up."""
        with suppress(ConnectionError):
            await self.reader.read()
        self._engine.hung_up += 1

    def reset(self) -> None:
        self.writer.transport.abort()

    def die_quietly(self) -> None:
        self._engine.hung_up += 1

    def die(self, status: ExitStatus | None = None) -> None:
        """The engine's process ends, as the operating system tells it."""
        self._engine.die(status or ExitStatus(code=1))


Script = Callable[[Connection], Awaitable[None]]


@dataclass
class ScriptedEngine:
    """An engine whose process is this one."""

    plan: LaunchPlan
    script: Script
    ready: asyncio.Event
    output: Sequence[str] = ()
    received: list[Received] = field(default_factory=list)
    hung_up: int = 0
    connections: int = 0
    left_behind: str | None = None
    """What a stop cannot end."""
    started: bool = False
    stopped: bool = False
    trouble: str | None = None
    _exit: asyncio.Future[ExitStatus] | None = None
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def prepare(self, report: Report) -> None:
        pass

    async def start(self) -> EngineStatus:
        self._exit = asyncio.get_running_loop().create_future()
        endpoint = self.plan.endpoint
        self._server = await asyncio.start_server(self._accept, endpoint.host, endpoint.port, backlog=512)
        self.started = True
        return await self.inspect()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self.script(Connection(reader, writer, self))
        except asyncio.CancelledError:
            pass  # a server's own callback would log it
        finally:
            self._tasks.discard(task)
            writer.close()

    async def probe(self) -> bool:
        return self.ready.is_set()

    async def diagnose(self) -> str:
        return "the test has not made it ready"

    async def inspect(self) -> EngineStatus:
        if self._exit is None:
            return EngineStatus(state=EngineState.CREATED)
        if self._exit.done():
            return EngineStatus(state=EngineState.EXITED, exit=self._exit.result())
        return EngineStatus(state=EngineState.RUNNING, pid=1)

    async def stats(self) -> EngineStats:
        return EngineStats()

    async def logs(self, *, tail: int | None = None, follow: bool = False) -> AsyncGenerator[LogLine, None]:
        lines = [LogLine(seq, 1.5, text) for seq, text in enumerate(self.output)]
        for line in lines if tail is None else lines[len(lines) - tail :]:
            yield line
        if follow:
            await self.wait()

    def log_tail(self, count: int) -> tuple[str, ...]:
        return tuple(self.output[-count:])

    async def wait(self) -> ExitStatus:
        assert self._exit is not None
        return await asyncio.shield(self._exit)

    def die(self, status: ExitStatus) -> None:
        assert self._exit is not None
        if not self._exit.done():
            self._exit.set_result(status)

    async def stop(self, *, grace: float) -> ExitStatus:
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.die(ExitStatus(signal=15, wanted=True))
        self.stopped = True
        if self.left_behind:
            raise EngineError(self.left_behind)
        return await self.wait()


class ScriptedDriver:
    """Starts what the test says; `ready` is cleared for an engine that is to keep loading."""

    name = "scripted"

    def __init__(self, script: Script, *, output: Sequence[str] = ()) -> None:
        self.script = script
        self.output = output
        self.ready = asyncio.Event()
        self.ready.set()
        self.engines: list[ScriptedEngine] = []

    def accepts(self, plan: LaunchPlan) -> bool:
        return True

    def create(self, plan: LaunchPlan) -> ScriptedEngine:
        engine = ScriptedEngine(plan, self._run, self.ready, self.output)
        self.engines.append(engine)
        return engine

    async def reclaim(self, *, at_once: asyncio.Event | None = None) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        pass

    async def _run(self, connection: Connection) -> None:
        await self.script(connection)

    @property
    def received(self) -> list[Received]:
        return [received for engine in self.engines for received in engine.received]

    @property
    def hung_up(self) -> int:
        return sum(engine.hung_up for engine in self.engines)
