"""The process of `tidemark console`: the watchdog, from the start, and Streamlit."""

import sys
from pathlib import Path

from streamlit.web import cli

from app.common import watching

_PAGE = Path(__file__).resolve().parent / "main.py"


def main(arguments: list[str]) -> None:
    """Serve the console until the process ends. arguments: options of Streamlit."""
    watching.begin()
    cli.main(["run", str(_PAGE), *arguments], prog_name="streamlit")


if __name__ == "__main__":
    main(sys.argv[1:])
