"""What a DDL does to the rows of a table, as far as it can be known from its text. Pure; sqlglot parses.

Nothing here has to be complete: whatever is not recognised has the table resnapshotted, which is always right. So only what surely
leaves every value of every row as it was is recognised. The verdict (evolve, resnapshot, stop) is in `run.tables.schema_change`.
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
# Rows are moved between partitions, none is dropped; sqlglot does not parse these.
_PARTITIONS = re.compile(
    r"(?is)^ALTER\s+TABLE\s+\S+\s+(ADD|REORGANIZE|REBUILD|OPTIMIZE|ANALYZE|CHECK|COALESCE)\s+PARTITION\b[^;]*$"
)


@dataclass(frozen=True)
class Actions:
    """What an ALTER TABLE does: the columns that it adds, all NULL; drops; and changes in a way that its text does not tell."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def actions_of(statement: str) -> Actions | None:
    """The actions of an ALTER TABLE that are understood; None when one of them, or the statement, is not."""
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
        elif isinstance(action, exp.ModifyColumn) and _modified_openly(action):
            changed.append(action.this.name)
        elif not _beside_the_rows(action):
            return None
    if not all(_harmless_option(option) for option in parsed.args.get("options") or ()):
        return None
    return Actions(tuple(added), tuple(dropped), tuple(changed))


def _parsed(statement: str) -> exp.Expr:
    # sqlglot tells its log, not the caller, that it did not understand a statement.
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    return sqlglot.parse_one(statement, dialect="mysql")


def _added_as_null(column: exp.ColumnDef) -> bool:
    """Whether every row has NULL in a new column: it is nullable, without default, and not generated."""
    for constraint in column.constraints:
        kind = constraint.args["kind"]
        null = isinstance(kind, exp.NotNullColumnConstraint) and kind.args.get("allow_null")
        default = isinstance(kind, exp.DefaultColumnConstraint) and isinstance(kind.this, exp.Null)
        if not (null or default or isinstance(kind, _HARMLESS_CONSTRAINTS)):
            return False
    return column.kind is not None and not column.kind.sql("mysql").upper().startswith(("TIMESTAMP", "SERIAL"))


def _modified_openly(action: exp.ModifyColumn) -> bool:
    """Whether the column keeps its name and becomes nothing that the catalogue's types do not tell, as a generated one."""
    return action.args.get("rename_from") is None and all(
        isinstance(constraint.args["kind"], (*_HARMLESS_CONSTRAINTS, exp.NotNullColumnConstraint))
        for constraint in action.this.constraints
    )


def _harmless_option(option: exp.Expr) -> bool:
    """InnoDB rebuilt is InnoDB; another engine may not keep the rows (BLACKHOLE)."""
    if isinstance(option, exp.EngineProperty):
        return bool(option.name.casefold() == "innodb")
    return isinstance(option, _HARMLESS_OPTIONS)


def _beside_the_rows(action: exp.Expr) -> bool:
    """Indexes, foreign keys and defaults: whether the identity is another then is seen in the catalogue."""
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
    """Whether every row that was there has the same values after the statement, NULL in the columns that it adds.

    after: the table as the catalogue shows it, perhaps after further statements. held: the names of the destination's columns: one
    that comes back there would bring its old values.
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
    if [name for name in shown if name in names] != names:  # in another order: another statement may have changed more
        return False
    if not all(after.column(name).nullable for name in actions.added):
        return False
    return all(
        _keeps_values(before.column(name), after.column(name), changed=name in actions.changed) for name in names
    )


def _keeps_values(before: Column, after: Column, *, changed: bool) -> bool:
    """Whether a column shows the same values before and after.

    One that the statement changes must show in the catalogue how: when nothing is to be seen there, a later statement has changed
    it again, and what it was in between is not known.
    """
    if not changed:
        return before == after
    longer = before.type == after.type == "varchar" and after.length > before.length
    labelled = before.type in ("enum", "set") and len(after.labels) > len(before.labels)
    if labelled:
        labelled = after.labels[: len(before.labels)] == before.labels
    same = {**vars(before), "length": 0, "labels": ()} == {**vars(after), "length": 0, "labels": ()}
    return same and (longer or labelled)
