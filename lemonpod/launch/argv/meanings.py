"""What each flag says: its part of the spec, or why it says nothing of the container, or only to the CLI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from lemonpod.launch.argv import devices, environment, life, mounts, ports, rights
from lemonpod.launch.argv.values import (
    Reader,
    commas,
    duration,
    each,
    nano_cpus,
    one_of,
    pair,
    plain,
    size,
    size_or_unlimited,
    some,
    strict_pair,
    switch,
    uncut,
    verbatim,
    whole,
)
from lemonpod.launch.container import Runtime


@dataclass(frozen=True, slots=True)
class Said:
    """The value lands in the spec. `part` is its field, or what several flags make a field of together."""

    part: str
    read: Reader
    many: bool = False
    """Whether values are put after each other; otherwise the last one counts."""


@dataclass(frozen=True, slots=True)
class ClientOnly:
    """The flag is of the program that is started, and changes nothing about the container."""

    why: str


@dataclass(frozen=True, slots=True)
class ByCli:
    """The flag cannot be said over the API."""

    why: str


@dataclass(frozen=True, slots=True)
class Stops:
    """With the flag the program starts nothing."""

    why: str


Meaning: TypeAlias = Said | ClientOnly | ByCli | Stops

_PODMAN: Final = (Runtime.PODMAN,)
_DOCKER: Final = (Runtime.DOCKER,)
_BOTH: Final = tuple(Runtime)

_SWITCH: Final = plain(switch)
_WORD: Final = plain(some)
_TEXT: Final = plain(verbatim)
_NUMBER: Final = plain(whole())
_COUNT: Final = plain(whole(0))
_PAIR: Final = plain(pair)

# Flags whose values are single: the last one counts.
_ONE: Final = (
    (_BOTH, "--cgroup-parent", "cgroup_parent", _WORD),
    (_BOTH, "--cgroupns", "cgroupns", rights.namespace("cgroupns")),
    (_BOTH, "--cpu-period", "cpu_period", _COUNT),
    (_BOTH, "--cpu-quota", "cpu_quota", _NUMBER),
    (_BOTH, "--cpu-rt-period", "cpu_rt_period", _COUNT),
    (_BOTH, "--cpu-rt-runtime", "cpu_rt_runtime", _NUMBER),
    (_DOCKER, "--cpu-shares", "cpu_shares", _NUMBER),
    (_PODMAN, "--cpu-shares", "cpu_shares", _COUNT),
    (_BOTH, "--cpus", "nano_cpus", nano_cpus),
    (_BOTH, "--cpuset-cpus", "cpuset_cpus", _WORD),
    (_BOTH, "--cpuset-mems", "cpuset_mems", _WORD),
    (_BOTH, "--blkio-weight", "blkio_weight", plain(whole(0, 65535))),
    (_BOTH, "--entrypoint", "entrypoint", life.entrypoint),
    (_BOTH, "--health-cmd", "health.test", life.health_command),
    (_BOTH, "--health-interval", "health.interval", life.health_interval),
    (_DOCKER, "--health-retries", "health.retries", _COUNT),
    (_PODMAN, "--health-retries", "health.retries", plain(whole(1))),
    (_BOTH, "--health-start-period", "health.start_period", plain(duration)),
    (_BOTH, "--health-timeout", "health.timeout", plain(duration)),
    (_BOTH, "--hostname", "hostname", _WORD),
    (_BOTH, "--init", "init", _SWITCH),
    (_BOTH, "--interactive", "stdin", _SWITCH),
    (_BOTH, "--ip", "network.ip", _WORD),
    (_BOTH, "--ip6", "network.ip6", _WORD),
    (_BOTH, "--ipc", "ipc", rights.namespace("ipc")),
    (_BOTH, "--log-driver", "log_driver", life.log_driver),
    (_BOTH, "--memory", "memory", size),
    (_BOTH, "--memory-reservation", "memory_reservation", size),
    (_BOTH, "--memory-swap", "memory_swap", size_or_unlimited),
    (_DOCKER, "--memory-swappiness", "memory_swappiness", plain(whole(-1, 100))),
    (_PODMAN, "--memory-swappiness", "memory_swappiness", _NUMBER),
    (_BOTH, "--name", "name", _WORD),
    (_BOTH, "--no-healthcheck", "health.off", _SWITCH),
    (_BOTH, "--oom-kill-disable", "oom_kill_disable", _SWITCH),
    (_BOTH, "--oom-score-adj", "oom_score_adj", _NUMBER),
    (_BOTH, "--pid", "pid", rights.namespace("pid")),
    (_BOTH, "--pids-limit", "pids_limit", _NUMBER),
    (_BOTH, "--platform", "platform", life.platform),
    (_BOTH, "--privileged", "privileged", _SWITCH),
    (_BOTH, "--publish-all", "publish_all", _SWITCH),
    (_BOTH, "--pull", "pull", life.pull_policy),
    (_BOTH, "--read-only", "read_only", _SWITCH),
    (_BOTH, "--restart", "restart", life.restart),
    (_BOTH, "--rm", "remove", _SWITCH),
    (_BOTH, "--shm-size", "shm_size", size),
    (_BOTH, "--stop-signal", "stop_signal", life.stop_signal),
    (_BOTH, "--tty", "tty", _SWITCH),
    (_BOTH, "--user", "user", _WORD),
    (_BOTH, "--userns", "userns", rights.namespace("userns")),
    (_BOTH, "--uts", "uts", rights.namespace("uts")),
    (_BOTH, "--workdir", "workdir", _WORD),
    (_DOCKER, "--detach", "detached", _SWITCH),
    (_DOCKER, "--domainname", "domainname", _WORD),
    (_DOCKER, "--health-start-interval", "health.start_interval", plain(duration)),
    (_DOCKER, "--stop-timeout", "stop_timeout", _NUMBER),
    (_PODMAN, "--stop-timeout", "stop_timeout", _COUNT),
    (_DOCKER, "--runtime", "oci_runtime", _WORD),
    (_DOCKER, "--volume-driver", "volume_driver", _WORD),
    (_PODMAN, "--arch", "platform.arch", _WORD),
    (_PODMAN, "--cgroups", "cgroups_mode", plain(one_of("enabled", "disabled", "no-conmon", "split"))),
    (_PODMAN, "--group-entry", "group_entry", _WORD),
    (_PODMAN, "--http-proxy", "http_proxy", _SWITCH),
    (_PODMAN, "--image-volume", "image_volumes", plain(one_of("bind", "anonymous", "tmpfs", "ignore"))),
    (_PODMAN, "--init-path", "init_path", _WORD),
    (_PODMAN, "--mac-address", "network.mac", _WORD),
    (_PODMAN, "--no-hosts", "no_hosts", _SWITCH),
    (_PODMAN, "--os", "platform.os", _WORD),
    (_PODMAN, "--passwd", "passwd", _SWITCH),
    (_PODMAN, "--passwd-entry", "passwd_entry", _WORD),
    (_PODMAN, "--read-only-tmpfs", "read_only_tmpfs", _SWITCH),
    (_PODMAN, "--replace", "replace", _SWITCH),
    (_PODMAN, "--sdnotify", "sdnotify", plain(one_of("container", "conmon", "ignore", "healthy"))),
    (_PODMAN, "--systemd", "systemd", plain(one_of("true", "false", "always"))),
    (_PODMAN, "--timeout", "timeout", _COUNT),
    (_PODMAN, "--tz", "timezone", _WORD),
    (_PODMAN, "--umask", "umask", _WORD),
    (_PODMAN, "--unsetenv-all", "unset_all_env", _SWITCH),
    (_PODMAN, "--variant", "platform.variant", _WORD),
)  # fmt: skip

# Flags that are given again for more. The readers of these return tuples.
_MANY: Final = (
    (_BOTH, "--add-host", "extra_hosts", life.extra_host),
    (_DOCKER, "--annotation", "annotations", each(_PAIR)),
    (_PODMAN, "--annotation", "annotations", uncut(plain(strict_pair))),
    (_DOCKER, "--attach", "attached", each(plain(life.stream))),
    (_BOTH, "--cap-add", "cap_add", commas(rights.capability)),
    (_BOTH, "--cap-drop", "cap_drop", commas(rights.capability)),
    (_BOTH, "--device", "devices", uncut(devices.device)),
    (_BOTH, "--dns", "dns", commas(rights.dns_server)),
    (_BOTH, "--dns-option", "dns_options", commas(_TEXT)),
    (_BOTH, "--dns-search", "dns_search", commas(_TEXT)),
    (_BOTH, "--env", "env", environment.variables),
    (_BOTH, "--env-file", "env_files", environment.env_file),
    (_BOTH, "--expose", "exposed", commas(ports.exposed)),
    (_BOTH, "--group-add", "groups", commas(_TEXT)),
    (_BOTH, "--label", "labels", each(environment.label)),
    (_BOTH, "--label-file", "label_files", environment.label_file),
    (_BOTH, "--log-opt", "log_options", uncut(life.log_option)),
    (_BOTH, "--mount", "mounts", each(mounts.mount)),
    (_BOTH, "--network", "networks", each(rights.network)),
    (_BOTH, "--network-alias", "network.aliases", commas(_TEXT)),
    (_BOTH, "--publish", "ports", commas(ports.published)),
    (_BOTH, "--security-opt", "security", each(rights.security)),
    (_BOTH, "--sysctl", "sysctls", commas(plain(rights.sysctl))),
    (_BOTH, "--tmpfs", "tmpfs", each(mounts.tmpfs)),
    (_BOTH, "--ulimit", "ulimits", commas(rights.ulimit)),
    (_BOTH, "--volume", "volumes", each(mounts.volume)),
    (_BOTH, "--volumes-from", "volumes_from", each(_TEXT)),
    (_DOCKER, "--blkio-weight-device", "blkio_weight_devices", each(plain(devices.device_weight))),
    (_DOCKER, "--device-cgroup-rule", "device_cgroup_rules", each(plain(devices.cgroup_rule))),
    (_DOCKER, "--device-read-bps", "read_bps", each(devices.device_rate)),
    (_DOCKER, "--device-read-iops", "read_iops", each(plain(devices.device_count))),
    (_DOCKER, "--device-write-bps", "write_bps", each(devices.device_rate)),
    (_DOCKER, "--device-write-iops", "write_iops", each(plain(devices.device_count))),
    (_DOCKER, "--gpus", "device_requests", each(plain(devices.gpu_request))),
    (_DOCKER, "--storage-opt", "storage", each(plain(strict_pair))),
    (_PODMAN, "--gpus", "gpu_devices", plain(devices.gpu_devices)),
    (_PODMAN, "--unsetenv", "unset_env", each(_TEXT)),
)  # fmt: skip

_CLIENT_ONLY: Final = (
    (_PODMAN, "--attach --detach", "whether the program waits and shows the output"),
    (_BOTH, "--detach-keys --sig-proxy", "how the program stays attached"),
    (_BOTH, "--quiet", "what the program prints"),
    (_BOTH, "--disable-content-trust", "which signatures docker asked for before it pulled"),
    (_PODMAN, "--kernel-memory", "podman does not limit it any more"),
    (_BOTH, "--debug --log-level", "what the program logs"),
    (_PODMAN, "--cpu-profile --max-workers --memory-profile --noout --syslog --trace", "how it works itself"),
    (_BOTH, "--host --context", "which engine is asked"),
    (_PODMAN, "--url --connection --remote --identity --ssh", "which engine is asked"),
    (_PODMAN, "--tls-ca --tls-cert --tls-key", "which engine is asked"),
    (_DOCKER, "--tls --tlsverify --tlscacert --tlscert --tlskey", "which engine is asked"),
)  # fmt: skip

_STOPS: Final = ((_BOTH, "--help", "prints help"), (_BOTH, "--version", "prints a version"))

_OF_THE_PROGRAM: Final = (
    "it configures the podman that runs the command; a service has been configured when it started"
)
_OF_THE_PULL: Final = "it is about a pull by the program itself"
_NOT_YET: Final = "its form in the API has not been compared with what the program sends"
_BY_CLI: Final = (
    (_PODMAN, """
        --cdi-spec-dir --cgroup-manager --config --conmon --db-backend --default-mounts-file --events-backend
        --hooks-dir --imagestore --module --namespace --network-backend --network-cmd-path
        --network-config-dir --out --pull-option --registries-conf --root --runroot --runtime --runtime-flag
        --storage-driver --storage-opt --tmpdir --transient-store --volumepath
    """, _OF_THE_PROGRAM),
    (_DOCKER, "--config", "where the program finds its credentials and proxies"),
    (_PODMAN, """
        --authfile --cert-dir --creds --decryption-key --retry --retry-delay --signature-policy --tls-verify
    """, _OF_THE_PULL),
    (_BOTH, "--cidfile", "the program itself writes the file"),
    (_PODMAN, "--conmon-pidfile --pidfile --pod-id-file", "the file is the program's"),
    (_PODMAN, "--preserve-fd --preserve-fds", "open files of the program cannot be handed over"),
    (_PODMAN, "--env-host", "the environment is that of the program"),
    (_PODMAN, "--rootfs", "what follows is a folder and no image"),
    (_PODMAN, "--rmi", "the program removes the image afterwards"),
    (_PODMAN, "--pod --init-ctr --requires", "it ties the container to others"),
    (_DOCKER, "--link --link-local-ip", _NOT_YET),
    (_DOCKER, "--mac-address", "engines before API 1.44 and after it want it in different places"),
    (_DOCKER, "--kernel-memory", "engines before API 1.42 limit it, and those after it do not"),
    (_DOCKER, "--use-api-socket", "the program copies its credentials into the container"),
    (_DOCKER, "--cpu-count --cpu-percent --io-maxbandwidth --io-maxiops --isolation", "it is for Windows"),
    (_PODMAN, """
        --blkio-weight-device --cgroup-conf --chrootdirs --device-cgroup-rule --device-read-bps
        --device-read-iops --device-write-bps --device-write-iops --env-merge --gidmap
        --health-log-destination --health-max-log-count --health-max-log-size --health-on-failure
        --health-startup-cmd --health-startup-interval --health-startup-retries --health-startup-success
        --health-startup-timeout --hosts-file --hostuser --no-hostname --personality --rdt-class
        --seccomp-policy --secret --shm-size-systemd --subgidname --subuidname --uidmap
    """, _NOT_YET),
)  # fmt: skip


def _of(runtime: Runtime) -> Mapping[str, Meaning]:
    """The table of one runtime. A flag that is of the program in podman may be of the container in docker."""
    table: dict[str, Meaning] = {}
    for runtimes, words, why in _CLIENT_ONLY:
        table |= {name: ClientOnly(why) for name in words.split() if runtime in runtimes}
    for runtimes, words, why in _STOPS:
        table |= {name: Stops(why) for name in words.split() if runtime in runtimes}
    for runtimes, words, why in _BY_CLI:
        table |= {name: ByCli(why) for name in words.split() if runtime in runtimes}
    table |= {name: Said(part, read) for runtimes, name, part, read in _ONE if runtime in runtimes}
    table |= {
        name: Said(part, read, many=True) for runtimes, name, part, read in _MANY if runtime in runtimes
    }
    return MappingProxyType(table)


MEANINGS: Final[Mapping[Runtime, Mapping[str, Meaning]]] = MappingProxyType(
    {runtime: _of(runtime) for runtime in Runtime}
)
"""The meaning of every flag of run and create, and of those before them, by runtime and long name."""
