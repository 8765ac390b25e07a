"""The command line: `tidemark VERB SPEC` (docs/command-line.md)."""

from engine.cli import ending  # isort: skip - the first import, see there
from engine.cli import pipeline, pausing, backups, verification, auditing, published, other_engines  # isort: skip
from engine.cli import watching, silencing, queueing  # isort: skip
from engine.cli.command import app

__all__ = [
    "app",
    "auditing",
    "backups",
    "main",
    "other_engines",
    "pausing",
    "pipeline",
    "published",
    "queueing",
    "silencing",
    "verification",
    "watching",
]


def main() -> None:
    """The command `tidemark`."""
    try:
        app()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            ending.decide(ended.code)
        raise


if __name__ == "__main__":
    main()
