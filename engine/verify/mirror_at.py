"""A version of a mirror, and the source's position that it has reached.

Let the ledger be read first, then the mirror. An epoch that had been pruned by then was in the mirror already. So the
changes that the mirror may lack are in the epochs that were kept, after the one up to which the mirror says it is
merged. The position before the first of them is where the mirror equals the source, apart from chunks that are exact at
a later position. A comparison may therefore take any position up to it, and replay the binlog from there: replaying is
idempotent, because row images are full.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from engine.base import clock
from engine.base.errors import LedgerError, SpecError
from engine.capture.landing import IncompleteMirrorError, MirrorReader, TableVersion
from engine.ledger.records import NOTHING, EpochRecord
from engine.ledger.state import Owner, State, apply
from engine.ledger.store import Ledger
from engine.source.positions import Position
from engine.verify.verdicts import Incomparable

_TRIES = 20
_FRESH_S = 2.0


@dataclass(frozen=True)
class MirrorAt:
    """One version of a mirror; it has all changes of its table up to `position`, and maybe more."""

    mirror: TableVersion
    position: Position
    identity: str
    """The server that the position belongs to."""
    lacks: int | None
    """The first committed epoch whose changes it lacks; None if it has all."""

    @property
    def version(self) -> int:
        return self.mirror.version


class CommittedEpochs:
    """The committed state and the epochs that are kept. Follows the ledger: only new epochs are read."""

    def __init__(self, folder: Path, sink: str = "") -> None:
        """sink: the name of the further sink whose tables are the mirrors; "" for the first destination."""
        self._folder = folder
        self.sink = sink
        self._read_s = -math.inf
        self._ledger: Ledger | None = None
        self._state: State | None = None
        self._records: dict[int, EpochRecord] = {}

    def state(self, *, fresh: bool = False) -> State:
        """The committed state; unless `fresh`, at most two seconds old. Raises SpecError before the first epoch."""
        now_s = clock.monotonic_s()
        if self._state is None or fresh or now_s - self._read_s > _FRESH_S:
            if not self._followed():
                self._load()
            self._read_s = now_s
        assert self._state is not None
        return self._state

    def _load(self) -> None:
        self._ledger = Ledger(self._folder)
        if self._ledger.state is None:
            raise SpecError("The pipeline has not run yet, so it has no mirrors.", hint="Start it: tidemark run SPEC")
        self._state = self._ledger.state
        self._records = {
            record.epoch: record for record in self._ledger.kept_epochs() if record.epoch <= self._state.epoch
        }

    def _followed(self) -> bool:
        """Read the new epochs. Returns False if they do not follow the known ones."""
        if self._ledger is None or self._state is None:
            return False
        numbers, state, records = self._ledger.kept_numbers(), self._state, dict(self._records)
        if not numbers or numbers[-1] < state.epoch:
            return False
        try:
            for number in (number for number in numbers if number > self._state.epoch):
                records[number] = self._ledger.epoch(number)
                state = apply(state, records[number])
        except LedgerError:  # pruned meanwhile
            return False
        self._state = state
        self._records = {number: records[number] for number in numbers if number in records}
        return True

    def mirror(self, table: str, reader: MirrorReader) -> MirrorAt:
        """The newest version of a table's mirror. Raises Incomparable when it is none that can be compared."""
        for attempt in range(_TRIES):
            state = self.state(fresh=attempt > 0)
            mirror, owner = _newest(reader), self._owner(state)
            merged, copied = (
                max(mirror.transaction(owner.transaction(kind)), owner.floor) for kind in ("merge", "chunks")
            )
            try:
                if max(merged, copied) <= state.epoch:
                    self._require_joined(table, state)
                    return self._at(table, state, mirror, merged, copied)
            except Incomparable:
                mirror.release()
                raise
            mirror.release()
        raise Incomparable("lagging", "its mirror changes faster than the ledger can be read")

    def _owner(self, state: State) -> Owner:
        """How the mirrors name the pipeline. Raises Incomparable for a sink that the ledger does not have."""
        if not self.sink:
            return state.owner
        sink_record = state.sinks.get(self.sink)
        if sink_record is None:
            raise Incomparable("lagging", f"the sink {self.sink} has not joined yet")
        if sink_record.stopped is not None:
            raise Incomparable("unverifiable", f"the sink has stopped: {sink_record.stopped.message}")
        return Owner(state.ledger, sink_record.id)

    def _require_joined(self, table: str, state: State) -> None:
        """Raises Incomparable while a sink that has joined later lacks the rows from before that."""
        sink_record, table_state = state.sinks.get(self.sink), state.tables.get(table)
        if sink_record is None or table_state is None:
            return
        if sink_record.lacks_copy(table, table_state.generation):
            raise Incomparable("lagging", f"the sink {self.sink} does not have its rows yet")

    def _at(self, table: str, state: State, mirror: TableVersion, merged: int, copied: int) -> MirrorAt:
        first, lacks = None, None
        for record in self._records.values():
            part = record.tables.get(table, NOTHING)
            if record.epoch > copied and part.chunks:
                raise Incomparable("lagging", "its mirror does not have the last copy yet")
            if first is None and record.epoch > merged and part.change_files:
                first, lacks = record.from_position, record.epoch
            elif first is not None and record.identity is not None:
                raise Incomparable("lagging", "its mirror lacks changes from before the source became another server")
        position = state.position if first is None else first
        return MirrorAt(mirror, position, state.identity, lacks)


def _newest(reader: MirrorReader) -> TableVersion:
    try:
        mirror = reader.mirror()
    except IncompleteMirrorError as error:
        raise Incomparable("lagging", error.why) from error
    if mirror is None:
        raise Incomparable("unverifiable", "it has no mirror")
    return mirror
