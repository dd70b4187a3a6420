"""Settings that clients see and change."""

from __future__ import annotations

import pytest

from lemonpod.errors import ConfigError, MalformedRequestError
from lemonpod.gateway.params import Params


def params(seen: list[object]) -> Params:
    def set_level(value: object) -> None:
        if value == "loud":
            raise ConfigError("log_level must be one of debug, info")
        seen.append(value)

    return Params({"port": 1, "log_level": "info"}, {"log_level": set_level})


def test_a_change_works_at_once() -> None:
    seen: list[object] = []
    settings = params(seen)

    settings.change({"log_level": "debug"})

    assert seen == ["debug"]
    assert settings.values == {"port": 1, "log_level": "debug"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"prot": 1}, "there is no setting 'prot'"),
        ({"log_level": "debug", "port": 2}, "'port' cannot change while the server runs"),
        ({"log_level": "loud"}, "log_level must be one of"),
    ],
)
def test_a_mistake_changes_nothing(changes: dict[str, object], told: str) -> None:
    seen: list[object] = []
    settings = params(seen)

    with pytest.raises(MalformedRequestError, match=told):
        settings.change(changes)  # type: ignore[arg-type]

    assert seen == []
    assert settings.values == {"port": 1, "log_level": "info"}
