"""Our containers are those that the real programs make: each engine inspects both, and they are equal.

Aside from ids, made-up names and times, and from the engine's own removal, which is ours to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.engines.same_container import by_its_program, by_us, differences, fitted, prepare
from tests.lab.engine import ContainerEngine
from tests.lab.images import TINY
from tests.lab.registry import Registry
from tests.unit.launch.argv.corpus import lines
from tests.users import open_folder

CORPUS: Final = [(line["id"], tuple(line["argv"])) for line in lines("corpus.jsonl")]
FLAGS: Final = {
    "podman": """
        --security-opt seccomp=unconfined
        --security-opt label=disable
        --security-opt label=type:spc_t --security-opt label=level:s0
        --security-opt no-new-privileges
        --group-add keep-groups
        --group-add 44
        --init
        --ulimit memlock=-1
        --ulimit nofile=100:200
        --shm-size 64m
        --device /dev/null
        --device /dev/null:/dev/kfd:rw
        --device nvidia.com/gpu=all
        --gpus all
        -v models:/models
        -v models:/models:ro
        -v /models:/models
        -v /models:/models:ro,Z
        -v /models:/models:U
        -v ./models:/models
        --mount type=bind,src=/models,dst=/models,ro
        --mount type=bind,src=/models,dst=/models,rprivate
        --mount type=volume,src=models,dst=/models
        --mount type=tmpfs,dst=/scratch,tmpfs-size=1m
        --tmpfs /scratch:size=1m
        -p 8080:80
        -p 127.0.0.1:8080:80
        -p 8080-8082:80-82
        -p 127.0.0.1:8080-8082:80-82/udp
        --userns=keep-id
        --userns=keep-id:uid=1000,gid=1000
        --entrypoint /bin/sh
        --entrypoint ["sh","-c"]
        --env-file .env
        --pull=always
        --pull=newer
        --pull=never
        --memory 1g --cpus 1.5 --pids-limit 100
        --memory 1g --memory-swap -1
        --network host --ipc host --pid host
        --read-only
        --restart on-failure:3
        --rm --restart on-failure
        --health-cmd true --health-interval 5s
        --stop-signal INT --stop-timeout 3
        --user 1000:1000 --workdir /www --hostname here
        --label a=b --annotation c=d
    """,
    "docker": """
        --security-opt seccomp=unconfined
        --security-opt label=disable
        --security-opt no-new-privileges
        --group-add 44
        --init
        --ulimit memlock=-1
        --ulimit nofile=100:200
        --shm-size 64m
        --device /dev/null
        --device /dev/null:/dev/kfd:rw
        --device nvidia.com/gpu=all
        --gpus all
        --gpus "device=0,1"
        --gpus 2
        -v models:/models
        -v models:/models:ro
        -v /models:/models
        -v /models:/models:ro,Z
        -v ./models:/models
        --mount type=bind,src=/models,dst=/models,readonly
        --mount type=volume,src=models,dst=/models
        --mount type=tmpfs,dst=/scratch,tmpfs-size=1m
        --tmpfs /scratch:size=1m
        -p 8080:80
        -p 127.0.0.1:8080:80
        -p 8080-8082:80-82
        -p 127.0.0.1:8080-8082:80-82/udp
        --userns=host
        --entrypoint /bin/sh
        --env-file .env
        --pull=always
        --pull=missing
        --memory 1g --cpus 1.5 --pids-limit 100
        --memory 1g --memory-swap -1
        --network host --ipc host --pid host
        --read-only
        --restart on-failure:3
        --health-cmd true --health-interval 5s
        --stop-signal INT --stop-timeout 3
        --user 1000:1000 --workdir /www --hostname here
        --label a=b
    """,
}
"""What engines are usually started with, one container a line."""

_REMARK: Final = "Annotations.io.podman.annotations.userns"
_NO_RELATIVE_BINDS: Final = (
    "docker 20's program takes no relative binds; those since 23 do, and say it as we do"
)
_NO_GPUS: Final = (
    "podman 4's program has no --gpus without a service between; podman 5's means the CDI device"
)

UNEQUAL: Final = {
    "podman4": {
        "Config.Annotations.io.kubernetes.cri-o.TTY": "podman 4's program notes what Config.Tty says",
    },
    "podman4-rootless": {
        "Config.Annotations.io.kubernetes.cri-o.TTY": "as of podman4",
        "HostConfig.Ulimits": "default_ulimits of containers.conf; without root a service does not read them",
    },
    "podman5": {
        f"Config.{_REMARK}": "podman 5's program notes what the user namespace is",
        f"HostConfig.{_REMARK}": "the same",
        "HostConfig.Tmpfs./run": "mounted by us for podman 4, by podman 5 itself, which does not tell then",
        "HostConfig.Tmpfs./tmp": "the same",
        "HostConfig.Tmpfs./var/tmp": "the same",
    },
    "docker20": {},
    "docker26": {},
}
"""Places where an inspection may say something else, each with its reason."""

OF_ITS_VERSION: Final = {
    "podman4": {"--gpus all": _NO_GPUS},
    "podman4-rootless": {"--gpus all": _NO_GPUS},
    "podman5": {},
    "docker20": {
        "sdcpp-server": _NO_RELATIVE_BINDS,
        "llamacpp-sudo-rel": _NO_RELATIVE_BINDS,
        "gpustack-empty-entrypoint": _NO_RELATIVE_BINDS,
        "-v ./models:/models": _NO_RELATIVE_BINDS,
        "ramalama-serve-docker": "its program wants --add-host HOST:IP; later ones take HOST=IP too",
        "--device nvidia.com/gpu=all": "its program takes nodes only; its daemon says so at start",
    },
    "docker26": {
        "llamacpp-sudo-rel": "relative begins with './' to its program, with any '.' to later ones",
    },
}
"""What one program refuses because of its version, and we do not."""


@dataclass(frozen=True)
class Outcome:
    verdict: str
    detail: Any = None


@pytest.fixture
def machine() -> Iterator[Path]:
    """A folder that stands for the root of the machine where the commands are given."""
    with open_folder() as root:
        prepare(root)
        for path in (root, *root.rglob("*")):
            path.chmod(0o777)
        yield root


@pytest.fixture(scope="module")
def image(engine: ContainerEngine, registry: Registry) -> str:
    """One that a registry has, so that it can be pulled whatever the policy."""
    reference = registry.push(engine, TINY, "same:1")
    engine.run_cli("pull", reference)
    return reference


def compare(engine: ContainerEngine, name: str, argv: tuple[str, ...], root: Path) -> Outcome:
    """`same`, `by CLI`, `refused`, `its version` or `different`."""
    ours = by_us(engine, argv, root)
    if ours.by_cli:
        return Outcome("by CLI", ours.refusal)
    theirs = by_its_program(engine, argv, root)
    if theirs.inspect is None and ours.inspect is None:
        return Outcome("refused", (theirs.refusal, ours.refusal))
    if theirs.inspect is None and name in OF_ITS_VERSION[engine.name]:
        return Outcome("its version", theirs.refusal)
    if theirs.inspect is None or ours.inspect is None:
        return Outcome("different", (theirs.refusal, ours.refusal))
    found = differences(theirs.inspect, ours.inspect)
    if not any(word.startswith("--name") for word in argv):
        found.pop("Name", None)
    found = {key: value for key, value in found.items() if key not in UNEQUAL[engine.name]}
    return Outcome("different", found) if found else Outcome("same")


@pytest.mark.timeout(180)  # a hundred containers, made twice
def test_every_line_of_the_corpus(
    engine: ContainerEngine, image: str, machine: Path, record_property: Any
) -> None:
    outcomes = {}
    for name, argv in CORPUS:
        if _runtime(argv) == engine.runtime:
            outcomes[name] = compare(engine, name, fitted(argv, image, machine), machine)
    report(engine, outcomes, record_property)
    counts = Counter(outcome.verdict for outcome in outcomes.values())
    assert counts["by CLI"] <= 0.05 * len(CORPUS)
    assert counts["same"] > 0.6 * len(outcomes)


def _runtime(argv: tuple[str, ...]) -> str:
    """Those that only talk like podman or docker are taken for them."""
    return "podman" if any("podman" in word for word in argv[:2]) else "docker"


@pytest.mark.timeout(120)
def test_the_flags_of_engines(
    engine: ContainerEngine, image: str, machine: Path, record_property: Any
) -> None:
    outcomes = {}
    for line in filter(None, map(str.strip, FLAGS[engine.runtime].splitlines())):
        argv = (engine.runtime, "create", *line.split(), image, "sleep", "10")
        outcomes[line] = compare(engine, line, fitted(argv, image, machine), machine)
    report(engine, outcomes, record_property)


def report(engine: ContainerEngine, outcomes: dict[str, Outcome], record_property: Any) -> None:
    """Say what came out, by line where it is not equality; fail where it is another container."""
    counts = Counter(outcome.verdict for outcome in outcomes.values())
    print(engine.name, engine.version, dict(counts))
    record_property(engine.name, dict(counts))
    for name, outcome in outcomes.items():
        if outcome.verdict != "same":
            print(f"  {name}: {outcome.verdict}: {outcome.detail}")
    assert [name for name, outcome in outcomes.items() if outcome.verdict == "different"] == []
