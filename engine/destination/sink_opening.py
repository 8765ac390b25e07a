"""Opens a further sink: takes it over, reads back what was copied before it joined, applies what it lacks."""

import os
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from engine.base import clock
from engine.base.errors import DestinationError, MismatchError, PipelineHeldError
from engine.base.wording import shell_word
from engine.capture.landing import ReadsBack
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.destination.agreement import compare, read_states
from engine.destination.capabilities import HoldsSessions, KeepsHalfCopies
from engine.destination.destination_protocol import CHUNKS, Destination, EpochEnd
from engine.destination.epoch_replay import EpochReplay
from engine.destination.fence import Term
from engine.destination.published_tables import PublishedTables
from engine.destination.read_back import HasEverything, TableRows, read_back
from engine.destination.table_progress import Target, complete_copy
from engine.journal import Journal
from engine.journal.destination_events import SinkApplied
from engine.ledger.records import EpochRecord, SinkRecord
from engine.ledger.state import Owner, State, TableState, sink_place
from engine.ledger.store import Ledger
from engine.plan.chunks import plan_from_dict
from engine.spec.sink_settings import Sink

BEGIN_AGAIN = (
    "begin it again: remove the sink from the spec and start the pipeline; then stop it, add the sink to the spec and "
    "start the pipeline. It begins with a copy of the mirrors."
)
"""The hint for a sink that cannot continue."""
Wait = Callable[[float], None]
"""Waits for some seconds at most; 0: only looks. Raises StopWorkError when the sink must not continue."""
_LOOK_S = 0.5
_EPOCHS_AT_ONCE = 64


class RefusedError(DestinationError):
    """The sink can never continue with this ledger."""


class StopWorkError(Exception):
    """The run ends, or an operator has paused the sink. What is done is done; the next opening continues."""


