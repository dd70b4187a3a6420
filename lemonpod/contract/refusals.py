"""What a failed keyword of the schema says to a person: one table, looked up by place and keyword."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from lemonpod.contract.location import Finding, Path, location, shown
from lemonpod.contract.vocabulary import API_CONTRACT_VERSION

ANY: Final = "*"
CAPABILITY_MAPS: Final = ("capability_enable_args", "endpoints")
"""The fields whose keys are declared capabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed keyword.

    `shape` is the place in the schema: `capabilities[]`, `endpoints.*`, and `block` for every execution
    block and arch override alike. `value` is the key where a key is at fault.
    """

    path: Path
    shape: str
    keyword: str
    value: object
    missing: str | None
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Row:
    message: str
    hint: str | None = None


_RECIPE_HINT: Final = "2 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or a digit"
_PATH_HINT: Final = "a path on the engine, without spaces or control characters"
_UNKNOWN_FIELD: Final = "unknown field '{value}' in "

# {value}: the value or key at fault; {where}: its location; {parent}: the location of what holds it;
# {last}: the last step of the path.
_TABLE: Final[Mapping[tuple[str, str], _Row]] = {
    ("", "type"): _Row("a manifest must be an object, not {kind}"),
    ("", "additionalProperties"): _Row(_UNKNOWN_FIELD + "manifest"),
    ("", "not"): _Row("'extends' and 'variant_of' are mutually exclusive", "keep one of them"),
    ("", "dependentRequired"): _Row("'{value}' is only valid with 'variant_of'"),
    ("recipe", ANY): _Row("invalid 'recipe' id: {value}", _RECIPE_HINT),
    ("extends", ANY): _Row("invalid 'extends' recipe id: {value}", _RECIPE_HINT),
    ("variant_of", ANY): _Row("invalid 'variant_of' recipe id: {value}", _RECIPE_HINT),
    ("display_name", ANY): _Row("'display_name' must be a non-empty string"),
    ("api_contract_version", ANY): _Row(
        f"unsupported api_contract_version {{value}} (this build supports '{API_CONTRACT_VERSION}')",
        f'write it as the string "{API_CONTRACT_VERSION}"',
    ),
    ("capabilities", ANY): _Row("'capabilities' must be a non-empty array"),
    ("capabilities", "uniqueItems"): _Row("duplicate capability '{value}'"),
    ("capabilities[]", ANY): _Row("unknown capability '{value}'"),
    ("health_probe", "additionalProperties"): _Row(_UNKNOWN_FIELD + "'health_probe'"),
    ("health_probe.type", ANY): _Row("invalid 'health_probe.type': {value}"),
    ("health_probe.endpoint", ANY): _Row("health_probe.endpoint must start with '/'", _PATH_HINT),
    ("health_probe.expected_status", ANY): _Row(
        "health_probe.expected_status must be between {minimum} and {maximum}"
    ),
    ("health_probe.timeout_seconds", ANY): _Row(
        "health_probe.timeout_seconds must be between {minimum} and {maximum}"
    ),
    ("health_probe.poll_interval_ms", ANY): _Row(
        "health_probe.poll_interval_ms must be between {minimum} and {maximum}"
    ),
    ("requested_ports", ANY): _Row("v1 supports 'requested_ports' = 1 only"),
    ("slot_policy", ANY): _Row("invalid 'slot_policy': {value}"),
    ("model_management", ANY): _Row("invalid 'model_management': {value}"),
    ("default_accelerator", ANY): _Row("invalid 'default_accelerator': {value}"),
    ("version_policy", ANY): _Row("invalid 'version_policy': {value}"),
    ("block.version_policy", ANY): _Row("invalid 'version_policy': {value}"),
    ("recipe_options", "type"): _Row("'recipe_options' must be an object"),
    ("source", ANY): _Row("'source' must be an absolute https:// URL"),
    ("block.source", ANY): _Row("'source' must be an absolute https:// URL"),
    ("sha256", ANY): _Row("'sha256' must be 'sha256:<64 lowercase hex>'"),
    ("block.sha256", ANY): _Row("'sha256' must be 'sha256:<64 lowercase hex>'"),
    ("endpoints.*", ANY): _Row("'endpoints' value for '{last}' must start with '/'", _PATH_HINT),
    ("downsize_endpoint", ANY): _Row("'downsize_endpoint' must start with '/'", _PATH_HINT),
    ("custom_options[]", "additionalProperties"): _Row(_UNKNOWN_FIELD + "a 'custom_options' entry"),
    ("custom_options[].name", "pattern"): _Row("invalid option name '{value}'", "only a-z, 0-9 and '_'"),
    ("custom_options[].cli_flag", "pattern"): _Row(
        "invalid flag '{value}'", "'--' and then a-z, 0-9 and '-', as --draft-model"
    ),
    ("arch_aliases", "propertyNames"): _Row("'arch_aliases' has an empty arch pattern"),
    ("arch_aliases.*", ANY): _Row("'arch_aliases' values must be non-empty strings"),
    ("platforms", ANY): _Row("'platforms' must be a non-empty object"),
    ("platforms", "propertyNames"): _Row("unknown host OS '{value}' in 'platforms'"),
    ("platforms.*", ANY): _Row("'{where}' must be a non-empty object"),
    ("platforms.*", "propertyNames"): _Row("unknown accelerator '{value}' in '{parent}'"),
    ("block", "additionalProperties"): _Row(_UNKNOWN_FIELD + "{parent}"),
    ("block.command", "minLength"): _Row("'command' must not be empty"),
    ("block.arch", "propertyNames"): _Row("'{parent}' has an empty arch pattern"),
    ("block.binary", ANY): _Row("{where} must be a bare executable name", "a file name without a folder"),
    ("block.env", "propertyNames"): _Row(
        "invalid environment variable name '{value}'", "letters, digits and '_', not beginning with a digit"
    ),
    ("block.reserved_args", "uniqueItems"): _Row("duplicate argument '{value}'"),
    ("reserved_args", "uniqueItems"): _Row("duplicate argument '{value}'"),
}

# Where the place has no words of its own.
_BY_KEYWORD: Final[Mapping[str, _Row]] = {
    "required": _Row("missing required field '{missing}'"),
    "type": _Row("must be {wanted}, not {kind}"),
    "pattern": _Row("must not hold a NUL character"),
}

_ABOUT_CHILDREN: Final = frozenset({"required", "additionalProperties", "propertyNames"})

_KINDS: Final = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "a boolean",
}


def refusal(failure: Failure) -> Finding | None:
    """The finding for one failed keyword; none where the rules have more to say about it."""
    if failure.keyword == "propertyNames" and failure.shape in CAPABILITY_MAPS:
        return None
    row = (
        _TABLE.get((failure.shape, failure.keyword))
        or (_TABLE.get((failure.shape, ANY)) if failure.keyword not in _ABOUT_CHILDREN else None)
        or _BY_KEYWORD[failure.keyword]
    )
    message = row.message.format(
        value=shown(failure.value),
        where=location(failure.path),
        parent=location(failure.path[:-1]),
        last=shown(failure.path[-1]) if failure.path else "",
        missing=failure.missing,
        kind=_kind(failure.value),
        wanted=_wanted(failure.schema),
        minimum=failure.schema.get("minimum"),
        maximum=failure.schema.get("maximum"),
    )
    path: Path = ("extends",) if failure.keyword == "not" else failure.path
    return Finding(path, message, row.hint or _hint(failure))


def _hint(failure: Failure) -> str | None:
    """What to do about it, where that follows from the schema or the value."""
    match failure.keyword:
        case "additionalProperties":
            return _closest(failure.value, failure.schema.get("properties", ()))
        case "propertyNames":
            return _choice(failure.value, failure.schema["propertyNames"].get("enum", ()))
        case "enum":
            return _choice(failure.value, failure.schema["enum"])
        case "type" if failure.schema.get("type") == "string" and isinstance(failure.value, int | float):
            return f'quote it: "{shown(failure.value)}"'
        case "type" if isinstance(failure.value, dict) and list(failure.value.values()) == [None]:
            return f'quote it: "{{{shown(next(iter(failure.value)))}}}"'  # YAML reads {port} as a mapping
        case "type" if failure.schema.get("type") == "integer" and isinstance(failure.value, str | float):
            return "write it as a whole number, without quotes"
    return None


def _closest(word: object, words: Any) -> str | None:
    found = get_close_matches(str(word)[:100].lower(), list(words), n=1)
    return f"did you mean '{found[0]}'?" if found else None


def _choice(word: object, words: Any) -> str | None:
    return _closest(word, words) or (f"one of {', '.join(words)}" if words else None)


def _wanted(schema: Mapping[str, Any]) -> str:
    types = schema.get("type", "object")
    words = [_KINDS[name] for name in ([types] if isinstance(types, str) else types)]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
