"""Requests as llama.cpp's server takes them.

Older ones know a limit of tokens only by its first name. And a tool's schema becomes a grammar, in which
llama.cpp refuses repetitions beyond a bound: without the limit in the schema it accepts every right call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from lemonpod.contract.vocabulary import Capability
from lemonpod.errors import MalformedRequestError
from lemonpod.gateway.json_body import JsonBody, peek

_LIMIT, _OLD_LIMIT, _TOOLS = "max_completion_tokens", "max_tokens", "tools"
_LIMIT_KEY: Final = b'"%b"' % _LIMIT.encode()
_LIMITED: Final = frozenset({Capability.CHAT_COMPLETION, Capability.COMPLETION})
_WITH_TOOLS: Final = frozenset({Capability.CHAT_COMPLETION, Capability.RESPONSES})

_MOST_REPEATED: Final = 2000
"""llama.cpp's grammars repeat nothing as often (MAX_REPETITION_THRESHOLD of its llama-grammar.cpp)."""
# The first item of a list stands apart in the grammar, so there is room for one more.
_BOUNDS: Final = {
    "minLength": _MOST_REPEATED,
    "maxLength": _MOST_REPEATED,
    "minItems": _MOST_REPEATED + 1,
    "maxItems": _MOST_REPEATED + 1,
}
_HIGH_BOUND: Final = re.compile(rb'"(?:min|max)(?:Length|Items)"\s*:\s*(?:\d{4}|\d[\d.]*[eE])')
"""What might be one, so that a body without any costs no more than this search."""
_SCHEMAS: Final = (  # members that are schemas, or lists of them
    *("additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if"),
    *("items", "not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems"),
    "unevaluatedProperties",
)
_NAMED_SCHEMAS: Final = (  # members that are objects of schemas
    *("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"),
)


def llamacpp_body(body: JsonBody, capability: Capability) -> JsonBody:
    """The body with what llama.cpp needs besides; the same where that is nothing."""
    data = body.data
    limited = capability in _LIMITED and _LIMIT_KEY in data
    bounded = (
        capability in _WITH_TOOLS
        and (b'Length"' in data or b'Items"' in data)
        and _HIGH_BOUND.search(data) is not None
    )
    try:
        said = _with_old_limit(body) if limited else body
        return _without_high_bounds(said) if bounded else said
    except (MalformedRequestError, ValueError, RecursionError):
        return body  # of thousands of digits, or levels: for the engine to judge


def _with_old_limit(body: JsonBody) -> JsonBody:
    said = peek(body.data, (_LIMIT, _OLD_LIMIT))
    limit = said.get(_LIMIT)
    if _OLD_LIMIT in said.values or not isinstance(limit, int) or isinstance(limit, bool):
        return body
    return body.with_member(_OLD_LIMIT, limit)


def _without_high_bounds(body: JsonBody) -> JsonBody:
    found = peek(body.data, (_TOOLS,)).spans
    if not found or _TOOLS not in found:
        return body
    start, end = found[_TOOLS]
    tools = json.loads(body.data[start:end])
    if not _drop_high_bounds(_parameters(tools)):
        return body
    return body.spliced(start, end, json.dumps(tools, allow_nan=False).encode())


def _parameters(tools: Any) -> list[Any]:
    """The schemas: beside a tool's name (Responses), or in its function."""
    found = []
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            function = tool.get("function")
            found += [
                tool.get("parameters"),
                function.get("parameters") if isinstance(function, dict) else None,
            ]
    return found


def _drop_high_bounds(schemas: Iterable[Any]) -> bool:
    """Whether there were any. What a schema gives as an example or a default is no schema, and stays."""
    waiting, changed = list(schemas), False
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, list):
            waiting += schema
        elif isinstance(schema, dict):
            for name, bound in _BOUNDS.items():
                if _reaches(schema.get(name), bound):
                    del schema[name]
                    changed = True
            waiting += [schema[name] for name in _SCHEMAS if name in schema]
            for name in _NAMED_SCHEMAS:
                if isinstance(named := schema.get(name), dict):
                    waiting += named.values()
    return changed


def _reaches(value: Any, bound: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= bound
