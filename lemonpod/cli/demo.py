"""`lemonpod demo`."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running afterwards.")] = False,
) -> int:
    """Run the whole path once with a real llama.cpp on this CPU and a small real model."""
    from lemonpod.demo.run import run_demo

    return run_demo(keep=keep)
