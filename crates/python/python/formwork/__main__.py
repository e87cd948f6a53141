"""The `formwork` command."""

from __future__ import annotations

import signal
import sys

from formwork._native import run_command


def main() -> int:
    """Runs the command with the arguments of this process. Returns the exit code."""
    # Python only notes Ctrl-C, and would see it when the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["formwork", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
