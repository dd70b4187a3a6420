"""A server that runs out of files goes on with what it has, and says so once."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import sys
from pathlib import Path

from tests.unit.gateway.wire import Client, message

REPOSITORY = Path(__file__).parents[3]
LIMIT = 100


async def test_it_goes_on_without_files(tmp_path: Path) -> None:
    program = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT - 20}, {LIMIT}))"
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", f"{program}; from lemonpod.__main__ import main; main()"),
        *("serve", str(tmp_path / "cache"), "--host", "127.0.0.1", "--port", "0"),
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert server.stderr is not None
    said = ""
    try:
        while not (found := re.search(r"serving on http://127.0.0.1:(\d+)", said)):
            line = (await server.stderr.readline()).decode()
            assert line, said
            said += line
        port = int(found[1])
        assert server.pid
        assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (LIMIT, LIMIT)
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(ask(port)) for _ in range(3 * LIMIT)]
        answers = [task.result() for task in asking]
        assert 40 <= answers.count(200) < LIMIT
        assert 503 in answers

        while await ask(port, stay=0.05) != 200:
            pass  # the others have just gone
    finally:
        server.terminate()
        said += (await server.communicate())[1].decode()
    assert said.count("turned away") == 1
    assert "Traceback" not in said
    assert server.returncode == 0


async def ask(port: int, *, stay: float = 1.0) -> int | None:
    """The status of the answer, after which the client stays; None where it was lost with the connection."""
    client = await Client.connect(port)
    try:
        await client.send(message("GET", "/live"))
        status = (await client.reply()).status
        await asyncio.sleep(stay)
        return status
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
    finally:
        client.abort()
