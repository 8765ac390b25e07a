"""The command line: `tidemark VERB SPEC` (docs/command-line.md)."""

import sys

from engine.cli import pipeline, verification, auditing  # isort: skip
from engine.cli.command import app

__all__ = ["app", "auditing", "main", "pipeline", "verification"]


def main() -> None:
    """The command `tidemark`."""
    sys.exit(app())


if __name__ == "__main__":
    main()
