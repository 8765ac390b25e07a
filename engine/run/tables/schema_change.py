"""The verdict on a table that was altered, truncated, dropped or replaced, or that an operator wants resnapshotted.

    evolved        every row keeps its values, and the destination can have the columns: they are written from here on
    resnapshotted  otherwise: no binlog changes are emitted for the table until its chunks are read again, with its
                   columns at that time. The mirror stays as it is until the last chunk is finished, and is then
                   replaced at once (`destination.publisher`). A pipeline that copies nothing (`source.startup`) empties
                   the mirror and streams the table. If the change log cannot get its columns, it begins again
                   (`destination.delta.generations`)
    stopped        the table is gone, cannot be captured as it is now, or the destination cannot hold it; or nothing is
                   copied and the binlog has later schema changes, so that the columns in between are unknown; or the
                   account may not read the table. It is then resnapshotted once the account may, if it may be without a
                   command (`run.lifecycle.refused_tables`)

A resnapshot is right whatever happened, however often, and whatever the catalogue shows by then. Nothing is emitted for
a chunk before it is read, and it is read with the columns of that time. A later schema change in the binlog gets its
own verdict: chunks that were read before it (exact at an earlier position) are resnapshotted, or the change kept their
rows as they were.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.base.errors import (
    COMES_BACK,
    ErrorRecord,
    IncompatibleColumnsError,
    PrivilegesMissingError,
    TableGoneError,
    TableStoppedError,
    stop_of,
)
from engine.base.wording import shell_word
from engine.capture.projection.projection_rules import as_read, check_altered, projection_record
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table
from engine.ledger.records import Description, Due, Switch, TableChange
from engine.plan.chunks import Plan
from engine.plan.mirrors import decided
from engine.plan.planner import plan_tables
from engine.run.epochs.failed_table import due, resnapshots_itself
from engine.run.tables.ddl import definition_after, keeps_rows
from engine.run.tables.first_epoch import streaming_only
from engine.source.catalog import check_not_hidden, is_hidden, list_tables, read_table, uncaptured_kind
from engine.source.column_grants import grant_of
from engine.source.connect import Connection, describe
from engine.source.positions import Position, current
from engine.source.preflight import refused
from engine.spec.settings import Spec
from engine.sql.alter import Alter

_DROPS = re.compile(r"(?i)\s*DROP\s+(TABLE|DATABASE|SCHEMA)\b")
REQUESTED = "requested"
"""The reason of a resnapshot whatever happened."""
OTHER_VALUES = "its rows may have other values"
"""The reason of a resnapshot after a statement."""
SchemaOutcome = Literal["evolved", "resnapshotted", "stopped"]


@dataclass(frozen=True)
class SchemaVerdict:
    """What happens to a table."""

    outcome: SchemaOutcome
    reason: str
    table: Table
    plan: Plan
    """`table` and `plan` apply from here on; those of before if the table stopped."""
    error: TableStoppedError | None = None
    since: Position | None = None
    """If nothing is copied: the position from which the binlog is published."""
    projection: Description | None = None
    """The published columns and rows from here on, as the ledger keeps them."""
    automatic: str | None = None
    """When Tidemark decided a resnapshot by itself, as UTC text; None if an operator asked for it."""
    within_hour: int | None = None
    """The number of automatic resnapshots of the table within an hour, this one included."""
    refusal: PrivilegesMissingError | None = None
    """The error of the source, if the account may not read the table."""
    due: Due | None = None
    """The resnapshot that follows once the account may read it."""
    after_statement: bool = False
    """Whether a statement in the binlog is the cause, be it one that names the table or one that may concern any."""

    def to_record(self, before: Table, before_projection: Description | None) -> TableChange:
        """The table's part of the epoch record."""
        if self.error is not None:
            stopped = stop_of(self.error, before.full_name)
            return TableChange(stopped=stopped, due=self.due, not_due=self.due is None)
        switch = Switch(self.table.as_dict(), self.plan.as_dict(), before.as_dict(), self.projection, before_projection)
        if self.outcome == "evolved":
            return TableChange(altered=switch)
        return TableChange(resnapshot=replace(switch, since=self.since, automatic=self.automatic))


