"""Globs of tables: `database.table`, with `*`, `?` and `[…]` in both parts; a leading `!` excludes."""

import fnmatch
import re
from collections.abc import Collection, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Collection[str])
GLOB = re.compile(r"^!?[^.\s!][^.]*\.[^.].*$")


def including(globs: T) -> T:
    """Return the globs. Raises ValueError with the first one that is invalid or excludes."""
    for glob in globs:
        if not GLOB.match(glob) or glob.startswith("!"):
            raise ValueError(f"{glob!r} is not of the form database.table (globs allowed)")
    return globs


def matches(glob: str, database: str, table: str) -> bool:
    """Whether the glob, split at one of its dots, matches both names; either name may contain dots."""
    dots = [n for n, character in enumerate(glob) if character == "."]
    return any(fnmatch.fnmatchcase(database, glob[:n]) and fnmatch.fnmatchcase(table, glob[n + 1 :]) for n in dots)


def select_tables(globs: Iterable[str], tables: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The (database, table) pairs that the globs select; a later glob wins over an earlier one."""
    chosen = []
    for database, table in tables:
        take = False
        for glob in globs:
            if matches(glob.removeprefix("!"), database, table):
                take = not glob.startswith("!")
        if take:
            chosen.append((database, table))
    return chosen
