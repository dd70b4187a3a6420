"""A small real engine with every bad habit on request: `python -m tests.fake_engine --port P [flags]`.

It answers the OpenAI routes with canned content over hand-written HTTP, so that it starts in some 50 ms and
can break the protocol where a test wants it broken. `GET /__last` tells what the engine saw last and
`GET /__stats` what it counted. A JSON request may carry `"fake": {...}` with the flags of `Habits` (dashes as
underscores) to change the engine's habits for that one request.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Where `tests` can be imported from: the working directory of a fake engine."""


TINY_ENGINE = (sys.executable, "-S", "-E", str(Path(__file__).parent / "tiny.py"))
"""The start of a command line of the smallest engine; its port and habits come next."""


def fake_engine_argv(*flags: object) -> tuple[str, ...]:
    """The command line of a fake engine; run it in `ROOT`."""
    return (sys.executable, "-S", "-E", "-m", "tests.fake_engine", *map(str, flags))
