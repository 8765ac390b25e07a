"""Which tables a statement may alter, as far as its text shows.

    nothing    it changes no row, no column and no key of any table
    rebuilds   it changes none of these either, but the server may compute the generated columns of the tables that it
               names again, under the settings of the session
    writes     it writes rows: through views, triggers, routines and foreign keys it can reach any table
    alters     it creates, alters, empties, replaces, renames or drops the tables that it names

`is_complete` says whether these tables are all. They are only if the statement is read to its end; otherwise it may
have altered any table, and the catalog must be asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.sql.alter import Action, Alter, read_alter
from engine.sql.reader import Reader, StatementName, split_at_commas
from engine.sql.tokens import Token, TokenKind, UnreadableError


@dataclass(frozen=True)
class Effect:
    """What a statement may do to tables."""

    kind: Literal["nothing", "rebuilds", "writes", "alters"]
    tables: tuple[StatementName, ...] = ()
    databases: tuple[str, ...] = ()
    """Databases that it drops, with all their tables."""
    is_complete: bool = True
    """Whether `tables` and `databases` are all that it can have altered."""
    creates: bool = False
    """Whether it only creates a table that was not there."""
    alter: Alter | None = None


NOTHING, WRITES, UNKNOWN = Effect("nothing"), Effect("writes"), Effect("alters", is_complete=False)
_HARMLESS = (
    *("BEGIN", "COMMIT", "ROLLBACK", "XA", "SAVEPOINT", "RELEASE", "GRANT", "REVOKE", "FLUSH"),
    "CHECK",  # of tables
)
_WRITES = ("INSERT", "UPDATE", "REPLACE", "LOAD", "WITH", "SELECT", "CALL", "DO", "DELETE")
_PROGRAMS = (  # they name tables without changing them; what they write later is logged
    *("VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE", "LIBRARY", "USER", "ROLE", "SERVER"),
    *("TABLESPACE", "LOGFILE", "RESOURCE", "REFERENCE"),  # none of these holds rows when it is dropped
)
_MODIFIERS = (
    *("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "AGGREGATE", "UNDO"),
    *("DEFINER", "ALGORITHM", "SQL"),
)
_READ_AS = ("SQL_MODE", "CHARACTER_SET_CLIENT", "COLLATION_CONNECTION")


def effect_of(tokens: tuple[Token, ...]) -> Effect:
    """The effect of a statement."""
    if not tokens:
        return NOTHING
    reader = Reader(tokens)
    try:
        return _effect(reader)
    except UnreadableError:
        return UNKNOWN


def _effect(reader: Reader) -> Effect:
    if reader.accept("SET"):
        return _set_statement(reader) if reader.accept("STATEMENT") else NOTHING
    if reader.accept(*_HARMLESS):
        return NOTHING
    if reader.sees(*_WRITES):
        return WRITES
    if reader.accept("ANALYZE"):
        reader.accept("NO_WRITE_TO_BINLOG", "LOCAL")
        return NOTHING if reader.sees("TABLE", "TABLES") else WRITES  # MariaDB analyses a statement by executing it
    for verb, read in _VERBS.items():
        if reader.accept(verb):
            return read(reader)
    return UNKNOWN


def _set_statement(reader: Reader) -> Effect:
    """MariaDB's SET STATEMENT variable = value, … FOR statement."""
    first = reader.at
    while not reader.accept("FOR"):
        reader.take()
    inner = _effect(Reader(reader.tokens[reader.at :]))
    if any(token.value.upper() in _READ_AS for token in reader.tokens[first : reader.at]):
        return WRITES if inner.kind == "writes" else UNKNOWN  # it may be read by other rules than the session's
    return inner


def _create(reader: Reader) -> Effect:
    replaced = reader.accept_all("OR", "REPLACE")
    temporary = reader.accept("TEMPORARY")
    unique = reader.sees("UNIQUE")
    kind = _object(reader)
    if kind in _PROGRAMS:
        return NOTHING
    if kind == "INDEX":
        reader.accept_if_exists()
        reader.identifier()
        effect = _on(reader)
        computed = any(part and part[0].is_sign("(") for part in split_at_commas(reader.parentheses()))
        return effect if unique or replaced or computed else Effect("rebuilds", effect.tables)
    if kind in ("DATABASE", "SCHEMA"):
        reader.accept_if_exists()
        return Effect("alters", databases=(reader.identifier(),)) if replaced else NOTHING
    if kind not in ("TABLE", "SEQUENCE"):
        return UNKNOWN
    reader.accept_if_exists()
    tables = (reader.name(),)
    if any(token.is_word("SELECT") for token in reader.tokens):  # which may call functions that write
        return Effect("writes", () if temporary else tables, creates=not replaced)
    return NOTHING if temporary else Effect("alters", tables, creates=not replaced)


