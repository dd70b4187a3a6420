"""The container that a command line asks for: one pass over the table, then what flags say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from posixpath import normpath
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

from lemonpod.contract.image import parse_image
from lemonpod.contract.location import shown
from lemonpod.errors import ArgvError, ImageError, OnlyByCliError
from lemonpod.launch.argv import values
from lemonpod.launch.argv.environment import last_of_each
from lemonpod.launch.argv.meanings import MEANINGS, ByCli, ClientOnly, Said, Stops
from lemonpod.launch.argv.rights import KEEP_GROUPS
from lemonpod.launch.argv.split import ContainerCommand, Option
from lemonpod.launch.argv.values import SECOND, Caller, Context, Refused
from lemonpod.launch.container import (
    ContainerSpec,
    Healthcheck,
    Namespace,
    Network,
    Platform,
    Restart,
    Runtime,
    Stream,
)

_WITHOUT_ALIASES: Final = frozenset({"default", "bridge", "host", "none"})
_TRANSPORTS: Final = (
    "oci:",
    "oci-archive:",
    "docker-archive:",
    "docker-daemon:",
    "dir:",
    "docker://",
    "containers-storage:",
)
# What podman's program says beside a command that was given without them.
_PODMAN_HEALTH: Final = MappingProxyType({"interval": 30 * SECOND, "timeout": 30 * SECOND, "retries": 3})

Parts: TypeAlias = dict[str, Any]


def container_spec(command: ContainerCommand, caller: Caller) -> ContainerSpec:
    """What `command` asks for; raises ArgvError, of which OnlyByCliError is for what no API call can say."""
    where = f"{command.runtime} {command.subcommand}"
    context = Context(command.runtime, caller)
    parts: Parts = {}
    places: dict[str, Option] = {}
    for option in (*command.program_options, *command.options):
        _read(option, context, parts, places, where)
    _check_image(command, where)
    try:
        for rule in _RULES:
            rule(parts, command)
    except _Conflict as conflict:
        option = places[conflict.part]
        if conflict.only_by_cli:
            _only_by_cli(option, conflict.why, where)
        raise ArgvError(f"{where}: '{option.name}' {conflict.why}", index=option.index) from None
    return ContainerSpec(runtime=command.runtime, image=command.image, command=command.command, **parts)


def check_sayable(command: ContainerCommand) -> None:
    """Raise OnlyByCliError for a flag that the API has no word for, whatever its value, tokens included."""
    for option in (*command.program_options, *command.options):
        match MEANINGS[command.runtime][option.name]:
            case ByCli(why):
                _only_by_cli(option, why, f"{command.runtime} {command.subcommand}")


class _Conflict(Exception):
    """What was said of `part` does not go with the rest."""

    def __init__(self, part: str, why: str, *, only_by_cli: bool = False) -> None:
        self.part, self.why, self.only_by_cli = part, why, only_by_cli


def _read(option: Option, context: Context, parts: Parts, places: dict[str, Option], where: str) -> None:
    """Add what one option says to `parts`."""
    match MEANINGS[context.runtime][option.name]:
        case ClientOnly():
            return
        case ByCli(why):
            _only_by_cli(option, why, where)
        case Stops(why):
            if option.value in values.TRUE:
                raise ArgvError(f"{where}: '{option.name}' {why} and starts nothing", index=option.index)
        case Said(part, read, many):
            try:
                value = read(option.value, context)
            except Refused as refused:
                raise ArgvError(f"{where}: '{option.name}' {refused}", index=option.index) from None
            except values.OnlyByCli as unsayable:
                _only_by_cli(option, str(unsayable), where)
            parts[part] = (*parts.get(part, ()), *value) if many else value
            places[part] = option


def _only_by_cli(option: Option, why: str, where: str) -> NoReturn:
    text = f"{where}: '{option.name}' cannot be said over the API: {why}"
    raise OnlyByCliError(text, index=option.index, hint="the command line itself can be run") from None


def _check_image(command: ContainerCommand, where: str) -> None:
    index, image = command.image_index, command.image
    if command.runtime is Runtime.PODMAN and image.startswith(_TRANSPORTS):
        text = f"{where}: the API takes an image of a registry or of the engine, not '{shown(image)}'"
        raise OnlyByCliError(text, index=index)
    if command.runtime is Runtime.DOCKER:
        try:
            parse_image(image)
        except ImageError as error:
            raise ArgvError(f"{where}: {error.message}", index=index, hint=error.hint) from None


def _environment(parts: Parts, command: ContainerCommand) -> None:
    """Files come first. Docker sends both where they differ, and its daemon takes the last."""
    from_files = parts.pop("env_files", ())
    from_flags = last_of_each(parts.pop("env", ()))
    if command.runtime is Runtime.PODMAN:
        from_files, from_flags = (), last_of_each((*from_files, *from_flags))
    parts["env"] = (*from_files, *from_flags)


def _mappings(parts: Parts, _: ContainerCommand) -> None:
    """Pairs become mappings, of those with the same key the last counts; labels of files come first."""
    parts["labels"] = (*parts.pop("label_files", ()), *parts.get("labels", ()))
    for name in ("labels", "annotations", "tmpfs", "storage", "sysctls", "log_options"):
        parts[name] = dict(parts.get(name, ()))


def _attachment(parts: Parts, command: ContainerCommand) -> None:
    """Which streams docker is told that its program will attach to."""
    if command.runtime is Runtime.PODMAN:
        return
    detached, streams = parts.pop("detached", False), frozenset(parts.get("attached", ()))
    if detached and streams:
        raise _Conflict("attached", "and '--detach' exclude each other")
    usual = {Stream.STDOUT, Stream.STDERR} | ({Stream.STDIN} if parts.get("stdin") else set())
    parts["attached"] = frozenset() if detached else streams or frozenset(usual)


def _life(parts: Parts, command: ContainerCommand) -> None:
    restart = parts.get("restart")
    harmless = {None, Restart("no")} | (
        {Restart("on-failure")} if command.runtime is Runtime.PODMAN else set()
    )
    if parts.get("remove") and restart not in harmless:
        raise _Conflict("remove", "and '--restart' exclude each other")
    if command.runtime is Runtime.DOCKER and parts.get("log_driver") == "none" and parts["log_options"]:
        raise _Conflict("log_options", "says nothing to a driver that keeps no log")
    if command.runtime is Runtime.PODMAN and "nano_cpus" in parts:
        for name in ("cpu_quota", "cpu_period"):
            if name in parts:
                raise _Conflict(name, "and '--cpus' exclude each other")
    if command.runtime is Runtime.PODMAN and parts.get("memory") and parts.get("memory_swap") == -1:
        # Left out it is twice the memory; only podman's own program, with no service between, means none.
        raise _Conflict("memory_swap", "of -1 beside '--memory' is no limit of the API's", only_by_cli=True)
    if parts.get("replace") and not parts.get("name"):
        raise _Conflict("replace", "needs a '--name'")
    if parts.get("cgroups_mode") == "split":
        # It splits the cgroup of the program's own unit; a service starts containers in none of those.
        del parts["cgroups_mode"]


def _health(parts: Parts, command: ContainerCommand) -> None:
    asked = {name: value for name, value in parts.items() if name.startswith("health.")}
    for name in asked:
        del parts[name]
    given = {name.removeprefix("health."): value for name, value in asked.items()}
    if given.pop("off", False):
        if given:
            raise _Conflict("health.off", "and the other '--health-…' exclude each other")
        parts["healthcheck"] = Healthcheck(test=("NONE",))
    elif given and command.runtime is Runtime.PODMAN and "test" not in given:
        why = "without '--health-cmd' it means something else in each version"
        raise _Conflict(next(iter(asked)), why, only_by_cli=True)
    elif command.runtime is Runtime.PODMAN and not given.get("test"):
        return
    elif given:
        if command.runtime is Runtime.DOCKER:
            given = {name: value or None for name, value in given.items()}
        usual = _PODMAN_HEALTH if command.runtime is Runtime.PODMAN else {}
        check = Healthcheck(**{**usual, **given, "test": given.get("test") or None})
        parts["healthcheck"] = check if check != Healthcheck() else None


def _platform(parts: Parts, _: ContainerCommand) -> None:
    given = {
        name: parts.pop(f"platform.{name}")
        for name in ("os", "arch", "variant")
        if f"platform.{name}" in parts
    }
    if given and "platform" in parts:
        raise _Conflict("platform", "and '--os', '--arch' or '--variant' exclude each other")
    if given:
        parts["platform"] = Platform(**given)


def _rights(parts: Parts, command: ContainerCommand) -> None:
    groups = parts.get("groups", ())
    if command.runtime is Runtime.PODMAN and KEEP_GROUPS in groups:
        if len(groups) > 1:
            raise _Conflict("groups", f"takes no other group beside '{KEEP_GROUPS}'")
        del parts["groups"]
        parts["keep_groups"] = True
    if command.runtime is Runtime.DOCKER:
        for name in ("cap_add", "cap_drop"):
            parts[name] = tuple(sorted(set(parts.get(name, ()))))
        parts["ulimits"] = tuple({limit.name: limit for limit in parts.get("ulimits", ())}.values())
    parts["devices"] = (*parts.get("devices", ()), *parts.pop("gpu_devices", ()))


def _volumes(parts: Parts, command: ContainerCommand) -> None:
    """A place in the container is mounted once; the same volume said twice is one."""
    volumes = tuple(dict.fromkeys(parts.get("volumes", ())))
    mounts = tuple(dict.fromkeys(parts.get("mounts", ())))
    taken: set[str] = set()
    for part, targets in (
        ("volumes", (volume.target for volume in volumes)),
        ("mounts", (mount.target for mount in mounts)),
        ("tmpfs", parts.get("tmpfs", {})),
    ):
        for target in targets:
            place = normpath(target)
            if place in taken:
                raise _Conflict(part, f"mounts '{shown(target)}' again")
            taken.add(place)
    parts["volumes"], parts["mounts"] = volumes, mounts


def _networks(parts: Parts, command: ContainerCommand) -> None:
    """One mode, or networks to join, with the addresses and names that other flags give."""
    given = parts.pop("networks", ())
    modes = [one for one in given if isinstance(one, Namespace)]
    joined = [one for one in given if isinstance(one, Network)]
    own = {name: parts.pop(f"network.{name}", None) for name in ("ip", "ip6", "mac", "aliases")}
    asking = next((f"network.{name}" for name, value in own.items() if value), None)
    docker = command.runtime is Runtime.DOCKER
    if docker and len(given) > 1:
        raise _Conflict("networks", "a second network takes a second call before API 1.44", only_by_cli=True)
    if docker:
        joined, modes = (
            joined or [Network(name=str(mode)) for mode in modes],
            modes or [Namespace(one.name) for one in joined],
        )
    elif modes and (len(given) > 1 or asking):
        raise _Conflict(asking or "networks", "does not go with this '--network'")
    elif joined:
        modes = [Namespace("bridge")]
    if docker and own["aliases"] and (not joined or joined[0].name in _WITHOUT_ALIASES):
        raise _Conflict("network.aliases", "needs a '--network' that somebody made")
    if asking and len(joined) > 1:
        raise _Conflict(asking, "needs a single '--network'")
    if asking:
        joined = [_with_own(joined[0] if joined else Network(name="default"), own)]
    if modes:
        parts["network_mode"] = modes[0]
    # To docker the mode says which network; podman wants each named.
    parts["networks"] = tuple(one for one in joined if not docker or one != Network(name=one.name))


def _with_own(network: Network, own: Mapping[str, Any]) -> Network:
    return Network(
        name=network.name,
        aliases=(*network.aliases, *(own["aliases"] or ())),
        ips=(*network.ips, *(ip for ip in (own["ip"], own["ip6"]) if ip)),
        mac=own["mac"] or network.mac,
        interface=network.interface,
    )


_RULES: Final[tuple[Callable[[Parts, ContainerCommand], None], ...]] = (
    _environment,
    _mappings,
    _attachment,
    _life,
    _health,
    _platform,
    _rights,
    _volumes,
    _networks,
)
