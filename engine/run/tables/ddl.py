"""Whether a DDL keeps every value of every row: proved from its parsed text and from the catalog before and after.

Pure.

The text says which columns it adds, drops, changes and moves (`sql.alter`). It keeps the rows if that explains the
catalog:

    the columns after  =  those before, with the statement's actions, in this order
    a changed column   has the same values as before, by both types (`_keeps_values`)
    an added column    is NULL in every row
    the key            is the same
    no column          is generated: the server may compute it again, under the settings of the session

The catalog may already show later statements. `definition_after` takes their actions back, as far as the text of all of
them says how. Statements that are not recognised cause a resnapshot, which is always right. `run.tables.schema_change`
has the verdict (evolve, resnapshot, stop).
"""

from collections.abc import Sequence
from dataclasses import replace

from engine.decode.schema import Column, Table
from engine.sql.alter import Action, Alter
from engine.sql.column import Place

_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_LONGER = ("varchar", "char", "varbinary")
"""Types whose values stay the same if they get longer; a longer BINARY pads them."""
_ROUNDED = ("float", "double")
"""The catalog shows DOUBLE(22,0), which rounds, like DOUBLE."""


def keeps_rows(before: Table, after: Table, alter: Alter | None, *, earlier_names: Sequence[str]) -> bool:
    """Whether every existing row keeps its values after an ALTER TABLE, with NULL in the columns that it adds.

    after: the table in the catalog. earlier_names: the names of the destination's columns: adding one of them again
    would bring back its old values. alter: None for any other statement.
    """
    if alter is None or alter.actions is None or before.key != after.key:
        return False
    if before.generated or after.generated:
        return False  # the server may compute those columns again, by other defaults, lengths or settings
    expected = _columns(before, alter.actions)
    if expected is None or expected != [column.name for column in after.columns]:
        return False
    columns = {column.name: column for column in before.columns}
    added = [name for name in expected if name not in columns]
    if {name.casefold() for name in added} & {name.casefold() for name in (*earlier_names, *columns)}:
        return False
    changed = {_place(before, action.column) for action in alter.actions if action.kind == "change"}
    return all(after.column(name).nullable for name in added) and all(
        _keeps_values(columns[name], after.column(name), changed=name in changed)
        for name in expected
        if name in columns
    )


def definition_after(before: Table, alter: Alter, later: Sequence[Alter], catalog_table: Table) -> Table | None:
    """The table right after an ALTER TABLE; None if that cannot be known.

    later: all later statements that concern the table and are in the catalog, in order. catalog_table: the table in the
    catalog.
    """
    if not later:
        return catalog_table
    names = None if alter.actions is None else _columns(before, alter.actions)
    last = names
    for one in later:
        last = None if one.actions is None or last is None else _columns_of(last, one.actions)
    if names is None or alter.actions is None or last != [column.name for column in catalog_table.columns]:
        return None
    later_actions = [action for one in later for action in one.actions or ()]
    if not _keeps_key(before, [*alter.actions, *later_actions]) or before.key != catalog_table.key:
        return None
    here = _changed(alter.actions)
    since = _changed(later_actions) | {action.column.casefold() for action in later_actions if action.kind == "drop"}
    columns: list[Column] = []
    for name in names:
        described_column = next((column for column in before.columns if column.name == name), None)
        if described_column is None or name.casefold() in here:
            described_column = None if name.casefold() in since else catalog_table.column(name)
        if described_column is None:
            return None
        columns.append(described_column)
    return replace(catalog_table, columns=tuple(columns))


def _changed(actions: Sequence[Action]) -> set[str]:
    """The columns that actions change, casefolded."""
    return {action.column.casefold() for action in actions if action.kind == "change"}


def _keeps_key(before: Table, actions: Sequence[Action]) -> bool:
    """Whether no action in between can have changed what identifies a row."""
    primary = any(index.name == "PRIMARY" and index.columns == before.key for index in before.indexes)
    return all(action.keeps_primary and (primary or action.kind != "structure") for action in actions)


def _columns(before: Table, actions: Sequence[Action]) -> list[str] | None:
    """The names of the columns after these actions, in order; None if they do not fit the columns before.

    A column that is dropped and added again is None too: it is another column, with other values.
    """
    return _columns_of([column.name for column in before.columns], actions)


def _columns_of(names: list[str], actions: Sequence[Action]) -> list[str] | None:
    names = list(names)
    dropped: set[str] = set()
    for action in actions:
        if action.kind not in ("add", "drop", "change"):
            continue
        there = [name for name in names if name.casefold() == action.column.casefold()]
        if action.kind == "add":
            if there and action.if_exists:
                continue
            if there or action.column.casefold() in dropped:
                return None
            names = _inserted(names, action.column, action.place)
        elif not there:
            if not action.if_exists:
                return None
        elif action.kind == "drop":
            names.remove(there[0])
            dropped.add(action.column.casefold())
        elif action.place is not None:
            names = _inserted([name for name in names if name != there[0]], there[0], action.place)
    return names


def _inserted(names: list[str], name: str, place: Place) -> list[str]:
    if place is None:
        return [*names, name]
    if place is True:
        return [name, *names]
    at = next((n for n, one in enumerate(names) if one.casefold() == place.casefold()), len(names))
    return [*names[: at + 1], name, *names[at + 1 :]]


def _place(table: Table, name: str) -> str:
    """The column's name as the table spells it."""
    return next((column.name for column in table.columns if column.name.casefold() == name.casefold()), name)


def _keeps_values(before: Column, after: Column, *, changed: bool) -> bool:
    """Whether a column has the same values before and after.

    Another collation may change those of generated columns.
    """
    if not changed or before == after:
        return before == after and not (changed and before.type in _ROUNDED)
    return _bare(before) == _bare(after) and (after.nullable or not before.nullable) and _contains(before, after)


def _bare(column: Column) -> Column:
    return replace(column, type="", length=0, labels=(), nullable=True)


def _contains(before: Column, after: Column) -> bool:
    """Whether the type after holds every value of the type before as it is."""
    for family in (_TEXTS, _BLOBS):
        if before.type in family and after.type in family:
            return family.index(after.type) >= family.index(before.type)
    if before.type != after.type or before.type in _ROUNDED:
        return False
    if before.type in _LONGER:
        return after.length >= before.length
    return after.labels[: len(before.labels)] == before.labels and (before.length == after.length or bool(after.labels))
