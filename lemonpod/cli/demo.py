"""`lemonpod demo`."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running afterwards.")] = False,
) -> None:
    """Run the whole path once, with a real llama.cpp and model.

    Needs no GPU and no manifest; it ends what it started.
    """
    import os

    from lemonpod.demo.run import run_demo

    raise typer.Exit(run_demo(keep=keep, environ=os.environ))
