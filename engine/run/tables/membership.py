"""Tables that join or leave a pipeline while the others keep streaming.

Each change is a separate epoch, which reads no binlog and leaves the position P as it is:

    leave   the published data of the table is right at P; no binlog after P is read for it
    join    P was taken before the catalogue is read, so a later schema change of the table lies after P, where it is
            seen. The binlog before the chunks' low watermarks is not needed: a change is emitted for a chunk only once
            that is finished, and a chunk that is read later is exact later (`run.lifecycle.coordinator`). So a table
            may join at any position. If the pipeline copies nothing (`source.startup`), the table is streamed from P on

A table that left and whose destination was kept joins by a resnapshot (`run.tables.schema_change`): the mirror stays as
it was until the last chunk is finished, and is then replaced at once.

A dropped table is deleted after the commit, when no reader and no publisher can write to it any more. Another epoch
then commits that it is deleted. Until then the table cannot join again, so that the deletion never touches its new
rows. If the runner is killed in between, the ledger still says what to delete; the next runner does that first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from engine.base import clock
from engine.base.errors import IncompatibleColumnsError, PreflightError, SpecError, TableStoppedError, TidemarkError
from engine.base.wording import shell_word
from engine.capture.projection.projection_rules import as_read, projection_of, projection_record
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, TableName, table_from_dict
from engine.destination.destination_protocol import Destination, DestinationTable
from engine.destination.publisher import Publisher
from engine.ledger.records import Planned, Removal, Switch, TableChange
from engine.ledger.state import State, TableState, following
from engine.ledger.store import Ledger
from engine.plan.mirrors import decided
from engine.plan.planner import plan_tables
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.epochs.epoch import completed
from engine.run.tables.first_epoch import finished, streaming_only, unfit_record
from engine.run.tables.membership_commands import MembershipCommand, check_command, members_of
from engine.source.catalog import list_tables, read_tables, uncaptured_kind
from engine.source.connect import Connection, describe
from engine.source.engines import merge_parts
from engine.source.positions import current
from engine.source.preflight import refused
from engine.spec.globs import new_matches
from engine.spec.settings import Spec

_SEARCH_S = 60.0
"""Seconds between looks for new tables that no statement in the binlog announced."""
_CATALOGUE_LAG_S = 2.0
"""The binlog has a statement a moment before the catalogue has its table."""


class MembershipChanges:
    """Pending membership changes.

    reading: whether chunks of a table are being read, even if their result is ignored. show_planning: is called with
    the full names of the tables that are planned next.
    """

    def __init__(
        self,
        spec: Spec,
        publisher: Publisher,
        commands: AcceptedCommands,
        reading: Callable[[str], bool],
        show_planning: Callable[[Sequence[str]], None],
    ) -> None:
        self._spec = spec
        self._publisher = publisher
        self._commands = commands
        self._reading = reading
        self._show_planning = show_planning
        self._adds = spec.source.new_tables == "add"
        self._searched = not self._adds
        self._search_until_s = 0.0
        self._next_search_s = 0.0
        self._merges_unknown = False

    @property
    def waiting(self) -> bool:
        """Whether a membership change may be pending."""
        return self._merges_unknown or self._search_is_due or bool(self._commands.accepted(MembershipCommand))

    @property
    def _search_is_due(self) -> bool:
        """Now and then without a statement that creates a table: a grant shows one that was hidden."""
        return self._adds and (not self._searched or clock.monotonic_s() >= self._next_search_s)

    def note_definition(self) -> None:
        """Record that the binlog has a statement that may have created a table."""
        self._search_until_s = clock.monotonic_s() + _CATALOGUE_LAG_S
        self._merges_unknown = True

    def merged(self, connection: Connection, state: State, tables: Mapping[str, Table]) -> dict[str, TableStoppedError]:
        """The captured tables that have become parts of a MERGE table since the last definition, and stop therefore."""
        if not self._merges_unknown and clock.monotonic_s() > self._search_until_s:
            return {}
        self._merges_unknown = False
        plain = [table for name, table in tables.items() if not table.transactional and not state.tables[name].stopped]
        parts = merge_parts(connection, [(table.database, table.name) for table in plain])
        return {f"{name[0]}.{name[1]}": _merged(name, why) for name, why in parts.items()}

    def next(self, connection: Connection, state: State) -> dict[str, TableChange]:
        """The next epoch's records of tables that join or leave; empty if nothing changes now.

        Answers the commands. state: committed before the catalogue is read.
        """
        change = next(iter(self._commands.accepted(MembershipCommand)), None)
        if (
            change is not None
            and change.done(state)
            and all(map(self._publisher.is_released, _removed_names(change, state)))
        ):
            self._commands.carried_out(change, {})  # the kept data is final now
            change = None
        if gone := list(self._dropped(state)):
            return {name: TableChange(dropped=True) for name in gone}
        if (
            change is not None
            and not change.begun(state)
            and all(map(self._publisher.is_released, _removed_names(change, state)))
        ):
            try:
                check_command(change, state)
                return self._add(connection, state, change) if change.adds else _removed(change)
            except (SpecError, TableStoppedError, PreflightError) as error:
                self._commands.refused(change, error)
        return self._find_new(connection, state)

    def _dropped(self, state: State) -> Iterator[str]:
        for name in to_drop(state):
            if self._publisher.is_released(name) and not self._reading(name):
                stored_table(self._publisher.destination, state, state.removed[name]).drop()
                yield name

    def _add(self, connection: Connection, state: State, change: MembershipCommand) -> dict[str, TableChange]:
        if any(name in to_drop(state) for name in change.tables):
            return {}
        names = _named(change.tables, list_tables(connection), partial(_kind_of, connection))
        records, errors = self._join(connection, state, names, change.identity)
        for error in errors.values():
            raise error
        return records

    def _find_new(self, connection: Connection, state: State) -> dict[str, TableChange]:
        """Records of the tables that match the globs and are not in the ledger."""
        if not self._search_is_due and (not self._adds or clock.monotonic_s() > self._search_until_s):
            return {}
        self._next_search_s = clock.monotonic_s() + _SEARCH_S
        members = members_of(state)
        matches = new_matches(self._spec.source.tables, list_tables(connection), members.also | members.without)
        # A name with dots may already stand for another table, which keeps it.
        new = list({f"{name[0]}.{name[1]}": name for name in matches if not state.known(".".join(name))}.values())
        records, errors = self._join(connection, state, new, None) if new else ({}, {})
        self._searched = True
        return records | {
            table.full_name: unfit_record(table, error) for table, error in errors.items() if table.columns
        }

    def _join(
        self, connection: Connection, state: State, names: Sequence[TableName], by: str | None
    ) -> tuple[dict[str, TableChange], dict[Table, TidemarkError]]:
        """Records of the tables that join, and the errors of those that cannot.

        Creates new folders in the destination for those that join.

        by: a command; if one of its tables cannot join, none of its folders remains.
        """
        self._show_planning([".".join(name) for name in names])
        null_dates = self._spec.source.invalid_dates == "null"
        records: dict[str, TableChange] = {}
        errors: dict[Table, TidemarkError] = {}
        begun: list[DestinationTable] = []
        for table in read_tables(connection, names, null_dates=null_dates):
            try:
                record, created = self._record(connection, state, table, by)
                if created is not None and not (by and errors):
                    begun.append(created)
                    created.drop()  # what a killed runner began
                    created.open(must_exist=False)
                records[table.full_name] = record
            except (SpecError, TableStoppedError, PreflightError) as error:
                errors[table] = error
        if by and errors:
            for created in begun:
                created.drop()
        return records, errors

    def _record(
        self, connection: Connection, state: State, table: Table, by: str | None
    ) -> tuple[TableChange, DestinationTable | None]:
        """The record of a table that joins, and its destination if that must be created."""
        if not table.columns:
            raise SpecError(f"{table.full_name} is gone.", detail="It was dropped or renamed a moment ago.")
        for error in refused([as_read(self._spec, table)]).values():
            raise error
        (plan,) = plan_tables(connection, [table], self._spec.snapshot, exact=self._spec.source.copies)
        projection_of(self._spec, table, plan.chunk_key)
        projection = projection_record(self._spec, table)
        if not self._spec.source.copies:
            plan = streaming_only(plan)
        plan = decided(self._spec.sink, table, plan)
        joins = Planned(table.as_dict(), plan.as_dict(), projection, by)
        removed_table = state.removed.get(table.full_name)
        if (
            removed_table is not None
            and (destination_table := stored_table(self._publisher.destination, state, removed_table)).is_there
        ):
            before = table_from_dict(removed_table.table)
            if not table.key:
                raise _no_key(table, destination_table)
            with suppress(IncompatibleColumnsError):  # then its change log begins again
                destination_table.check(published_as(before, removed_table.projection), published_as(table, projection))
            since = None if self._spec.source.copies else current(connection, describe(connection))
            switch = Switch(
                joins.table,
                joins.plan,
                before.as_dict(),
                projection,
                removed_table.projection,
                since,
                joins=True,
                by=by,
            )
            return TableChange(resnapshot=switch), None
        published_table = published_as(table, projection)
        created = self._publisher.destination.table(state.owner, published_table, plan)
        created.check(None, published_table)
        return replace(finished(self._spec, state.position), planned=joins), created


def to_drop(state: State) -> list[str]:
    """The removed tables whose destination is still to be deleted."""
    return [name for name, table in state.removed.items() if table.removed and table.removed.drop and not table.dropped]


def drop_removed(destination: Destination, ledger: Ledger, run: str) -> None:
    """Delete the destinations of dropped tables and commit that; call it only while no reader and no publisher runs."""
    state = ledger.state
    if state is None or not (names := to_drop(state)):
        return
    for name in names:
        stored_table(destination, state, state.removed[name]).drop()
    destination.terms.check()
    ledger.commit(completed(state, following(state, run, {name: TableChange(dropped=True) for name in names})))


def stored_table(destination: Destination, state: State, table: TableState) -> DestinationTable:
    """A table of the ledger in the destination."""
    return destination.table(state.owner, published_as(table_from_dict(table.table), table.projection))


def _removed_names(change: MembershipCommand, state: State) -> list[str]:
    return [name for name in change.tables if name in state.removed]


def _removed(change: MembershipCommand) -> dict[str, TableChange]:
    removal = Removal(change.identity, change.drop)
    return {name: TableChange(removed=removal) for name in change.tables}


def _kind_of(connection: Connection, full_name: str) -> str:
    """What has this name, if it is not an ordinary table: VIEW, SYSTEM VERSIONED, SEQUENCE; else empty."""
    database, _, name = full_name.partition(".")
    return uncaptured_kind(connection, database, name)


def _named(full_names: Sequence[str], existing: Sequence[TableName], kind_of: Callable[[str], str]) -> list[TableName]:
    """The tables with these full names. Raises SpecError for a name that matches none, or two."""
    names = [f"{database}.{table}" for database, table in existing]
    for name in full_names:
        if names.count(name) > 1:
            raise SpecError(f"Two tables have the full name {name} (the dots in it can be split in two ways).")
        if name not in names:
            if kind := kind_of(name):
                raise SpecError(
                    f"{name} cannot be added: it is a {kind.lower()}.",
                    detail="The binlog has no rows of views and sequences, and more rows of system-versioned tables "
                    "than they show.",
                    hint="Capture the tables that it is made of, or copy its rows by other means.",
                )
            near = get_close_matches(name, names, 1, 0.8)
            raise SpecError(
                f"The source has no table {name} that the user may read.",
                detail="Views and sequences are not captured.",
                hint=f"The nearest is {near[0]}." if near else "Check its name and the user's grants.",
            )
    return [existing[names.index(name)] for name in full_names]


def _merged(name: TableName, why: str) -> TableStoppedError:
    full = f"{name[0]}.{name[1]}"
    return TableStoppedError(
        f"{full} is not captured any more: it is {why}.",
        detail="What is published is right up to the time when it became a part.",
        hint="Drop that table, or take this one out of its UNION; then resnapshot it: "
        f"tidemark redump SPEC --table {shell_word(full)}",
    )


def _no_key(table: Table, destination_table: DestinationTable) -> SpecError:
    return SpecError(
        f"{table.full_name} has no key, so it cannot be resnapshotted into its existing change log.",
        detail="Its rows would be duplicated there.",
        hint=f"Move {destination_table.place} away, as far as they exist, or give the table a primary "
        f"key. Then add it again: tidemark add-table SPEC --table {shell_word(table.full_name)}",
    )
