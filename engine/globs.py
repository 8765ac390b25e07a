"""Globs of tables: `database.table`, with `*`, `?` and `[…]` in both parts; a leading `!` excludes."""

import fnmatch
import re
from collections.abc import Collection, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Collection[str])
_WORK = re.compile(r"^_+(.+)_(?:gho|ghc|del|new|old)$")
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


def new_matches(
    globs: Iterable[str], tables: Collection[tuple[str, str]], known: Collection[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The tables that the globs select and the pipeline does not know.

    Without the work tables of gh-ost and pt-online-schema-change: they take the place of a known table, or are dropped.
    """
    return [
        (database, table)
        for database, table in select_tables(globs, tables)
        if (database, table) not in known
        and not ((work := _WORK.match(table)) is not None and (database, work[1]) in known)
    ]


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
