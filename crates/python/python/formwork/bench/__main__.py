"""The command `python -m formwork.bench`."""

from __future__ import annotations

import argparse
import sys

from formwork.bench import masks, worker


def main() -> int:
    """Runs the chosen measurement."""
    parser = argparse.ArgumentParser(prog="python -m formwork.bench", description="Measurements of constrained decoding.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    masks.add_command(commands)
    worker.add_command(commands)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
