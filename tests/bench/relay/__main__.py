"""The relay against its peers, in one run: `python -m tests.bench.relay [OPTIONS]`.

Needs wrk. A peer that cannot be had is named, with the reason; nothing here is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import lemonpod
from tests.bench.relay.install import MissingError, default_cache, on_path
from tests.bench.relay.measure import Options, measure
from tests.bench.relay.peers import KINDS
from tests.bench.relay.plot import plot
from tests.bench.relay.report import document, panels, text

_SLOW: Final = "litellm"
"""It takes longer to start than the quick run to end."""


def main(arguments: Sequence[str] | None = None) -> None:
    options, out = parse(arguments)
    begun = time.monotonic()
    try:
        on_path("wrk", "wrk")
        results = measure(options, lambda line: print(line, file=sys.stderr, flush=True))
    except MissingError as error:
        raise SystemExit(f"error: {error}") from error
    print(text(results), end="")
    about = {**machine(), "rounds": options.rounds, "seconds": options.seconds}
    about["took_seconds"] = round(time.monotonic() - begun)
    out.mkdir(parents=True, exist_ok=True)
    (out / "relay.json").write_text(json.dumps(document(results, about), indent=2) + "\n")
    (out / "relay.txt").write_text(text(results))
    (out / "relay.svg").write_text(plot("What stands between client and engine", panels(results)))
    print(f"\nwritten after {about['took_seconds']} s: {out}/relay.json, relay.txt, relay.svg")


def parse(arguments: Sequence[str] | None) -> tuple[Options, Path]:
    """The options, and where results go."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.relay", description=__doc__)
    parser.add_argument("--peers", help=f"some of {','.join(KINDS)}; all, if left out")
    parser.add_argument("--rounds", type=int, help="5, if left out")
    parser.add_argument("--seconds", type=float, help="of each measurement in each round; 2, if left out")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for results")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of peers that were made")
    parser.add_argument("--quick", action="store_true", help="one short round without LiteLLM")
    said = parser.parse_args(arguments)
    usual = [name for name in KINDS if not (said.quick and name == _SLOW)]
    names = said.peers.split(",") if said.peers else usual
    if unknown := [name for name in names if name not in KINDS]:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    options = Options(
        peers=names,
        rounds=said.rounds or (1 if said.quick else 5),
        seconds=said.seconds or (1.0 if said.quick else 2.0),
        many_hold=2.0 if said.quick else 5.0,
        cache=said.cache,
    )
    return options, said.out


def machine() -> dict[str, Any]:
    """What the figures hold for."""
    return {
        "lemonpod": lemonpod.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()
