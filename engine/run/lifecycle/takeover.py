"""A runner takes over a pipeline before it writes or deletes anything: compare, take the term, compare again.

    1. compare   ledger and destination are compared (`destination.agreement`); if they do not belong together, nothing
                 is touched
    2. ledger    an epoch commits the new term: a runner with an earlier term cannot commit any more
    3. fence     the destination gets the term: a runner with an earlier term cannot write there any more, wherever its
                 ledger is
    4. tables    unless the last runner ended in order, every table gets a commit of this term. That rejects a commit
                 which an earlier runner has prepared. Then ledger and destination are compared again

A runner that is killed in between leaves a term in the ledger that nobody holds, which is harmless.
"""

import os
import socket
from collections.abc import Collection

from engine.base import clock
from engine.base.parallel import map_parallel
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.destination.agreement import compare, read_states
from engine.destination.destination_protocol import Destination
from engine.destination.fence import Term
from engine.ledger.records import EpochRecord, Planned, TermRecord
from engine.ledger.state import Owner, State
from engine.ledger.store import Ledger


class Takeover:
    """One run's hold on ledger and destination.

    at_fault: tables that differ from what the ledger has published. missing_files: the data files that are gone, by
    table that is to be resnapshotted for that.
    """

    def __init__(self, destination: Destination, run: str) -> None:
        self.destination = destination
        self._run = run
        self.taken = False
        self.at_fault: set[str] = set()
        self.missing_files: dict[str, str] = {}

    def first_term(self, ledger: str) -> TermRecord:
        """The term in epoch 0."""
        newest = self.destination.terms.newest(ledger)
        return TermRecord(newest.number + 1 if newest else 1, self._run)

    def require_places(self, record: EpochRecord) -> None:
        """Raises SpecError when a table's place is not free, before anything is created for any of them.

        record: the first epoch.
        """
        assert record.ledger is not None
        owner = Owner(record.ledger)
        planned_tables = [change.planned for change in record.tables.values() if change.planned and not change.stopped]

        def look(one: Planned) -> None:
            table = published_as(table_from_dict(one.table), one.projection)
            self.destination.table(owner, table).check(None, table)

        map_parallel(look, planned_tables)

    def take_first(self, ledger: Ledger) -> None:
        """Take over after epoch 0 is committed; there was no runner before."""
        assert ledger.state is not None
        self._take_fence(ledger.state)

    def take(self, ledger: Ledger, named_tables: Collection[str], *, everything: bool) -> int | None:
        """Take the pipeline.

        Raises MismatchError when ledger and destination do not belong together, PipelineHeldError.

        named_tables: tables that commands resnapshot or remove; everything: a command resnapshots all. Returns None,
        or, if the ledger is older than the destination and everything is resnapshotted, a `_tm_seq` greater than any in
        the change logs.
        """
        assert ledger.state is not None
        newest = self.destination.terms.newest(ledger.state.ledger)
        self.destination.recall(newest)
        older = self._compare(ledger, newest, named_tables, everything=everything)
        terms = max([newest.number] if newest else [ledger.state.term, *self._terms(ledger.state)], default=0)
        ledger.take_term(self._run, terms + 1)
        self._take_fence(ledger.state)
        if newest is None or not newest.ended:
            self.destination.fence_earlier_runners(ledger.state.owner, _tables(ledger.state), ledger.kept_numbers())
            older = self._compare(ledger, None, named_tables, everything=everything) or older
        return self._next_seq(ledger.state) if older else None

    def _compare(self, ledger: Ledger, newest: Term | None, named_tables: Collection[str], *, everything: bool) -> bool:
        """Compare ledger and destination. Returns whether the ledger is older."""
        assert ledger.state is not None
        looks = read_states(self.destination, ledger.state)
        comparison = compare(self.destination, ledger.state, newest, list(ledger.kept_epochs()), looks)
        comparison.require(named_tables, resnapshots_all=everything)
        self.at_fault |= set(comparison.tables)
        self.missing_files |= comparison.missing_files
        return bool(comparison.ledger_older)

    def _take_fence(self, state: State) -> None:
        term = Term(state.term, self._run, socket.gethostname(), os.getpid(), clock.utc_text())
        self.destination.terms.take(state.ledger, term)
        self.taken = True

    def _terms(self, state: State) -> list[int]:
        """The terms of the runners that wrote to the tables."""
        looks = (self.destination.table(state.owner, table).read_state() for table in _tables(state))
        return [term for look in looks if not look.fault for term in look.terms]

    def _next_seq(self, state: State) -> int:
        """A sequence number greater than any in the change logs."""
        return self.destination.largest_seq(state.owner, _tables(state)) + 1


def _tables(state: State) -> list[Table]:
    """The tables that have begun, as published."""
    return [published_as(table_from_dict(t.table), t.projection) for t in state.tables.values() if t.begun]
