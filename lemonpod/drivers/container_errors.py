"""What container engines complain of, as our errors: a table of their words, and one of the registries'.

Words and not statuses, because podman before 5 answers 500 to nearly everything, and what a registry says
arrives inside an answer of 200.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from lemonpod.errors import EngineError, ImageNotFoundError, NameConflictError, PullError, SpawnError
from lemonpod.host.devices import device_nodes

_Hint: TypeAlias = str | Callable[[re.Match[str]], str] | None
_Table: TypeAlias = tuple[tuple[re.Pattern[str], type[EngineError] | None, _Hint], ...]

_LONGEST: Final = 800
_MANY_SPACES: Final = re.compile(r"\s+")
_NO_CONTAINER: Final = re.compile(r"no such container|no container with|does not exist in database", re.I)
_NO_IMAGE: Final = re.compile(r"no such image|image not known", re.I)
_NOT_RUNNING: Final = re.compile(r"container state improper|is not running", re.I)
_BEING_REMOVED: Final = re.compile(r"removal of container .+ is already in progress", re.I)
_NO_LOG: Final = re.compile(r"does not support reading|not logging output", re.I)

# The group that udev gives the nodes of accelerators.
_GROUPS: Final = MappingProxyType({"/dev/kfd": "render", "/dev/dri": "render", "/dev/accel": "render"})


def no_such_container(status: int, message: str) -> bool:
    """Whether an engine says that there is none: another 404 is about something else, or of somebody else."""
    return status == 404 and _NO_CONTAINER.search(message) is not None


def no_such_image(status: int, message: str) -> bool:
    return status in {404, 500} and _NO_IMAGE.search(message) is not None


def not_running(message: str) -> bool:
    return _NOT_RUNNING.search(message) is not None


def being_removed(message: str) -> bool:
    return _BEING_REMOVED.search(message) is not None


def keeps_no_log(message: str) -> bool:
    return _NO_LOG.search(message) is not None


def refusal(what: str, message: str, otherwise: type[EngineError] = EngineError) -> EngineError:
    """The error that an engine's `message` is, with its cure if known; `what` was to be done."""
    return _by_table(_REFUSALS, what, message, otherwise)


def pull_error(reference: str, message: str, login: str) -> EngineError:
    """The error that a failed pull is; `login` is the command that logs in where the image comes from."""
    error = _by_table(_PULLS, f"cannot pull {reference}", message, PullError)
    if error.hint is not None:
        error.hint = error.hint.replace(_LOGIN, login)
    return error


def _by_table(table: _Table, what: str, message: str, otherwise: type[EngineError]) -> EngineError:
    reason = _MANY_SPACES.sub(" ", message.strip())
    text = f"{what}: {reason if len(reason) <= _LONGEST else f'{reason[:_LONGEST]} …'}"
    for pattern, kind, hint in table:
        if match := pattern.search(reason):
            return (kind or otherwise)(text, hint=hint(match) if callable(hint) else hint)
    return otherwise(text)


def _absent_device(match: re.Match[str]) -> str:
    """It may be there all the same: an engine sees the devices of its own machine."""
    device = match["device"]
    group = next((group for path, group in _GROUPS.items() if device.startswith(path)), None)
    owned = f"; once it is there, users of the group {group} may open it" if group else ""
    return f"there is no {device} where the engine runs: load the driver that makes it{owned}"


def _closed_device(match: re.Match[str]) -> str:
    device = match["device"]
    try:
        nodes = device_nodes(device, Path("/"))
    except OSError:
        nodes = ()
    groups = [node.group for node in nodes if node.group]
    group = groups[0] if groups else next((g for path, g in _GROUPS.items() if device.startswith(path)), None)
    if group is None:
        return f"give the engine's user access to {device}"
    keep = "with rootless podman also pass --group-add keep-groups"
    return f"{device} is of the group {group}: sudo usermod -aG {group} $USER and log in again; {keep}"


def _rows(*rows: tuple[str, type[EngineError] | None, _Hint]) -> _Table:
    return tuple((re.compile(pattern, re.IGNORECASE), kind, hint) for pattern, kind, hint in rows)


_DEVICE: Final = r"(?P<device>/dev/[\w./+-]+)[\"'`]?"
_LOGIN: Final = "{login}"

