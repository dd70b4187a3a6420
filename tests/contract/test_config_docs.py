"""What can be set is documented, and what is documented can be set."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from lemonpod import config
from lemonpod.config_keys import USED_KEYS
from lemonpod.engine.settings import EngineSettings
from lemonpod.gateway.settings import GatewaySettings
from lemonpod.launch.request import ContainerPolicy

REFERENCE = Path(__file__).parents[2] / "docs/reference/config.md"


def rows(section: str) -> dict[str, list[str]]:
    text = REFERENCE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line[:3] == "| `"
    )
    return {row[0].strip("`"): row[1:] for row in cells}


def test_every_setting_of_ours_is_in_the_table_with_its_default() -> None:
    expected = {
        field.name: str(field.default).lower()
        for settings in (EngineSettings, GatewaySettings, ContainerPolicy)
        for field in fields(settings)
        if field.type in {"bool", "int", "float", "ContainerDriving"}
    }

    assert {name: row[1].strip("`") for name, row in rows("`lemonpod`").items()} == expected


def test_every_key_that_has_an_effect_is_in_the_table() -> None:
    assert set(USED_KEYS) <= set(rows("`config.json`"))


def test_every_variable_that_is_read_is_in_the_table() -> None:
    source = Path(config.__file__).read_text(encoding="utf-8")
    read = set(re.findall(r'"((?:LEMONADE|XDG|STATE|CACHE)_[A-Z_]+)"', source))
    documented = REFERENCE.read_text(encoding="utf-8")

    undocumented = {
        name
        for name in read
        if f"`{name}`" not in documented
        and f"`{name.removeprefix('LEMONADE_BACKEND_WATCHDOG')}`" not in documented
    }
    assert not undocumented
