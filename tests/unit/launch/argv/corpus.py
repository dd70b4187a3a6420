"""Command lines of real projects, who gave them, and what the real programs sent to their engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from lemonpod.launch.argv.run import container_spec
from lemonpod.launch.argv.split import split
from lemonpod.launch.argv.values import Caller
from lemonpod.launch.container import ContainerSpec

DATA: Final = Path(__file__).parents[3] / "data/argv"
FILES: Final = {
    "/home/u/src/.env": "# settings\n\nA=1\nHF_TOKEN\nUNSET\n",
    "/home/u/src/app/.env": "A=1\n",
    "/home/u/src/labels": "a=1\nb\n# c\n",
    "/home/u/src/profile.json": '{\n "defaultAction": "SCMP_ACT_ALLOW" }\n',
    "/home/u/src/export.env": "export E=1\n",
}
ENV: Final = {
    "HF_TOKEN": "hf_dummy",
    "NGC_API_KEY": "nvapi-dummy",
    "NIM_MODEL_PROFILE": "prof-dummy",
    "DISPLAY": ":0",
}


def read(path: str) -> str:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


CALLER: Final = Caller(cwd="/home/u/src", env=ENV, read=read)


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def spec_of(*argv: str) -> ContainerSpec:
    """The spec of a command line that is one of podman or docker."""
    command = split(argv)
    assert command is not None
    return container_spec(command, CALLER)
