"""Storage engines whose tables cannot be captured, because their rows are elsewhere or are not what the binlog has.

A mirror is right only if SELECT shows a table's own rows, and the binlog has every change of them under the table's
name:

    MERGE          shows the rows of its parts. A write through it is logged under its own name, a write to a part
                   under the part's. So neither has all changes, and the parts cannot be captured either
    BLACKHOLE      logs rows and keeps none
    FEDERATED, CONNECT, SPIDER, S3, …
                   show rows of other servers, files or buckets, which others change without an event here
    CSV            is a text file that can be replaced under the server

Engines that are not known here count as such: what they log is unknown. Views have no events at all, and are never
listed (`catalog.list_tables`).
"""

from collections.abc import Iterable
from typing import Any

from engine.decode.schema import TableName
from engine.source.connect import Connection, query, quote

OWN = frozenset(("innodb", "myisam", "aria", "memory", "archive", "rocksdb", "tokudb"))
"""Engines whose tables store their own rows, and change them only with events in the binlog."""
_MERGE = ("mrg_myisam", "merge")
_WHY = {
    **dict.fromkeys(
        _MERGE, "its rows are those of its parts, and the binlog has no changes of them that are made through the parts"
    ),
    "blackhole": "it keeps no rows, although the binlog has rows of it",
    "csv": "its rows are a text file, which can be changed without an event in the binlog",
    "federated": "its rows are on another server, where they change without an event in this binlog",
    "spider": "its rows are on other servers, where they change without an event in this binlog",
    "connect": "its rows are in a file or on another server, where they change without an event in this binlog",
    "s3": "its rows are in a bucket, where they change without an event in this binlog",
    "ndbcluster": "other servers of the cluster change its rows, and this binlog may lack that",
}
_UNKNOWN = "nothing ensures that it stores its own rows and that the binlog has every change of them"
_MERGES = """
SELECT TABLE_SCHEMA AS d, TABLE_NAME AS t FROM information_schema.TABLES WHERE ENGINE IN ('MRG_MYISAM', 'MERGE')"""


def unfit_engine(engine: str | None) -> str:
    """Why tables of this engine cannot be captured; empty if they can. None: the server could not open the table."""
    if engine is None or engine.casefold() in OWN:
        return ""
    return f"a table of the engine {engine}: {_WHY.get(engine.casefold(), _UNKNOWN)}"


def merge_parts(connection: Connection, names: Iterable[TableName]) -> dict[TableName, str]:
    """By table, why it cannot be captured, for those of these tables that are parts of a MERGE table.

    One statement for the server, and one per MERGE table that the user may see.
    """
    wanted = {(database.casefold(), name.casefold()): (database, name) for database, name in names}
    parts: dict[TableName, str] = {}
    for row in query(connection, _MERGES) if wanted else ():
        definition = query(connection, f"SHOW CREATE TABLE {quote(row['d'], row['t'])}")[0]
        for part in union_of(_text(definition), row["d"]):
            if (name := wanted.get((part[0].casefold(), part[1].casefold()))) is not None:
                parts[name] = (
                    f"a part of the MERGE table {row['d']}.{row['t']}: rows that are written through that table change "
                    "this one without an event in the binlog"
                )
    return parts


def _text(definition: dict[str, Any]) -> str:
    return str(definition.get("Create Table") or "")


def union_of(definition: str, database: str) -> list[TableName]:
    """The parts of a MERGE table, from what SHOW CREATE TABLE prints. database: that of parts without one."""
    _, clause, rest = definition.rpartition(" UNION=(")
    parts: list[list[str]] = [[]]
    at = 0
    while clause and rest[at : at + 1] == "`":
        name, at = _quoted(rest, at + 1)
        parts[-1].append(name)
        separator, at = rest[at : at + 1], at + 1
        if separator == ",":
            parts.append([])
        elif separator != ".":
            break
    return [(part[-2] if len(part) > 1 else database, part[-1]) for part in parts if part]


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The identifier whose opening quote is before `at`, and the place after its closing quote."""
    name = ""
    while at < len(text):
        if text[at] != "`":
            name += text[at]
        elif text[at + 1 : at + 2] == "`":
            name += "`"
            at += 1
        else:
            return name, at + 1
        at += 1
    return name, at
