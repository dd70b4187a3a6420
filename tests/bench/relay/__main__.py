"""The relay against its peers, in one run: `python -m tests.bench.relay [OPTIONS]`.

Needs wrk. A peer that cannot be had is named, with the reason; nothing here is asserted.
"""

from __future__ import annotations

from functools import partial

from tests.bench import program
from tests.bench.relay.compare import NAME, bench
from tests.bench.relay.peers import KINDS


def main() -> None:
    parser = program.parser(__doc__, NAME)
    parser.add_argument("--peers", help=f"some of {','.join(KINDS)}; all, if left out")
    parser.add_argument("--seconds", type=float, help="of each measurement in each round; 2, if left out")
    said = parser.parse_args()
    peers = said.peers.split(",") if said.peers else []
    if unknown := [name for name in peers if name not in KINDS]:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    program.run(said, partial(bench, peers=peers, seconds=said.seconds))


if __name__ == "__main__":
    main()
