"""The lab by hand: `python -m tests.lab install|up|down|status|env`, `up` and `env` with engines' names."""

from __future__ import annotations

import argparse
import shlex
import sys

from tests.lab.errors import LabError, NotHereError
from tests.lab.lab import BY_HAND, KINDS, LABS, Lab, end, install_all
from tests.lab.native import fetch_programs
from tests.lab.space import processes_in


def main() -> int:
    """Exit status 0 fine, 1 where a part did not come up, 3 where this machine cannot have it."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parser.add_argument("action", choices=("install", "up", "down", "status", "env"))
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"of {', '.join(KINDS)}; all if none")
    asked = parser.parse_args()
    if unknown := set(asked.engines) - set(KINDS):
        parser.error(f"no such engine: {', '.join(sorted(unknown))}")
    try:
        _ACTIONS[asked.action](asked.engines or list(KINDS))
    except NotHereError as error:
        print(error, file=sys.stderr)
        return 3
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _install(_: list[str]) -> None:
    install_all()
    try:
        fetch_programs()
    except LabError as error:  # few tests need them
        print(f"no native servers: {error}", file=sys.stderr)


def _up(names: list[str]) -> None:
    lab = Lab(BY_HAND)
    for name in names:
        engine = lab.engine(name)
        print(f"{name}  {engine.version}\n  {engine.url}\n  {shlex.join(engine.cli)}")


def _down(_: list[str]) -> None:
    end(BY_HAND)


def _status(_: list[str]) -> None:
    for folder in sorted(LABS.glob("*/")):
        print(f"{folder}  {len(processes_in(folder))} processes")


def _env(names: list[str]) -> None:
    """For `eval`: what makes clients find these engines."""
    lab = Lab(BY_HAND)
    for name in names:
        for key, value in lab.engine(name).env.items():
            print(f"export {key}={shlex.quote(value)}")


_ACTIONS = {"install": _install, "up": _up, "down": _down, "status": _status, "env": _env}

if __name__ == "__main__":
    sys.exit(main())
