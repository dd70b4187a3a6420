"""The paths of other APIs that engines answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Capability
from lemonpod.gateway.translate import anthropic_request, ollama_request
from lemonpod.gateway.translate.question import Endpoint

_CHAT: Final = Capability.CHAT_COMPLETION
_EMBEDDINGS: Final = Capability.EMBEDDINGS
_MESSAGES: Final = Endpoint(_CHAT, anthropic_request.messages)
_COUNT: Final = Endpoint(_CHAT, anthropic_request.count_tokens)

ENDPOINTS: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {
        "/api/chat": Endpoint(_CHAT, ollama_request.chat),
        "/api/generate": Endpoint(_CHAT, ollama_request.generate),
        "/api/embed": Endpoint(_EMBEDDINGS, ollama_request.embed),
        "/api/embeddings": Endpoint(_EMBEDDINGS, ollama_request.embeddings),
        # Clients add `/v1/messages` to the address that they are given, which may end with `/api`.
        **{f"{prefix}/messages": _MESSAGES for prefix in ("/v1", "/api/v1")},
        **{f"{prefix}/messages/count_tokens": _COUNT for prefix in ("/v1", "/api/v1")},
    }
)
"""By path; all of them are asked with POST."""
