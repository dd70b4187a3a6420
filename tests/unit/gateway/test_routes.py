"""The routes that capabilities open, and where they lead."""

from __future__ import annotations

import pytest

from lemonpod.contract.vocabulary import Capability, Mode
from lemonpod.errors import MalformedRequestError, UnsupportedOperationError, WrongModelTypeError
from lemonpod.gateway.routes import ROUTES, Offer, Route, check_slot, engine_target, require

BY_PATH = {route.spec.path: route for route in ROUTES}


def offer(*capabilities: str, mode: Mode | None = Mode.CHAT, device: str = "cpu") -> Offer:
    return Offer(mode=mode, capabilities=frozenset(map(Capability, capabilities)), device=device)


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/chat/completions", "Chat completion"),
        ("/completions", "Completion"),
        ("/responses", "Responses"),
        ("/embeddings", "Embeddings"),
        ("/rerank", "Reranking"),
        ("/reranking", "Reranking"),
        ("/reranker", "Reranking"),
        ("/classify", "Classification"),
        ("/slots", "Slots"),
        ("/slots/{id}", "Slots"),
        ("/tokenize", "Tokenization"),
        ("/audio/transcriptions", "Audio transcription"),
        ("/audio/speech", "Text to speech"),
        ("/images/generations", "Image generation"),
        ("/images/edits", "Image editing"),
        ("/images/variations", "Image variations"),
        ("/audio/generations", "Audio generation"),
        ("/3d/generations", "3D generation"),
    ],
)
def test_an_undeclared_capability_is_refused_by_name(path: str, operation: str) -> None:
    with pytest.raises(UnsupportedOperationError) as caught:
        require(BY_PATH[path], offer(device="gpu"))

    assert str(caught.value) == f"{operation} not supported by gpu"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.spec.path)
def test_a_declared_capability_opens_its_routes(route: Route) -> None:
    require(route, offer(route.capability))


@pytest.mark.parametrize(
    ("path", "operation"), [("/chat/completions", "chat completion"), ("/completions", "completion")]
)
def test_the_models_type_comes_before_the_capability(path: str, operation: str) -> None:
    with pytest.raises(WrongModelTypeError) as caught:
        require(BY_PATH[path], offer("chat_completion", "completion", "embeddings", mode=Mode.EMBEDDINGS))

    assert str(caught.value) == (
        f"This model does not support {operation}. Only LLM models support this endpoint."
    )


@pytest.mark.parametrize(
    ("path", "remap", "slot", "query", "target"),
    [
        ("/chat/completions", None, None, "", "/v1/chat/completions"),
        ("/reranker", None, None, "", "/v1/rerank"),
        ("/chat/completions", "/chat", None, "a=%2B&a=+", "/chat?a=%2B&a=+"),
        ("/chat/completions", "/chat?v=1", None, "a=1", "/chat?v=1&a=1"),
        ("/images/edits", "/sdapi", None, "", "/sdapi"),
        ("/images/variations", "/sdapi", None, "", "/sdapi"),
        ("/slots", None, None, "", "/v1/slots"),
        ("/slots/{id}", None, "7", "action=erase", "/v1/slots/7?action=erase"),
        ("/slots/{id}", "/slots", "7", "action=erase", "/slots/7?action=erase"),
        ("/slots/{id}", "/slots/", "7", "", "/slots/7"),
    ],
)
def test_where_a_request_goes(
    path: str, remap: str | None, slot: str | None, query: str, target: str
) -> None:
    assert engine_target(BY_PATH[path], remap, slot, query) == target


@pytest.mark.parametrize(
    ("slot", "actions"),
    [
        ("x", ["erase"]),
        ("-1", ["erase"]),
        ("1.5", ["erase"]),
        ("..", ["erase"]),
        ("1/2", ["erase"]),
        ("٣", ["erase"]),
        ("", ["erase"]),
        ("1", []),
        ("1", ["dump"]),
        ("1", ["erase", "erase"]),
    ],
)
def test_a_slot_is_a_number_and_an_action_a_known_one(slot: str, actions: list[str]) -> None:
    with pytest.raises(MalformedRequestError):
        check_slot(slot, actions)


@pytest.mark.parametrize("action", ["save", "restore", "erase"])
def test_known_slot_actions_pass(action: str) -> None:
    check_slot("12", [action])
