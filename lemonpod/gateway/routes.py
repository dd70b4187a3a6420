"""The fixed routes that capabilities open; a manifest can remap what lies behind one, never add one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lemonpod.contract.vocabulary import CAPABILITIES, Body, Capability, Mode, RouteSpec
from lemonpod.errors import MalformedRequestError, UnsupportedOperationError, WrongModelTypeError
from lemonpod.gateway.media import MEMBERS
from lemonpod.launch.plan import LaunchPlan

PREFIXES: Final = ("/api/v0", "/api/v1", "/v0", "/v1")
SOCKET_PREFIXES: Final = ("", *PREFIXES)
"""A WebSocket is there without a prefix too."""
LOGS: Final = "/logs/stream"

_SLOT_ACTIONS: Final = frozenset({"save", "restore", "erase"})
# The two operations that Lemonade refuses by the model's type before it looks at what the engine can do.
_CHAT_ONLY: Final = {
    Capability.CHAT_COMPLETION: "chat completion",
    Capability.COMPLETION: "completion",
}


@dataclass(frozen=True, slots=True)
class Route:
    """One path below the prefixes, and the capability that opens it."""

    capability: Capability
    spec: RouteSpec
    members: tuple[str, ...]
    """What is read of a JSON body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a model can do as its manifest says now; a running engine's plan says what it was started with."""

    mode: Mode | None
    capabilities: frozenset[Capability]
    device: str


ROUTES: Final = tuple(
    Route(capability, spec, ("model", *spec.required, *MEMBERS.get(capability, ())))
    for capability, entry in CAPABILITIES.items()
    for spec in entry.routes
)

SOCKET_PATHS: Final = frozenset(
    (prefix + path).encode()
    for path in (LOGS, *(route.spec.path for route in ROUTES if route.spec.body is Body.SOCKET))
    for prefix in SOCKET_PREFIXES
)


def require(route: Route, offer: Offer | LaunchPlan) -> None:
    """Raise unless the model is of the route's type and its engine declares the capability.

    The declared set decides, not the mode: one engine may serve chat and embeddings alike (RFC section 14).
    Only chat routes ask for the type first, as Lemonade does.
    """
    if (operation := _CHAT_ONLY.get(route.capability)) and offer.mode not in (Mode.CHAT, None):
        raise WrongModelTypeError(
            f"This model does not support {operation}. Only LLM models support this endpoint."
        )
    if route.capability not in offer.capabilities:
        raise UnsupportedOperationError(f"{route.spec.operation} not supported by {offer.device}")


def engine_target(route: Route, remap: str | None, slot: str | None, raw_query: str) -> str:
    """Path and query on the engine's side.

    `remap` stands for the path of every route of the capability, below which a slot's number stays.
    """
    path = route.spec.engine_path
    if remap is not None:
        path = f"{remap.rstrip('/')}/{{id}}" if slot is not None else remap
    if slot is not None:
        path = path.replace("{id}", slot)
    if not raw_query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{raw_query}"


def check_slot(slot: str, actions: list[str]) -> None:
    """Raise unless a slot is named by its number and one known action is asked of it."""
    if not (slot.isascii() and slot.isdigit()):
        raise MalformedRequestError(f"Invalid slot id {slot[:40]!r}: it must be a number")
    if len(actions) != 1 or actions[0] not in _SLOT_ACTIONS:
        raise MalformedRequestError("'action' must be one of save, restore, erase")
