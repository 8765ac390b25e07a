"""Statements in the binlog: which of them may concern a captured table.

Nearly all QUERY events are `BEGIN`; their last bytes identify them without decoding. The others are decoded by the
character set of their session and read by its SQL mode (`decode.query_event`, `sql.tokens`). A statement that is not
read to its end may have altered any table: those that its text mentions count as altered, and the catalog is asked
about the others (`run.tables.alterations`).
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np

from engine.capture.binlog.written_tables import WrittenTables
from engine.capture.binlog.xa_events import xa_statements
from engine.decode.binlog_events import Kind
from engine.decode.framing import words
from engine.decode.query_event import REPLACED, Query, read_query
from engine.decode.schema import Table
from engine.decode.stream import EventBatch
from engine.sql.alter import Alter
from engine.sql.statement import UNKNOWN, Effect, effect_of
from engine.sql.tokens import Modes, Token, UnreadableError, rewritten, tokens

_BEGIN = np.uint64(int.from_bytes(b"\0BEGIN", "little"))
_LITERAL = re.compile(r"""['"]|(?<![\w$`.])[0-9]""")
_WRITES = re.compile(
    r"(?is)\s*(SET\s+STATEMENT\s.*?\sFOR\s+)?(INSERT|UPDATE|REPLACE|LOAD|WITH|SELECT|CALL|DO|DELETE)\b"
)
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
    written_tables: WrittenTables | None = None
    """What a write writes to directly; None for other statements."""
    alter: Alter | None = None
    """What an ALTER TABLE does; None for other statements, and for one that is not understood."""
    unproved_since: int | None = None
    """If it may have altered other tables than `tables` too: when it was executed, in seconds since 1970."""


@dataclass(frozen=True)
class LoggedStatement:
    """A statement that may concern a captured table."""

    event: int
    """Its index in the run."""
    database: str
    statement: str
    """As it was logged."""
    effect: Effect
    readable: str
    """The same statement in the default modes, without comments; empty if it is not read to its end."""
    charset_known: bool = True
    raw: bytes = b""
    """The bytes that were logged."""


def meaningful(run: EventBatch, *, mariadb: bool) -> Iterator[LoggedStatement]:
    """Yield the statements that may concern a captured table."""
    queries = np.flatnonzero(run.headers.kind == Kind.QUERY)
    tail = words(run.buffer)[run.headers.end[queries] - 8] >> np.uint64(16)
    queries = queries[tail != _BEGIN]
    for n in queries[~xa_statements(run, queries)].tolist():
        query = read_query(run.body(n))
        if query.unfinished:
            continue
        effect, readable = read(query, mariadb=mariadb)
        if effect.kind != "nothing":
            yield LoggedStatement(
                n, query.database, query.statement.strip(), effect, readable, query.charset_known, query.raw
            )


def read(query: Query, *, mariadb: bool) -> tuple[Effect, str]:
    """The effect of a statement, and the statement in the default modes; empty if it is not read to its end.

    Without the session's modes, only what is the same under all of them is known.
    """
    has_modes = query.sql_mode is not None
    modes = [Modes.of(query.sql_mode or 0, mariadb=mariadb)] if has_modes else _all_modes(mariadb=mariadb)
    try:
        readings = {tokens(query.statement, mode) for mode in modes}
    except UnreadableError:
        readings = set()
    if len(readings) != 1:
        return (Effect("writes") if _WRITES.match(query.statement) else UNKNOWN), ""
    (one,) = readings
    effect = effect_of(one)
    names = (*(part for name in effect.tables for part in name), *effect.databases)
    is_garbled = any(REPLACED in name or ("?" in name and not query.raw.isascii()) for name in names)
    if effect.kind in ("alters", "rebuilds") and (is_garbled or not query.charset_known):
        effect = UNKNOWN
    if query.sql_mode is not None and _otherwise(query.statement, one, effect, mariadb=mariadb):
        effect = UNKNOWN
    return effect, rewritten(one)


def _otherwise(statement: str, reading: tuple[Token, ...], effect: Effect, *, mariadb: bool) -> bool:
    """Whether other modes give the statement another effect. It is logged with the modes at its execution.

    A prepared statement, and one in a procedure, was read by the modes at that time.
    """
    if effect.kind == "writes" or not ('"' in statement or "\\" in statement):
        return False  # only these two characters are read by the modes
    for modes in _all_modes(mariadb=mariadb):
        try:
            other = tokens(statement, modes)
        except UnreadableError:
            continue
        if other != reading:
            read_so = effect_of(other)
            understood = read_so.is_complete and (read_so.alter is None or read_so.alter.actions is not None)
            if understood and read_so != effect and "writes" not in (read_so.kind, effect.kind):
                return True
    return False


def _all_modes(*, mariadb: bool) -> list[Modes]:
    return [Modes(quotes, escapes, mariadb) for quotes in (False, True) for escapes in (False, True)]


def without_values(statement: str) -> str:
    """The statement up to its first literal.

    Messages and journals must not show values of a masked or omitted column.
    """
    beginning = _LITERAL.split(statement[:_SHOWN], maxsplit=1)[0]
    return beginning if beginning == statement else f"{beginning}…"


def affected_tables(statement: LoggedStatement, tables: Iterable[Table]) -> tuple[str, ...]:
    """The full names of the tables that a statement names, or, if it is not read to its end, may mention.

    Of those that it only rebuilds, the ones with generated columns.
    """
    if statement.effect.kind == "rebuilds":  # only an ALTER TABLE changes what virtual columns are computed from
        kinds = ("stored",) if statement.effect.alter is None else ("stored", "virtual")
        tables = [table for table in tables if table.generated in kinds]
    if not statement.effect.is_complete:
        return tuple(table.full_name for table in tables if _mentioned_tables(table, statement))
    candidates = list(tables)
    exact, folded = set[str](), set[str]()
    for database, name in statement.effect.tables:
        place = database or statement.database, name
        same = {t.full_name for t in candidates if (t.database, t.name) == place}
        exact |= same
        if not same:
            folded |= {t.full_name for t in candidates if _fold((t.database, t.name)) == _fold(place)}
    dropped = {_fold((database, ""))[0] for database in statement.effect.databases}
    names = exact | folded | {t.full_name for t in candidates if _fold((t.database, ""))[0] in dropped}
    names |= {t.full_name for t in candidates if _written_otherwise(t, statement)}
    return tuple(t.full_name for t in candidates if t.full_name in names)


def _fold(name: tuple[str, str]) -> tuple[str, str]:
    """The name without differences that a server may ignore (`lower_case_table_names`).

    MySQL replaces what is beyond U+FFFF.
    """
    database, table = (re.sub("[\U00010000-\U0010ffff]", "?", part.replace("\u0130", "i")).casefold() for part in name)
    return database, table


def _written_otherwise(table: Table, logged: LoggedStatement) -> bool:
    """Whether a name that is not ASCII stands in the statement in another character set than that of the event.

    A prepared statement is logged with the session's character set at its execution.
    """
    if table.name.isascii() or logged.raw.isascii():
        return False
    return any(spelled in logged.raw for spelled in _spellings(table.name))


@cache
def _spellings(name: str) -> frozenset[bytes]:
    spellings = set[bytes]()
    for codec in _CODECS:
        with suppress(UnicodeEncodeError):
            spellings.add(name.replace("`", "``").encode(codec))
    return frozenset(spellings)


_CODECS = (
    *(
        "utf-8",
        "cp1252",
        "gbk",
        "gb18030",
        "cp949",
        "cp932",
        "shift_jis",
        "big5",
        "euc_jp",
        "cp1250",
        "cp1251",
        "cp1256",
        "cp1257",
    ),
    *(
        "koi8-r",
        "koi8-u",
        "cp850",
        "cp852",
        "cp866",
        "iso8859-2",
        "iso8859-7",
        "iso8859-8",
        "iso8859-9",
        "iso8859-13",
        "tis-620",
    ),
)
"""Character sets of clients, by Python's names."""


def _mentioned_tables(table: Table, statement: LoggedStatement) -> bool:
    text = f"{statement.statement}\n{statement.readable}".casefold()
    here = statement.database.casefold() == table.database.casefold()
    clear = statement.charset_known and REPLACED not in text
    return _mentions(text, table.name, clear) and (here or _mentions(text, table.database, clear))


def _mentions(text: str, name: str, clear: bool) -> bool:
    if not (clear or name.isascii()):
        return True
    folded = name.casefold()
    spelled = {folded, *(folded.replace(quote, quote * 2) for quote in "`\"'")}
    return any(re.search(rf"(?<![\w$]){re.escape(one)}(?![\w$])", text) for one in spelled)
