"""The shape of a manifest: the published JSON Schema, and what its errors say to a person.

jsonschema reports where it stood when a keyword failed. Four keywords are replaced here so that it stands
at the very key or element at fault, `pattern` so that `$` is the end of the text as in ECMA 262 (to Python
it also matches before a last newline), and `anyOf` is left to the rules, which know more.
The words for each error come from `refusals`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import resources
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from lemonpod.contract.location import Finding
from lemonpod.contract.refusals import Failure, refusal

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_KINDS: Final[Mapping[str, type]] = {"object": dict, "array": list, "string": str}
_REMARKS: Final = frozenset({"title", "description", "default"})
Test: TypeAlias = Callable[[str], bool]

_MOST_ERRORS: Final = 1000
"""Where a document is that wrong, the rest of its errors are not worth their time."""


def schema_text() -> str:
    """The published JSON Schema of contract version 1, as it is in the package."""
    return resources.files("lemonpod.contract").joinpath("schema/manifest.v1.json").read_text("utf-8")


def structure_findings(document: object) -> Iterator[Finding]:
    """What the schema finds wrong with `document`: at most one finding about each value."""
    seen: set[tuple[object, ...]] = set()
    for error in islice(_validator().iter_errors(cast(Any, document)), _MOST_ERRORS):
        failure = _failure(error)
        about = (failure.path, failure.missing, failure.keyword == "dependentRequired")
        if about not in seen and (finding := refusal(failure)):
            seen.add(about)
            yield finding


def _failure(error: ValidationError) -> Failure:
    """What of a jsonschema error the table of refusals is looked up by."""
    shape = ""
    steps = iter(list(error.absolute_schema_path)[:-1])
    for step in steps:
        if step == "properties":
            shape += f".{next(steps)}"
        elif step == "additionalProperties":
            shape += ".*"
        elif step == "items":
            shape += "[]"
    return Failure(
        path=tuple(error.absolute_path),
        shape=re.sub(r"^\.platforms\.\*\.\*(\.arch\.\*)?", ".block", shape).removeprefix("."),
        keyword=str(error.validator),
        value=error.instance,
        missing=error.message if error.validator == "required" else None,
        schema=error.schema if isinstance(error.schema, dict) else {},
    )


@lru_cache(maxsize=1)
def _validator() -> Validator:
    """The validator; made at the first document, because importing jsonschema takes longer than `--help`."""
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    tests: dict[int, Test] = {}

    def passes(rule: Any, value: object) -> bool:
        """Whether a text is right at a glance: most of a manifest is, and need not be descended into."""
        test = tests.get(id(rule))  # the rules live as long as this validator
        if test is None:
            test = tests[id(rule)] = _test_of_text(rule)
        return type(value) is str and test(value)

    def pattern(validator: Any, regex: str, value: object, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, str) and not _compiled(regex).search(value):
            yield ValidationError("pattern")

    def kind(validator: Any, wanted: Any, value: object, schema: Any) -> Iterator[ValidationError]:
        if not (isinstance(wanted, str) and type(value) is _KINDS.get(wanted)):
            yield from Draft202012Validator.VALIDATORS["type"](validator, wanted, value, schema)

    def required(validator: Any, names: list[str], value: object, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, Mapping):
            yield from (ValidationError(name) for name in names if name not in value)

    def additional(validator: Any, rest: Any, value: object, schema: Any) -> Iterator[ValidationError]:
        if not isinstance(value, Mapping):
            return
        known = schema.get("properties", {})
        for key in value:
            if key in known:
                continue
            if rest is False:
                yield ValidationError("unknown", path=[key], instance=key)
            elif not passes(rest, value[key]):
                yield from validator.descend(value[key], rest, path=key)

    def properties(validator: Any, rules: Any, value: object, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, Mapping):
            for name, rule in rules.items():
                if name in value and not passes(rule, value[name]):
                    yield from validator.descend(value[name], rule, path=name, schema_path=name)

    def items(validator: Any, rule: Any, value: object, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, list):
            for index, element in enumerate(value):
                if not passes(rule, element):
                    yield from validator.descend(element, rule, path=index)

    def names(validator: Any, rule: Any, value: object, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, Mapping):
            check = validator.evolve(schema=rule)
            for key in value:
                if not isinstance(key, str) or not check.is_valid(key):
                    yield ValidationError("name", path=[key], instance=key)

    def unique(validator: Any, wanted: bool, value: object, schema: Any) -> Iterator[ValidationError]:
        # Linear; jsonschema compares every pair.
        if wanted and isinstance(value, list):
            seen: set[str] = set()
            for index, element in enumerate(value):
                text = json.dumps(element, sort_keys=True, default=str)
                if text in seen:
                    yield ValidationError("duplicate", path=[index], instance=element)
                seen.add(text)

    def dependent(validator: Any, needs: Any, value: object, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, Mapping):
            for key, needed in needs.items():
                if key in value and not all(name in value for name in needed):
                    yield ValidationError("dependent", path=[key], instance=key)

    def left_to_the_rules(
        validator: Any, branches: Any, value: object, schema: Any
    ) -> Iterator[ValidationError]:
        yield from ()

    keywords = {
        "additionalProperties": additional,
        "anyOf": left_to_the_rules,
        "dependentRequired": dependent,
        "items": items,
        "pattern": pattern,
        "properties": properties,
        "propertyNames": names,
        "required": required,
        "type": kind,
        "uniqueItems": unique,
    }
    schema = json.loads(schema_text())
    strict = cast(Any, extend)(Draft202012Validator, keywords)
    return cast("Validator", strict(_without_references(schema, schema)))


def _test_of_text(rule: Mapping[str, Any]) -> Test:
    """Tells whether a text is right for sure, by a rule that says no more than what is looked at here."""
    said = rule.keys() - _REMARKS
    if said == {"enum"}:
        return frozenset(rule["enum"]).__contains__
    if rule.get("type") != "string" or not said <= {"type", "pattern", "minLength"}:
        return lambda text: False
    least, regex = rule.get("minLength", 0), _compiled(rule.get("pattern", ""))
    return lambda text: len(text) >= least and regex.search(text) is not None


@lru_cache(maxsize=64)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\$$", r"\\Z", regex))


def _without_references(node: Any, root: Mapping[str, Any]) -> Any:
    """The schema with every reference replaced by what it names: validation is twice as fast."""
    if isinstance(node, list):
        return [_without_references(child, root) for child in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        target: Any = root
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _without_references({**target, **beside}, root)
    return {key: _without_references(child, root) for key, child in node.items() if key != "$defs"}
