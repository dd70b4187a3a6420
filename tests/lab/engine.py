"""One container engine of the lab, and the service behind its socket."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

import psutil

from tests.lab.api import answers, ask
from tests.lab.errors import LabError
from tests.lab.space import Space
from tests.lab.waiting import wait_until

Runtime: TypeAlias = Literal["podman", "docker"]

TEST_PREFIX: Final = "lemonpod-test-"
"""Of the names of containers that tests make."""

_LOG_TAIL: Final = 3000
_END_TIMEOUT: Final = 20
_LIBPOD: Final = "/v4.0.0/libpod"


class Service:
    """The program that answers on an engine's socket: started, stopped, started again."""

    def __init__(self, space: Space, argv: tuple[str, ...], url: str, *, stale: Path | None = None) -> None:
        """`stale` is a file that keeps it from starting after it was killed."""
        self._space, self._argv, self._url, self._stale = space, argv, url, stale
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = Path(url.removeprefix("unix://"))
        self._pid_file = space.folder / "service.pid"
        self.log = space.folder / "service.log"

    def start(self) -> None:
        """Start it, if nothing answers there yet; returns when it answers."""
        if answers(self._url):
            return
        process = self._process
        if process is None or process.poll() is not None:  # one that runs is slow to answer
            process = self._process = self._begin()
        try:
            wait_until(lambda: answers(self._url) or process.poll() is not None, self._argv[-1])
        except LabError as error:
            raise LabError(f"{error}\n{self._tail()}") from None
        if process.poll() is not None:
            raise LabError(f"the service ended with {process.returncode}\n{self._tail()}")

    def _begin(self) -> subprocess.Popen[bytes]:
        self._socket.unlink(missing_ok=True)
        if self._stale is not None:
            self._stale.unlink(missing_ok=True)
        process = self._space.start(self._argv, self.log)
        self._pid_file.write_text(str(process.pid))
        return process

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, not its containers; the engine does not answer until it is started again."""
        pid = self._process.pid if self._process else int(self._pid_file.read_text())
        answering = _answering(pid)
        for one in answering:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)
        psutil.wait_procs(answering[1:], timeout=_END_TIMEOUT)
        wait_until(lambda: not self._runs(pid), f"the end of {self._argv}")
        self._socket.unlink(missing_ok=True)

    def _runs(self, pid: int) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return os.path.exists(f"/proc/{pid}")

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL:]


def _answering(pid: int) -> list[psutil.Process]:
    """The service, and children that run the same command.

    Rootless podman answers from a second process, and the first may die without a word to it.
    """
    try:
        service = psutil.Process(pid)
        argv, children = service.cmdline(), service.children()
    except psutil.NoSuchProcess:
        return []
    return [service, *(child for child in children if _has_argv(child, argv))]


def _has_argv(process: psutil.Process, argv: list[str]) -> bool:
    """Whether it runs that command; one that has ended meanwhile, as an engine's helpers do, runs nothing."""
    try:
        return process.cmdline() == argv
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class ContainerEngine:
    """An engine that runs. `cli` is a program that reaches the same engine, storage and configuration."""

    name: str
    runtime: Runtime
    url: str
    cli: tuple[str, ...]
    env: Mapping[str, str]
    """How a client finds this engine: the socket, and a PATH with the engine's program first."""
    rootless: bool
    version: str
    folder: Path = field(repr=False)
    service: Service = field(repr=False, compare=False)

    def run_cli(self, *args: str, stdin: IO[bytes] | None = None, timeout: float = 60.0) -> str:
        """The output of one call of the engine's own program; raises LabError where it fails."""
        done = self.try_cli(*args, stdin=stdin, timeout=timeout)
        if done.returncode != 0:
            raise LabError(f"{self.name}: {' '.join(args)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def try_cli(
        self,
        *args: str,
        stdin: IO[bytes] | None = None,
        timeout: float = 60.0,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """One call of the engine's own program, however it ends; `env` comes on top of the caller's."""
        return subprocess.run(
            (*self.cli, *args),
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )

    def containers(self) -> list[dict[str, Any]]:
        """What the engine lists, stopped ones too."""
        _, listed = self.ask("GET", "/containers/json?all=true")
        assert isinstance(listed, list), listed
        return listed

    def ask(self, method: str, target: str, body: Any = None, *, timeout: float = 60.0) -> tuple[int, Any]:
        """Status and answer of the API; podman's own one where the engine is podman."""
        prefix = _LIBPOD if self.runtime == "podman" else ""
        return ask(self.url, method, prefix + target, body, timeout=timeout)

    def remove_test_containers(self) -> None:
        """Remove every container of this engine, which has none but those of tests."""
        for container in self.containers():
            more = "volumes=true&timeout=0" if self.runtime == "podman" else "v=true"
            self.ask("DELETE", f"/containers/{container['Id']}?force=true&{more}")

    def describe_containers(self) -> str:
        """For a failed test's report: each container's state and last lines."""
        parts = []
        try:
            listed = self.containers()
        except OSError as error:
            return f"the engine does not answer: {error}"
        for container in listed:
            inspected = self.try_cli("inspect", "--format", "{{json .State}}", container["Id"]).stdout
            logs = self.try_cli("logs", "--tail", "30", container["Id"])
            parts.append(f"{container['Names']} {inspected}{logs.stdout}{logs.stderr}")
        return "\n".join(parts)

    def stop_service(self, number: signal.Signals = signal.SIGTERM) -> None:
        """As a daemon that stops; its containers live on."""
        self.service.stop(number)

    def start_service(self) -> None:
        """As a daemon that comes back."""
        self.service.start()


def write_program(path: Path, lines: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}")
    path.chmod(0o755)
    return path