class SinkOpening:
    """Opens one further sink, again after each failure. first: the first destination."""

    def __init__(
        self,
        sink: Sink,
        open_destination: Callable[[], Destination],
        first: Destination,
        ledger: Ledger,
        journal: Journal,
        count_rows: Callable[[int], None] = lambda _: None,
    ) -> None:
        """count_rows: called with the rows of each commit."""
        assert ledger.state is not None
        self._sink = sink
        self._count_rows = count_rows
        self._open_destination = open_destination
        self._first = first
        self._ledger = ledger
        self._journal = journal
        self._term = Term(ledger.state.term, journal.run, socket.gethostname(), os.getpid(), clock.utc_text())
        self._began = ledger.state.epoch
        self.is_taken = False
        """Whether this run has taken it over."""
        self._copied = set[str]()

    @property
    def copied(self) -> frozenset[str]:
        """The tables whose rows from before the sink joined it has got in this run."""
        return frozenset(self._copied)

    @property
    def record(self) -> SinkRecord:
        """What the ledger knows of it."""
        return self._state.sinks[self._sink.name]

    def open(self, has_everything: HasEverything, wait: Wait) -> EpochReplay:
        """Open the destination, and apply what it lacks. has_everything: of the first destination.

        Raises RefusedError if it can never continue; PipelineHeldError, DestinationError, SpecError, OSError.
        """
        destination = self._open_destination()
        try:
            return self._opened(destination, has_everything, wait)
        except BaseException:
            give_up(destination)
            raise

    def _opened(self, destination: Destination, has_everything: HasEverything, wait: Wait) -> EpochReplay:
        state = self._state
        if not self.is_taken:
            self._possess(destination, state)
        destination.terms.take(state.ledger, self._term)
        self.is_taken = True
        tables = PublishedTables(
            destination, self._ledger, self._journal, self._on_commit, lambda step: step(), self._owner
        )
        joined = self.record.joined
        records = [record for record in self._ledger.kept_epochs() if joined < record.epoch <= state.epoch]
        lacking = {name for record in records for name in record.tables}
        tables.open_all(state, self.record.applied, lacking)
        tables.delete_orphans()
        self._drop_removed(destination, state)
        replay = EpochReplay(self._sink, tables, self._ledger, self._journal, lambda: None, is_first=False)
        for name in self.record.generations:
            try:
                self._read_back(name, tables, has_everything, wait)
            except (StopWorkError, PipelineHeldError):
                raise
            except Exception as error:  # noqa: BLE001 - a writer is the user's code, and its error is this table's alone
                tables.fail(name, error)  # raises errors of the sink's disk
        replay.apply_kept(state, joined, _EPOCHS_AT_ONCE, lambda: wait(0.0))
        replay.applied_epoch = max(
            replay.applied_epoch, state.epoch
        )  # earlier ones that the ledger does not have were applied
        replay.merge_all()
        return replay

    @property
    def _owner(self) -> Owner:
        """The epochs of an earlier life of the sink, or of a ledger that was restored, are not its own."""
        return Owner(self._state.ledger, self.record.id)

    def _possess(self, destination: Destination, state: State) -> None:
        """Take the sink, and fence earlier runs.

        Raises RefusedError if it is ahead of the ledger, DestinationError if it lacks what the ledger knows it to have.
        """
        applied, records = self.record.applied, list(self._ledger.kept_epochs())
        tables = {
            name: replace(table, applied=applied[name]) for name, table in state.tables.items() if name in applied
        }
        seen = replace(state, tables=tables, lineage=self.record.id, floor=-1)
        newest = destination.terms.newest(state.ledger)
        published_tables = [
            published_as(table_from_dict(t.table), t.projection) for t in state.tables.values() if t.begun
        ]
        looks = [destination.table(self._owner, table).read_state() for table in published_tables]
        ahead = max((epoch for look in looks for epoch in look.applied_epochs.values()), default=-1)
        parts = [(name, part) for record in records for name, part in record.tables.items()]
        excused_tables = {name for name, part in parts if part.resnapshot or part.planned or part.removed}
        comparison = compare(destination, seen, newest, records, read_states(destination, seen))
        if ahead > self._began or comparison.ledger_older:
            why = comparison.ledger_older or f"it has epoch {ahead}, the ledger ended at {self._began}"
            raise self._refusal(RefusedError, f"is ahead of the ledger: {why}", f"B{BEGIN_AGAIN[1:]}")
        try:
            comparison.require(excused_tables, resnapshots_all=False)
        except MismatchError as error:
            what, hint = (
                f"is not what the ledger has published there: {error.message}",
                f"Put it back. Or {BEGIN_AGAIN}",
            )
            raise self._refusal(DestinationError, what, hint) from error
        destination.terms.take(state.ledger, self._term)
        if newest is None or not newest.ended:
            destination.fence_earlier_runners(self._owner, published_tables, self._ledger.kept_numbers())

    def _refusal(self, kind: type[DestinationError], what: str, hint: str) -> DestinationError:
        return kind(
            f"Sink {self._sink.name} {what}",
            detail="It was restored, replaced or damaged, or the ledger was. Nothing was written to it. The other "
            "sinks continue.",
            hint=hint,
        )

    def _read_back(self, name: str, tables: PublishedTables, has_everything: HasEverything, wait: Wait) -> None:
        """Publish the rows that a table had when the sink joined, unless the sink has them."""
        target, generation = tables.targets.get(name), self.record.generations[name]
        if target is None or target.error is not None or name in self.record.copied | self._copied:
            return
        readable = isinstance(self._first.landing, ReadsBack)
        if not readable and not target.destination.table.key:
            raise _no_rows(name, self._sink.name)
        while True:
            state = self._state
            table_state = state.tables.get(name)
            if table_state is None or table_state.generation != generation or table_state.stopped:
                return  # it has left, or a resnapshot follows
            if readable and table_state.copied and has_everything(name, state.epoch):
                table = published_as(table_from_dict(table_state.table), table_state.projection)
                rows = read_back(self._first.landing, state.owner, table, state.epoch, lambda: wait(0.0))
                try:
                    if self._is_the_same(name, table_state):
                        wait(0.0)
                        self._publish(target, tables, rows, table, state)
                        self._copied.add(name)
                        return
                finally:
                    rows.delete()
            else:
                wait(_LOOK_S)

    def _is_the_same(self, name: str, before: TableState) -> bool:
        """Whether a table was neither altered nor resnapshotted while it was read."""
        now = self._state.tables.get(name)
        return now is not None and (now.generation, now.table, now.projection) == (
            before.generation,
            before.table,
            before.projection,
        )

    @staticmethod
    def _publish(target: Target, tables: PublishedTables, rows: TableRows, table: Table, state: State) -> None:
        """Publish them as a copy.

        Nothing in the destination says that it is complete: a table may have no rows, and a copy that has begun counts
        as having the changes from before it. So the ledger records it.
        """
        plan = plan_from_dict(state.tables[table.full_name].plan)
        if isinstance(target.destination, KeepsHalfCopies):
            target.destination.forget_rows()
        target.begin_resnapshot(table, plan, rows.through, clock.utc_text(), empties_mirror=False)
        target.append(CHUNKS, [(rows.through, file) for file in rows.files])
        complete_copy(target, rows.through)
        position = str(state.position)
        tables.publish(EpochEnd(rows.through, position, clock.utc_text()))

    def _drop_removed(self, destination: Destination, state: State) -> None:
        """Complete deletions that a kill interrupted."""
        for table in state.removed.values():
            published_table = published_as(table_from_dict(table.table), table.projection)
            destination_table = destination.table(self._owner, published_table)
            if table.removed and table.removed.drop and destination_table.is_there:
                destination_table.drop()

    @property
    def _state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    def _on_commit(self, applied: SinkApplied | None) -> None:
        if applied is not None:
            self._count_rows(applied.rows)
            self._journal.write(replace(applied, sink=self._sink.name))


