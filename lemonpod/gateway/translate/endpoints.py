"""The paths of other APIs that engines answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lemonpod.contract.vocabulary import Capability
from lemonpod.gateway.translate import anthropic_answer, anthropic_request, ollama_answer, ollama_request
from lemonpod.gateway.translate.question import Endpoint

_CHAT: Final = Capability.CHAT_COMPLETION
_EMBEDDINGS: Final = Capability.EMBEDDINGS
_MESSAGES: Final = Endpoint(_CHAT, anthropic_request.messages, anthropic_answer.mistake)
_COUNT: Final = Endpoint(_CHAT, anthropic_request.count_tokens, anthropic_answer.mistake)

ENDPOINTS: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {
        "/api/chat": Endpoint(_CHAT, ollama_request.chat, ollama_answer.mistake),
        "/api/generate": Endpoint(_CHAT, ollama_request.generate, ollama_answer.mistake),
        "/api/embed": Endpoint(_EMBEDDINGS, ollama_request.embed, ollama_answer.mistake),
        "/api/embeddings": Endpoint(_EMBEDDINGS, ollama_request.embeddings, ollama_answer.mistake),
        # Clients add `/v1/messages` to the address that they are given, which may end with `/api`.
        **{f"{prefix}/messages": _MESSAGES for prefix in ("/v1", "/api/v1")},
        **{f"{prefix}/messages/count_tokens": _COUNT for prefix in ("/v1", "/api/v1")},
    }
)
"""By path; all of them are asked with POST."""
