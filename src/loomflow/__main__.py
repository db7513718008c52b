"""What runs as `loomflow` and as `python -m loomflow`."""

from __future__ import annotations

import importlib
import sys

INTERRUPTED = 130
"""The status of a command that Ctrl-C ended, as shells give it."""


def main() -> None:
    """Run the command line and leave with its status."""
    try:
        importlib.import_module("loomflow.cli.app").app(prog_name="loomflow")
    except KeyboardInterrupt:  # while it was loading
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
