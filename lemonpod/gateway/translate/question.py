"""What a client of another API wants, once it is said in OpenAI's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from lemonpod.contract.vocabulary import Capability

Document: TypeAlias = Mapping[str, Any]


class Took(NamedTuple):
    """How long an answer took, in seconds."""

    total: float
    loaded: float
    """Of it, until the model was there."""
    first: float | None = None
    """Until the first words, where those were seen."""


Whole: TypeAlias = Callable[[Document, Took], Document]
"""Tells an engine's answer that came in one piece."""


class Stream(Protocol):
    """Tells one streamed answer. What `event` and `end` return is sent as it is."""

    content_type: bytes
    ping: bytes
    """What may be sent between two events and means nothing; empty where the API has no such thing."""

    def event(self, document: Document) -> bytes:
        """One event of the engine's, which may be worth nothing or several. May raise UpstreamError."""

    def end(self, took: Took) -> bytes:
        """The engine's stream has come to its end."""

    def failure(self, mistake: Document) -> bytes:
        """There will be no more, for this reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to an engine that has the capability."""

    capability: Capability
    body: Document
    """Without the model."""
    tell: Whole | Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """To be answered by an engine, with the first of the calls that it can serve."""

    model: str
    calls: tuple[Call, ...]
    unload: bool = False
    """Afterwards, unless somebody else uses the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The model is wanted ready, and no more."""

    model: str
    told: Document
    """The answer once it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unload:
    """The model is not wanted any more."""

    model: str
    told: Document


Question: TypeAlias = Ask | Load | Unload


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of another API."""

    capability: Capability
    """What it asks of an engine, most of the time."""
    read: Callable[[Document], Question]
    """Raises MalformedRequestError naming the field."""
