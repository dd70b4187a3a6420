"""`python -m lemonpod`, and the `lemonpod` command."""

import sys


def main() -> None:
    from lemonpod.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
