"""Anthropic's requests in OpenAI's words."""

from __future__ import annotations

import json
from typing import Any, Final

from lemonpod.contract.vocabulary import Capability
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.translate import anthropic_answer as answer
from lemonpod.gateway.translate.given import Given
from lemonpod.gateway.translate.question import Ask, Call, Document

_SAME: Final = ("temperature", "top_p", "top_k")
_TOOL_CHOICES: Final = {"auto": "auto", "any": "required", "tool": "required", "none": "none"}
# Blocks that only say something to Anthropic's own models, or were said by them in cipher.
_UNSPOKEN: Final = frozenset({"redacted_thinking"})


def messages(document: Document) -> Ask:
    """`/v1/messages`"""
    given = Given(document)
    model = given.need_text("model")
    limit = given.count("max_tokens")
    if limit is None or limit < 1:
        raise MalformedRequestError("'max_tokens' is required, and must be above zero")
    body = _prompt(given) | {"max_tokens": limit} | _thinking(given)
    for name in _SAME:
        if (value := given.get(name)) is not None:
            body[name] = value
    stops = given.strings("stop_sequences")
    if stops:
        body["stop"] = stops
    if (metadata := given.object("metadata")) and (user := metadata.text("user_id")):
        body["user"] = user
    tell: Any = answer.whole(model, stops)
    if given.flag("stream"):
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        tell = answer.AnthropicStream(model, stops)
    return Ask(model=model, calls=(Call(capability=Capability.CHAT_COMPLETION, body=body, tell=tell),))


def count_tokens(document: Document) -> Ask:
    """`/v1/messages/count_tokens`: an estimate by the engine's tokenizer; without one the exact number, for
    which the engine reads the whole prompt."""
    given = Given(document)
    model, prompt = given.need_text("model"), _prompt(given)
    text = "\n".join(_texts(prompt))
    return Ask(
        model=model,
        calls=(
            Call(capability=Capability.TOKENIZE, body={"content": text}, tell=answer.count_of_tokens),
            Call(
                capability=Capability.CHAT_COMPLETION,
                body=prompt | {"max_tokens": 1},
                tell=answer.count_of_prompt,
            ),
        ),
    )


def _prompt(given: Given) -> dict[str, Any]:
    """All that the model reads."""
    said: list[dict[str, Any]] = []
    if system := _joined_text(given, "system"):
        said.append({"role": "system", "content": system})
    for message in given.objects("messages"):
        said += _message(message)
    if not said or all(message["role"] == "system" for message in said):
        raise MalformedRequestError("'messages' is required, and must hold one at least")
    return {"messages": said} | _tools(given)


def _message(message: Given) -> list[dict[str, Any]]:
    """One of Anthropic's messages may be several: each result of a tool is one of its own."""
    role = message.need_text("role")
    if role not in ("user", "assistant", "system"):
        raise MalformedRequestError(f"'{message.at('role')}' must be user or assistant")
    if isinstance(message.get("content"), str):
        return [{"role": role, "content": message.get("content")}]
    results: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for block in message.objects("content"):
        kind = block.need_text("type")
        if kind == "tool_use":
            calls.append(_tool_call(block))
        elif kind == "tool_result":
            text, images = _tool_result(block)
            results.append({"role": "tool", "tool_call_id": block.need_text("tool_use_id"), "content": text})
            parts += images  # which a tool's message cannot hold
        elif kind == "thinking":
            thoughts.append(block.text("thinking") or "")
        elif kind not in _UNSPOKEN:
            parts.append(_part(block))
    own: dict[str, Any] = {"role": role, "content": _plain(parts)}
    if calls:
        own["tool_calls"] = calls
    if thoughts:
        own["reasoning_content"] = "\n".join(thoughts)
    return [*results, own] if parts or calls or thoughts or not results else results


