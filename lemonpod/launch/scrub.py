"""What an engine's message tells of this machine, taken out: where files lie, and credentials."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from lemonpod.launch.plan import LaunchPlan
from lemonpod.launch.secrets import BLANK, is_secret, secrets_of

_MIN_SECRET: Final = 6
"""Shorter values come up by chance, as the `1` of `USE_AUTH=1`."""
# As words, and as members of JSON, also of JSON in a string. A value in JSON stays a value.
_NAMED: Final = re.compile(
    r"""(?i)(\bbearer\s+(?=\S*\d)"""
    r"""|(?:api[-_]?key|secret|password|passwd|(?:access|auth|hub|hf)[-_]token)"""
    r"""(?:\\?["']\s*:\s*\\?["']|\s*[=:]\s*\\?["']?))[^\s"'&,;{}\[\]\\]+"""
)
_SHAPED: Final = re.compile(r"\b(?:sk-|hf_|gh[opsu]_|github_pat_|glpat-)[\w-]{12,}")
_PATH: Final = re.compile(r"(?:^|[=:,])(/[^=:,]+)")
_SLASH: Final = r"\\?/"  # some write it escaped in JSON
_FURTHER: Final = rf"""(?:{_SLASH}[^\s/\\"'`<>|:;,(){{}}\[\]]*)*"""


def scrub(text: str, plan: LaunchPlan) -> str:
    """The text without what its plan knows of paths, and without credentials; of a file the name is left."""
    secrets = {*secrets_of(plan.spec.argv), *(value for name, value in plan.env.items() if is_secret(name))}
    for secret in _as_written(secret for secret in secrets if len(secret) >= _MIN_SECRET):
        text = text.replace(secret, BLANK)
    text = _SHAPED.sub(BLANK, _NAMED.sub(rf"\1{BLANK}", text))
    paths = set(_paths(plan))
    if not paths:
        return text
    files, roots = (_any_of(_as_written(some)) for some in (paths, {_root(path) for path in paths}))
    within = rf"(?<![\w.~-])(?:{files}|(?P<root>{roots}))(?P<further>{_FURTHER})(?![\w-])"
    return re.sub(within, _shown, text)


def _paths(plan: LaunchPlan) -> Iterator[str]:
    words = [*plan.spec.argv, *plan.env.values(), *(resolved.value for resolved in plan.values.values())]
    if plan.spec.cwd is not None:
        words.append(str(plan.spec.cwd))
    for word in words:
        found = _PATH.findall(word)
        if word.startswith("/"):
            found.append(word)
        yield from (path for one in found if (path := one.rstrip("/")))


def _root(path: str) -> str:
    """The folder that what lies next to `path` is hidden by: of `/home/me/x/y` it is `/home/me`."""
    folder = PurePosixPath(path).parent
    return str(PurePosixPath(*folder.parts[:3])) if folder.name else path


def _shown(match: re.Match[str]) -> str:
    """The last part of a path; nothing of a folder that the plan's files lie in."""
    if match["root"] is not None and not match["further"]:
        return BLANK
    return f"{BLANK}/{match[0].rpartition('/')[2]}"


def _as_written(values: Iterable[str]) -> list[str]:
    """The values, each also as JSON writes it, the longest first."""
    written = {form for value in values for form in (value, json.dumps(value)[1:-1])}
    return sorted(written, key=lambda form: (-len(form), form))


def _any_of(values: list[str]) -> str:
    return "|".join(re.escape(value).replace("/", _SLASH) for value in values)
