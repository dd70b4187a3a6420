"""Our bodies are those of the real programs; golden.jsonl was recorded from them, a line for each argv."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from lemonpod.drivers.docker_body import docker_create
from lemonpod.errors import ArgvError, OnlyByCliError
from lemonpod.launch.container import Runtime
from tests.unit.launch.argv.corpus import lines, spec_of

GOLDEN: Final = {line["id"]: line for line in lines("golden.jsonl")}
CORPUS: Final = {line["id"]: line["argv"] for line in lines("corpus.jsonl")}

DIFFERENT: Final[dict[str, str]] = {}
"""Lines that are said otherwise than the program said them, on purpose."""

BY_CLI: Final = {
    "ramalama-artifact": "mounts of type 'artifact' are not of every version; the recorded podman had none",
    "keepid-uid-mount": "--runtime configures the podman that runs the command; the recording left it out",
}
"""Lines that can only be run as they are."""

# Left out of the recorded bodies because they are what the engine does anyway.
DOCKER_DEFAULTS: Final = {"AttachStdin": False, "AttachStdout": True, "AttachStderr": True}


def outcome(name: str) -> str:
    """`same`, `different`, `refused` or `by CLI`."""
    try:
        spec = spec_of(*CORPUS[name])
    except OnlyByCliError:
        return "by CLI"
    except ArgvError:
        return "refused"
    assert spec.runtime is Runtime.DOCKER
    query, body = docker_create(spec)
    golden = GOLDEN[name]
    if "error" in golden:
        return "different"
    same = query == golden["create_query"] and docker_form(body) == docker_form(golden["docker"])
    removed = golden["docker"].get("HostConfig", {}).get("AutoRemove", False)
    return "same" if same and spec.remove is removed else "different"


def docker_form(body: dict[str, Any]) -> dict[str, Any]:
    """A body without defaults, and without AutoRemove, which is ours to do; Env and Binds have no order."""
    host = {key: value for key, value in body.get("HostConfig", {}).items() if key != "AutoRemove"}
    if "Binds" in host:
        host["Binds"] = sorted(host["Binds"])
    form: dict[str, Any] = {
        key: value
        for key, value in {**body, "HostConfig": host}.items()
        if (value and value != DOCKER_DEFAULTS.get(key)) or (value is False and DOCKER_DEFAULTS.get(key))
    }
    if "Env" in form:
        form["Env"] = sorted(form["Env"])
    return form


DOCKER_LINES: Final = [name for name, line in GOLDEN.items() if line["cli"] == "docker"]


def expected(name: str) -> str:
    if name in BY_CLI:
        return "by CLI"
    if "error" in GOLDEN[name]:
        return "refused"
    return "different" if name in DIFFERENT else "same"


@pytest.mark.parametrize("name", DOCKER_LINES)
def test_docker_is_asked_what_its_program_asks(name: str) -> None:
    assert outcome(name) == expected(name)


def test_every_line_is_recorded() -> None:
    assert GOLDEN.keys() == CORPUS.keys()
    assert {*DIFFERENT, *BY_CLI} <= CORPUS.keys()
    assert Counter(map(expected, CORPUS))["by CLI"] < 0.05 * len(CORPUS)