def _part(block: Given) -> dict[str, Any]:
    kind = block.need_text("type")
    if kind == "text":
        return {"type": "text", "text": block.text("text") or ""}
    source = block.object("source") or Given({}, block.at("source"))
    form = source.text("type")
    if kind == "image" and form == "url":
        return {"type": "image_url", "image_url": {"url": source.need_text("url")}}
    if kind == "image" and form == "base64":
        url = f"data:{source.need_text('media_type')};base64,{source.need_text('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    if kind == "document" and form == "text":
        title, text = block.text("title"), source.text("data") or ""
        return {"type": "text", "text": f"{title}\n\n{text}" if title else text}
    what = f"{kind} with a source of type {form}" if form else kind
    raise MalformedRequestError(f"'{block.place}' is of a type that is not supported: {what}")


def _plain(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """As one string where there are no images: templates of small models take nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _tool_call(block: Given) -> dict[str, Any]:
    arguments = block.object("input")
    return {
        "id": block.need_text("id"),
        "type": "function",
        "function": {
            "name": block.need_text("name"),
            "arguments": json.dumps(arguments.members if arguments else {}, ensure_ascii=False),
        },
    }


def _tool_result(block: Given) -> tuple[str, list[dict[str, Any]]]:
    content = block.get("content")
    if content is None or isinstance(content, str):
        texts, images = [content or ""], []
    else:
        parts = [_part(part) for part in block.objects("content")]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        images = [part for part in parts if part["type"] != "text"]
    text = "\n".join(texts)
    return (f"Error: {text}" if block.flag("is_error") else text), images


def _tools(given: Given) -> dict[str, Any]:
    tools = [_tool(tool) for tool in given.objects("tools")]
    if not tools:
        return {}
    body: dict[str, Any] = {"tools": tools}
    choice = given.object("tool_choice")
    if choice is None:
        return body
    kind = choice.need_text("type")
    if kind not in _TOOL_CHOICES:
        raise MalformedRequestError(f"'tool_choice.type' must be one of {', '.join(_TOOL_CHOICES)}")
    if kind == "tool":
        # Not every engine can be told to call this one; with no other to call, each can.
        name = choice.need_text("name")
        body["tools"] = [tool for tool in tools if tool["function"]["name"] == name]
        if not body["tools"]:
            raise MalformedRequestError(f"'tool_choice.name': there is no tool '{name}'")
    body["tool_choice"] = _TOOL_CHOICES[kind]
    if choice.flag("disable_parallel_tool_use"):
        body["parallel_tool_calls"] = False
    return body


def _tool(tool: Given) -> dict[str, Any]:
    schema = tool.object("input_schema")
    if schema is None:
        kind = tool.text("type") or "custom"
        raise MalformedRequestError(f"'{tool.place}' has no input_schema: tools of type {kind} run elsewhere")
    function = {"name": tool.need_text("name"), "parameters": schema.members}
    if description := tool.text("description"):
        function["description"] = description
    return {"type": "function", "function": function}


def _thinking(given: Given) -> dict[str, Any]:
    thinking = given.object("thinking")
    if thinking is None:
        return {}
    kind = thinking.need_text("type")
    if kind not in ("enabled", "adaptive", "disabled"):
        raise MalformedRequestError("'thinking.type' must be enabled, adaptive or disabled")
    return {"chat_template_kwargs": {"enable_thinking": kind != "disabled"}}


def _joined_text(given: Given, name: str) -> str:
    value = given.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    return "\n".join(block.text("text") or "" for block in given.objects(name))


def _texts(prompt: Document) -> list[str]:
    """The words of a prompt, in any order, for a tokenizer."""
    texts = [json.dumps(prompt["tools"], ensure_ascii=False)] if "tools" in prompt else []
    for message in prompt["messages"]:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        texts += [part["text"] for part in parts if "text" in part]
        texts += [json.dumps(call["function"], ensure_ascii=False) for call in message.get("tool_calls", ())]
        texts += [message["reasoning_content"]] if "reasoning_content" in message else []
    return texts
