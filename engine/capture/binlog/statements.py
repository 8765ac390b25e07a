"""Statements in the binlog: which of them may concern a captured table.

Nearly all QUERY events are `BEGIN`; their last bytes identify them without decoding.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.capture.binlog.written_tables import Written
from engine.decode.binlog_events import Kind, read_query
from engine.decode.framing import words
from engine.decode.schema import Table
from engine.decode.stream import EventBatch

_BEGIN = np.uint64(int.from_bytes(b"\0BEGIN", "little"))
# Quoted texts and names are kept. A comment that only some server versions execute, the second group, is code.
_COMMENTS = re.compile(
    r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)|/\*M?!\d*(.*?)\*/|/\*.*?\*/|(?:--(?=\s)|\#)[^\n]*""",
    re.DOTALL,
)
# Dropping an index is not harmless: it may be the one that makes the identity unique. MariaDB's `SET STATEMENT … FOR`, `ANALYZE`
# followed by a statement, and a second action of an ALTER TABLE are not harmless either.
_HARMLESS = re.compile(
    r"(?is)^((BEGIN|COMMIT|ROLLBACK|XA|SAVEPOINT|RELEASE|GRANT|REVOKE|FLUSH|OPTIMIZE|CHECK|SET(?!\s+STATEMENT\b)"
    r"|ANALYZE\s+((NO_WRITE_TO_BINLOG|LOCAL)\s+)?TABLES?|CREATE\s+(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?INDEX"
    r"|(CREATE|ALTER|DROP)\s+(USER|ROLE|DATABASE\s+IF\s+NOT|SERVER)"
    # Routines and views name tables without changing them. What they write later is logged as rows.
    r"|(CREATE|ALTER|DROP)\s+(OR\s+REPLACE\s+)?(ALGORITHM\s*=\s*\w+\s+)?(DEFINER\s*=\s*\S+\s+)?(SQL\s+SECURITY\s+\w+\s+)?"
    r"(AGGREGATE\s+)?(VIEW|PROCEDURE|FUNCTION|TRIGGER|EVENT))\b"
    r"|ALTER\s+TABLE\s+(?:(?:`(?:[^`]|``)+`|[\w$]+)\s*\.\s*)?(?:`(?:[^`]|``)+`|[\w$]+)\s+((DISABLE|ENABLE)\s+KEYS|AUTO_INCREMENT\s*=?\s*\d+"
    r"|ADD\s+(INDEX|KEY)\s+[^,()]*\([^()]*\))\s*;?\s*$)"
)

_NAME = r"(`(?:[^`]|``)+`|(?!IF\b)[\w$]+)"
_ALTERS_ONE = re.compile(
    rf"(?i)ALTER\s+(?:(?:ONLINE|OFFLINE|IGNORE)\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?(?:{_NAME}\s*\.\s*)?{_NAME}(?=\s)(?!\s*\.)"
)
_NAMES_MORE = re.compile(r"(?i)\b(RENAME|EXCHANGE|CONVERT)\b")
"""An ALTER TABLE may rename its table, or exchange rows with another one (MariaDB: CONVERT PARTITION … TO TABLE)."""
_CREATES = re.compile(r"(?i)CREATE\s+TABLE\b")
# A server itself logs `DELETE FROM` when a MEMORY table comes back empty. It looks the same as a session's own DELETE, which may
# fire triggers.
_WRITES = re.compile(r"(?is)(SET\s+STATEMENT\s.*?\sFOR\s+)?(INSERT|UPDATE|REPLACE|LOAD|WITH|SELECT|CALL|DO|DELETE)\b")


# Where a literal ends depends on the session's settings (ANSI_QUOTES, NO_BACKSLASH_ESCAPES), which are not examined.
_LITERAL = re.compile(r"""['"]|(?<![\w$`.])[0-9]""")
_SHOWN = 200


@dataclass(frozen=True)
class Alteration:
    """A statement that may have altered captured tables: a DDL, TRUNCATE, or a write logged as text."""

    tables: tuple[str, ...]
    """Full names of the tables that may have been altered."""
    database: str
    """The default database of the statement."""
    statement: str
    """Empty if only a table map revealed the alteration. For a write, only the text before its first value."""
    at: str
    """`file:offset`."""
    written: Written | None = None
    """What a write writes to directly; None for other statements."""


def creates(statement: str) -> bool:
    """Whether it creates a new table, which concerns only awaited tables."""
    return _CREATES.match(statement) is not None


def writes(statement: str) -> bool:
    """Whether it writes rows. Logged as a statement, it can reach any table through views, triggers, routines and cascades."""
    return _WRITES.match(statement) is not None


def without_values(statement: str) -> str:
    """The statement up to its first literal. Messages and journals must not show values of a masked or omitted column."""
    shown = _LITERAL.split(statement[:_SHOWN], maxsplit=1)[0]
    return shown if shown == statement else f"{shown}…"


def meaningful(run: EventBatch) -> Iterator[tuple[int, str, str]]:
    """Yield the statements that may concern a captured table: event index, default database, text without comments."""
    queries = np.flatnonzero(run.headers.kind == Kind.QUERY)
    tail = words(run.buffer)[run.headers.end[queries] - 8] >> np.uint64(16)
    for n in queries[tail != _BEGIN].tolist():
        query = read_query(run.body(n))
        statement, elsewhere = uncommented(query.statement)
        if not (_HARMLESS.match(statement) and (not elsewhere or _HARMLESS.match(elsewhere))):
            yield n, query.database, statement


def uncommented(text: str) -> tuple[str, str]:
    """A statement without comments: as read by a server that executes all versioned comments, and by one that executes none."""

    def without(code: str) -> str:
        return _COMMENTS.sub(lambda found: found[1] or (f" {found[2]} " if found[2] and code else " "), text).strip()

    return without("code"), without("")


def concerned(statement: str, database: str, table: Table) -> bool:
    """Whether a statement may concern a table; if in doubt, True."""
    if (one := _ALTERS_ONE.match(statement)) and not _NAMES_MORE.search(statement, one.end()):
        names = [_bare(name) for name in (one[1] or database, one[2])]
        if "\ufffd" not in "".join(names):  # otherwise the statement's character set is not UTF-8
            return names == [table.database.casefold(), table.name.casefold()]

    def mentions(name: str) -> bool:
        if not name.isascii() and "\ufffd" in statement:
            return True
        quoted = re.escape(name.replace("`", "``"))
        return re.search(rf"(?i)(?<![\w$])({re.escape(name)}|{quoted})(?![\w$])", statement) is not None

    if re.match(r"(?i)DROP\s+(DATABASE|SCHEMA)\b", statement):
        return mentions(table.database)
    return mentions(table.name) and (database.casefold() == table.database.casefold() or mentions(table.database))


def _bare(name: str) -> str:
    return (name[1:-1].replace("``", "`") if name.startswith("`") else name).casefold()
