"""docker: a daemon on a private socket, with data, containerd and bridge of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Final

from tests.lab.api import ask
from tests.lab.engine import ContainerEngine, Service, write_program
from tests.lab.packages import run
from tests.lab.podman import bridge, subnet
from tests.lab.space import PATH, Space

_PROGRAM: Final = """\
# The engine {name} of lemonpod's lab.
unset DOCKER_HOST DOCKER_CONTEXT
: "${{DOCKER_CONFIG:={folder}/client}}"
export DOCKER_CONFIG
exec {enter} sh -c 'cd "$0" 2>/dev/null || cd /; PATH={path}; exec docker -H {url} "$@"' "$PWD" "$@"
"""


def start_docker(name: str, space: Space, *, network: int) -> ContainerEngine:
    """The engine, started; or as it was left by an earlier call for the same folder."""
    folder = space.folder
    (folder / "client").mkdir(exist_ok=True)
    url = f"unix://{folder}/api.sock"
    space.open()
    _make_bridge(network)
    argv = ("dockerd", *_flags(folder, network, url, cdi=space.root is not None))
    # Its containerd dies with it; where nobody reaps, docker 20 takes that for alive.
    service = Service(space, argv, url, stale=folder / "exec/containerd/containerd.pid")
    service.start()
    enter = shlex.join(space.argv())
    program = write_program(
        folder / "bin/docker", _PROGRAM.format(name=name, folder=folder, enter=enter, url=url, path=PATH)
    )
    _, version = ask(url, "GET", "/version")
    return ContainerEngine(
        name=name,
        runtime="docker",
        url=url,
        cli=(str(program),),
        env={"DOCKER_HOST": url, "PATH": f"{program.parent}:{os.environ.get('PATH', os.defpath)}"},
        rootless=False,
        version=version["Version"],
        folder=folder,
        service=service,
    )


def _flags(folder: Path, network: int, url: str, *, cdi: bool) -> tuple[str, ...]:
    config = folder / "daemon.json"
    config.write_text(json.dumps({"features": {"cdi": True}} if cdi else {}))
    # The machine's firewall stays as it is: docker's own proxy carries the published ports of loopback.
    return (
        f"--config-file={config}",
        f"--host={url}",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/docker.pid",
        f"--bridge={bridge(network)}",
        f"--default-address-pool=base=10.214.{network}.0/24,size=28",
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--ip-masq=false",
        "--default-ulimit=nofile=4096:4096",
        "--live-restore",
        *(f"--add-runtime={name}=runc" for name in ("nvidia", "habana")),
    )


def _make_bridge(network: int) -> None:
    name = bridge(network)
    there = subprocess.run(("ip", "link", "show", name), capture_output=True, check=False).returncode == 0
    if not there:
        run("ip", "link", "add", name, "type", "bridge")
        run("ip", "address", "add", f"{subnet(network)}.1/24", "dev", name)
        run("ip", "link", "set", name, "up")
