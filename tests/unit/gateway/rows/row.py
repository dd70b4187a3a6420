"""One row of Lemonade's HTTP interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lemonpod.gateway.settings import GatewaySettings

PREFIXES: Final = ("/api/v0", "/api/v1", "/v0", "/v1")
CHAT: Final = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
FORM: Final = {"Content-Type": "multipart/form-data; boundary=x"}
NO_PATH: Final = "The requested endpoint does not exist"


def anything(document: Any) -> bool:
    """Any JSON will do."""
    return True


def form(**fields: str) -> bytes:
    parts = (f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items())
    return ("".join(parts) + "--x--\r\n").encode()


@dataclass(frozen=True)
class Row:
    name: str
    method: str
    path: str
    status: int
    answer: Mapping[str, Any] | Callable[[Any], bool] = field(default_factory=dict)
    """Members that the JSON answer must have, or what must hold of it."""
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    settings: GatewaySettings | None = None
    loaded: bool = False
    """The model `m` is, before it is asked."""
    hub: bool = False
    """There is a stand-in of the hub, with the files of the model `m`."""
    text: str = ""
    """What must stand in an answer that is no JSON."""
    body_of: Callable[[bytes], bool] | None = None
    """What must hold of it."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Headers that the answer must have."""
    sent: Callable[[Any], bool] | None = None
    """What must hold of the JSON that the engine was sent last."""
    is_variant: bool = False
    """The engine is a fork of llama.cpp's."""


def error(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind}}


def anthropic(message: str, kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"message": message, "type": kind}}


def says(**members: Any) -> Callable[[Any], bool]:
    """The error has these members."""
    return lambda document: members.items() <= document["error"].items()


def holds(**members: Any) -> Callable[[Any], bool]:
    return lambda document: members.items() <= document.items()


def has(*names: str) -> Callable[[Any], bool]:
    return lambda document: set(names) <= document.keys()


KEY: Final = GatewaySettings(api_key="k")
ADMIN: Final = GatewaySettings(api_key="k", admin_api_key="a")
POST_ONLY: Final = {"error": "Method Not Allowed. Use POST for this endpoint"}
