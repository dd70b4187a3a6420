"""What no schema can say: the rules that tie one field of a manifest to another, and the token scan.

The rules read the document, not the parsed manifest, and pass over values of the wrong shape, of which the
schema has already told. So one run finds everything that is wrong with a file, in every block of it:
a mistake in the block of another operating system is found here, not on that system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from lemonpod.contract.location import Finding, Path, location, printable, shown
from lemonpod.contract.refusals import CAPABILITY_MAPS
from lemonpod.contract.tokens import (
    CHECKPOINT_TOKENS,
    DEFAULTED_TOKENS,
    FIXED_TOKENS,
    Template,
    parse_template,
)
from lemonpod.contract.vocabulary import CAPABILITIES, Capability, VersionPolicy, is_loader_variable
from lemonpod.errors import TokenError

_PROVENANCE: Final = ("source", "sha256", "version_policy")
_TEXTS: Final = ("command", "working_dir", "stop_command")
_LISTS: Final = ("args", "stop_command_args", "argv_extra")
_UNKNOWN_TOKEN: Final = re.compile(r"unknown token '\{(.{1,80}?)\}'")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """An execution block of the document, or an arch override with the `base` it is merged on."""

    path: Path
    fields: Mapping[str, object]
    base: Mapping[str, object] | None = None

    @property
    def where(self) -> str:
        return location(self.path)


def rule_findings(document: Mapping[str, object]) -> Iterator[Finding]:
    """Everything but tokens that is wrong with `document` and that its schema cannot tell."""
    is_variant = "variant_of" in document
    yield from _capability_findings(document, is_variant)
    yield from _option_findings(document)
    places = list(_places(document))
    for place in places:
        yield from _loader_findings(place)
        if is_variant:
            yield from _variant_findings(place)
        else:
            yield from _passthrough_findings(place)
    if is_variant:
        yield from _digest_findings(document, places)


def scan_templates(document: Mapping[str, object]) -> tuple[dict[str, Template], list[Finding]]:
    """Every text of `document` that tokens may be in, parsed; and the texts that do not parse."""
    templates: dict[str, Template] = {}
    findings: list[Finding] = []
    for path, text in _template_texts(document):
        if text in templates:
            continue
        try:
            templates[text] = parse_template(text)
        except TokenError as error:
            findings.append(Finding(path, printable(error.message), _token_hint(error.message)))
    return templates, findings


def _capability_findings(document: Mapping[str, object], is_variant: bool) -> Iterator[Finding]:
    named = _list(document.get("capabilities"))
    known = [name for name in named if isinstance(name, str) and name in set(Capability)]
    for index, name in enumerate(named):
        if name in known and CAPABILITIES[Capability(name)].variant_only and not is_variant:
            message = f"capability '{name}' is only available to variant_of manifests"
            yield Finding(("capabilities", index), message)
    # With a misspelt capability in the list nobody knows what was meant to be declared.
    declared = list(dict.fromkeys(known if known and len(known) == len(named) else map(str, Capability)))
    for field in CAPABILITY_MAPS:
        for key in _map(document.get(field)):
            if key not in declared:
                message = f"'{field}' key '{shown(key)}' is not a declared capability"
                yield Finding((field, key), message, _declared_hint(key, declared))


def _declared_hint(key: str, declared: list[str]) -> str:
    if key in set(Capability):
        return "add it to 'capabilities'"
    found = get_close_matches(key[:100], declared, n=1)
    return f"did you mean '{found[0]}'?" if found else f"one of {', '.join(declared)}"


def _option_findings(document: Mapping[str, object]) -> Iterator[Finding]:
    """`extends` merges custom options by name, so a name must mean one option."""
    seen = set()
    for index, option in enumerate(_list(document.get("custom_options"))):
        if isinstance(name := _map(option).get("name"), str):
            if name in seen:
                yield Finding(("custom_options", index, "name"), f"duplicate custom option '{shown(name)}'")
            seen.add(name)


def _loader_findings(place: _Place) -> Iterator[Finding]:
    for name in _map(place.fields.get("env")):
        if is_loader_variable(name):
            message = f"{place.where}.env must not set loader variable '{shown(name)}'"
            hint = "it would put other code into the engine; build or wrap the engine so that it needs none"
            yield Finding((*place.path, "env"), message, hint)


def _passthrough_findings(place: _Place) -> Iterator[Finding]:
    fields = place.fields
    if "binary" in fields:
        message = f"{place.where}.binary is only valid with 'variant_of'"
        yield Finding((*place.path, "binary"), message, "name the program in 'command'")
    if any(name in fields for name in _PROVENANCE):
        only = "provenance fields" if place.base is not None else "'source', 'sha256', or 'version_policy'"
        message = f"{place.where} may only set {only} with 'variant_of'"
        yield Finding(place.path, message)
    if place.base is not None:
        return
    if ("command" in fields) != ("args" in fields):
        hint = None if "args" in fields else 'without arguments, say "args": []'
        yield Finding(place.path, f"{place.where} must set 'command' and 'args' together", hint)
    elif "command" not in fields and "binary" not in fields:
        yield Finding(place.path, f"{place.where} must set 'command' and 'args'")


def _variant_findings(place: _Place) -> Iterator[Finding]:
    if place.base is not None:
        return
    if "binary" not in place.fields:
        hint = "the file name of the executable in the artifact, as llama-server"
        yield Finding(place.path, f"{place.where} must set 'binary' for a variant_of recipe", hint)
    elif ("command" in place.fields) != ("args" in place.fields):
        hint = "or neither: a variant takes its command line from the built-in backend"
        yield Finding(place.path, f"{place.where} must set 'command' and 'args' together", hint)


def _digest_findings(document: Mapping[str, object], places: list[_Place]) -> Iterator[Finding]:
    """What is fetched must be pinned, whichever level says where from (RFC section 7)."""
    told = set()
    for place in places:
        levels = [(place.path, place.fields), (place.path[:3], place.base or {}), ((), document)]
        said_at, source = next(
            ((path, level["source"]) for path, level in levels if level.get("source")), ((), None)
        )
        policy = next((level["version_policy"] for _, level in levels if "version_policy" in level), None)
        pinned = any("sha256" in level for _, level in levels) or policy == VersionPolicy.ROLL_FORWARD
        # One source without a digest is one mistake, in however many blocks it is used.
        if source and not pinned and said_at not in told:
            told.add(said_at)
            message = f"'{place.where}' fetches an artifact and requires 'sha256'"
            beside = f"the 'source' of {location(said_at)}" if said_at else "the top-level 'source'"
            yield Finding(
                place.path, f"{message} (or 'version_policy: roll_forward')", f"set it beside {beside}"
            )


def _places(document: Mapping[str, object]) -> Iterator[_Place]:
    for system, accelerators in _map(document.get("platforms")).items():
        for accelerator, block in _map(accelerators).items():
            if not isinstance(block, dict):
                continue
            path: Path = ("platforms", system, accelerator)
            yield _Place(path=path, fields=block)
            for pattern, override in _map(block.get("arch")).items():
                if isinstance(override, dict):
                    yield _Place(path=(*path, "arch", pattern), fields=override, base=block)


def _template_texts(document: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
    for capability, args in _map(document.get("capability_enable_args")).items():
        yield from _texts_of(("capability_enable_args", capability), args)
    for place in _places(document):
        for name in _TEXTS:
            yield from _texts_of((*place.path, name), place.fields.get(name))
        for name in _LISTS:
            yield from _texts_of((*place.path, name), place.fields.get(name))
        for name, value in _map(place.fields.get("env")).items():
            yield from _texts_of((*place.path, "env", name), value)


def _texts_of(path: Path, value: object) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        yield from (((*path, index), text) for index, text in enumerate(value) if isinstance(text, str))


def _token_hint(message: str) -> str | None:
    """The token that an unknown one is closest to."""
    if not (unknown := _UNKNOWN_TOKEN.match(message)):
        return None
    names = [
        *sorted(FIXED_TOKENS),
        *(f"{name}:NAME" for name in sorted(CHECKPOINT_TOKENS | DEFAULTED_TOKENS)),
    ]
    found = get_close_matches(unknown[1].lower(), names, n=1)
    return f"did you mean '{{{found[0]}}}'?" if found else None


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