def _object(reader: Reader) -> str:
    """The kind of object that a statement creates, alters or drops, in upper case; moves past its modifiers."""
    while reader.sees(*_MODIFIERS):
        if reader.accept("SQL"):
            if not reader.accept("SECURITY"):
                raise UnreadableError("an unknown modifier")
            reader.identifier()
        elif reader.accept("ALGORITHM"):
            reader.accept_sign("=")
            reader.identifier()
        elif reader.accept("DEFINER"):
            _account(reader)
        else:
            reader.take()
    token = reader.take()
    return token.value.upper() if token.kind is TokenKind.WORD else ""


def _account(reader: Reader) -> None:
    """Move past `= user@host`, `= user` or `= CURRENT_USER()`."""
    reader.accept_sign("=")
    reader.take()
    if reader.sees_sign("("):
        reader.parentheses()
    elif reader.accept_sign("@"):
        reader.take()


def _alter(reader: Reader) -> Effect:
    ignore = False
    while reader.sees("ONLINE", "OFFLINE", "IGNORE"):
        ignore = ignore or reader.sees("IGNORE")
        reader.take()
    kind = _object(reader)
    if kind in (*_PROGRAMS, "SEQUENCE"):
        return NOTHING
    if kind in ("DATABASE", "SCHEMA"):
        return UNKNOWN if any(token.is_word("UPGRADE") for token in reader.tokens) else NOTHING
    if kind != "TABLE":
        return UNKNOWN
    alter = read_alter(reader)
    if ignore:  # MariaDB then drops rows that violate a new unique key
        alter = Alter(alter.table, None, alter.others, alter.named)
    if alter.actions is not None and all(action.kind == "option" for action in alter.actions):
        return Effect("rebuilds", (alter.table,), alter=alter)
    return Effect("alters", (alter.table, *alter.others), is_complete=alter.named, alter=alter)


def _drop(reader: Reader) -> Effect:
    if reader.accept("TEMPORARY"):
        return NOTHING
    kind = _object(reader)
    if kind in _PROGRAMS:
        return NOTHING
    if kind == "INDEX":
        reader.accept_if_exists()
        return _on(reader, keeps_primary=reader.identifier().upper() != "PRIMARY")
    if kind in ("DATABASE", "SCHEMA"):
        reader.accept_if_exists()
        name = reader.identifier()
        reader.require_end()
        return Effect("alters", databases=(name,))
    if kind not in ("TABLE", "TABLES", "SEQUENCE"):
        return UNKNOWN
    reader.accept_if_exists()
    tables = [reader.name()]
    while reader.accept_sign(","):
        tables.append(reader.name())
    reader.accept("RESTRICT", "CASCADE")
    reader.accept_wait()
    reader.require_end()
    return Effect("alters", tuple(tables))


def _on(reader: Reader, *, keeps_primary: bool = True) -> Effect:
    """The table of an index."""
    while not reader.accept("ON"):
        reader.take()
    table = reader.name()
    return Effect("alters", (table,), alter=Alter(table, (Action("structure", keeps_primary=keeps_primary),)))


def _truncate(reader: Reader) -> Effect:
    reader.accept("TABLE")
    table = reader.name()
    reader.accept_wait()
    if reader.accept("DROP", "REUSE") and not reader.accept("STORAGE"):
        return UNKNOWN
    reader.require_end()
    return Effect("alters", (table,))


def _rename(reader: Reader) -> Effect:
    if reader.accept("USER", "ROLE"):
        return NOTHING
    if not reader.accept("TABLE", "TABLES"):
        return UNKNOWN
    reader.accept_if_exists()
    tables: list[StatementName] = []
    for part in split_at_commas(reader.tokens[reader.at :]):
        one = Reader(part)
        tables.append(one.name())
        one.accept_wait()
        if not one.accept("TO"):
            return UNKNOWN
        tables.append(one.name())
        one.require_end()
    return Effect("alters", tuple(tables))


def _repair(reader: Reader) -> Effect:
    """REPAIR TABLE may lose rows."""
    return Effect("alters", _maintained(reader))


def _optimize(reader: Reader) -> Effect:
    return Effect("rebuilds", _maintained(reader))


def _maintained(reader: Reader) -> tuple[StatementName, ...]:
    reader.accept("NO_WRITE_TO_BINLOG", "LOCAL")
    reader.require("TABLE", "TABLES")
    tables = [reader.name()]
    while reader.accept_sign(","):
        tables.append(reader.name())
    return tuple(tables)


_VERBS: dict[str, Callable[[Reader], Effect]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "REPAIR": _repair,
    "OPTIMIZE": _optimize,
}
