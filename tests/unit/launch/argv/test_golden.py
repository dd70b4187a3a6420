"""Our bodies are those of the real programs; golden.jsonl was recorded from them, a line for each argv."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from lemonpod.drivers.docker_body import docker_create
from lemonpod.drivers.podman_body import podman_create
from lemonpod.errors import ArgvError, OnlyByCliError
from lemonpod.launch.container import ContainerSpec, PullPolicy, Runtime
from tests.unit.launch.argv.corpus import lines, spec_of
from tests.unit.launch.argv.forms import docker_form, podman_form

GOLDEN: Final = {line["id"]: line for line in lines("golden.jsonl")}
CORPUS: Final = {line["id"]: line["argv"] for line in lines("corpus.jsonl")}

DIFFERENT: Final = {
    "hf-diffusers-keepid": "'.' is the caller's folder; the program left it to the service, whose it was not",
    "ollama-podman-badname": "podman 4 takes --gpus and does nothing; from 5 on it means the CDI device",
}
"""Lines that are said otherwise than the program said them, on purpose."""

BY_CLI: Final = {
    "ramalama-artifact": "mounts of type 'artifact' are not of every version; the recorded podman had none",
    "keepid-uid-mount": "--runtime configures the podman that runs the command; the recording left it out",
}
"""Lines that can only be run as they are."""


def outcome(name: str) -> str:
    """`same`, `different`, `refused` or `by CLI`."""
    try:
        spec = spec_of(*CORPUS[name])
    except OnlyByCliError:
        return "by CLI"
    except ArgvError:
        return "refused"
    if "error" in GOLDEN[name]:
        return "different"
    compare = {Runtime.DOCKER: like_docker, Runtime.PODMAN: like_podman}[spec.runtime]
    return "same" if compare(spec, GOLDEN[name]) else "different"


def like_docker(spec: ContainerSpec, golden: dict[str, Any]) -> bool:
    query, body = docker_create(spec)
    removed = golden["docker"].get("HostConfig", {}).get("AutoRemove", False)
    pulled = "pull_query" in golden
    return (
        query == golden["create_query"]
        and docker_form(body) == docker_form(golden["docker"])
        and spec.remove is removed
        and (spec.pull is PullPolicy.ALWAYS) is pulled
    )


def like_podman(spec: ContainerSpec, golden: dict[str, Any]) -> bool:
    query, body = podman_create(spec)
    return (
        not query
        and podman_form(body) == podman_form(golden["libpod"])
        and spec.remove is golden["libpod"].get("remove", False)
        and {"policy": spec.pull, "reference": spec.image} == golden["pull_query"]
    )


def expected(name: str) -> str:
    if name in BY_CLI:
        return "by CLI"
    if "error" in GOLDEN[name]:
        return "refused"
    return "different" if name in DIFFERENT else "same"


@pytest.mark.parametrize("name", GOLDEN)
def test_the_engine_is_asked_what_the_program_asks(name: str) -> None:
    assert outcome(name) == expected(name)


def test_every_line_is_recorded() -> None:
    assert GOLDEN.keys() == CORPUS.keys()
    assert {*DIFFERENT, *BY_CLI} <= CORPUS.keys()
    assert Counter(map(expected, CORPUS))["by CLI"] < 0.05 * len(CORPUS)
