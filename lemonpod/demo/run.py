"""`lemonpod demo`: the whole path once, on this CPU, with a real engine and a real model."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final

from rich.console import Console

from lemonpod.config import find_folders
from lemonpod.demo.model import STOP, TEMPLATE_NAME, ensure_model
from lemonpod.demo.server import DemoServer
from lemonpod.errors import LemonpodError

_MODEL: Final = "user.demo"
_RECIPE: Final = "llama-cpu"
_QUESTION: Final = "What is photosynthesis?"
_REQUEST: Final = {
    "model": _MODEL,
    "messages": [{"role": "user", "content": _QUESTION}],
    "temperature": 0,
    "max_tokens": 48,
    "stop": [STOP],
}
_EXIT_TERMINATED: Final = 128 + signal.SIGTERM
_NAME_COLUMN: Final = 10


def run_demo(*, keep: bool, environ: Mapping[str, str]) -> int:
    """Discover, register, plan, start, ask, clean up, each step told and timed; raises LemonpodError."""
    signal.signal(signal.SIGTERM, _leave)
    started = time.monotonic()
    with DemoServer(environ) as server:
        _prepare(server, environ)
        try:
            _load(server)
            _chat(server)
        except LemonpodError:
            for line in server.engine_log(_MODEL):
                print(f"  engine: {line}", file=sys.stderr)
            raise
        if keep:
            server.kept = True
            _tell_how_to_go_on(server)
            return 0
        _clean_up(server)
    print(f"\nThe whole path works on this machine ({time.monotonic() - started:.1f} s).")
    return 0


def _prepare(server: DemoServer, environ: Mapping[str, str]) -> None:
    with _step("model") as told:
        folder = find_folders(environ).cache / "demo"
        model = ensure_model(folder)
        told.append(f"{model.name}, sha256 checked; it stays in {folder} for the next time")
    with _step("discover") as told:
        server.start()
        recipes = server.get("/api/v1/system-info")["recipes"]
        if _RECIPE not in recipes:
            raise LemonpodError(f"the recipe {_RECIPE} that comes with lemonpod was not found")
        told.append(f"{server.url} serves; found {recipes[_RECIPE]['display_name']!r} as recipe {_RECIPE}")
    with _step("register") as told:
        arguments = json.dumps(["--chat-template-file", str(model.with_name(TEMPLATE_NAME))])
        server.run(
            "register", _MODEL, "--recipe", _RECIPE, "--file", str(model), "--option", f"args={arguments}"
        )
        told.append(f"{_MODEL} in the server's user_models.json")
    with _step("plan") as told:
        plan = json.loads(server.run("manifest", "plan", _RECIPE, "--model", _MODEL, "--json"))
        told.append(f"{plan['block']} of the manifest becomes\n  {plan['command_line']}")


def _load(server: DemoServer) -> None:
    with _step("load") as told:
        server.post("/api/v1/load", {"model_name": _MODEL})
        [loaded] = server.get("/api/v1/health")["all_models_loaded"]
        told.append(f"process {loaded['pid']} started, its /health answers: {loaded['status']}")


def _chat(server: DemoServer) -> None:
    print(f"\n  > {_QUESTION}\n  ", end="", flush=True)
    begun = time.monotonic()
    first: float | None = None
    count = 0
    for event in server.stream("/api/v1/chat/completions", {**_REQUEST, "stream": True}):
        for choice in event.get("choices", ()):
            if text := choice.get("delta", {}).get("content"):
                first = first or time.monotonic()
                print(text if count else text.lstrip(), end="", flush=True)
                count += 1
    if first is None:
        raise LemonpodError("the engine's answer was empty")
    print("\n")
    rate = count / max(time.monotonic() - first, 1e-3)
    _tell(
        "chat", f"first token after {first - begun:.2f} s, then {rate:.0f} tokens/s", time.monotonic() - begun
    )


def _clean_up(server: DemoServer) -> None:
    with _step("clean up") as told:
        [loaded] = server.get("/api/v1/health")["all_models_loaded"]
        server.post("/api/v1/unload", {})
        server.stop()
        if _is_alive(loaded["pid"]):
            raise LemonpodError(f"the engine's process {loaded['pid']} is still there")
        told.append(f"process {loaded['pid']} and the server have ended")


def _tell_how_to_go_on(server: DemoServer) -> None:
    body = json.dumps(_REQUEST)
    print(f"\nThe server keeps running as process {server.pid}. Ask it something:\n")
    print(f"  curl -s {server.url}/api/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'")
    print("\nEnd it and its engine, then remove its folder:\n")
    print(f"  kill {server.pid}")
    print(f"  rm -r {server.folder}")


@contextmanager
def _step(name: str) -> Iterator[list[str]]:
    """Time a step; it leaves what to tell about it in the list."""
    told: list[str] = []
    begun = time.monotonic()
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(name):
            yield told
    else:
        yield told
    _tell(name, "".join(told), time.monotonic() - begun)


def _tell(name: str, text: str, seconds: float) -> None:
    print(f"{name:<{_NAME_COLUMN}} {seconds:4.1f} s  {text}", flush=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Let a TERM unwind the stack, so that what was started is ended."""
    sys.exit(_EXIT_TERMINATED)
