"""How models are called: canonical ids, and the names that people use for them."""

from __future__ import annotations

from typing import Final

from lemonpod.errors import ConfigError

USER_PREFIX: Final = "user."
LATEST: Final = ":latest"
EXTRA_PREFIX: Final = "extra."
"""Of models that are found in a folder."""
# Ids of models that nobody registers.
_RESERVED: Final = ("builtin.", EXTRA_PREFIX)
PREFIXES: Final = (USER_PREFIX, *_RESERVED)


def bare_name(name: str) -> str:
    """The name as user_models.json keeps it: without `user.`."""
    return name.removeprefix(USER_PREFIX)


def canonical_id(name: str) -> str:
    """`user.NAME` for a name with or without the prefix; raises ConfigError for one that cannot be.

    A name may hold slashes, as `org/model`. It travels in URLs, so no part of it may be empty or dots.
    """
    bare = bare_name(name)
    if not bare or bare != bare.strip():
        raise ConfigError(f"invalid model name {name!r}: it is empty, or begins or ends with a space")
    if not bare.isprintable():
        raise ConfigError(f"invalid model name {name!r}: it holds a character that cannot be printed")
    if reserved := next((prefix for prefix in _RESERVED if bare.casefold().startswith(prefix)), None):
        raise ConfigError(
            f"invalid model name {name!r}: the prefix '{reserved}' is reserved",
            hint=f"choose a name of your own; it becomes '{USER_PREFIX}NAME'",
        )
    if bare.casefold().startswith(USER_PREFIX):
        raise ConfigError(f"invalid model name {name!r}: the prefix is '{USER_PREFIX}', lower case and once")
    if any(part in {"", ".", ".."} for part in bare.split("/")):
        raise ConfigError(f"invalid model name {name!r}: a part between slashes is empty, '.' or '..'")
    return USER_PREFIX + bare
