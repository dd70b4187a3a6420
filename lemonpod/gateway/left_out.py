"""What of Lemonade's interface is not served: asked for it, the server says why, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from lemonpod.errors import UnsupportedOperationError
from lemonpod.gateway.routes import PREFIXES


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path, below the prefixes unless `at_root`, and the methods that it has with Lemonade."""

    methods: tuple[str, ...]
    path: str
    reason: str
    instead: str
    at_root: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """As aiohttp is told of it."""
        return (self.path,) if self.at_root else tuple(prefix + self.path for prefix in PREFIXES)

    @property
    def is_ollamas(self) -> bool:
        """It is asked by clients who expect another shape of errors."""
        return self.path.startswith("/api/")


_NO_JOBS: Final = ("requests are not kept to be carried out later", "send each when it is due")
_NO_INSTALLS: Final = (
    "the server fetches and removes no executables",
    "use `lemonpod backends install-external` or `uninstall-external` on its machine",
)
_NO_CLOUD: Final = ("no model runs elsewhere", "ask that provider itself")
_NO_MAKING: Final = ("models are neither made nor moved", "register what there is with `lemonpod register`")
_NO_MCP: Final = ("the server uses no tools by itself", "offer tools with each chat request")

LEFT_OUT: Final = (
    LeftOut(
        ("POST",),
        "/images/upscale",
        "no capability of the manifest language stands for it",
        "use an engine that upscales in /images/edits",
    ),
    LeftOut(("POST",), "/routing/validate", "no model stands for others", "name the model that is to answer"),
    LeftOut(("GET", "POST"), "/jobs", *_NO_JOBS),
    LeftOut(("GET", "DELETE"), "/jobs/{id}", *_NO_JOBS),
    LeftOut(("POST",), "/jobs/{id}/pause", *_NO_JOBS),
    LeftOut(("POST",), "/jobs/{id}/interrupt", *_NO_JOBS),
    LeftOut(("POST",), "/jobs/{id}/resume", *_NO_JOBS),
    LeftOut(("POST",), "/install", *_NO_INSTALLS),
    LeftOut(("POST",), "/install/dry-run", *_NO_INSTALLS),
    LeftOut(("POST",), "/uninstall", *_NO_INSTALLS),
    LeftOut(("POST",), "/cloud/auth", *_NO_CLOUD),
    LeftOut(("DELETE",), "/cloud/auth/{provider}", *_NO_CLOUD),
    LeftOut(("POST",), "/mcp", *_NO_MCP, at_root=True),
    LeftOut(("GET", "POST"), "/internal/mcp/servers", *_NO_MCP, at_root=True),
    LeftOut(("GET",), "/internal/mcp/tools", *_NO_MCP, at_root=True),
    LeftOut(("POST", "DELETE"), "/internal/mcp/{rest:.+}", *_NO_MCP, at_root=True),
    LeftOut(
        ("POST",),
        "/internal/telemetry/flush",
        "nothing is sent to a collector of telemetry",
        "read /metrics or /internal/activity",
        at_root=True,
    ),
    LeftOut(("POST",), "/api/create", *_NO_MAKING, at_root=True),
    LeftOut(
        ("POST",),
        "/api/copy",
        "models are not copied",
        "give it another name with `lemonpod alias add`",
        at_root=True,
    ),
    LeftOut(("POST",), "/api/push", *_NO_MAKING, at_root=True),
    LeftOut(("POST",), "/api/blobs/{digest}", *_NO_MAKING, at_root=True),
)
"""The last are Ollama's."""


def add_routes(router: web.UrlDispatcher) -> None:
    """The paths of the table, but for Ollama's."""
    for item in LEFT_OUT:
        if not item.is_ollamas:
            for path in item.paths:
                for method in item.methods:
                    router.add_route(method, path, refused(item))


def refused(item: LeftOut) -> Handler:
    """Answers that it is left out."""

    async def refuse(request: web.Request) -> web.StreamResponse:
        raise UnsupportedOperationError(
            f"{request.method} {request.path} is not supported: {item.reason}", hint=item.instead
        )

    return refuse
