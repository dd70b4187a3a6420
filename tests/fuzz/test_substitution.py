"""Whatever users put into options, names and paths, it stays data."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from hypothesis import given, settings
from hypothesis import strategies as st

from lemonpod.contract.tokens import parse_template
from lemonpod.errors import LaunchError, TokenError
from lemonpod.launch.resolve import resolve
from lemonpod.launch.substitute import substitute
from tests.unit.launch.requests import block_manifest, checkpoint, make_request

# Texts made mostly of what a template, an option parser or a shell would find interesting.
HOSTILE = st.one_of(
    st.text(max_size=12),
    st.lists(
        st.sampled_from(
            ["{", "}", "{port}", "{env:HF_HOME}", "{custom:b}", "{custom_args}", "-", "--x", " ", "'", '"',
             "\\", "$(id)", ";", "\n", "\0", "=", "-1", "é", "\udce9", "\ud800", "../", "{pid}"]
        ),
        max_size=5,
    ).map("".join),
)  # fmt: skip
ARGS = ("-m", "{checkpoint:main}", "{custom:a}", "x={custom:b}y", "{model_name}", "{env:HF_HOME}", "{port}")
MANIFEST = block_manifest(
    *ARGS, env={"A": "{custom:a}", "B": "<{custom:b}>"}, model_management="self_managed"
)


@given(a=HOSTILE, b=HOSTILE, name=HOSTILE, path=HOSTILE, home=HOSTILE)
@settings(max_examples=400)
def test_no_value_adds_an_argument_or_is_read_again(
    a: str, b: str, name: str, path: str, home: str
) -> None:  # L29
    request = make_request(
        MANIFEST,
        options={"a": a, "b": b},
        model=name,
        files={"main": checkpoint(path, None)},
        env={"HF_HOME": home},
    )
    try:
        plan = resolve(request)
    except (TokenError, LaunchError):
        return
    assert plan.spec.argv == ("/opt/bin/engine", "-m", path, a, f"x={b}y", name, home, "8001")
    assert plan.env == {"A": a, "B": f"<{b}>"}
    for text in (*plan.spec.argv, *plan.env.values()):
        assert "\0" not in text
        text.encode("utf-8", "surrogateescape")


NUMBER = st.one_of(
    st.integers(max_value=-1).map(str), st.floats(max_value=-1e-300, allow_infinity=False).map(repr)
)


@given(NUMBER)
def test_every_negative_number_passes(number: str) -> None:
    assert substitute(parse_template("{custom:x}"), lambda _: number) == number


@given(HOSTILE, st.sampled_from(["{custom:x}", "a{custom:x}", "{custom:x}b", "--f={custom:x}"]))
def test_a_value_with_a_dash_is_a_number_or_refused(value: str, text: str) -> None:
    try:
        result = substitute(parse_template(text), lambda _: value)
    except TokenError:
        return
    assert result == text.replace("{custom:x}", value)
    if value.startswith("-"):
        float(value)


@given(st.lists(HOSTILE, max_size=4))
def test_custom_args_stay_the_elements_they_are(args: list[str]) -> None:
    manifest = block_manifest("a", "{custom_args}", "b")
    request = make_request(manifest, options={"args": list(args)}, files=MappingProxyType({}))
    try:
        plan = resolve(request)
    except TokenError:
        assert any("\0" in arg or "\ud800" in arg or not _passable(arg) for arg in args)
        return
    assert plan.spec.argv == ("/opt/bin/engine", "a", *args, "b")


def _passable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


@given(st.text(max_size=20))
def test_a_path_below_the_cache_is_told_lexically(tail: str) -> None:
    if "\0" in tail or not _passable(tail):
        return
    file = Path("/hub/x") / f"f{tail.replace('/', '_')}"
    manifest = block_manifest("{checkpoint_relative:main}")
    plan = resolve(make_request(manifest, files={"main": checkpoint(path=file)}))
    assert plan.spec.argv[1] == str(file.relative_to("/hub"))
