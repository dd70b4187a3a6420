"""Asking an idle engine to give memory back."""

from __future__ import annotations

import json
from typing import Final

from lemonpod.errors import EngineError
from lemonpod.launch.plan import TcpEndpoint

TIMEOUT: Final = 10.0
"""Requests for the model wait meanwhile, and an engine that idles has nothing else to do."""
_MAX_BODY: Final = 64 << 10


async def downsize(endpoint: TcpEndpoint, path: str) -> None:
    """POST `{}`; raises EngineError unless the answer is fine and, where it is an object, has no `error`."""
    import aiohttp

    where = f"POST {endpoint.url}{path}"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT), trust_env=False) as session,
            session.post(endpoint.url + path, json={}, allow_redirects=False) as answer,
        ):
            status, body = answer.status, await answer.content.read(_MAX_BODY)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise EngineError(f"{where}: {str(error) or 'no answer in time'}") from error
    if not 200 <= status < 300:
        raise EngineError(f"{where} got status {status}")
    if trouble := _error_in(body):
        raise EngineError(f"{where}: {trouble}")


def _error_in(body: bytes) -> object:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document.get("error") if isinstance(document, dict) else None
