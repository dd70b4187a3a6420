"""The bytes of a manifest file become a document of JSON values, or are refused with a reason.

The same strictness for JSON and YAML: UTF-8 without a byte order mark, at most 1 MiB, no key twice, no
number that JSON does not know, no nesting without end. Nothing but ManifestError leaves this module.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Final, NoReturn

from lemonpod.discovery.tree import MAX_DEPTH, Members, Refused, accepted, number
from lemonpod.errors import ManifestError, Problem

MAX_BYTES: Final = 1 << 20
"""Far above any manifest, far below what would hold up a scan."""

SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})

_UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMENT: Final = re.compile(r"\s*(//|/\*|#)")


def read_document(data: bytes, *, suffix: str) -> object:
    """The JSON value that `data` says, by the format that `suffix` names; raises ManifestError."""
    suffix = suffix.lower()
    if suffix not in SUFFIXES:
        _refuse(f"'{suffix}' is not the name of a manifest format", "name the file .json, .yaml or .yml")
    language = "JSON" if suffix == ".json" else "YAML"
    text = _decoded(data, language)
    if language == "JSON":
        return accepted(_json_tree(text))
    # Most manifests are JSON, and most processes read none.
    from lemonpod.discovery.yaml_tree import yaml_tree

    return accepted(yaml_tree(text))


def _decoded(data: bytes, language: str) -> str:
    if len(data) > MAX_BYTES:
        _refuse(f"the file is larger than {MAX_BYTES >> 20} MiB", "is it a manifest?")
    if data.startswith(codecs.BOM_UTF8):
        _refuse(f"invalid {language}: the file begins with a byte order mark", "save it as UTF-8 without BOM")
    if data.startswith(_UTF16_MARKS) or b"\0" in data:
        _refuse(f"invalid {language}: the file is not UTF-8 text", "save it as UTF-8")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _refuse(f"invalid {language}: not UTF-8 at byte {error.start}, line {line}", "save it as UTF-8")
    if not text.strip():
        _refuse(f"invalid {language}: the file is empty")
    return text


def _json_tree(text: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=Members,
            parse_int=number,
            parse_float=number,
            parse_constant=lambda word: Refused(f"{word} is not a JSON number"),
        )
    except json.JSONDecodeError as error:
        position, message, hint = _explained(error)
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        _refuse(f"invalid JSON at line {line}, column {column}: {message}", hint)
    except RecursionError:
        _refuse(f"invalid JSON: nested deeper than {MAX_DEPTH} levels")


def _explained(error: json.JSONDecodeError) -> tuple[int, str, str | None]:
    """Where and what: the mistakes that people make most in their own words, else in the parser's."""
    before, after = error.doc[: error.pos], error.doc[error.pos :]
    if _COMMENT.match(after):
        return error.pos, "a comment", "JSON has none; remove it, or write the file as YAML"
    if after.lstrip().startswith(("}", "]")) and before.rstrip().endswith(","):
        return len(before.rstrip()) - 1, "a comma with nothing after it", "remove the comma"
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 and later
        return error.pos, "a comma with nothing after it", "remove the comma"
    if after.startswith("'"):
        return error.pos, "a text in single quotes", "JSON takes double quotes"
    if not after.strip() or error.msg.startswith("Unterminated string"):
        return error.pos, "the file ends too early", "is it only half written?"
    return error.pos, (error.msg[:1].lower() + error.msg[1:]).removesuffix(" at"), None


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise ManifestError([Problem(location="", message=message, hint=hint)]) from None
