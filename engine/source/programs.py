"""Everything in the catalog through which a write to one table reaches another.

Triggers, foreign keys, views and routines.

The catalog silently omits what the user may not see. So the grants are checked first; without them nothing is trusted
(`Programs.whole`). Foreign keys are read from KEY_COLUMN_USAGE, because MariaDB hides REFERENTIAL_CONSTRAINTS from
users with SELECT only. Whether one changes rows is in its table's definition.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.source.connect import Connection, query, quote
from engine.source.own_account import GRANTEE

FoldedName = tuple[str, str]
"""Database and name, casefolded."""
NEEDED = ("SELECT", "SHOW VIEW", "TRIGGER")
"""Grants on *.* that show the whole catalog."""
_GRANTS = f"SELECT PRIVILEGE_TYPE AS p FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = {GRANTEE}"
_TRIGGERS = """
SELECT EVENT_OBJECT_SCHEMA AS d, EVENT_OBJECT_TABLE AS t, ACTION_STATEMENT AS body FROM information_schema.TRIGGERS"""
_VIEWS = "SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, VIEW_DEFINITION AS body FROM information_schema.VIEWS"
_ROUTINES = "SELECT ROUTINE_NAME AS t, ROUTINE_DEFINITION AS body FROM information_schema.ROUTINES"
_TABLES = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t, ENGINE AS engine FROM information_schema.TABLES \
WHERE TABLE_TYPE <> 'SYSTEM VIEW'"""
_REFERRING = """
SELECT DISTINCT TABLE_SCHEMA AS d, TABLE_NAME AS t, REFERENCED_TABLE_SCHEMA AS rd, REFERENCED_TABLE_NAME AS rt
FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL"""
_CHANGES = re.compile(r"FOREIGN KEY .* ON (?:DELETE|UPDATE) (?:CASCADE|SET )")
_ENGINES = frozenset(("innodb", "myisam", "aria", "memory", "archive", "csv", "blackhole", "rocksdb", "tokudb"))
"""Engines whose tables store their own rows. Others (MERGE, FEDERATED, SPIDER …) forward writes to other tables."""


@dataclass(frozen=True)
class Programs:
    """The relevant part of the catalog. Names are casefolded; bodies are SQL, or None if they are not shown."""

    whole: bool
    """Whether the user sees the whole catalog."""
    tables: frozenset[FoldedName] = frozenset()
    """Base tables and views."""
    forwarding: frozenset[FoldedName] = frozenset()
    """Tables of an engine that forwards writes to other tables."""
    views: Mapping[FoldedName, str | None] = field(default_factory=dict)
    triggers: Mapping[FoldedName, tuple[str | None, ...]] = field(default_factory=dict)
    referring: Mapping[FoldedName, frozenset[FoldedName]] = field(default_factory=dict)
    """By referenced table, the tables whose rows change when it changes."""
    routines: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)


def sees_whole_catalog(connection: Connection) -> bool:
    """Whether the user's grants show triggers, views and routines of all tables."""
    return {row["p"].upper() for row in query(connection, _GRANTS)}.issuperset(NEEDED)


def read_programs(connection: Connection) -> Programs:
    """Read the current catalog. If the user's grants do not show all of it, `whole` is False and nothing is read."""
    if not sees_whole_catalog(connection):
        return Programs(whole=False)
    tables = query(connection, _TABLES)
    triggers: dict[FoldedName, list[str | None]] = defaultdict(list)
    for row in query(connection, _TRIGGERS):
        triggers[_name(row["d"], row["t"])].append(row["body"])
    routines: dict[str, list[str | None]] = defaultdict(list)
    for row in query(connection, _ROUTINES):
        routines[row["t"].casefold()].append(row["body"])
    return Programs(
        whole=True,
        tables=frozenset(_name(row["d"], row["t"]) for row in tables),
        forwarding=frozenset(
            _name(row["d"], row["t"]) for row in tables if row["engine"] and row["engine"].casefold() not in _ENGINES
        ),
        views={_name(row["d"], row["t"]): row["body"] or None for row in query(connection, _VIEWS)},
        triggers={name: tuple(bodies) for name, bodies in triggers.items()},
        referring=_referring(connection),
        routines={name: tuple(bodies) for name, bodies in routines.items()},
    )


def _referring(connection: Connection) -> dict[FoldedName, frozenset[FoldedName]]:
    referring: dict[FoldedName, set[FoldedName]] = defaultdict(set)
    texts: dict[FoldedName, str] = {}
    for row in query(connection, _REFERRING):
        child = (row["d"], row["t"])
        if child not in texts:
            (definition,) = query(connection, f"SHOW CREATE TABLE {quote(*child)}")
            texts[child] = str(definition["Create Table"])
        if _CHANGES.search(texts[child]):
            referring[_name(row["rd"], row["rt"])].add(_name(*child))
    return {name: frozenset(children) for name, children in referring.items()}


def _name(database: str, name: str) -> FoldedName:
    return database.casefold(), name.casefold()
