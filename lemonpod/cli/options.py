"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

ServerHost = Annotated[
    str, typer.Option("--host", envvar="LEMONADE_HOST", help="Host the server listens on.")
]
ServerPort = Annotated[
    int,
    typer.Option("--port", envvar="LEMONADE_PORT", min=1, max=65535, help="Port the server listens on."),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        help="Key to send; else LEMONADE_ADMIN_API_KEY or LEMONADE_API_KEY.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
CacheDir = Annotated[
    Path | None, typer.Option("--cache-dir", help="Cache folder, if not the usual one.", show_default=False)
]
ConfigDir = Annotated[
    Path | None, typer.Option("--config-dir", help="Config folder, if not the usual one.", show_default=False)
]

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 13305
