"""F03: what is in the bytes of a file never escapes as anything but a refusal with a reason."""

from __future__ import annotations

import json

import pytest

from lemonpod.discovery.read import MAX_BYTES, read_document
from lemonpod.errors import ManifestError


def refusal(data: bytes | str, suffix: str = ".json") -> str:
    encoded = data.encode() if isinstance(data, str) else data
    with pytest.raises(ManifestError) as refused:
        read_document(encoded, suffix=suffix)
    return "\n".join(str(problem) for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b" \r\n\t", "the file is empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"\xff\xfe{\0}\0", "not UTF-8 text"),
        (b"\xfe\xff\0{\0}", "not UTF-8 text"),
        (b"{\0}\0", "not UTF-8 text"),
        (b'{\n"a": "\xe9"}', "not UTF-8 at byte 8, line 2"),
        (b'"\xed\xa0\x80"', "not UTF-8 at byte 1"),
        (b" " * (MAX_BYTES + 1), "larger than 1 MiB"),
        (b"{}\0", "not UTF-8 text"),
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_bytes_that_are_no_text_of_ours(data: bytes, reason: str, suffix: str) -> None:  # F03
    assert reason in refusal(data, suffix)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": NaN}', "a: NaN is not a JSON number"),
        ('{"a": [1, -Infinity]}', "a[1]: -Infinity is not a JSON number"),
        ('{"a": 1e999}', "a: 1e999 is out of range"),
        ('{"a": ' + "1" * 5000 + "}", "a: a number of 5000 characters is too long"),
        ('{"a": 0.' + "1" * 5000 + "}", "a: a number of 5002 characters is too long"),
        ('{"a": 1} // c', "line 1, column 10: a comment"),
        ("# c\n{}", "line 1, column 1: a comment"),
        ('{"a": /* c */ 1}', "a comment"),
        ("[1,]", "a comma with nothing after it"),
        ('{"a": 1,\n}', "a comma with nothing after it"),
        ("{'a': 1}", "a text in single quotes"),
        ('{"a": ', "the file ends too early"),
        ('{"a": "x', "the file ends too early"),
        ('{"a": "x\ny"}', "invalid control character"),
        ('{"a": 1} {"b": 2}', "extra data"),
        ('{"a": 01}', "line 1, column 8"),
        ("[" * 100_000, "nested deeper than 64 levels"),
        ('{"a":' * 100_000, "nested deeper than 64 levels"),
        ("[" * 65 + "]" * 65, "nested deeper than 64 levels"),
        ('{"a": "\\ud800"}', "a: a lone surrogate is not a character"),
        ('{"\\udfff": 1}', "a lone surrogate in the key '\\udfff'"),
        ('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', "duplicate key 'a' (keep one of them)\nb.c: duplicate"),
        ('{"a": [{"b": 1, "b": 1}]}', "a[0].b: duplicate key 'b'"),
    ],
)
def test_json_that_is_refused(text: str, reason: str) -> None:  # F03
    assert reason in refusal(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, -0.5, 1e3, true, null, "\\ud83c\\udf4b"]}', {"a": [1, -0.5, 1000.0, True, None, "🍋"]}),
        ("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64)),
        ('"text"', "text"),
        ('{"a": "l1\\nl2\\u0000"}', {"a": "l1\nl2\0"}),
    ],
)
def test_json_that_is_read(text: str, value: object) -> None:
    assert read_document(text.encode(), suffix=".json") == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# only a comment\n", "the file is empty"),
        ("a: &x 1\nb: *x\n", "a: line 1: an anchor is not allowed (remove it)\nb: line 2: an alias"),
        ("a: &a [*a]", "an anchor is not allowed"),
        ("<<: {a: 1}\n", "line 1: a merge key is not allowed"),
        ("a: !!str 1\n", "a: line 1: the tag tag:yaml.org,2002:str is not allowed"),
        (
            "a: !!python/object/apply:os.system [id]\n",
            "the tag tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("a: !local x\n", "the tag !local is not allowed"),
        ("a: 1\nb: {c: 1, c: 2}\na: 2\n", "duplicate key 'a' (keep one of them)\nb.c: duplicate key 'c'"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: a second document"),
        ("1: a\n", "line 1: a key must be a text"),
        ("true: a\n", "line 1: a key must be a text"),
        ("? [a]\n: b\n", "line 1: a key must be a text"),
        ("a: .nan\n", "a: .nan is not a JSON number"),
        ("a: -.INF\n", "a: -.INF is not a JSON number"),
        ("a: 1e999\n", "a: 1e999 is out of range"),
        ("a: " + "1" * 5000, "a number of 5000 characters is too long"),
        ("a:\n\t- b\n", "line 2, column 1"),
        ("a: [1,\n", "invalid YAML at line 2"),
        ("a: \x01", "control characters are not allowed"),
        ('a: "\\ud800"', "invalid YAML at line 1"),
        ("[" * 100_000, "nest"),  # libyaml has a limit of its own
        ("{a: " * 100_000, "nested deeper than 64 levels"),
        ("- " * 100_000, "nested deeper than 64 levels"),
    ],
)
def test_yaml_that_is_refused(text: str, reason: str) -> None:  # F03
    assert reason in refusal(text, ".yaml")


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".YML"])
def test_a_plain_yaml_scalar_is_what_it_is_in_json_and_else_text(suffix: str) -> None:
    text = """
        words: [yes, no, "on", off, y, N]
        numbers: [0, -1, 1.5, 1e3, 0123, 0x1F, 0o17, 1_000, +1, .5, 12:30:45, 2026-01-01, 11.5.1, "1"]
        bools: [true, False, TRUE, "true"]
        nothing: [~, null, , ]
        folded: >-
          one
          two
        port: "{port}"
    """
    with pytest.raises(ManifestError):
        read_document(text.encode(), suffix=suffix)  # an element between two commas is none
    assert read_document(text.replace(", , ]", "]").encode(), suffix=suffix) == {
        "words": ["yes", "no", "on", "off", "y", "N"],
        "numbers": [
            *(0, -1, 1.5, 1000.0),
            *("0123", "0x1F", "0o17", "1_000", "+1", ".5", "12:30:45", "2026-01-01", "11.5.1", "1"),
        ],
        "bools": [True, False, True, "true"],
        "nothing": [None, None],
        "folded": "one two",
        "port": "{port}",
    }


def test_json_is_yaml_too() -> None:
    text = b'{"a": [1, "x", {"b": null}], "c": true}'
    assert read_document(text, suffix=".yaml") == read_document(text, suffix=".json")


def test_a_format_that_nobody_named_is_not_guessed() -> None:
    assert "name the file .json, .yaml or .yml" in refusal("{}", ".txt")


@pytest.mark.parametrize(
    ("text", "suffix"), [("[" + "NaN," * 200_000 + "1]", ".json"), ("- .nan\n" * 100_000, ".yaml")]
)
def test_a_million_refused_values_are_told_in_fifty_lines(text: str, suffix: str) -> None:
    assert len(refusal(text, suffix).splitlines()) == 51