@dataclass(frozen=True)
class Altered:
    """A table before its schema change, and the conditions for it to evolve."""

    table: Table
    plan: Plan
    copied: bool
    """Whether all of its chunks are finished."""
    earlier_names: Collection[str]
    """The names of all columns that it ever had."""
    fits: Callable[[Table, Table], None]
    """Raises IncompatibleColumnsError when the change log cannot get the table's new columns, TableStoppedError when
    the destination cannot take the table at all."""
    projection: Description | None = None
    """The published columns and rows, as the ledger keeps them."""
    stopped: ErrorRecord | None = None
    """The error that had stopped it."""
    at: Position | None = None
    """The position after the statement."""
    alter: Alter | None = None
    """What the statement does, if it is an ALTER TABLE that is understood."""
    later: Callable[[], Sequence[Alter] | None] = tuple
    """What later statements in the binlog do to the table; None if that is unknown. Call it after reading the catalog,
    which may already show them."""


def verdict(connection: Connection, spec: Spec, altered: Altered, statement: str | None) -> SchemaVerdict:
    """The verdict on a table. statement: None for a resnapshot whatever happened.

    Raises PrivilegesMissingError if the account lacks privileges that are not about this table.
    """
    before = altered.table
    try:
        catalog_table = _current_table(connection, spec, before, statement)
        evolved = None if statement is None or altered.stopped else _evolved(altered, catalog_table)
        if evolved is not None and not _needs_new_log(spec, altered, evolved):
            after, verdict = evolved, SchemaVerdict("evolved", "every row keeps its values", evolved, altered.plan)
        else:
            after, new_log = catalog_table, _needs_new_log(spec, altered, catalog_table)
            verdict = _resnapshot(connection, spec, after, statement, new_log)
            if not spec.source.copies:
                verdict = replace(verdict, since=_since(connection, altered, statement))
        check_altered(spec, before, after, verdict.plan.chunk_key)
        return replace(verdict, projection=projection_record(spec, after))
    except TableStoppedError as error:
        return SchemaVerdict("stopped", error.message, before, altered.plan, error)
    except PrivilegesMissingError as error:
        if not is_hidden(connection, before.database, before.name):
            raise
        return _refused(connection, spec, altered, error)


def _refused(connection: Connection, spec: Spec, altered: Altered, refusal: PrivilegesMissingError) -> SchemaVerdict:
    """The verdict on a table that the account may not read, so that nobody knows its columns."""
    before = altered.table
    returns = resnapshots_itself(spec, before)
    grant = grant_of(connection, (before.database, before.name))
    safe = f"{refusal.message} What is published is right up to the change. Other tables are unaffected."
    unseen = "Nobody sees meanwhile what the change does to the rows"
    message = f"The account may not read {before.full_name}, which was altered or is to be resnapshotted."
    if not before.key:
        error = TableStoppedError(
            message,
            detail=f"{safe} {unseen}, and without a key the table cannot be resnapshotted into its change log.",
            hint=f"Grant it: {grant} Then {_into_new_log(before.full_name)}",
        )
    else:
        error = TableStoppedError(
            message,
            detail=f"{safe} {unseen}, so the whole table is resnapshotted. Its mirror stays as it is until then.",
            hint=f"Grant it: within 30 seconds, the whole table {COMES_BACK} again by itself. {grant}"
            if returns
            else f"Grant it: {grant}",
        )
    resnapshot = due(error) if returns else None
    return SchemaVerdict("stopped", error.message, before, altered.plan, error, refusal=refusal, due=resnapshot)


def _needs_new_log(spec: Spec, altered: Altered, after: Table) -> str:
    """Why the change log cannot get the table's columns, so that it must begin again; "" if it can.

    Raises TableStoppedError when the destination cannot take the table at all.
    """
    try:
        altered.fits(
            published_as(altered.table, altered.projection), published_as(after, projection_record(spec, after))
        )
    except IncompatibleColumnsError as error:
        return f"{error.message} The change log begins again; the old one is kept beside it"
    return ""


def _since(connection: Connection, altered: Altered, statement: str | None) -> Position:
    """The position from which an uncopied table's current columns can read the binlog.

    Raises TableStoppedError for a gap.
    """
    if statement is None:
        return current(connection, describe(connection))
    name = altered.table.full_name
    missed = altered.stopped is not None and altered.stopped.error != TableGoneError.__name__
    if missed or altered.at is None or not statement or altered.later() != ():
        raise TableStoppedError(
            f"{name} was altered so that its next rows in the binlog cannot be read: "
            f"{statement[:200] or 'no statement shows how'}",
            detail="They have columns that the catalogue no longer shows: it was altered again, or in a way that the "
            "binlog does not show. This pipeline copies nothing (source.startup). "
            "What is published is right up to the change of the table.",
            hint=f"Stream it from now on, without what lies between: tidemark redump SPEC --table {shell_word(name)}",
        )
    return altered.at


