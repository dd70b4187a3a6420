"""podman: its API service on a private socket, with storage, configuration and networks of its own."""

from __future__ import annotations

import json
import os
import pwd
import shlex
from pathlib import Path
from typing import Final

from tests.lab.api import ask
from tests.lab.engine import ContainerEngine, Service, write_program
from tests.lab.packages import USER
from tests.lab.space import PATH, Space

# Machines of CI lack CAP_SYS_RESOURCE, so podman's own default limits fail; crun refuses hybrid cgroups.
_CONTAINERS_CONF: Final = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
{firewall}
"""
_STORAGE_CONF: Final = """\
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "/run/containers/storage"
rootless_storage_path = "{folder}/storage"
"""
# A registry named by a loopback address is a test's own, and speaks plain HTTP.
_REGISTRIES_CONF: Final = """\
unqualified-search-registries = []
short-name-mode = "permissive"
[[registry]]
location = "127.0.0.1"
insecure = true
"""
_PROGRAM: Final = """\
# The engine {name} of lemonpod's lab.
exec {enter} sh -c 'cd "$0" 2>/dev/null || cd /; exec podman "$@"' "$PWD" "$@"
"""


def start_podman(name: str, space: Space, *, network: int, rootless: bool = False) -> ContainerEngine:
    """The engine, started; or as it was left by an earlier call for the same folder."""
    folder = space.folder
    user = pwd.getpwnam(USER) if rootless else None
    environment = _configure(folder, network, firewall=space.root is not None)
    become: tuple[str, ...] = ()
    if user is not None:
        become = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--")
        for path in (folder, *folder.glob("*"), *folder.glob("networks/*")):
            os.chown(path, user.pw_uid, user.pw_gid)
    environment["XDG_RUNTIME_DIR"] = f"/run/user/{user.pw_uid if user else 0}"
    given = (*become, "env", "--unset=CONTAINER_HOST", *(f"{key}={environment[key]}" for key in environment))
    space.open()
    program = write_program(
        folder / "bin/podman", _PROGRAM.format(name=name, enter=shlex.join(space.argv(*given)))
    )
    url = f"unix://{folder}/api.sock"
    service = Service(space, (*given, "podman", "system", "service", "--time=0", url), url)
    service.start()
    _, version = ask(url, "GET", "/v4.0.0/libpod/version")
    return ContainerEngine(
        name=name,
        runtime="podman",
        url=url,
        cli=(str(program),),
        env={"CONTAINER_HOST": url, "PATH": f"{program.parent}:{os.environ.get('PATH', os.defpath)}"},
        rootless=rootless,
        version=version["Version"],
        folder=folder,
        service=service,
    )


def _configure(folder: Path, network: int, *, firewall: bool) -> dict[str, str]:
    """Write podman's files; the environment that makes it read them."""
    for part in ("home", "networks", "storage"):
        (folder / part).mkdir(exist_ok=True)
    files = {
        "containers.conf": _CONTAINERS_CONF.format(
            folder=folder, firewall='firewall_driver = "iptables"' if firewall else ""
        ),
        "storage.conf": _STORAGE_CONF.format(folder=folder),
        "registries.conf": _REGISTRIES_CONF,
        "networks/podman.json": json.dumps(_default_network(network)),
    }
    for file, text in files.items():
        (folder / file).write_text(text)
    return {
        "PATH": PATH,
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
        "CONTAINERS_REGISTRIES_CONF": f"{folder}/registries.conf",
        "HOME": f"{folder}/home",
        "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
    }


def bridge(number: int) -> str:
    """The name of an engine's bridge, by its number among all engines of the machine's labs."""
    return f"lemonlab{number}"


def subnet(number: int) -> str:
    """The first three numbers of the addresses on that bridge."""
    return f"10.213.{number}"


def _default_network(number: int) -> dict[str, object]:
    """podman's network by another bridge, so that two podmans do not share one."""
    return {
        "name": "podman",
        "id": "2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9",
        "driver": "bridge",
        "network_interface": bridge(number),
        "created": "2024-01-01T00:00:00Z",
        "subnets": [{"subnet": f"{subnet(number)}.0/24", "gateway": f"{subnet(number)}.1"}],
        "ipv6_enabled": False,
        "internal": False,
        "dns_enabled": False,
        "ipam_options": {"driver": "host-local"},
    }
