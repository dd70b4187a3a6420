"""What is left out, from the table that the server has of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from lemonpod.gateway.left_out import LEFT_OUT, LeftOut
from tests.unit.gateway.rows.row import Row


def _says(item: LeftOut) -> Callable[[Any], bool]:
    def says(told: Any) -> bool:
        found = told["error"] if item.is_ollamas else told["error"]["message"]
        typed = item.is_ollamas or told["error"]["type"] == "unsupported_operation"
        return typed and item.reason in found and item.instead in found

    return says


LEFT: Final = tuple(
    Row(
        f"{method} {item.path} is left out",
        method,
        re.sub(r"\{[^}]+\}", "x", item.paths[-1]),
        400,
        _says(item),
        {} if method == "POST" else None,
    )
    for item in LEFT_OUT
    for method in item.methods
)
