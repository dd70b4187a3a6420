"""Ollama's requests in OpenAI's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from lemonpod.contract.vocabulary import Capability
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.translate import ollama_answer as answer
from lemonpod.gateway.translate.given import Given
from lemonpod.gateway.translate.question import Ask, Call, Document, Load, Question, Unload

# Options of its engine's start. Here the manifest and the model's load options decide them.
_OF_THE_LOAD: Final = frozenset(
    {
        *("f16_kv", "low_vram", "logits_all", "main_gpu", "num_batch", "num_ctx", "num_gpu", "num_gqa"),
        *("num_keep", "num_thread", "numa", "embedding_only", "penalize_newline", "use_mlock", "use_mmap"),
        *("rope_frequency_base", "rope_frequency_scale", "vocab_only"),
    }
)
_RENAMED: Final = {"num_predict": "max_tokens"}
_OURS: Final = frozenset(
    {"messages", "model", "prompt", "response_format", "stream", "stream_options", "suffix", "tools"}
)
"""Not for options to say: the engine might believe them, and not what the gates have seen."""
_DURATION: Final = re.compile(r"[+-]?(?=\d)(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))*(?:\d+(?:\.\d*)?)?")
_MIME_TYPES: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("Qk", "image/bmp"),
)
"""By the first characters of the base64 text."""


def chat(document: Document) -> Question:
    """`/api/chat`"""
    given = Given(document)
    model, unload = given.need_text("model"), _is_unwanted(given)
    messages = _messages(given.objects("messages"))
    if not messages:
        return _only_loaded(model, answer.in_chat, unload=unload)
    body = _common(given) | {"messages": messages}
    if tools := [tool.members for tool in given.objects("tools")]:
        body["tools"] = tools
    call = Call(capability=Capability.CHAT_COMPLETION, body=body, tell=_tell(given, model, answer.in_chat))
    return Ask(model=model, calls=(call,), unload=unload)


def generate(document: Document) -> Question:
    """`/api/generate`: a chat of one message, or with `raw` and `suffix` the bare prompt."""
    given = Given(document)
    model, unload = given.need_text("model"), _is_unwanted(given)
    prompt, system = given.text("prompt") or "", given.text("system") or ""
    images, suffix, is_raw = given.strings("images"), given.text("suffix"), given.flag("raw")
    for name in ("template", "context"):
        if given.get(name):
            raise MalformedRequestError(f"'{name}' is not supported: the engine applies the model's own")
    if not (prompt or images):
        return _only_loaded(model, answer.in_generate, unload=unload)
    common, tell = _common(given), _tell(given, model, answer.in_generate)
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": _content(prompt, images)})
    as_chat = Call(capability=Capability.CHAT_COMPLETION, body=common | {"messages": messages}, tell=tell)
    bare = {"prompt": prompt if is_raw or not system else f"{system}\n\n{prompt}"}
    if suffix:
        bare["suffix"] = suffix
    as_text = Call(capability=Capability.COMPLETION, body=common | bare, tell=tell)
    if is_raw or suffix:
        return Ask(model=model, calls=(as_text,), unload=unload)
    return Ask(model=model, calls=(as_chat,) if images else (as_chat, as_text), unload=unload)


def embed(document: Document) -> Question:
    """`/api/embed`: one text or many."""
    given = Given(document)
    model, unload = given.need_text("model"), _is_unwanted(given)
    inputs = given.get("input")
    texts = [inputs] if isinstance(inputs, str) else given.strings("input")
    if not texts:
        told = {"model": model, "embeddings": []}
        return (Unload if unload else Load)(model=model, told=told)
    body: dict[str, Any] = {"input": texts, "encoding_format": "float"}
    if (dimensions := given.count("dimensions")) is not None:
        body["dimensions"] = dimensions
    call = Call(capability=Capability.EMBEDDINGS, body=body, tell=answer.embeddings(model))
    return Ask(model=model, calls=(call,), unload=unload)


def embeddings(document: Document) -> Question:
    """`/api/embeddings`, which is older: one text."""
    given = Given(document)
    model, unload = given.need_text("model"), _is_unwanted(given)
    prompt = given.text("prompt") or ""
    if not prompt:
        return (Unload if unload else Load)(model=model, told={"embedding": []})
    body = {"input": [prompt], "encoding_format": "float"}
    call = Call(capability=Capability.EMBEDDINGS, body=body, tell=answer.embedding)
    return Ask(model=model, calls=(call,), unload=unload)


def _only_loaded(model: str, form: answer.Form, *, unload: bool) -> Question:
    if unload:
        return Unload(model=model, told=answer.nothing_said(model, form, "unload"))
    return Load(model=model, told=answer.nothing_said(model, form, "load"))


def _tell(given: Given, model: str, form: answer.Form) -> Any:
    return answer.whole(model, form) if given.flag("stream") is False else answer.OllamaStream(model, form)


def _common(given: Given) -> dict[str, Any]:
    """What chats and prompts have in common. An option that Ollama does not know is the engine's to judge."""
    options = given.object("options")
    body: dict[str, Any] = {}
    for name, value in (options.members if options else {}).items():
        if name in _OURS:
            raise MalformedRequestError(f"'options.{name}' is no option: say it beside them")
        if name not in _OF_THE_LOAD and value is not None:
            body[_RENAMED.get(name, name)] = value
    limit = body.get("max_tokens")
    if isinstance(limit, int) and limit < 0:  # as much as there is room for
        del body["max_tokens"]
    body |= _format(given) | _thinking(given)
    for name in ("logprobs", "top_logprobs"):
        if (value := given.get(name)) is not None:
            body[name] = value
    if given.flag("stream") is not False:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _format(given: Given) -> dict[str, Any]:
    wanted = given.get("format")
    if not wanted:
        return {}
    if wanted == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(wanted, dict):
        schema = {"name": "answer", "strict": True, "schema": wanted}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    raise MalformedRequestError("'format' must be \"json\" or a JSON schema")