# A pattern, the kind of error (None leaves it to what was done), what to do about it. The first match counts.
_REFUSALS: Final = _rows(
    (r"no such image|image not known", ImageNotFoundError, None),
    (
        r"container name \"?/?(?P<name>[^\" ]+)\"? is already in use|that name is already in use",
        NameConflictError,
        None,
    ),
    (rf"{_DEVICE}: no such (?:file or directory|device)", SpawnError, _absent_device),
    (rf"{_DEVICE}: (?:operation not permitted|permission denied)", SpawnError, _closed_device),
    (
        r"unresolvable CDI devices|could not select device driver \"cdi\"|CDI .*not (?:supported|enabled)",
        SpawnError,
        "no CDI specification that the engine reads names it: for NVIDIA write one with `sudo nvidia-ctk cdi "
        "generate --output=/etc/cdi/nvidia.yaml`; docker before 28 reads them only if its daemon is told to",
    ),
    (
        r"could not select device driver .*gpu",
        SpawnError,
        "install the NVIDIA container toolkit, then `sudo nvidia-ctk runtime configure` and restart docker",
    ),
    (
        r"nvidia-container-cli|libnvidia-ml",
        SpawnError,
        "nvidia-smi shows whether the driver of the GPU is loaded",
    ),
    (
        r"exec(?:utable file)?:? [\"'`](?P<program>[^\"'`]*)[\"'`]:? (?:executable file )?"
        r"(?:not found|stat .*: no such file|no such file)",
        SpawnError,
        lambda match: (
            f"the image has no program '{match['program']}': correct what follows its name, or --entrypoint"
        ),
    ),
    (
        r"(?:statfs|stat|lstat) (?P<path>/.+?): no such file|bind source path does not exist: (?P<bind>/.+)",
        SpawnError,
        lambda match: f"make {match['path'] or match['bind']}, or correct the mount that names it",
    ),
    (
        r"address already in use|port is already allocated|bind for .* failed",
        SpawnError,
        "another program holds the port: end it, or publish on another one",
    ),
    (
        r"exec: \"[^\"]*\": (?:permission denied|is a directory)|"
        r"open executable: .*(?:permission denied|not permitted)",
        SpawnError,
        "it is there, and no program that the container's user may run",
    ),
    (
        r"exec format error|image platform .* does not match",
        SpawnError,
        "the image is for another architecture: pull one for this machine's, or set --platform",
    ),
    (
        r"rlimit",
        SpawnError,
        "the engine may not raise that limit: lower it with --ulimit, or default_ulimits in containers.conf",
    ),
    (
        r"seccomp.*: no such file",
        SpawnError,
        "name the profile by a path where the engine runs, or 'unconfined'",
    ),
    (
        r"newuidmap|newgidmap|subuid|subgid",
        SpawnError,
        "rootless containers need a range of ids: sudo usermod --add-subuids 100000-165535 "
        "--add-subgids 100000-165535 $USER, then podman system migrate",
    ),
    (r"no space left on device|disk quota exceeded", None, "free space where the engine keeps its storage"),
    (
        r"network .*not found|unable to find network",
        SpawnError,
        "make the network first, or join another one",
    ),
    (r"names must match|invalid container name", SpawnError, "letters, digits and _ . -; no other first"),
    (r"invalid signal", None, "name a signal as TERM or KILL"),
)

_WHOLE_NAME: Final = "write the whole name, with the registry: docker.io/library/NAME:TAG"
_UNREACHABLE: Final = (
    "the engine cannot reach the registry: check its name, the network, and the engine's proxy"
)
_PULLS: Final = _rows(
    (
        r"no image found in (?:manifest list|image index) for|no matching manifest for|"
        r"does not match the specified platform",
        PullError,
        "the image is not made for that platform: name another one, or leave --platform out",
    ),
    (
        r"toomanyrequests|rate limit|too many requests",
        PullError,
        "the registry limits how often it is asked: wait, or log in with `{login}`",
    ),
    (
        r"unauthorized|authentication required|access denied|denied: |is denied|no basic auth credentials|"
        r"invalid username/password|forbidden",
        PullError,
        "the registry asks who pulls: `{login}`, or correct the name, which it does not admit is wrong",
    ),
    (
        r"manifest unknown|manifest for .* not found|name unknown|name_unknown|not found: manifest|"
        r"reading manifest .*not found|: not found$|repository .* not found",
        ImageNotFoundError,
        "the registry has no such image: check the name, and its tag or digest",
    ),
    (
        r"short-name .* (?:did not resolve|resolution)|no unqualified-search registries",
        PullError,
        _WHOLE_NAME,
    ),
    (
        r"no space left on device|disk quota exceeded",
        PullError,
        "free space where the engine keeps its images",
    ),
    (
        r"server gave HTTP response to HTTPS client",
        PullError,
        "the registry speaks plain HTTP: podman takes `insecure = true` for it in registries.conf, docker "
        "`insecure-registries` in daemon.json",
    ),
    (r"x509|certificate|tls: ", PullError, "the engine has to trust the registry's certificate authority"),
    (
        r"connection refused|no such host|no route to host|network is unreachable|i/o timeout|"
        r"deadline exceeded|connection reset|server misbehaving|\beof\b|dial tcp|50[234] ",
        PullError,
        _UNREACHABLE,
    ),
    (
        r"manifest verification failed|digest.*(?:mismatch|did not match|does not match)",
        PullError,
        "what came is not what its digest says: pull again, and mistrust what is in between",
    ),
    (r"invalid reference format|invalid image name|repository name must be", PullError, _WHOLE_NAME),
)
