"""A client's request as the engine is asked it."""

from __future__ import annotations

from urllib.parse import parse_qs

from lemonpod.gateway.data.engine_connection import EngineConnection
from lemonpod.gateway.data.relay import Target
from lemonpod.gateway.data.request import Request
from lemonpod.gateway.intake import Intake, Upload, name_of, payload_for, unspooled
from lemonpod.gateway.json_body import JsonBody
from lemonpod.gateway.routes import engine_target
from lemonpod.launch.plan import LaunchPlan


def asked_in(intake: Intake, target: Target) -> str | None:
    """The model that the request names, in its body or else in its query."""
    asked = name_of(intake)
    if asked or not target.query:
        return asked
    named = parse_qs(target.query, keep_blank_values=True).get("model")
    return named[0] if named else asked


def for_engine(
    request: Request, target: Target, plan: LaunchPlan, intake: Intake
) -> tuple[bytes, bytes | Upload]:
    """The head and the body. Each line is made of what the parser read, never copied with its end."""
    lines = request.asked.lines
    body: bytes | Upload = b""
    if isinstance(intake, JsonBody):
        body = payload_for(intake, plan.model)
        lines = b"%bContent-Length: %d\r\n" % (request.asked.lines_of_json, len(body))
    elif isinstance(intake, Upload):
        body = intake
        lines += b"Content-Length: %d\r\n" % intake.size
    elif request.method == b"POST":
        lines += b"Content-Length: 0\r\n"
    return head_for_engine(request.method, target, plan, lines), body


def head_for_engine(method: bytes, target: Target, plan: LaunchPlan, lines: bytes) -> bytes:
    """A request's head with these header lines, each with its end."""
    remap = plan.engine_paths.get(target.route.capability)
    path = engine_target(target.route, remap, target.slot, target.query)
    line = f" {path} HTTP/1.1\r\nHost: {plan.endpoint.host}:{plan.endpoint.port}\r\n"
    return b"".join((method, line.encode("latin-1"), lines, b"\r\n"))


async def pump(upload: Upload, connection: EngineConnection) -> None:
    """Send an upload no faster than the engine reads it."""
    async for piece in unspooled(upload):
        if connection.transport.is_closing():
            return
        connection.send(piece)
        await connection.drained()
