"""Everything that is measured, in one run: `python -m tests.bench [--quick] [NAME ...]`.

What this machine lacks is named with the reason, and the rest is measured.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Final

from tests.bench import containers, discovery, loading, program, scaling, startup
from tests.bench.install import MissingError
from tests.bench.program import Run
from tests.bench.relay import compare
from tests.bench.relay.load import LoadError
from tests.bench.report import Report

BENCHES: Final = MappingProxyType(
    {
        "relay": compare.bench,
        "startup": startup.bench,
        "discovery": discovery.bench,
        "scaling": scaling.bench,
        "loading": loading.bench,
        "containers": containers.bench,
    }
)


def main() -> None:
    parser = program.parser(__doc__, "bench")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all, if left out")
    said = parser.parse_args()
    if unknown := [name for name in said.names if name not in BENCHES]:
        parser.error(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    names = said.names or list(BENCHES)
    program.run(said, *(partial(or_why_not, name, BENCHES[name]) for name in names))


def or_why_not(name: str, bench: Callable[[Run], Report], run: Run) -> Report:
    """What the bench finds, or why it finds nothing: the others go on."""
    try:
        return bench(run)
    except MissingError as error:
        return Report(name=name, missing={name: str(error)})
    except (LoadError, OSError, subprocess.SubprocessError) as error:
        return Report(name=name, failures=[f"{name}: {error}"])


if __name__ == "__main__":
    main()
