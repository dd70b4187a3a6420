"""Nothing that is written into a manifest file gets out as anything but a manifest or a refusal."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest, schema_text
from lemonpod.contract.tokens import FIXED_TOKENS
from lemonpod.contract.vocabulary import Accelerator, Capability, Os
from lemonpod.discovery.read import read_document
from lemonpod.errors import ManifestError

EXAMPLES = [
    (path.read_bytes(), path.suffix)
    for path in sorted((Path(__file__).parents[1] / "data" / "manifests" / "valid").iterdir())
]
DOCUMENTS: list[Any] = [read_document(data, suffix=suffix) for data, suffix in EXAMPLES]
SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_text()))
WORDS = sorted(
    {key for document in DOCUMENTS for key in document}
    | {str(word) for word in (*Capability, *Accelerator, *Os)}
    | {"command", "args", "env", "arch", "source", "sha256", "binary", "{port}", "{nope}", "", "1", "x\n"}
)

fuzz = settings(max_examples=150)

# YAML has no escapes for halves of a character, so JSON's escapes beyond the first plane are none of its own.
characters = st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF)
texts = st.text(characters, max_size=12) | st.sampled_from(WORDS)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


def outcome(document: object) -> Manifest | None:
    try:
        return parse_manifest(document)
    except ManifestError as error:
        problems = error.problems
    assert problems
    assert all(problem.message for problem in problems)
    assert "\n".join(map(str, problems)).encode()  # printable on every terminal
    return None


class Quoted(yaml.SafeDumper):
    """Writes every text in quotes: PyYAML takes plain ones for what they were in YAML 1.1."""

    def ignore_aliases(self, data: object) -> bool:
        return True


Quoted.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


literals = texts.map(lambda text: text.replace("{", "").replace("\0", ""))
tokens = st.sampled_from(
    [*(f"{{{name}}}" for name in sorted(FIXED_TOKENS)), "{checkpoint:main}", "{custom:x:--1}", '{"a": 1}']
)
templates = st.lists(literals | tokens, max_size=3).map("".join)


@st.composite
def valid_documents(draw: st.DrawFn) -> dict[str, Any]:
    """An example with whatever text may be in it exchanged for any other."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    document["display_name"] = "x" + draw(literals)
    document["extensions"] = draw(st.dictionaries(texts, values, max_size=3))
    document["recipe_options"] = draw(
        st.dictionaries(texts, st.booleans() | st.integers(-(2**63), 2**64) | literals, max_size=3)
    )
    for blocks in document["platforms"].values():
        for block in blocks.values():
            block["env"] = {"A": draw(templates), "B": draw(templates)}
            block["argv_extra"] = draw(st.lists(templates, max_size=3))
    return document


@fuzz
@given(data=st.binary(max_size=200), suffix=st.sampled_from([".json", ".yaml"]))
def test_any_bytes_are_read_or_refused(data: bytes, suffix: str) -> None:  # F03
    try:
        document = read_document(data, suffix=suffix)
    except ManifestError:
        return
    json.dumps(document, allow_nan=False).encode()


@fuzz
@given(example=st.sampled_from(EXAMPLES), edit=st.data())
def test_any_damage_to_a_good_file_is_read_or_refused(
    example: tuple[bytes, str], edit: st.DataObject
) -> None:
    data, suffix = example
    start = edit.draw(st.integers(0, len(data)))
    end = edit.draw(st.integers(start, min(len(data), start + 40)))
    damaged = data[:start] + edit.draw(st.binary(max_size=6)) + data[end:]
    try:
        document = read_document(damaged, suffix=suffix)
    except ManifestError:
        return
    outcome(document)


@fuzz
@given(value=values)
def test_any_value_is_a_manifest_or_refused(value: object) -> None:
    outcome(value)


@fuzz
@given(document=st.sampled_from(DOCUMENTS), edit=st.data())
def test_any_change_to_a_good_document_is_accepted_or_refused(document: Any, edit: st.DataObject) -> None:
    changed = copy.deepcopy(document)
    for _ in range(edit.draw(st.integers(1, 3))):
        node: Any = changed
        while edit.draw(st.booleans()) and isinstance(node, dict | list) and node:
            child = node[
                edit.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            ]
            if not isinstance(child, dict | list):
                break
            node = child
        if isinstance(node, list):
            node.insert(edit.draw(st.integers(0, len(node))), edit.draw(values))
        elif isinstance(node, dict) and node and edit.draw(st.booleans()):
            node[edit.draw(st.sampled_from(sorted(node)))] = edit.draw(values)
        elif isinstance(node, dict):
            node[edit.draw(texts)] = edit.draw(values)
    if outcome(changed) is not None:
        SCHEMA.validate(changed)  # the published schema never refuses what we accept


@fuzz
@given(document=valid_documents())
def test_a_valid_document_means_the_same_in_every_notation(document: dict[str, Any]) -> None:
    manifest = parse_manifest(document)
    compact = json.dumps(document).encode()
    spread = json.dumps(document, indent=3, ensure_ascii=False).encode()
    written = yaml.dump(document, Dumper=Quoted, allow_unicode=True).encode()
    for data, suffix in ((compact, ".json"), (spread, ".json"), (compact, ".yaml"), (written, ".yaml")):
        assert parse_manifest(read_document(data, suffix=suffix)) == manifest
