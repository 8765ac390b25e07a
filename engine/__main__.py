"""The command line: `tidemark VERB SPEC` (docs/command-line.md)."""

import sys

from engine.cli import pipeline, verification
from engine.cli.command import app

__all__ = ["app", "main", "pipeline", "verification"]


def main() -> None:
    """The command `tidemark`."""
    sys.exit(app())


if __name__ == "__main__":
    main()
