"""Which runner may write to the tables: the one whose term is in the pipeline's row of `_tidemark_epochs`.

Each transaction begins by locking that row, so a later runner takes its term between two transactions of the earlier
one. If that one holds the lock and does not end, as on a host that was cut off, its session is ended.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAwayError
from engine.destination.database.database_state import DatabaseState, TermHolder
from engine.destination.database.reading_session import ReadingSession
from engine.destination.database.sql_server import DatabaseSession, SqlServer
from engine.destination.fence import Term, takeover_error

_ATTEMPTS = 3


class DatabaseTerms:
    """state_of: of a ledger (`destination.destination_protocol.Terms`)."""

    def __init__(self, server: SqlServer, reading: ReadingSession, state_of: Callable[[str], DatabaseState]) -> None:
        self._server = server
        self._reading = reading
        self._state_of = state_of
        self._own: Term | None = None
        self._state: DatabaseState | None = None
        self._lost: Term | None = None
        self._lock = threading.Lock()

    def newest(self, ledger: str) -> Term | None:
        """By the pipeline's row."""
        holder = self._reading.ask(partial(_holder, self._state_of(ledger)))
        return None if holder is None else holder.term

    def take(self, ledger: str, term: Term) -> None:
        """Write the term, between two transactions of an earlier runner."""
        state = self._state_of(ledger)
        for attempt in range(_ATTEMPTS):
            try:
                self._take(state, term)
            except StoreAwayError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                self._end_holder(state)
            else:
                break
        with self._lock:
            self._own = term
            self._state = state
            self._lost = None

    def _take(self, state: DatabaseState, term: Term) -> None:
        try:
            session = self._server.connect()
        except self._server.failures as error:
            raise self._server.explained(error) from error
        try:
            self._server.create_state(session)
            session.commit()
            holder = state.term(session, locks=True)
            newest = None if holder is None else holder.term
            if newest is not None and newest.number >= term.number and newest.run != term.run:
                raise takeover_error(term, newest)
            state.write_term(session, term, is_new=newest is None)
            session.commit()
        except self._server.failures as error:
            raise self._server.explained(error) from error
        finally:
            session.close()

    def _end_holder(self, state: DatabaseState) -> None:
        """End the session of the earlier runner, which may hold the lock."""
        holder = self._reading.ask(partial(_holder, state))
        if holder is not None and holder.session is not None:
            self._reading.ask(partial(self._server.end_session, number=holder.session))

    def check(self) -> int:
        """The number of this runner's term; 0 before it took one. Asks nobody: each transaction asks (`lock`)."""
        if self._lost is not None:
            assert self._own is not None
            raise takeover_error(self._own, self._lost)
        return 0 if self._own is None else self._own.number

    def note_session(self, session: DatabaseSession) -> None:
        """Commit which session writes from now on, so that a later runner can end it."""
        self.lock(session)
        if self._own is not None and self._state is not None:
            self._state.write_term(session, self._own, is_new=False)
        session.commit()

    def lock(self, session: DatabaseSession) -> None:
        """Lock the row of the term until the transaction ends.

        Raises PipelineHeldError if another runner has a later term, and the driver's errors.
        """
        self.check()
        if self._own is None or self._state is None:
            return
        holder = self._state.term(session, locks=True)
        if holder is None:
            raise DestinationError(
                f"Tidemark's own tables in {self._server.place} have lost the row of this pipeline.",
                detail="Nothing was written: which epochs the tables have is not known.",
                hint="Restore _tidemark_epochs and _tidemark_tables from a backup of the database, or remove the sink "
                "from the spec and add it again with another place for its tables.",
            )
        if (holder.term.number, holder.term.run) != (self._own.number, self._own.run):
            self._lost = holder.term
            self.check()

    def release(self) -> None:
        """Write that the term has ended."""
        if self._own is None or self._lost is not None or self._state is None:
            return
        try:
            session = self._server.connect()
            try:
                self.lock(session)
                self._state.write_term(session, replace(self._own, ended=True), is_new=False)
                session.commit()
            finally:
                session.close()
        except self._server.failures as error:
            raise self._server.explained(error) from error


def _holder(state: DatabaseState, session: DatabaseSession) -> TermHolder | None:
    """The newest term, and the session of its runner."""
    return state.term(session, locks=False) if state.has_tables(session) else None
