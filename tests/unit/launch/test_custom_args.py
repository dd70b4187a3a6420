from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.vocabulary import JsonValue
from lemonpod.errors import LaunchError, ReservedArgError, TokenError
from lemonpod.launch.custom_args import split_args
from lemonpod.launch.resolve import resolve
from tests.unit.launch.requests import block_manifest, make_manifest, make_request


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ()),
        ("", ()),
        ("  ", ()),
        ("--a 1  -b", ("--a", "1", "-b")),
        ("--a 'x y' \"z w\"", ("--a", "x y", "z w")),
        ('--json \'{"a": "b c"}\'', ("--json", '{"a": "b c"}')),
        ("--a=''", ("--a=",)),
        ("a\nb\tc", ("a", "b", "c")),
        ("--x $HOME `id` ; rm * #no", ("--x", "$HOME", "`id`", ";", "rm", "*", "#no")),
        (["--a", "x y", ""], ("--a", "x y", "")),
        ([1, 2.5, True, None, {"a": [1]}, "s"], ("1", "2.5", "true", "null", '{"a":[1]}', "s")),
        ([], ()),
    ],
)
def test_args_split_as_a_shell_would_or_stand_as_they_are(
    value: JsonValue, expected: tuple[str, ...]
) -> None:
    assert split_args(value) == expected


@pytest.mark.parametrize("value", ["it's", 'a "b', 1, True, {"a": 1}])
def test_args_that_are_none(value: JsonValue) -> None:
    with pytest.raises(LaunchError, match="option 'args'"):
        split_args(value)


def argv(*args: str, given: Any, **manifest: Any) -> tuple[str, ...]:
    request = make_request(block_manifest(*args, **manifest), options={"args": given})
    return resolve(request).spec.argv[1:]


def test_the_whole_element_stands_for_any_number() -> None:
    assert argv("a", "{custom_args}", "b", given="--x 1") == ("a", "--x", "1", "b")
    assert argv("a", "{custom_args}", "b", given=[]) == ("a", "b")
    assert argv("a", "{custom_args}", "b", given=None) == ("a", "b")
    assert argv("{custom_args}", "{custom_args}", given=["-y"]) == ("-y", "-y")


@pytest.mark.parametrize("text", ["--args={custom_args}", "{custom_args} ", "{custom_args}{custom_args}"])
def test_embedded_it_has_no_value(text: str) -> None:
    with pytest.raises(TokenError, match=r"token '\{custom_args\}' has no value"):
        argv(text, given="-x")


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ("--port 1", "--port"),
        ("--port=1", "--port"),
        ("-x --port", "--port"),
        (["--port"], "--port"),
        (["a", "--port=1=2"], "--port"),
        ("-p", "-p"),
        ("'--port=a b'", "--port"),
    ],
)
def test_a_reserved_argument_is_refused(given: Any, flag: str) -> None:
    manifest = block_manifest("{custom_args}", reserved_args=["--port", "-p"])
    with pytest.raises(ReservedArgError) as caught:
        resolve(make_request(manifest, options={"args": given}))
    message = f"custom argument '{flag}' collides with a reserved argument"
    assert caught.value.message == f"recipe 'test-engine': command: {message}"


@pytest.mark.parametrize(("given", "flag"), [("--a=1", "--a=1"), ("--a=1=2", "--a=1"), ("=", "")])
def test_a_reserved_argument_may_hold_an_equals_sign(given: str, flag: str) -> None:
    with pytest.raises(ReservedArgError, match=f"'{flag}' collides"):
        argv("{custom_args}", given=given, reserved_args=["--a=1", ""])
    assert argv("{custom_args}", given="--a=2 --a", reserved_args=["--a=1"]) == ("--a=2", "--a")


def test_args_that_no_argument_of_the_manifest_takes_are_noted() -> None:
    def notes(*args: str, **given: Any) -> tuple[str, ...]:
        return resolve(make_request(block_manifest(*args), **given)).notes

    ignored = "option 'args' of user_models.json is ignored: the manifest has no argument {custom_args}"
    assert notes("a", options={"args": "-x"}) == (ignored,)
    assert notes("a", "{custom_args}", options={"args": "-x"}) == ()
    assert notes("a", options={"args": ""}) == notes("a") == ()


def test_what_is_only_like_a_reserved_argument_passes() -> None:
    given = ["--Port", "--port-x", "--por", "x--port", "-p1"]
    assert argv("{custom_args}", given=given, reserved_args=["--port", "-p"]) == tuple(given)


def test_the_lists_of_manifest_and_block_are_one() -> None:
    block = {"command": "engine", "args": ["{custom_args}"], "reserved_args": ["-b"]}
    manifest = make_manifest(reserved_args=["-a"], platforms={"linux": {"cpu": block}})
    for flag in ("-a", "-b"):
        with pytest.raises(ReservedArgError):
            resolve(make_request(manifest, options={"args": flag}))


def test_args_are_checked_even_where_no_template_takes_them() -> None:
    with pytest.raises(ReservedArgError):
        argv("a", given="--port", reserved_args=["--port"])


def test_an_argument_with_nul_is_refused() -> None:  # L17
    with pytest.raises(TokenError, match="NUL"):
        argv("{custom_args}", given=["a\0"])
