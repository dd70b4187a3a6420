"""The engine's side of a WebSocket, on the raw connection of a script."""

from __future__ import annotations

from collections.abc import Sequence

from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from tests.fakes.driver import Connection

_PIECE = 1 << 16


class EngineSocket:
    """Speaks for an engine; `request` is how it was asked."""

    def __init__(self, connection: Connection, subprotocols: Sequence[str], *, deflates: bool) -> None:
        self.connection = connection
        self.request: Request
        extensions = [ServerPerMessageDeflateFactory()] if deflates else []
        self._protocol = ServerProtocol(
            subprotocols=[Subprotocol(name) for name in subprotocols] or None,
            extensions=extensions,
            max_size=None,
        )
        self._frames: list[Frame] = []
        self._closed = False

    @staticmethod
    async def accept(
        connection: Connection, *, subprotocols: Sequence[str] = (), deflates: bool = False
    ) -> EngineSocket:
        """Take the offer of the next request."""
        socket = EngineSocket(connection, subprotocols, deflates=deflates)
        while True:
            await socket._hear()
            for event in socket._protocol.events_received():
                assert isinstance(event, Request)
                socket.request = event
                socket._protocol.send_response(socket._protocol.accept(event))
                await socket.flush()
                return socket

    async def frame(self) -> Frame | None:
        """The next frame; None behind a close frame, and at the end of the connection."""
        while not self._frames:
            if self._closed or not await self._hear():
                return None
            self._frames += [event for event in self._protocol.events_received() if isinstance(event, Frame)]
            await self.flush()  # what the protocol answers by itself: a pong, a close
        frame = self._frames.pop(0)
        self._closed = frame.opcode is Opcode.CLOSE
        return frame

    async def send(self, data: bytes, *, text: bool = False) -> None:
        (self._protocol.send_text if text else self._protocol.send_binary)(data)
        await self.flush()

    async def close(self, code: int, reason: str) -> None:
        self._protocol.send_close(code, reason)
        await self.flush()

    async def flush(self) -> None:
        """Send what the protocol has to say. Its wish to end the connection is the script's to grant."""
        for data in self._protocol.data_to_send():
            if data:
                await self.connection.send(data)

    async def _hear(self) -> bool:
        data = await self.connection.reader.read(_PIECE)
        if data:
            self._protocol.receive_data(data)
        return bool(data)


async def echo(connection: Connection) -> None:
    """Answer each message with itself, and take leave as asked."""
    socket = await EngineSocket.accept(connection)
    while frame := await socket.frame():
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            await socket.send(bytes(frame.data), text=frame.opcode is Opcode.TEXT)
        elif frame.opcode is Opcode.CLOSE:
            break
