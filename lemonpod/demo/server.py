"""A lemonpod server of the demo's own: a subprocess with private folders and a free port."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lemonpod.errors import EngineError, LemonpodError

_HOST: Final = "127.0.0.1"
_START_TIMEOUT: Final = 60.0
_STOP_TIMEOUT: Final = 20.0
_ANSWER_TIMEOUT: Final = 300.0
_POLL_INTERVAL: Final = 0.05
_LOG_LINES: Final = 15

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

# A server that the user has set up must neither be reached into nor lend its keys and folders.
_FOREIGN_PREFIX: Final = "LEMONADE_"
_FOREIGN: Final = frozenset({"STATE_DIRECTORY", "CACHE_DIRECTORY"})


class DemoServer:
    """`lemonpod serve` on folders that hold nothing else; leaving the context ends it, unless it is kept."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lemonpod-demo-"))
        self.kept = False
        self._environ = private_environ(environ, self.folder)
        self._port = _free_port()
        self._log = self.folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        )  # loopback: past any proxy

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.kept:
            return
        # A second Ctrl-C would leave the engine behind; how long this takes is bounded.
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def run(self, *arguments: str) -> str:
        """Run a `lemonpod` command on the same folders and return what it printed."""
        folders = ("--cache-dir", str(self.folder / "cache"), "--config-dir", str(self.folder / "config"))
        done = subprocess.run(
            [sys.executable, "-m", "lemonpod", *arguments, *folders],
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LemonpodError(f"`lemonpod {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def start(self) -> None:
        """Return once the server answers; raises LemonpodError with its last lines."""
        folders = (str(self.folder / "cache"), str(self.folder / "config"))
        with self._log.open("wb") as log, _signals_held():
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "lemonpod",
                    "serve",
                    *folders,
                    "--host",
                    _HOST,
                    "--port",
                    str(self._port),
                ],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us, who then end the server in order
            )
        deadline = time.monotonic() + _START_TIMEOUT
        while (code := self._process.poll()) is None and time.monotonic() < deadline:
            try:
                self.get("/live")
            except (OSError, LemonpodError):
                time.sleep(_POLL_INTERVAL)
            else:
                return
        what = "did not answer in time" if code is None else f"ended with code {code}"
        raise LemonpodError("\n  ".join([f"the server {what}:", *self._log_tail()]))

    def stop(self) -> None:
        """End the server, and with it every engine."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def get(self, path: str) -> Any:
        with self._open(path, None) as response:
            return json.load(response)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        with self._open(path, body) as response:
            return json.load(response)

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a streamed answer, as they arrive."""
        with self._open(path, body) as response:
            for line in response:
                data = line.removeprefix(b"data:").strip()
                if not line.startswith(b"data:") or data == b"[DONE]":
                    continue
                event: dict[str, Any] = json.loads(data)
                if "error" in event:
                    raise EngineError(f"the answer broke off: {event['error'].get('message')}")
                yield event

    def engine_log(self, model: str) -> list[str]:
        """The engine's last lines, as far as the server can still tell."""
        try:
            with self._open(f"/internal/logs?model={model}&tail={_LOG_LINES}", None) as lines:
                return [json.loads(line)["line"] for line in lines]
        except (OSError, LemonpodError, ValueError, KeyError):
            return []

    def _log_tail(self) -> list[str]:
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]

    def _open(self, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(  # noqa: S310 -- always http, on loopback
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            return self._opener.open(request, timeout=_ANSWER_TIMEOUT)
        except urllib.error.HTTPError as error:
            with error:
                raise LemonpodError(_message(error.read()) or f"{path}: {error}") from error


@contextmanager
def _signals_held() -> Iterator[None]:
    """Put signals off: one that came between the start of a process and the note of it would lose it."""
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda n, _: came.append(n)) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _message(body: bytes) -> str | None:
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(error["message"] if isinstance(error, dict) else error)


def private_environ(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment without what belongs to a server of the user's, and with folders of its own."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _FOREIGN and not name.startswith(_FOREIGN_PREFIX)
    }
    return kept | {
        "XDG_CONFIG_HOME": str(folder / "xdg-config"),
        "XDG_CACHE_HOME": str(folder / "xdg-cache"),
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
    return port
