"""The consoles of the command line. They print text as it is, and cut nothing where no terminal sets a width."""

from typing import IO

from rich.console import Console

_WIDE = 100_000
"""Columns of a pipe or a file: no line is folded, and no cell is cut."""


def plain_console(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """A console for texts from outside: brackets are no markup in them, and `:key:` is no picture.

    file: stdout if None.
    """
    made = Console(file=file, stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.file.isatty():
        made.width = _WIDE
    return made
