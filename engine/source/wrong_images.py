"""Columns whose row images are wrong: in MariaDB, virtual generated columns that refer to an AUTO_INCREMENT column.

MariaDB computes a row's virtual columns before it assigns the number, and again whenever somebody reads them. So each
INSERT that leaves the number to the server logs a value computed with 0, and a SELECT returns another one. MySQL
refuses such columns, and MariaDB refuses stored or indexed ones. `tests/live/test_wrong_images.py` tries both servers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.decode.schema import WRONG_IMAGES, Column

_TEXT = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_NAME = re.compile(r"`((?:[^`]|``)+)`")


def with_wrong_images(columns: Iterable[Column], rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The columns of a table, those marked whose images are wrong. rows: of all its columns, by MariaDB's catalog."""
    names = _over_auto_increment(rows)
    return tuple(
        replace(column, type=f"{column.type}{WRONG_IMAGES}") if column.name.casefold() in names else column
        for column in columns
    )


def _over_auto_increment(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names, in one case, of virtual columns that depend on a number of the server, by others too."""
    extras = {str(row["name"]).casefold(): str(row["extra"] or "").casefold() for row in rows}
    numbers = {name for name, extra in extras.items() if "auto_increment" in extra}
    if not numbers:
        return set()
    sources = {
        str(row["name"]).casefold(): _names_in(str(row["expression"] or ""))
        for row in rows
        if "virtual generated" in extras[str(row["name"]).casefold()]
    }
    affected = set[str]()
    while more := {name for name, used in sources.items() if used & (numbers | affected)} - affected:
        affected |= more
    return affected


def _names_in(expression: str) -> set[str]:
    """The names of columns in an expression as the catalog shows it, in one case."""
    return {name.replace("``", "`").casefold() for name in _NAME.findall(_TEXT.sub("", expression))}
