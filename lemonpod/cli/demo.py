"""`lemonpod demo`."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running afterwards.")] = False,
) -> None:
    """Run the whole path once with a real llama.cpp on this CPU and a small real model."""
    import os

    from lemonpod.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep, environ=os.environ))