def _thinking(given: Given) -> dict[str, Any]:
    """Templates are told whether to think by this name; how hard is a parameter of OpenAI's."""
    wanted = given.get("think")
    if wanted is None:
        return {}
    if isinstance(wanted, bool):
        return {"chat_template_kwargs": {"enable_thinking": wanted}}
    if wanted in ("low", "medium", "high"):
        return {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": wanted}
    raise MalformedRequestError('\'think\' must be true, false, "low", "medium" or "high"')


def _messages(given: Iterable[Given]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    open_calls: list[tuple[str, str]] = []  # name and id of calls whose results have not come
    for message in given:
        role, text = message.need_text("role"), message.text("content") or ""
        said: dict[str, Any] = {"role": role, "content": _content(text, message.strings("images"))}
        if thinking := message.text("thinking"):
            said["reasoning_content"] = thinking
        if calls := [_tool_call(call, len(messages)) for call in message.objects("tool_calls")]:
            said["tool_calls"] = calls
            open_calls = [(call["function"]["name"], call["id"]) for call in calls]
        if role == "tool":
            said["tool_call_id"] = _answered(message, open_calls)
        messages.append(said)
    return messages


def _tool_call(call: Given, position: int) -> dict[str, Any]:
    """OpenAI's calls have an id, which Ollama's clients need not send back."""
    function = call.object("function")
    if function is None:
        raise MalformedRequestError(f"'{call.at('function')}' is required")
    arguments = function.object("arguments")
    return {
        "id": call.text("id") or f"call_{position}_{call.place.rpartition('[')[2].rstrip(']')}",
        "type": "function",
        "function": {
            "name": function.need_text("name"),
            "arguments": answer.as_text(arguments.members if arguments else {}),
        },
    }


def _answered(message: Given, open_calls: list[tuple[str, str]]) -> str:
    """The id of the call that this is the result of: by id, else by name, else the first in line."""
    if given_id := message.text("tool_call_id"):
        return given_id
    name = message.text("tool_name") or message.text("name")
    found = next((call for call in open_calls if call[0] == name), next(iter(open_calls), None))
    if found is None:
        raise MalformedRequestError(f"'{message.place}' is the result of a tool that nobody called")
    open_calls.remove(found)
    return found[1]


def _content(text: str, images: list[str]) -> str | list[dict[str, Any]]:
    if not images:
        return text
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    return [*parts, *({"type": "image_url", "image_url": {"url": _data_url(image)}} for image in images)]


def _data_url(image: str) -> str:
    if image.startswith("data:"):
        return image
    mime = next((mime for start, mime in _MIME_TYPES if image.startswith(start)), "image/png")
    return f"data:{mime};base64,{image}"


def _is_unwanted(given: Given) -> bool:
    """Whether `keep_alive` is 0. How long a model that nobody uses stays is else the server's to decide."""
    value = given.get("keep_alive")
    if value is None:
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value == 0
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return not re.search(r"[1-9]", value)
    raise MalformedRequestError("'keep_alive' must be a number of seconds or a duration such as \"5m\"")
