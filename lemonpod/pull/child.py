"""The other end of the worker: its process, and what it says as values."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from typing import IO, Any, Final

from lemonpod.errors import (
    HubAccessError,
    HubBusyError,
    HubNotFoundError,
    HubOfflineError,
    InvalidModelError,
    LemonpodError,
    ModelPullError,
    NoSpaceError,
)

_ERRORS: Final[Mapping[str, type[LemonpodError]]] = {
    kind.code: kind
    for kind in (
        HubAccessError,
        HubBusyError,
        HubNotFoundError,
        HubOfflineError,
        InvalidModelError,
        ModelPullError,
        NoSpaceError,
    )
}
_LIMIT: Final = 64 << 20
"""Of a line: a listing of ten thousands of files."""
_TAIL: Final = 2000
_OF_THE_EXTRA: Final = ("No module named 'huggingface_hub'", "No module named 'httpx2'")
"""How the worker ends without the extra: huggingface_hub comes with the second, which is imported first."""

log = logging.getLogger(__name__)


async def told_by_worker(
    request: Mapping[str, Any], environ: Mapping[str, str]
) -> AsyncGenerator[dict[str, Any], None]:
    """The worker's events for a request. Leaving the loop ends it; what it has fetched so far stays.

    Raises ModelPullError, or InvalidModelError for a checkpoint that means nothing.
    """
    with tempfile.TemporaryFile() as errors:
        process = await _started(errors, environ)
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            async for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "error":
                    raise _ERRORS[event["code"]](event["message"], hint=event["hint"])
                yield event
            if await process.wait() != 0:
                raise _crash(process.returncode, errors)
        finally:
            if process.returncode is None:
                process.kill()
            process.stdin.close()
            await process.wait()


async def _started(errors: IO[bytes], environ: Mapping[str, str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lemonpod.pull.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_environment(environ),
            limit=_LIMIT,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
    except OSError as error:
        raise ModelPullError(
            f"the process that fetches models cannot be started: {error.strerror}"
        ) from error


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The server's, without what is for the server alone, and with the modules that it has itself."""
    own = {name: value for name, value in environ.items() if not name.startswith("LEMONADE_")}
    ours = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONSAFEPATH": "1",
        # Asks the hub for a list of programs that it might be run by; no business of a download.
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    return own | ours


def _crash(returncode: int | None, errors: IO[bytes]) -> ModelPullError:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL))
    text = errors.read().decode("utf-8", "replace").strip()
    if text.endswith(_OF_THE_EXTRA):
        return ModelPullError(
            "models are fetched with huggingface_hub, which is not installed",
            hint="install it beside lemonpod: pip install 'lemonpod[pull]'",
        )
    log.error("the process that fetches models ended with %s: %s", returncode, text)
    return ModelPullError("the process that fetches models has crashed", hint="see the server's log")
