"""What runs as `loomflow` and as `python -m loomflow`."""

from __future__ import annotations

from .cli.app import app


def main() -> None:
    """Run the command line and leave with its status."""
    app(prog_name="loomflow")


if __name__ == "__main__":
    main()
