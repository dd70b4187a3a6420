"""`extends`: what is inherited, and who is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from lemonpod.contract.inherit import resolve_extends
from lemonpod.contract.manifest import Manifest
from lemonpod.contract.parse import parse_manifest
from tests.factories import make_document


def manifests(*links: tuple[str, str | None], **fields: Any) -> dict[str, Manifest]:
    return {
        recipe: parse_manifest(make_document(recipe=recipe, extends=base, **fields)) for recipe, base in links
    }


def option(name: str, default: object) -> dict[str, object]:
    return {"name": name, "cli_flag": f"--{name}", "default_value": default, "help": "An option."}


def test_options_merge_with_the_childs_first_and_nothing_else_is_inherited() -> None:
    base = parse_manifest(
        make_document(
            recipe="base",
            recipe_options={"layers": 99, "pooling": "mean"},
            custom_options=[option("pooling", "mean"), option("layers", 99)],
            capabilities=["embeddings"],
            slot_policy="unmetered",
            health_probe={"timeout_seconds": 600},
        )
    )
    child = parse_manifest(
        make_document(
            recipe="child",
            extends="base",
            recipe_options={"layers": 1, "own": True},
            custom_options=[option("layers", 1), option("own", True)],
        )
    )
    resolved, dropped = resolve_extends({"child": child, "base": base})
    assert not dropped
    assert resolved["base"] is base
    merged = resolved["child"]
    assert dict(merged.recipe_options) == {"layers": 1, "pooling": "mean", "own": True}
    assert [(one.name, one.default) for one in merged.custom_options] == [
        ("pooling", "mean"),
        ("layers", 1),
        ("own", True),
    ]
    for field in ("platforms", "capabilities", "slot_policy", "probe", "display_name"):
        assert getattr(merged, field) == getattr(child, field)


def test_a_chain_inherits_all_the_way_whatever_its_order() -> None:
    top = parse_manifest(make_document(recipe="top", recipe_options={"a": 1, "b": 1}))
    middle = parse_manifest(make_document(recipe="middle", extends="top", recipe_options={"b": 2}))
    leaf = parse_manifest(make_document(recipe="leaf", extends="middle", recipe_options={"c": 3}))
    resolved, _ = resolve_extends({"leaf": leaf, "top": top, "middle": middle})
    assert list(resolved) == ["leaf", "top", "middle"]
    assert dict(resolved["leaf"].recipe_options) == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("links", "dropped"),
    [
        ([("aa", "aa")], {"aa": "cannot resolve extends 'aa': the recipe extends itself"}),
        (
            [("aa", "bb"), ("bb", "aa")],
            {
                "aa": "cannot resolve extends 'bb': a cycle, aa -> bb -> aa",
                "bb": "cannot resolve extends 'aa': a cycle, bb -> aa -> bb",
            },
        ),
        (
            [("child", "aa"), ("aa", "bb"), ("bb", "aa"), ("fine", None)],
            {
                "aa": "cannot resolve extends 'bb': a cycle, aa -> bb -> aa",
                "bb": "cannot resolve extends 'aa': a cycle, bb -> aa -> bb",
                "child": "cannot resolve extends 'aa': what it extends itself cannot be resolved",
            },
        ),
        (
            [("aa", "gone"), ("bb", "aa")],
            {
                "aa": "cannot resolve extends 'gone': no accepted manifest has that recipe",
                "bb": "cannot resolve extends 'aa': what it extends itself cannot be resolved",
            },
        ),
        (
            [("aa", "llamacpp")],
            {"aa": "cannot resolve extends 'llamacpp': it is built in and has no manifest to inherit from"},
        ),
    ],
)
def test_a_recipe_without_a_base_is_dropped_with_the_reason(
    links: list[tuple[str, str | None]], dropped: dict[str, str]
) -> None:  # F11
    given = manifests(*links)
    resolved, problems = resolve_extends(given)
    assert {recipe: problem.message for recipe, problem in problems.items()} == dropped
    assert set(resolved) == set(given) - set(dropped)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_chain_of_two_thousand_needs_no_stack(reverse: bool) -> None:  # F11
    names = [f"r{number}" for number in range(2000)]
    links = list(zip(names, [None, *names], strict=False))
    given = manifests(*(reversed(links) if reverse else links))
    resolved, dropped = resolve_extends(given)
    assert len(resolved) == 2000
    assert not dropped


def test_a_cycle_of_two_thousand_is_told_in_few_words() -> None:  # F11
    names = [f"r{number}" for number in range(2000)]
    resolved, dropped = resolve_extends(manifests(*zip(names, [names[-1], *names], strict=False)))
    assert not resolved
    assert max(len(problem.message) for problem in dropped.values()) < 120
