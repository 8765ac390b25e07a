"""Opens a further sink: takes possession of it, reads back what was copied before it joined, applies what it lacks."""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.base import clock
from engine.base.errors import DestinationError, MismatchError
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import table_from_dict
from engine.destination.agreement import compare, look_at
from engine.destination.destination_protocol import CHANGES, CHUNKS, Destination, EpochEnd
from engine.destination.epoch_replay import EpochReplay
from engine.destination.epoch_retention import EpochRetention
from engine.destination.fence import Term
from engine.destination.published_tables import PublishedTables
from engine.destination.read_back import HasEverything, read_back
from engine.journal import Journal
from engine.journal.destination_events import SinkApplied
from engine.ledger.records import SinkRecord
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.plan.chunks import plan_from_dict
from engine.spec.sink_settings import Sink

BEGIN_AGAIN = (
    "begin it again: remove the sink from the spec and start the pipeline; then stop it, move the sink's folder away, "
    "add the sink to the spec and start the pipeline. It begins with a copy of the mirrors."
)
"""The hint for a sink that cannot continue."""
Wait = Callable[[float], None]
"""Waits for some seconds at most; 0: only looks. Raises an error when the run ends and does not wait for the sink."""
_LOOK_S = 0.5


class SinkOpening:
    """Opens one further sink, again after each failure. first: the first destination."""

    def __init__(
        self,
        sink: Sink,
        open_destination: Callable[[], Destination],
        first: Destination,
        ledger: Ledger,
        journal: Journal,
        retention: EpochRetention,
    ) -> None:
        assert ledger.state is not None
        self._sink = sink
        self._open_destination = open_destination
        self._first = first
        self._ledger = ledger
        self._journal = journal
        self._retention = retention
        self._term = Term(ledger.state.term, journal.run, socket.gethostname(), os.getpid(), clock.utc_text())
        self.is_taken = False
        """Whether this run has taken possession of it."""

    @property
    def record(self) -> SinkRecord:
        """What the ledger knows of it."""
        return self._state.sinks[self._sink.name]

    def open(self, has_everything: HasEverything, wait: Wait) -> EpochReplay:
        """Open the destination, and apply what it lacks. has_everything: of the first destination.

        Raises PipelineHeldError, DestinationError, SpecError, OSError.
        """
        destination, state = self._open_destination(), self._state
        if not self.is_taken:
            self._possess(destination, state)
        destination.take(state.ledger, self._term)
        self.is_taken = True
        tables = PublishedTables(destination, self._ledger, self._journal, self._written, lambda step: step())
        tables.open_all(state, self.record.get("applied", {}))
        tables.delete_orphans()
        self._drop_removed(destination, state)
        replay = EpochReplay(self._sink, tables, self._ledger, self._journal, self._retention, drops=True)
        for name in self.record["generations"]:
            self._read_back(name, tables, has_everything, wait)
        replay.apply_kept(state, self.record["joined"])
        replay.applied = max(replay.applied, state.epoch)  # earlier ones that the ledger does not have were applied
        replay.merge_all()
        return replay

    def _possess(self, destination: Destination, state: State) -> None:
        """Raises DestinationError if ledger and sink do not belong together; seals what an earlier run prepared."""
        applied, kept = self.record.get("applied", {}), list(self._ledger.kept_epochs())
        tables = {
            name: replace(table, applied=applied[name]) for name, table in state.tables.items() if name in applied
        }
        seen = replace(state, tables=tables)
        newest = destination.newest_term(state.ledger)
        asked = {name for record in kept for name, part in record["tables"].items() if "resnapshot" in part}
        try:
            compare(destination, seen, newest, kept, look_at(destination, seen)).require(asked, everything=False)
        except MismatchError as error:
            raise DestinationError(
                f"Sink {self._sink.name} is not what the ledger has published there: {error.message}",
                detail="It was restored, replaced or damaged, or the ledger was. Nothing was written to it. The other "
                "sinks continue.",
                hint=f"Put its newest files back. Or {BEGIN_AGAIN}",
            ) from error
        destination.take(state.ledger, self._term)
        if newest is None or not newest.ended:
            shown = [published_as(table_from_dict(t.table), t.projection) for t in state.tables.values() if t.begun]
            destination.seal(state.owner, shown, self._ledger.kept_numbers())

    def _read_back(self, name: str, tables: PublishedTables, has_everything: HasEverything, wait: Wait) -> None:
        """Publish the rows that a table had when the sink joined, unless the sink has them."""
        target, generation = tables.targets.get(name), self.record["generations"][name]
        if target is None or target.error is not None or target.applied[CHANGES] >= max(self.record["joined"], 0):
            return
        readable = self._first.landing.reader(target.destination.table).has_mirror
        if not readable and not target.destination.table.key:
            tables.fail(name, _no_rows(name, self._sink.name))
            return
        while True:
            state = self._state
            known = state.tables.get(name)
            if known is None or known.generation != generation or known.stopped:
                return
            if readable and known.copied and has_everything(name, state.epoch):
                break
            wait(_LOOK_S)
        table = published_as(table_from_dict(known.table), known.projection)
        rows = read_back(self._first.landing, state.owner, table, state.epoch, lambda: wait(0.0))
        try:
            now = self._state.tables.get(name)
            if now is None or now.generation != generation:
                return  # it is being resnapshotted
            target.begin_resnapshot(table, plan_from_dict(known.plan), rows.through, clock.utc_text(), emptied=False)
            target.append(CHUNKS, [(rows.through, file) for file in rows.files])
            position = f"{state.position['file']}:{state.position['offset']}"
            tables.publish(EpochEnd(rows.through, position, clock.utc_text()))
        finally:
            rows.delete()

    @staticmethod
    def _drop_removed(destination: Destination, state: State) -> None:
        """Complete deletions that a kill interrupted."""
        for table in state.removed.values():
            shown = published_as(table_from_dict(table.table), table.projection)
            found = destination.table(state.owner, shown)
            if table.removed and table.removed["drop"] and found.is_there:
                found.drop()

    @property
    def _state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    def _written(self, applied: SinkApplied | None) -> None:
        if applied is not None:
            self._journal.write(replace(applied, sink=self._sink.name))


def _no_rows(table: str, sink: str) -> DestinationError:
    return DestinationError(
        f"Sink {sink} joined after {table} was copied, and its rows cannot be read back from the first destination.",
        detail="The table has no key, so it is not resnapshotted either. The sink gets nothing of it.",
        hint=f"tidemark remove-table SPEC --table {table} --drop and, once it is removed, "
        f"tidemark add-table SPEC --table {table}",
    )


def sink_changes(state: State, sinks: Mapping[str, Sink], kept: list[int]) -> dict[str, SinkRecord | None]:
    """What the ledger must record of the sinks of a spec: those that join, and those that leave.

    kept: the epochs in the ledger. Where it has all of them, a sink begins with the first one.
    """
    found: dict[str, SinkRecord | None] = {name: None for name in state.sinks if name not in sinks}
    for name, sink in sinks.items():
        known = state.sinks.get(name)
        place = {"type": sink.type, "path": str(sink.path)}
        if known is not None and {"type": known["type"], "path": known["path"]} == place:
            continue
        everything = bool(kept) and kept[0] == 0
        generations = {} if everything else {n: t.generation for n, t in state.tables.items() if t.begun}
        found[name] = SinkRecord(
            type=sink.type, path=str(sink.path), joined=-1 if everything else state.epoch, generations=generations
        )
    return found
