"""Every flag that `podman` and `docker` take before, and at, their `run` and `create`.

A table of words and not of code: a flag that a release adds is one more word here. Versions are not told
apart, a flag is known if any release that is in use knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from lemonpod.launch.container import Runtime


class Subcommand(StrEnum):
    RUN = "run"
    CREATE = "create"


class StopVerb(StrEnum):
    """The subcommands that end a container."""

    STOP = "stop"
    KILL = "kill"
    REMOVE = "rm"


class Takes(StrEnum):
    """What follows a flag: at most `=true` or `=false`, one value, or one each time that it is repeated."""

    NOTHING = "nothing"
    VALUE = "value"
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag by its long name. `of_program`: it is of podman or docker as a whole, wherever it is written."""

    name: str
    takes: Takes
    of_program: bool = False


Flags: TypeAlias = Mapping[str, Flag]
"""Flags by each of their names, long, short and alias."""

_PODMAN: Final = (Runtime.PODMAN,)
_DOCKER: Final = (Runtime.DOCKER,)
_BOTH: Final = tuple(Runtime)

_RUN_AND_CREATE: Final = (
    (_BOTH, Takes.NOTHING, """
        -d|--detach --disable-content-trust --help --init -i|--interactive --no-healthcheck
        --oom-kill-disable --privileged -P|--publish-all -q|--quiet --read-only --rm --sig-proxy -t|--tty
    """),
    (_BOTH, Takes.VALUE, """
        --blkio-weight --cgroup-parent --cgroupns --cidfile --cpu-period --cpu-quota --cpu-rt-period
        --cpu-rt-runtime -c|--cpu-shares --cpus --cpuset-cpus --cpuset-mems --detach-keys --entrypoint
        --health-cmd --health-interval --health-retries --health-start-period --health-timeout
        -h|--hostname --ip --ip6 --ipc --kernel-memory --log-driver --mac-address -m|--memory
        --memory-reservation --memory-swap --memory-swappiness --name --oom-score-adj --pid --pids-limit
        --platform --pull --restart --shm-size --stop-signal --stop-timeout -u|--user --userns --uts
        -w|--workdir
    """),
    (_BOTH, Takes.VALUES, """
        --add-host --annotation -a|--attach --blkio-weight-device --cap-add --cap-drop --device
        --device-cgroup-rule --device-read-bps --device-read-iops --device-write-bps --device-write-iops
        --dns --dns-option --dns-search -e|--env --env-file --expose --gpus --group-add -l|--label
        --label-file --log-opt --mount --network --network-alias -p|--publish --security-opt --storage-opt
        --sysctl --tmpfs --ulimit -v|--volume --volumes-from
    """),
    (_PODMAN, Takes.NOTHING, """
        --env-host --http-proxy --no-hostname --no-hosts --passwd --read-only-tmpfs --replace --rmi --rootfs
        --tls-verify --unsetenv-all
    """),
    (_PODMAN, Takes.VALUE, """
        --arch --authfile --cert-dir --cgroups --conmon-pidfile --creds --group-entry
        --health-log-destination --health-max-log-count --health-max-log-size --health-on-failure
        --health-startup-cmd --health-startup-interval --health-startup-retries --health-startup-success
        --health-startup-timeout --hosts-file --image-volume --init-ctr --init-path --os --passwd-entry
        --personality --pidfile --pod --pod-id-file --preserve-fds --rdt-class --retry --retry-delay
        --sdnotify --seccomp-policy --shm-size-systemd --signature-policy --subgidname --subuidname --systemd
        --timeout --tz --umask --variant
    """),
    (_PODMAN, Takes.VALUES, """
        --cgroup-conf --chrootdirs --decryption-key --env-merge --gidmap --hostuser --preserve-fd --requires
        --secret --uidmap --unsetenv
    """),
    (_DOCKER, Takes.NOTHING, """
        --use-api-socket
    """),
    (_DOCKER, Takes.VALUE, """
        --cpu-count --cpu-percent --domainname --health-start-interval --io-maxbandwidth --io-maxiops
        --isolation --runtime --volume-driver
    """),
    (_DOCKER, Takes.VALUES, """
        --link --link-local-ip
    """),
)  # fmt: skip

_ALIASES: Final = (
    (_BOTH, "--net", "--network"),
    (_BOTH, "--dns-opt", "--dns-option"),
    (_DOCKER, "--net-alias", "--network-alias"),
    (_PODMAN, "--healthcheck-command", "--health-cmd"),
    (_PODMAN, "--healthcheck-interval", "--health-interval"),
    (_PODMAN, "--healthcheck-retries", "--health-retries"),
    (_PODMAN, "--healthcheck-start-period", "--health-start-period"),
    (_PODMAN, "--healthcheck-timeout", "--health-timeout"),
    (_PODMAN, "--override-arch", "--arch"),
    (_PODMAN, "--override-os", "--os"),
    (_PODMAN, "--override-variant", "--variant"),
)

_ONLY: Final = {
    (Runtime.PODMAN, Subcommand.RUN): frozenset(
        {"--detach", "--detach-keys", "--passwd", "--preserve-fd", "--preserve-fds", "--rmi", "--sig-proxy"}
    ),
    (Runtime.PODMAN, Subcommand.CREATE): frozenset({"--init-ctr"}),
    (Runtime.DOCKER, Subcommand.RUN): frozenset({"--detach", "--detach-keys", "--sig-proxy"}),
    (Runtime.DOCKER, Subcommand.CREATE): frozenset(),
}

