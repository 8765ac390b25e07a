"""Statements in the binlog: which of them may concern a captured table.

Nearly all QUERY events are `BEGIN`, and are recognised by their last bytes without being read.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.decode.events import Kind, read_query
from engine.decode.framing import words
from engine.decode.schema import Table
from engine.decode.stream import Run

_BEGIN = np.uint64(int.from_bytes(b"\0BEGIN", "little"))
_COMMENTS = re.compile(r"^(\s|/\*(?!M?!).*?\*/|--[^\n]*\n|#[^\n]*\n)+", re.DOTALL)
_VERSIONED = re.compile(r"/\*M?!\d*\s?(.*?)\*/", re.DOTALL)
# Dropping an index is not harmless: it may be the one that makes the identity unique. Nor is what MariaDB lets follow
# `SET STATEMENT … FOR` and `ANALYZE`, or a second action of an ALTER TABLE.
_HARMLESS = re.compile(
    r"(?is)^((BEGIN|COMMIT|ROLLBACK|XA|SAVEPOINT|RELEASE|GRANT|REVOKE|FLUSH|OPTIMIZE|CHECK|SET(?!\s+STATEMENT\b)"
    r"|ANALYZE\s+((NO_WRITE_TO_BINLOG|LOCAL)\s+)?TABLES?|CREATE\s+(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?INDEX"
    r"|(CREATE|ALTER|DROP)\s+(USER|ROLE|DATABASE\s+IF\s+NOT|SERVER)"
    # Programs and views name tables without changing one; what they write later is logged as rows.
    r"|(CREATE|ALTER|DROP)\s+(OR\s+REPLACE\s+)?(ALGORITHM\s*=\s*\w+\s+)?(DEFINER\s*=\s*\S+\s+)?(SQL\s+SECURITY\s+\w+\s+)?"
    r"(AGGREGATE\s+)?(VIEW|PROCEDURE|FUNCTION|TRIGGER|EVENT))\b"
    r"|ALTER\s+TABLE\s+\S+\s+((DISABLE|ENABLE)\s+KEYS|AUTO_INCREMENT\s*=?\s*\d+"
    r"|ADD\s+(INDEX|KEY)\s+[^,()]*\([^()]*\))\s*;?\s*$)"
)

_CREATES = re.compile(r"(?i)CREATE\s+TABLE\b")
# What the server itself logs when a MEMORY table comes back empty reaches no table but that one.
_WRITES = re.compile(
    r"(?is)(SET\s+STATEMENT\s.*?\sFOR\s+)?"
    r"(INSERT|UPDATE|REPLACE|LOAD|WITH|SELECT|CALL|DO|DELETE(?!\s+FROM\s+`?[\w$]+`?\.`?[\w$]+`?\s*$))\b"
)


@dataclass(frozen=True)
class Alteration:
    """A statement after which captured tables may not be what they were: a DDL, or TRUNCATE.

    tables: full names of those that it may concern. database: the default one that it ran in. statement: empty when none was
    seen and a table map alone says so. at: `file:offset`.
    """

    tables: tuple[str, ...]
    database: str
    statement: str
    at: str

    def as_dict(self) -> dict[str, Any]:
        """For a report; `alteration_from_dict` is the inverse."""
        return asdict(self)


def alteration_from_dict(record: dict[str, Any]) -> Alteration:
    """The inverse of `Alteration.as_dict`."""
    return Alteration(**{**record, "tables": tuple(record["tables"])})


def creates(statement: str) -> bool:
    """Whether it makes a table that was not there: harmless but to those that are awaited."""
    return _CREATES.match(statement) is not None


def writes(statement: str) -> bool:
    """Whether it writes rows: logged as a statement, it can reach any table, through views, triggers, routines and cascades."""
    return _WRITES.match(statement) is not None


def meaningful(run: Run) -> Iterator[tuple[int, str, str]]:
    """The statements that may concern a captured table: number of the event, default database, text without comments."""
    queries = np.flatnonzero(run.headers.kind == Kind.QUERY)
    tail = words(run.buffer)[run.headers.end[queries] - 8] >> np.uint64(16)
    for n in queries[tail != _BEGIN].tolist():
        query = read_query(run.body(n))
        statement = _VERSIONED.sub(r"\1", _COMMENTS.sub("", query.statement)).strip()
        if not _HARMLESS.match(statement):
            yield n, query.database, statement


def concerned(statement: str, database: str, table: Table) -> bool:
    """Whether a statement may be about a table; in doubt, yes."""

    def mentions(name: str) -> bool:
        if not name.isascii() and "\ufffd" in statement:
            return True  # written in another character set than UTF-8
        quoted = re.escape(name.replace("`", "``"))
        return re.search(rf"(?i)(?<![\w$])({re.escape(name)}|{quoted})(?![\w$])", statement) is not None

    if re.match(r"(?i)DROP\s+(DATABASE|SCHEMA)\b", statement):
        return mentions(table.database)
    return mentions(table.name) and (database.casefold() == table.database.casefold() or mentions(table.database))
