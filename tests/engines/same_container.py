"""A command line fitted to an engine of the lab, and what its container and ours are inspected as."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lemonpod.drivers.docker_body import docker_create
from lemonpod.drivers.podman_body import podman_create
from lemonpod.errors import ArgvError, OnlyByCliError
from lemonpod.launch.argv.run import container_spec
from lemonpod.launch.argv.split import Option, split
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.container import ContainerSpec, Runtime
from tests.lab.engine import ContainerEngine
from tests.unit.launch.argv.corpus import ENV, FILES

HOME: Final = "home/u/src"
"""Where the commands are given, in the folder that stands for the machine's root."""

# Device nodes of other machines, and what stands for each here; `/dev/net` is a folder, as `/dev/dri` is.
_DEVICES: Final = MappingProxyType(
    {
        "/dev/kfd": "/dev/null",
        "/dev/dri": "/dev/net",
        "/dev/dri/renderD128": "/dev/net/tun",
        "/dev/nvidiactl": "/dev/null",
        "/dev/nvidia0": "/dev/random",
    }
)
_ANY_DEVICE: Final = "/dev/zero"
_OF_RUN: Final = frozenset({"--detach", "--detach-keys", "--sig-proxy"})
"""Flags of `run` that `create` has not."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_SOURCE: Final = re.compile(r"(?<=src=)/|(?<=source=)/")
_CHANGING: Final = frozenset({"Id", "Created", "State", "CreateCommand", "AutoRemove"})
_NOTHING: Final[tuple[object, ...]] = (None, "", "no", [])
"""Ways to say that nothing was asked for; `no` is the restart policy that an empty one is."""


@dataclass(frozen=True)
class Made:
    """What an engine made of a command, or why it did not."""

    inspect: Mapping[str, Any] | None
    refusal: str = ""
    by_cli: bool = False


def fitted(argv: Sequence[str], image: str, root: Path) -> tuple[str, ...]:
    """The same command for a machine that has this image, the folders below `root`, and few devices."""
    command = split(argv)
    assert command is not None
    words: list[str | None] = list(argv)
    words[command.image_index] = image
    for option in command.options:
        if option.name in _OF_RUN:
            _leave_out(words, option)
        elif option.name in _FITTED:
            _rewrite(words, option, _FITTED[option.name](option.value, root))
    # What stands before says which engine, and that is one of the lab.
    options = words[argv.index(command.subcommand) + 1 :]
    return (command.runtime.value, "create", *(word for word in options if word is not None))


def _leave_out(words: list[str | None], option: Option) -> None:
    """Alone in its word, or one letter of several."""
    word = words[option.index]
    if word is None:
        return
    if word.startswith("--") or word == "-d":
        words[option.index] = None
    else:
        words[option.index] = word.replace("d", "", 1)


def _rewrite(words: list[str | None], option: Option, value: str) -> None:
    """The value is the end of the flag's own word, or the next word."""
    word = words[option.index] or ""
    index = option.index if word.endswith(option.value) else option.index + 1
    words[index] = (words[index] or "").removesuffix(option.value) + value


def _volume(value: str, root: Path) -> str:
    source, colon, rest = value.partition(":")
    if not colon:
        return value
    if source.startswith("."):
        (root / HOME / source).mkdir(parents=True, exist_ok=True)
    if not source.startswith("/"):
        return value
    (root / source[1:]).mkdir(parents=True, exist_ok=True)
    return f"{root}{source}:{rest}"


def _mount(value: str, root: Path) -> str:
    if found := re.search(r"(?:src|source)=/([^,]*)", value):
        (root / found[1]).mkdir(parents=True, exist_ok=True)
    return _SOURCE.sub(f"{root}/", value)


def _device(value: str, _: Path) -> str:
    host, colon, rest = value.partition(":")
    if not host.startswith("/dev/"):
        return value
    return f"{_DEVICES.get(host, _ANY_DEVICE)}{colon}{rest}"


_FITTED: Final = MappingProxyType({"--volume": _volume, "--mount": _mount, "--device": _device})


def prepare(root: Path) -> None:
    """The files that commands read."""
    for path, text in FILES.items():
        file = root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def by_its_program(engine: ContainerEngine, argv: Sequence[str], root: Path) -> Made:
    """The container that the engine's own program makes, removed after it was looked at."""
    done = engine.try_cli(*argv[1:], cwd=root / HOME, env=ENV)
    if done.returncode != 0:
        return Made(None, done.stderr.strip())
    return Made(_look_and_remove(engine, done.stdout.split()[-1]))


def by_us(engine: ContainerEngine, argv: Sequence[str], root: Path) -> Made:
    """The container that our body makes, removed after it was looked at."""
    command = split(argv)
    assert command is not None
    try:
        spec = container_spec(command, Caller(cwd=str(root / HOME), env=ENV, read=_read))
    except OnlyByCliError as error:
        return Made(None, error.message, by_cli=True)
    except ArgvError as error:
        return Made(None, error.message)
    status, answer = _post(engine, spec)
    if status != 201:
        return Made(None, f"{status}: {answer.get('message') or answer.get('cause')}")
    return Made(_look_and_remove(engine, answer["Id"]))


def _post(engine: ContainerEngine, spec: ContainerSpec) -> tuple[int, Any]:
    query, body = podman_create(spec) if spec.runtime is Runtime.PODMAN else docker_create(spec)
    said = "&".join(f"{key}={value}" for key, value in query.items())
    return engine.ask("POST", f"/containers/create?{said}", body)


def _read(path: str) -> str:
    return Path(path).read_text("utf-8")


def _look_and_remove(engine: ContainerEngine, container: str) -> Mapping[str, Any]:
    status, inspected = engine.ask("GET", f"/containers/{container}/json")
    assert status == 200, inspected
    engine.ask("DELETE", f"/containers/{container}?force=true&v=true")
    return form(inspected)


def form(inspected: dict[str, Any]) -> Mapping[str, Any]:
    """Its leaves, without what differs between two containers of one command: ids, times, made-up names."""
    own = inspected["Id"]
    text = json.dumps(inspected).replace(own, "OWN").replace(own[:12], "OWN12")
    leaves = _leaves(json.loads(_HEX.sub("HEX", text)))
    return {
        key: _MEANT[key](value) if key in _MEANT else value
        for key, value in leaves
        if _CHANGING.isdisjoint(key.split(".")) and value not in _NOTHING
    }


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _leaves(one, f"{key}.{name}" if key else name)
    else:
        yield key, sorted(value, key=str) if isinstance(value, list) else value


def _capabilities(names: list[str]) -> list[str]:
    return [name.upper().removeprefix("CAP_") for name in names]


_MEANT: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"HostConfig.CapAdd": _capabilities, "HostConfig.CapDrop": _capabilities}
)
"""What is written in one way by one program and in another by the next, and means the same."""


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where two inspections say different things: theirs and ours."""
    return {
        key: (theirs.get(key), ours.get(key))
        for key in sorted(theirs.keys() | ours.keys())
        if theirs.get(key) != ours.get(key)
    }
