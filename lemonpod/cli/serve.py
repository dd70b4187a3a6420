"""`lemonpod serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    cache_dir: Annotated[
        Path | None,
        typer.Argument(help="Cache folder; ~/.cache/lemonade, if not said.", show_default=False),
    ] = None,
    config_dir: Annotated[
        Path | None,
        typer.Argument(
            help="Config folder; the cache folder if only that is said, else ~/.config/lemonade.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            envvar="LEMONADE_HOST", help="Address to listen on; localhost, if not said.", show_default=False
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            envvar="LEMONADE_PORT",
            help="Port to listen on, 0 for any free one; 13305, if not said.",
            show_default=False,
            min=0,
            max=65535,
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            help="trace, debug, info, warning or error; info, if not said. debug shows every request.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the Lemonade and OpenAI routes. Ctrl-C or SIGTERM ends the server and every engine."""
    import os

    from lemonpod import bootstrap, config, config_checks, log

    folders = config.find_folders(os.environ, cache=cache_dir, config=config_dir)
    if log_level is not None and log_level.lower() not in config_checks.LOG_LEVELS:
        raise typer.BadParameter(f"one of {', '.join(config_checks.LOG_LEVELS)}", param_hint="--log-level")
    settings = config.load_settings(os.environ, folders, host=host, port=port, log_level=log_level)
    log.set_up_logging(settings.log_level)
    bootstrap.run_server(settings, os.environ)