# Before the subcommand. Podman takes the persistent ones after it as well, where `run` has none of that name.
_PERSISTENT: Final = (
    (_BOTH, Takes.NOTHING, "--help"),
    (_PODMAN, Takes.NOTHING, "--syslog --trace --transient-store"),
    (_PODMAN, Takes.VALUE, """
        --cdi-spec-dir --cgroup-manager --conmon --cpu-profile --db-backend --default-mounts-file
        --events-backend --hooks-dir --imagestore --log-level --max-workers --memory-profile --namespace
        --network-backend --network-cmd-path --network-config-dir --pull-option --registries-conf --root
        --runroot --runtime --runtime-flag --storage-driver --tmpdir --volumepath
    """),
    (_PODMAN, Takes.VALUES, "--storage-opt"),
)  # fmt: skip
_BEFORE_ONLY: Final = (
    (_PODMAN, Takes.NOTHING, "-D|--debug --noout -r|--remote -v|--version"),
    (_PODMAN, Takes.VALUE, """
        --config -c|--connection --context -H|--host --identity --out --ssh --tls-ca --tls-cert
        --tls-key --url
    """),
    (_PODMAN, Takes.VALUES, "--module"),
    (_DOCKER, Takes.NOTHING, "-D|--debug -h|--help --tls --tlsverify -v|--version"),
    (_DOCKER, Takes.VALUE, "--config -c|--context -l|--log-level --tlscacert --tlscert --tlskey"),
    (_DOCKER, Takes.VALUES, "-H|--host"),
)  # fmt: skip

_Row: TypeAlias = tuple[tuple[Runtime, ...], Takes, str]
_Rows: TypeAlias = Iterable[_Row]


def _known_to(runtime: Runtime, rows: _Rows, *, of_program: bool = False) -> Iterator[tuple[str, Flag]]:
    """Each name in `rows` with its flag, as far as `runtime` knows it."""
    for runtimes, takes, words in rows:
        if runtime not in runtimes:
            continue
        for names in (word.split("|") for word in words.split()):
            flag = Flag(names[-1], takes, of_program)
            yield from ((name, flag) for name in names)


def _of_subcommand(runtime: Runtime, subcommand: Subcommand) -> Flags:
    others = (only for key, only in _ONLY.items() if key[0] is runtime and key[1] is not subcommand)
    elsewhere = frozenset[str]().union(*others)
    own = {name: flag for name, flag in _known_to(runtime, _RUN_AND_CREATE) if flag.name not in elsewhere}
    own |= {alias: own[name] for runtimes, alias, name in _ALIASES if runtime in runtimes and name in own}
    return MappingProxyType({**PERSISTENT_FLAGS[runtime], **own})


PERSISTENT_FLAGS: Final[Mapping[Runtime, Flags]] = MappingProxyType(
    {runtime: MappingProxyType(dict(_known_to(runtime, _PERSISTENT, of_program=True))) for runtime in Runtime}
)
"""What stands anywhere before the image and means podman or docker as a whole."""

PROGRAM_FLAGS: Final[Mapping[Runtime, Flags]] = MappingProxyType(
    {
        runtime: MappingProxyType(
            {**PERSISTENT_FLAGS[runtime], **dict(_known_to(runtime, _BEFORE_ONLY, of_program=True))}
        )
        for runtime in Runtime
    }
)
"""What stands between the program and its subcommand."""

SUBCOMMAND_FLAGS: Final[Mapping[tuple[Runtime, Subcommand], Flags]] = MappingProxyType(
    {
        (runtime, subcommand): _of_subcommand(runtime, subcommand)
        for runtime in Runtime
        for subcommand in Subcommand
    }
)
"""What stands between the subcommand and the image."""

_STOPPING: Final[Mapping[StopVerb, tuple[_Row, ...]]] = MappingProxyType(
    {
        StopVerb.STOP: (
            (_BOTH, Takes.VALUE, "-t|--timeout|--time"),
            (_DOCKER, Takes.VALUE, "-s|--signal"),
            (_PODMAN, Takes.NOTHING, "-a|--all -i|--ignore -l|--latest"),
            (_PODMAN, Takes.VALUES, "--cidfile -f|--filter"),
        ),
        StopVerb.KILL: (
            (_BOTH, Takes.VALUE, "-s|--signal"),
            (_PODMAN, Takes.NOTHING, "-a|--all -l|--latest"),
            (_PODMAN, Takes.VALUES, "--cidfile"),
        ),
        StopVerb.REMOVE: (
            (_BOTH, Takes.NOTHING, "-f|--force -v|--volumes"),
            (_DOCKER, Takes.NOTHING, "-l|--link"),
            (_PODMAN, Takes.VALUE, "-t|--timeout|--time"),
            (_PODMAN, Takes.NOTHING, "-a|--all --depend -i|--ignore -l|--latest"),
            (_PODMAN, Takes.VALUES, "--cidfile --filter"),
        ),
    }
)

STOP_FLAGS: Final[Mapping[tuple[Runtime, StopVerb], Flags]] = MappingProxyType(
    {
        (runtime, verb): MappingProxyType({**PERSISTENT_FLAGS[runtime], **dict(_known_to(runtime, rows))})
        for runtime in Runtime
        for verb, rows in _STOPPING.items()
    }
)
"""What stands anywhere behind the subcommand."""