def _current_table(connection: Connection, spec: Spec, before: Table, statement: str | None) -> Table:
    """The table in the catalogue. Raises TableStoppedError when it cannot be captured."""
    if (before.database, before.name) not in list_tables(connection):
        if not _DROPS.match(statement or ""):
            check_not_hidden(connection, before.database, before.name)
        kind = uncaptured_kind(connection, before.database, before.name)
        why, again = "was dropped or renamed", f"If a table of this name appears again, it {COMES_BACK}"
        if not before.key:
            again = (
                f"If a table of this name with a key appears again, it {COMES_BACK}. "
                f"If it has none, {_into_new_log(before.full_name)}"
            )
        if kind:
            why = f"is a table of the kind {kind} now, which Tidemark does not capture"
            again = f"If it becomes an ordinary table again, it {COMES_BACK}"
        raise TableGoneError(
            f"{before.full_name} {why}.",
            detail="Its published data is its last state and stays.",
            hint=f"{again}. Otherwise exclude it: tidemark remove-table SPEC --table {shell_word(before.full_name)}, "
            "or exclude it in source.tables before the next start.",
        )
    null_dates = spec.source.invalid_dates == "null"
    after = read_table(connection, before.database, before.name, null_dates=null_dates)
    if after.remedy:  # another privilege may list a table that the account may not read
        check_not_hidden(connection, before.database, before.name)
    if error := refused([as_read(spec, after)]).get(after.full_name):
        raise error
    return after


def _evolved(altered: Altered, catalog_table: Table) -> Table | None:
    """The table after a statement that keeps every value of every row; None after any other.

    catalog_table: the table in the catalog.
    """
    before, plan, alter = altered.table, altered.plan, altered.alter
    if alter is None or alter.actions is None or (later := altered.later()) is None:
        return None
    if later and not altered.copied:
        return None  # chunks are read with the columns that the table has by then
    after = definition_after(before, alter, later, catalog_table)
    if after is None:
        return None
    # Unread chunks are read by the plan's index.
    readable = altered.copied or not plan.chunk_key or plan.index in [index.name for index in after.indexes]
    collations = {column.name: column.collation for column in after.columns}
    keyed = all(collations.get(name, "") == before.column(name).collation for name in plan.chunk_key)
    bare = replace(before, columns=tuple(replace(c, tells_apart=False) for c in before.columns))
    plain = replace(after, columns=tuple(replace(c, tells_apart=False) for c in after.columns))
    return (
        plain
        if readable and keyed and keeps_rows(bare, plain, alter, earlier_names=list(altered.earlier_names))
        else None
    )


def _into_new_log(name: str) -> str:
    """How a table without a key continues."""
    return (
        f"snapshot it into a new change log, without the changes until now: tidemark remove-table SPEC --table "
        f"{shell_word(name)} --drop and, once it is removed, tidemark add-table SPEC --table {shell_word(name)}"
    )


def _resnapshot(connection: Connection, spec: Spec, after: Table, statement: str | None, new_log: str) -> SchemaVerdict:
    reason = new_log or (REQUESTED if statement is None else OTHER_VALUES)
    if not after.key:
        raise TableStoppedError(
            f"{after.full_name} has no key, so it cannot be resnapshotted into its change log.",
            detail="What is published is right up to the change of the table; nothing after it was published.",
            hint=f"Give it a primary key on whole columns. Or {_into_new_log(after.full_name)}",
        )
    if statement is not None and spec.source.schema_changes == "stop":
        raise TableStoppedError(
            f"{after.full_name} was altered so that it must be resnapshotted: {statement[:200]}",
            detail="What is published is right up to the change; "
            "nothing after it was published (source.schema_changes = stop).",
            hint=f"Resnapshot it: tidemark redump SPEC --table {shell_word(after.full_name)}. The next start does with "
            "source.schema_changes = copy",
        )
    (plan,) = plan_tables(connection, [after], spec.snapshot, exact=spec.source.copies)
    if not spec.source.copies:
        plan = streaming_only(plan)
    return SchemaVerdict("resnapshotted", reason, after, decided(spec.sink, after, plan))