def give_up(destination: Destination) -> None:
    """End what is open in a destination that failed: it is opened again."""
    if isinstance(destination, HoldsSessions):
        destination.give_up()


def _no_rows(table: str, sink: str) -> DestinationError:
    return DestinationError(
        f"Sink {sink} joined after {table} was copied, and its rows cannot be read back from the first destination.",
        detail="The table has no key, so it is not resnapshotted either. The sink gets nothing of it.",
        hint=f"tidemark remove-table SPEC --table {shell_word(table)} --drop and, once it is removed, "
        f"tidemark add-table SPEC --table {shell_word(table)}",
    )


def sink_changes(
    state: State, sinks: Mapping[str, Sink], epochs: Sequence[EpochRecord]
) -> dict[str, SinkRecord | None]:
    """What the ledger must record of the sinks of a spec: those that join, and those that leave.

    epochs: the epochs in the ledger. Where it has all of them, a sink begins with the first one.
    """
    changes: dict[str, SinkRecord | None] = {name: None for name in state.sinks if name not in sinks}
    has_all_epochs = [record.epoch for record in epochs if record.only is None] == list(range(state.epoch + 1))
    generations = (
        {} if has_all_epochs else {name: table.generation for name, table in state.tables.items() if table.begun}
    )
    for name, sink in sinks.items():
        sink_record, path = state.sinks.get(name), str(sink.path)
        place = sink_place(sink.type, path)
        if sink_record is not None and sink_place(sink_record.type, sink_record.path) == place:
            continue
        times = state.sink_places.get(place, 0)
        identity = f"{times + 1}-{uuid.uuid4().hex[:6]}" if times else ""
        changes[name] = SinkRecord(sink.type, path, identity, -1 if has_all_epochs else state.epoch, generations)
    return changes


def sinks_after_restore(state: State, sinks: Iterable[Sink]) -> tuple[dict[str, None], dict[str, int]]:
    """What the ledger must record when it was restored: all sinks leave, and are known to have joined.

    So they join again at the next start, with epochs that they do not take for those of the time after the backup.
    Returns the fields `sinks` and `sink_places` of an epoch's record.
    """
    ledger_sinks = [sink_place(sink.type, sink.path) for sink in state.sinks.values()]
    places = [*(sink_place(sink.type, str(sink.path)) for sink in sinks), *ledger_sinks]
    return dict.fromkeys(state.sinks), {place: state.sink_places.get(place, 0) + 1 for place in dict.fromkeys(places)}
