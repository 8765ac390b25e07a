"""What a DDL does to the rows of a table, as far as its text shows. Pure; sqlglot parses.

This does not have to be complete: unrecognised statements cause a resnapshot, which is always right. So it recognises only
statements that certainly keep every value of every row. `run.tables.schema_change` has the verdict (evolve, resnapshot, stop).
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from engine.decode.schema import Column, Table

_HARMLESS_CONSTRAINTS = (
    exp.CharacterSetColumnConstraint,
    exp.CollateColumnConstraint,
    exp.CommentColumnConstraint,
)
_HARMLESS_OPTIONS = (exp.AlgorithmProperty, exp.LockProperty, exp.SchemaCommentProperty)
# These move rows between partitions and drop none; sqlglot does not parse them.
_PARTITIONS = re.compile(
    r"(?is)^ALTER\s+TABLE\s+\S+\s+(ADD|REORGANIZE|REBUILD|OPTIMIZE|ANALYZE|CHECK|COALESCE)\s+PARTITION\b[^;]*$"
)


@dataclass(frozen=True)
class Actions:
    """The columns that an ALTER TABLE adds (all NULL), drops, or changes in a way that its text does not show."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def actions_of(statement: str) -> Actions | None:
    """The actions of an ALTER TABLE; None if the statement or one of its actions is not recognised."""
    if _PARTITIONS.match(statement):
        return Actions()
    try:
        parsed = _parsed(statement)
    except sqlglot.errors.SqlglotError:
        return None
    if not isinstance(parsed, exp.Alter) or parsed.args.get("kind") != "TABLE":
        return None
    added, dropped, changed = [], [], []
    for action in parsed.args["actions"]:
        if isinstance(action, exp.ColumnDef) and _added_as_null(action):
            added.append(action.name)
        elif isinstance(action, exp.Drop) and action.args.get("kind") == "COLUMN":
            dropped += [column.name for column in action.args["tables"]]
        elif isinstance(action, exp.ModifyColumn) and _visible_change(action):
            changed.append(action.this.name)
        elif not _harmless_action(action):
            return None
    if not all(_harmless_option(option) for option in parsed.args.get("options") or ()):
        return None
    return Actions(tuple(added), tuple(dropped), tuple(changed))


def _parsed(statement: str) -> exp.Expr:
    # sqlglot logs statements that it does not understand, instead of telling the caller.
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    return sqlglot.parse_one(statement, dialect="mysql")


def _added_as_null(column: exp.ColumnDef) -> bool:
    """Whether every row has NULL in a new column: it is nullable, has no default, and is not generated."""
    for constraint in column.constraints:
        kind = constraint.args["kind"]
        null = isinstance(kind, exp.NotNullColumnConstraint) and kind.args.get("allow_null")
        default = isinstance(kind, exp.DefaultColumnConstraint) and isinstance(kind.this, exp.Null)
        if not (null or default or isinstance(kind, _HARMLESS_CONSTRAINTS)):
            return False
    return column.kind is not None and not column.kind.sql("mysql").upper().startswith(("TIMESTAMP", "SERIAL"))


def _visible_change(action: exp.ModifyColumn) -> bool:
    """Whether the column keeps its name, and the catalogue shows every change of it; it does not for a generated column."""
    return action.args.get("rename_from") is None and all(
        isinstance(constraint.args["kind"], (*_HARMLESS_CONSTRAINTS, exp.NotNullColumnConstraint))
        for constraint in action.this.constraints
    )


def _harmless_option(option: exp.Expr) -> bool:
    """Whether rows survive: InnoDB rebuilt is InnoDB, but another engine may not keep the rows (BLACKHOLE)."""
    if isinstance(option, exp.EngineProperty):
        return bool(option.name.casefold() == "innodb")
    return isinstance(option, _HARMLESS_OPTIONS)


def _harmless_action(action: exp.Expr) -> bool:
    """Whether the action concerns indexes, foreign keys or defaults only; the catalogue shows a new row identity."""
    if isinstance(action, exp.Drop):
        return bool(action.args.get("kind") == "INDEX")
    if isinstance(action, exp.AlterColumn):
        return action.args.get("default") is not None and action.args.get("dtype") is None
    return isinstance(action, exp.AddConstraint) and all(
        isinstance(part, exp.IndexColumnConstraint | exp.UniqueColumnConstraint | exp.ForeignKey)
        or (isinstance(part, exp.Constraint) and all(isinstance(e, exp.ForeignKey) for e in part.expressions))
        for part in action.expressions
    )


def keeps_rows(before: Table, after: Table, statement: str, *, held: Sequence[str]) -> bool:
    """Whether every existing row keeps its values after the statement, with NULL in the columns that it adds.

    after: the table in the catalogue, perhaps after further statements. held: the names of the destination's columns: adding one of
    them again would bring back its old values.
    """
    actions = actions_of(statement)
    if actions is None or before.key != after.key:
        return False
    names = [column.name for column in before.columns if column.name not in actions.dropped]
    expected, shown = {*names, *actions.added}, [column.name for column in after.columns]
    if expected != set(shown) or {name.casefold() for name in actions.added} & {
        name.casefold() for name in (*held, *names)
    }:
        return False
    if [name for name in shown if name in names] != names:  # a different order: a later statement may have changed more
        return False
    if not all(after.column(name).nullable for name in actions.added):
        return False
    return all(
        _keeps_values(before.column(name), after.column(name), changed=name in actions.changed) for name in names
    )


def _keeps_values(before: Column, after: Column, *, changed: bool) -> bool:
    """Whether a column has the same values before and after.

    The catalogue must show the change of a column that the statement changes. If it does not, a later statement changed the column
    again, and its type in between is unknown.
    """
    if not changed:
        return before == after
    longer = before.type == after.type == "varchar" and after.length > before.length
    labelled = before.type in ("enum", "set") and len(after.labels) > len(before.labels)
    if labelled:
        labelled = after.labels[: len(before.labels)] == before.labels
    same = {**vars(before), "length": 0, "labels": ()} == {**vars(after), "length": 0, "labels": ()}
    return same and (longer or labelled)
