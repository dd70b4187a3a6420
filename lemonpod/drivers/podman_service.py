"""A podman service of our own, where podman is installed and none answers."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lemonpod.drivers import tether
from lemonpod.drivers.address import Address
from lemonpod.drivers.spawn import locate, spawn
from lemonpod.errors import EngineError, RuntimeUnavailableError
from lemonpod.launch.environment import inheritable

START_TIMEOUT: Final = 20.0
"""Podman looks at its whole storage first."""
END_TIMEOUT: Final = 5.0
_POLL: Final = 0.01
_MAX_SOCKET_PATH: Final = 107
"""Of a sockaddr_un, whose 108 bytes end with a NUL (unix(7))."""

# Of the caller's environment, beside what engines inherit: how podman finds its files and the registries.
_PODMAN: Final = frozenset({"REGISTRY_AUTH_FILE", "STORAGE_DRIVER", "STORAGE_OPTS", "TMPDIR"})
_PROXIES: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"})
_PREFIXES: Final = ("CONTAINERS_", "PODMAN_")

log = logging.getLogger(__name__)


class PodmanService:
    """`podman system service` on a private socket: started when needed, again if it died, and ended with us.

    Its methods block, and may be called from any thread.
    """

    def __init__(self, program: str, environ: Mapping[str, str], folders: Sequence[Path]) -> None:
        """Its socket goes to the first of `folders` that may be written to and is not too deep.

        Raises RuntimeUnavailableError.
        """
        self._env = _environment(environ)
        self._program = _located(program, self._env)
        self._folder = _private_folder(folders)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        self._said: deque[str] = deque(maxlen=5)
        self._closed = False

    @property
    def address(self) -> Address:
        return Address(f"unix://{self._socket}", f"started by lemonpod with {self._program}")

    @property
    def _socket(self) -> Path:
        return self._folder / "podman.sock"

    def ensure(self) -> None:
        """Return when it answers; raises RuntimeUnavailableError."""
        with self._lock:
            if self._closed:
                raise RuntimeUnavailableError("lemonpod's own podman service has been closed")
            if self._runs():
                return
            if self._process is not None:
                log.warning(
                    "lemonpod's own podman service has ended%s: starting it again", self._last_words()
                )
            self._start()

    def close(self) -> None:
        """End it, not its containers, and remove its socket."""
        with self._lock:
            self._closed = True
            process, keeper = self._process, self._keeper
        if process is not None and keeper is not None:
            process.terminate()
            keeper.join(END_TIMEOUT)
            if keeper.is_alive():
                self._kill()
                keeper.join(END_TIMEOUT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _kill(self) -> None:
        """All of it: the service is the only one in its session."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _start(self) -> None:
        self._socket.unlink(missing_ok=True)
        started = threading.Event()
        self._process = None
        # Its parent is the thread that starts it, which therefore stays.
        self._keeper = threading.Thread(
            target=self._keep, args=(started,), name="lemonpod-podman-service", daemon=True
        )
        self._keeper.start()
        started.wait()
        give_up_at = time.monotonic() + START_TIMEOUT
        while not _answers(self._socket):
            if not self._runs() or time.monotonic() > give_up_at:
                self._kill()
                raise RuntimeUnavailableError(
                    f"{self._program} system service does not answer{self._last_words()}",
                    hint=f"`{self._program} info` may say why; or start a service and set CONTAINER_HOST",
                )
            time.sleep(_POLL)

    def _keep(self, started: threading.Event) -> None:
        argv = (self._program, "system", "service", "--time=0", self.address.url)
        tie = (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), str(self._folder))
        try:
            process = self._process = spawn((*tie, *argv), env=self._env, cwd=self._folder)
        except EngineError as error:
            self._said.append(error.message)
            return
        finally:
            started.set()
        with suppress(OSError, ValueError):
            for line in process.stdout or ():
                self._said.append(line.decode(errors="replace").strip())
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _last_words(self) -> str:
        return f": {'; '.join(self._said)}" if self._said else ""


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environ.items()
        if name in _PODMAN or name.upper() in _PROXIES or name.startswith(_PREFIXES)
    }
    # With an address of another engine it would be that one's client.
    unfit = {"CONTAINER_HOST", "CONTAINER_CONNECTION"}
    return {name: value for name, value in {**inheritable(environ), **kept}.items() if name not in unfit}


def _located(program: str, env: Mapping[str, str]) -> str:
    try:
        return os.path.abspath(locate(program, path=env.get("PATH", ""), cwd=None))
    except EngineError as error:
        raise RuntimeUnavailableError(error.message, hint=error.hint) from None


def _private_folder(folders: Sequence[Path]) -> Path:
    """A new folder that nobody else may enter."""
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix="lemonpod-", dir=folder))
            if len(os.fsencode(made / "podman.sock")) <= _MAX_SOCKET_PATH:
                return made
            made.rmdir()
    shown = ", ".join(map(str, folders))
    raise RuntimeUnavailableError(
        f"there is no place for the socket of a podman service: none of {shown} can be written to and leaves "
        f"it a path of {_MAX_SOCKET_PATH} bytes"
    )


def _answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1.0)
            client.connect(str(path))
    except OSError:
        return False
    return True
