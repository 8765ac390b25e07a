"""Globs of tables: `database.table`, with `*`, `?` and `[…]` in both parts; a leading `!` excludes.

A server with lower_case_table_names = 1 stores all names in lower case. With 2 it stores them as given, and compares
them without regard to case. Globs and names follow that (`NameRule`). Both servers fold names as LOWER() of
utf8mb3_general_ci does, which is Unicode 3.0; a test compares `folded` with it, for every character that a name may
have.
"""

import fnmatch
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T", bound=Collection[str])
_WORK = re.compile(r"^_+(.+)_(?:gho|ghc|del|new|old)$")
GLOB = re.compile(r"^!?[^.\s!][^.]*\.[^.].*$")
_KEPT = re.compile(
    "[\u0220\u023a-\u024f\u0370-\u037f\u03cf\u03d8\u03f4\u03f7-\u03ff\u048a\u04c0\u04c5\u04c9\u04cd\u04f6\u04fa-\u052f"
    "\u10a0-\u1dff\u1e9e\u1efa-\u1eff\u2132\u2183\u2c00-\ufeff\U00010000-\U0010ffff]"
)
"""Letters to which Unicode gave a lower case after version 3.0."""
_SMALL = {"\u0130": "i"}
_PARTS = re.compile(r"(?s)\[(!?\]?)([^\]]*)\]|.")
"""A class of a glob, its beginning and the rest; or any character."""


@dataclass(frozen=True)
class NameRule:
    """How a server compares the names of databases and tables."""

    lower_case_table_names: int = 0
    """The server's variable. 0: exactly."""

    @property
    def folds(self) -> bool:
        """Whether the server disregards case."""
        return self.lower_case_table_names != 0

    def glob(self, glob: str) -> str:
        """The glob that matches, exactly, the names in the catalog that this one is meant to match."""
        if self.lower_case_table_names == 1:
            return folded(glob)
        return _PARTS.sub(_in_any_case, glob) if self.folds else glob

    def globs(self, globs: Iterable[str]) -> tuple[str, ...]:
        """`glob` of each."""
        return tuple(map(self.glob, globs))

    def stored(self, name: str, names: Collection[str]) -> str:
        """The one of the names in the catalog that this name means.

        The name itself if there is none, or more than one.
        """
        meant = [one for one in names if folded(one) == folded(name)] if self.folds and name not in names else []
        return meant[0] if len(meant) == 1 else name


EXACT = NameRule()


def escaped(name: str) -> str:
    """A glob that matches this name only."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def folded(text: str) -> str:
    """The text in lower case, as servers write names."""
    return "".join(_SMALL.get(c) or (c if _KEPT.match(c) else c.lower()) for c in text)


@lru_cache(1)
def _cases() -> Mapping[str, str]:
    """By lower case, the letters that fold to it."""
    cases: dict[str, str] = defaultdict(str)
    for character in map(chr, [*range(0xD800), *range(0xE000, 0x10000)]):
        cases[folded(character)] += character
    return cases


def _in_any_case(part: re.Match[str]) -> str:
    if part[2] is None:
        cases = _cases().get(folded(part[0]), part[0])
        return f"[{cases}]" if len(cases) > 1 else part[0]
    negated, inside = part[1].startswith("!"), folded(part[1].removeprefix("!") + part[2])
    listed = set(re.sub(r"(.)-(.)", lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), inside))
    cases = "".join(_cases().get(c, c if folded(c) == c else "") for c in sorted(listed - set("]-!")))
    # Where these stand, they stand for themselves.
    return "[" + "!" * negated + "]" * ("]" in listed) + cases + "!" * ("!" in listed) + "-" * ("-" in listed) + "]"


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
    globs: Iterable[str], tables: Collection[tuple[str, str]], captured_names: Collection[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The tables that the globs select and the pipeline does not know.

    Without the work tables of gh-ost and pt-online-schema-change: they take the place of a known table, or are dropped.
    """
    return [
        (database, table)
        for database, table in select_tables(globs, tables)
        if (database, table) not in captured_names
        and not ((work := _WORK.match(table)) is not None and (database, work[1]) in captured_names)
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
