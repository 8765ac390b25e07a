"""A runner takes possession of a pipeline before it writes or deletes anything: compare, take the term, compare again.

    1. compare   ledger and destination are compared (`destination.agreement`); if they do not belong together, nothing is touched
    2. ledger    an epoch commits the new term: a runner with an earlier term cannot commit any more
    3. fence     the destination gets the term: a runner with an earlier term cannot write there any more, wherever its ledger is
    4. seal      unless the last runner ended in order, every table gets a commit of this term. That rejects a commit which an
                 earlier runner has prepared. Then ledger and destination are compared again

A runner that is killed in between leaves a term in the ledger that nobody holds, which is harmless.
"""

import os
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.base import clock
from engine.base.errors import DestinationError
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import table_from_dict
from engine.destination.agreement import compare, look_at
from engine.destination.delta.log.known_tables import KnownTables
from engine.destination.delta.table_pair import TablePair
from engine.destination.fence import Fence, Term
from engine.ledger.records import TermRecord
from engine.ledger.state import State
from engine.ledger.store import Ledger


class Possession:
    """One run's hold on ledger and destination.

    known_tables: the file for what the next run may know (`destination.delta.log.known_tables`). known: what the last run has left.
    at_fault: tables that differ from what the ledger has published.
    """

    def __init__(self, root: Path, run: str, known_tables: Path | None = None) -> None:
        self._root = root
        self._run = run
        self._known_tables = known_tables
        self._fence: Fence | None = None
        self.known = KnownTables()
        self.at_fault: set[str] = set()

    @property
    def taken(self) -> bool:
        return self._fence is not None

    def guard(self) -> int:
        """The number of this run's term. Raises PipelineHeldError when another runner has a later one."""
        assert self._fence is not None
        return self._fence.check()

    def first_term(self, ledger: str) -> TermRecord:
        """The term in epoch 0."""
        newest = Fence(self._root, ledger).newest()
        return {"number": newest.number + 1 if newest else 1, "run": self._run}

    def take_first(self, ledger: Ledger) -> None:
        """Take possession after epoch 0 is committed; there was no runner before."""
        assert ledger.state is not None
        self._take_fence(ledger.state)

    def take(self, ledger: Ledger, asked: Collection[str], *, everything: bool) -> int | None:
        """Take the pipeline. Raises MismatchError when ledger and destination do not belong together, PipelineHeldError.

        asked: tables that commands resnapshot or remove; everything: a command resnapshots all. Returns None, or, if the ledger is
        older than the destination and everything is resnapshotted, a `_tm_seq` greater than any in the change logs.
        """
        assert ledger.state is not None
        fence = Fence(self._root, ledger.state.ledger)
        newest = fence.newest()
        if self._known_tables is not None:
            self.known = KnownTables.read(self._known_tables, newest)
        older = self._compare(ledger, newest, asked, everything=everything)
        terms = max([newest.number] if newest else [ledger.state.term, *self._terms(ledger.state)], default=0)
        ledger.take_term(self._run, terms + 1)
        self._take_fence(ledger.state)
        if newest is None or not newest.ended:
            self._seal(ledger.state)
            older = self._compare(ledger, None, asked, everything=everything) or older
        return self._next_seq(ledger.state) if older else None

    def release(self, tables: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Mark the run as ended in order; it writes nothing more. tables: as it leaves them (`Targets.remember`)."""
        if self._fence is None:
            return
        if self._known_tables is not None and tables is not None:
            with suppress(OSError):  # then the next run opens all tables
                KnownTables.write(self._known_tables, self._fence.held, tables)
        self._fence.release()

    def _compare(self, ledger: Ledger, newest: Term | None, asked: Collection[str], *, everything: bool) -> bool:
        """Compare ledger and destination. Returns whether the ledger is older."""
        assert ledger.state is not None
        looks = look_at(self._root, ledger.state, self.known)
        found = compare(self._root, ledger.state, newest, list(ledger.kept_epochs()), looks)
        found.require(asked, everything=everything)
        self.at_fault |= set(found.tables)
        return bool(found.ledger_older)

    def _take_fence(self, state: State) -> None:
        fence = Fence(self._root, state.ledger)
        fence.take(Term(state.term, self._run, socket.gethostname(), os.getpid(), clock.utc_text()))
        self._fence = fence

    def _tables(self, state: State) -> list[TablePair]:
        shown = [published_as(table_from_dict(t.table), t.projection) for t in state.tables.values() if t.begun]
        return [TablePair(self._root, state.owner, table, self.guard) for table in shown]

    def _seal(self, state: State) -> None:
        for tables in self._tables(state):
            try:
                if not tables.fault():
                    tables.repair()
                    tables.seal()
            except DestinationError:  # compared again later; it concerns this table alone
                continue

    def _terms(self, state: State) -> list[int]:
        found: list[int] = []
        for tables in self._tables(state):
            try:
                found += tables.terms() if not tables.fault() else ()
            except DestinationError:
                continue
        return found

    def _next_seq(self, state: State) -> int:
        """A sequence number greater than any in the change logs."""
        largest = 0
        for tables in self._tables(state):
            with suppress(DestinationError):  # without its change log, a table has no numbers
                largest = max(largest, tables.changes.largest_seq() if tables.changes.lake.there else 0)
        return largest + 1
