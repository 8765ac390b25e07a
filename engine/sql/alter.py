"""What an ALTER TABLE does to its table's columns and rows, as far as its text shows.

An action that is not known here, or not to its end, makes the whole statement `unknown`: its rows are then read again,
which is always right. So this recognises only actions that certainly keep every value of every row that is there.

The grammar is that of "ALTER TABLE Statement" in the manuals of MySQL 9 and MariaDB 11.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.sql.column import Place, read_column, read_value
from engine.sql.reader import Reader, StatementName, split_at_commas
from engine.sql.tokens import Token, TokenKind, UnreadableError


@dataclass(frozen=True)
class Action:
    """One action.

    add, drop, change    a column
    structure            it may change the key, an index, a foreign key, or the engine
    option               nothing that a reader of the table sees
    """

    kind: Literal["add", "drop", "change", "structure", "option"]
    column: str = ""
    place: Place = None
    if_exists: bool = False
    """Whether it does nothing if the column is (or is not) there."""
    keeps_primary: bool = True
    """Whether the primary key stays the same, if the table has one."""


@dataclass(frozen=True)
class Alter:
    """An ALTER TABLE. actions: None if they are unknown."""

    table: StatementName
    actions: tuple[Action, ...] | None
    others: tuple[StatementName, ...] = ()
    """Other tables that it names, whose rows it may replace."""
    named: bool = True
    """Whether `table` and `others` are all tables that it can have altered."""


_OPTIONS = (
    *("AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "COMPRESSION", "DELAY_KEY_WRITE"),
    *("ENCRYPTION", "ENCRYPTED", "ENCRYPTION_KEY_ID", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS"),
    *("PAGE_CHECKSUM", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ROW_FORMAT", "STATS_AUTO_RECALC"),
    *("STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TRANSACTIONAL", "AUTOEXTEND_SIZE", "ENGINE_ATTRIBUTE"),
    *("ALGORITHM", "LOCK", "CHARSET", "COLLATE"),
)
_PARTITIONS = (  # they keep all rows; REORGANIZE of a list drops the rows that no new partition takes
    ("ADD", "PARTITION"),
    ("REBUILD", "PARTITION"),
    ("OPTIMIZE", "PARTITION"),
    ("ANALYZE", "PARTITION"),
    ("CHECK", "PARTITION"),
    ("COALESCE", "PARTITION"),
    ("PARTITION", "BY"),
    ("REMOVE", "PARTITIONING"),
)
_INDEXES = ("INDEX", "KEY")
_VISIBILITY = ("VISIBLE", "INVISIBLE", "IGNORED")


def read_alter(reader: Reader) -> Alter:
    """The rest of an ALTER TABLE, after `TABLE`. Raises UnreadableError if not even its table can be named."""
    reader.accept_if_exists()
    table = reader.name()
    reader.accept_wait()
    rest = reader.tokens[reader.at :]
    others, named = _others(rest)
    if others or not named:
        return Alter(table, None, others, named)
    try:
        return Alter(table, _actions(rest))
    except UnreadableError:
        return Alter(table, None)


def _others(tokens: tuple[Token, ...]) -> tuple[tuple[StatementName, ...], bool]:
    """The other tables whose rows an ALTER TABLE may replace, and whether these are all."""
    reader, others = Reader(tokens), list[StatementName]()
    try:
        while not reader.ended:
            if reader.accept_all("EXCHANGE", "PARTITION"):
                while not reader.accept_all("WITH", "TABLE"):
                    reader.take()
                others.append(reader.name())
            elif reader.accept("CONVERT"):
                others += _converted(reader)
            elif reader.accept("RENAME"):
                if not reader.accept("COLUMN", *_INDEXES):
                    _ = reader.accept("TO", "AS") or reader.accept_sign("=")
                    others.append(reader.name())
            elif reader.sees("UNION"):
                return tuple(others), False
            else:
                reader.take()
    except UnreadableError:
        return tuple(others), False
    return tuple(others), True


def _converted(reader: Reader) -> list[StatementName]:
    """MariaDB converts a table to a partition and back; `CONVERT TO CHARACTER SET` names no table."""
    if reader.accept("TABLE"):
        return [reader.name()]
    if reader.accept("PARTITION"):
        reader.identifier()
        return [reader.name()] if reader.accept_all("TO", "TABLE") else []
    return []


def _actions(tokens: tuple[Token, ...]) -> tuple[Action, ...]:
    for words in _PARTITIONS:
        reader = Reader(tokens)
        if reader.accept_all(*words):
            return (Action("option"),)
    actions: list[Action] = []
    for part in split_at_commas(tokens):
        reader = Reader(part)
        actions += _action(reader)
        reader.require_end()
    return tuple(actions)


def _action(reader: Reader) -> list[Action]:
    for verb, read in _VERBS.items():
        if reader.accept(verb):
            return read(reader)
    return _options(reader)


def _modify(reader: Reader) -> list[Action]:
    reader.accept("COLUMN")
    exists = reader.accept_if_exists()
    return [_changed(reader, reader.identifier(), if_exists=exists)]


def _change(reader: Reader) -> list[Action]:
    reader.accept("COLUMN")
    exists = reader.accept_if_exists()
    before, after = reader.identifier(), reader.identifier()
    if before != after:
        raise UnreadableError("a column gets another name")
    return [_changed(reader, before, if_exists=exists)]


def _rename(reader: Reader) -> list[Action]:
    if not reader.accept(*_INDEXES):
        raise UnreadableError("something else than an index gets another name")
    reader.accept_if_exists()
    reader.identifier()
    reader.require("TO")
    reader.identifier()
    return [Action("structure")]


def _options(reader: Reader) -> list[Action]:
    """Options of the table, separated by blanks."""
    if not reader.tokens:
        raise UnreadableError("an action is missing")
    rebuilt = any(token.is_word("ENGINE", "FORCE") for token in reader.tokens)
    action = Action("structure" if rebuilt else "option")
    while not reader.ended:
        if reader.accept("ENABLE", "DISABLE"):
            reader.require("KEYS")
            continue
        if reader.accept("FORCE"):
            continue
        if reader.accept_all("ORDER", "BY"):
            reader.identifier()
            reader.accept("ASC", "DESC")
            continue
        if reader.accept("WITH", "WITHOUT"):
            reader.require("VALIDATION")
            continue
        _option(reader)
    return [action]


def _option(reader: Reader) -> None:
    reader.accept("DEFAULT")
    if reader.accept("CHARACTER"):
        reader.require("SET")
    elif reader.accept("ENGINE"):
        reader.accept_sign("=")
        if reader.identifier().upper() != "INNODB":  # another engine may not keep the rows
            raise UnreadableError("another engine")
        return
    elif reader.accept("COMMENT"):
        reader.accept_sign("=")
        if reader.take().kind is not TokenKind.TEXT:
            raise UnreadableError("a comment is expected")
        return
    elif not reader.accept(*_OPTIONS):
        raise UnreadableError("an unknown option")
    reader.accept_sign("=")
    if reader.take().kind is TokenKind.SIGN:
        raise UnreadableError("an option without a value")


def _add(reader: Reader) -> list[Action]:
    constraint = reader.accept("CONSTRAINT")
    if constraint and not reader.sees("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        reader.accept_if_exists()
        reader.identifier()
    if (action := _constraint(reader)) is not None:
        return [action]
    if constraint:
        raise UnreadableError("an unknown constraint")
    reader.accept("COLUMN")
    exists = reader.accept_if_exists()
    if not reader.sees_sign("("):
        return [_added(reader, if_exists=exists)]
    actions: list[Action] = []
    for part in split_at_commas(reader.parentheses()):
        one = Reader(part)
        actions.append(_constraint(one) or _added(one, if_exists=exists))
        one.require_end()
    return actions


def _constraint(reader: Reader) -> Action | None:
    """An index, a key or a check; None if a column comes next."""
    structure, primary = False, False
    if reader.accept("FOREIGN"):
        structure = True
        _foreign_key(reader)
    elif reader.accept("CHECK"):
        reader.parentheses()
        reader.accept("NOT")
        reader.accept("ENFORCED")
    elif (primary := reader.accept_all("PRIMARY", "KEY")) or reader.accept("UNIQUE"):
        structure = True
        reader.accept(*_INDEXES)
        _index(reader)
    elif reader.accept("FULLTEXT", "SPATIAL") or (reader.sees(*_INDEXES, ahead=1) and reader.accept("VECTOR")):
        reader.accept(*_INDEXES)
        _index(reader)
    elif reader.accept(*_INDEXES):
        structure = _index(reader)
    else:
        return None
    return Action("structure" if structure else "option", keeps_primary=not primary)


def _index(reader: Reader) -> bool:
    """Move past an index. Returns whether it has a part that is an expression: MySQL then adds a hidden column."""
    reader.accept_if_exists()
    if not reader.sees_sign("(") and not reader.sees("USING"):
        reader.identifier()
    if reader.accept("USING"):
        reader.identifier()
    parts = split_at_commas(reader.parentheses())
    while not reader.ended:
        if reader.accept("NOT"):
            reader.require("IGNORED")
        elif reader.accept_all("WITH", "PARSER"):
            reader.identifier()
        elif reader.accept("USING", "COMMENT", "KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
            reader.accept_sign("=")
            reader.take()
        elif not reader.accept(*_VISIBILITY):
            raise UnreadableError("an unknown option of an index")
    return any(part and part[0].is_sign("(") for part in parts)


def _foreign_key(reader: Reader) -> None:
    reader.require("KEY")
    reader.accept_if_exists()
    if not reader.sees_sign("("):
        reader.identifier()
    reader.parentheses()
    reader.require("REFERENCES")
    reader.name()
    reader.parentheses()
    while not reader.ended:
        if reader.accept("MATCH"):
            reader.identifier()
        elif not (
            reader.accept("ON")
            and reader.accept("DELETE", "UPDATE")
            and (
                reader.accept("RESTRICT", "CASCADE")
                or reader.accept_all("SET", "NULL")
                or reader.accept_all("SET", "DEFAULT")
                or reader.accept_all("NO", "ACTION")
            )
        ):
            raise UnreadableError("an unknown option of a foreign key")


def _added(reader: Reader, *, if_exists: bool) -> Action:
    """A new column that every row has as NULL. Raises UnreadableError if rows may get a value."""
    name = reader.identifier()
    column = read_column(reader)
    if column.filled:
        raise UnreadableError("rows may get a value in a new column")
    return Action("add", name, column.place, if_exists, not column.primary)


def _changed(reader: Reader, name: str, *, if_exists: bool) -> Action:
    column = read_column(reader)
    if column.numbered:
        raise UnreadableError("rows may get a number")
    return Action("change", name, column.place, if_exists, not column.primary)


def _drop(reader: Reader) -> list[Action]:
    if reader.accept(*_INDEXES) or reader.accept("CONSTRAINT"):
        reader.accept_if_exists()
        return [Action("structure", keeps_primary=reader.identifier().upper() != "PRIMARY")]
    if reader.accept("FOREIGN"):
        reader.require("KEY")
        reader.accept_if_exists()
        reader.identifier()
        return [Action("structure")]
    if reader.accept("CHECK"):
        reader.identifier()
        return [Action("option")]
    if reader.accept_all("PRIMARY", "KEY"):
        return [Action("structure", keeps_primary=False)]
    if reader.sees("PARTITION"):
        raise UnreadableError("rows are dropped with a partition")
    reader.accept("COLUMN")
    exists = reader.accept_if_exists()
    name = reader.identifier()
    reader.accept("RESTRICT", "CASCADE")
    return [Action("drop", name, None, exists)]


def _alter(reader: Reader) -> list[Action]:
    if reader.accept(*_INDEXES):
        reader.accept_if_exists()
        reader.identifier()
        reader.accept("NOT")
        reader.require(*_VISIBILITY)
        return [Action("structure")]
    if reader.accept("CHECK", "CONSTRAINT"):
        reader.identifier()
        reader.accept("NOT")
        reader.require("ENFORCED")
        return [Action("option")]
    reader.accept("COLUMN")
    reader.accept_if_exists()
    reader.identifier()
    if reader.accept_all("DROP", "DEFAULT"):
        return [Action("option")]
    if not reader.accept("SET"):
        raise UnreadableError("an unknown change of a column")
    if reader.accept("DEFAULT"):
        read_value(reader)
    elif not reader.accept("VISIBLE", "INVISIBLE"):
        raise UnreadableError("an unknown change of a column")
    return [Action("option")]


_VERBS: dict[str, Callable[[Reader], list[Action]]] = {
    "ADD": _add,
    "DROP": _drop,
    "ALTER": _alter,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
}
