"""Which runner may write to the tables: the one whose term is in the pipeline's row of `_tidemark_epochs`.

The session that writes has a named lock of the database (`SqlServer.locks`) for as long as it lives, and each
transaction begins by locking that row. A later runner takes the named lock first. If the earlier one does not let it
go, as one that hangs in a transaction or a definition, its session is ended. So nothing of it happens behind the later
runner's back.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAwayError
from engine.destination.database.database_state import DatabaseState
from engine.destination.database.reading_session import ReadingSession
from engine.destination.database.sql_server import DatabaseSession, SqlServer
from engine.destination.fence import Term, takeover_error

_TAKE_S = 3
"""So long may a session of an earlier runner continue."""


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
        return self._reading.ask(partial(_newest, self._state_of(ledger)))

    def take(self, ledger: str, term: Term) -> None:
        """Write the term, once no earlier runner has a session that writes."""
        state = self._state_of(ledger)
        for is_last in (False, False, True):
            try:
                self._take(state, term)
                break
            except StoreAwayError:
                if is_last:
                    raise
                self._reading.ask(partial(self._server.locks.end_holder, pipeline=state.pipeline))
            except DestinationError:  # another pipeline makes the same tables at the same time
                if is_last:
                    raise
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
            self._server.locks.hold(session, state.pipeline, _TAKE_S)
            self._server.create_state(session)
            session.commit()
            newest = state.term(session, locks=True)
            if newest is not None and newest.number >= term.number and newest.run != term.run:
                raise takeover_error(term, newest)
            state.write_term(session, term, is_new=newest is None)
            session.commit()
        except self._server.failures as error:
            raise self._server.explained(error) from error
        finally:
            session.close()

    def check(self) -> int:
        """The number of this runner's term; 0 before it took one. Asks nobody: each transaction asks (`lock`)."""
        if self._lost is not None:
            assert self._own is not None
            raise takeover_error(self._own, self._lost)
        return 0 if self._own is None else self._own.number

    def begin_session(self, session: DatabaseSession) -> None:
        """Have a new session be the one that writes.

        Raises as `lock`, and StoreAwayError if another one does not end.
        """
        self.check()
        if self._own is not None and self._state is not None:
            self._compare(self._state.term(session, locks=False), self._own)
            session.rollback()
            self._server.locks.hold(session, self._state.pipeline)
            session.rollback()

    def lock(self, session: DatabaseSession) -> None:
        """Lock the row of the term until the transaction ends.

        Raises PipelineHeldError if another runner has a later term, and the driver's errors.
        """
        self.check()
        if self._own is not None and self._state is not None:
            self._compare(self._state.term(session, locks=True), self._own)

    def _compare(self, newest: Term | None, own: Term) -> None:
        if newest is None:
            raise DestinationError(
                f"Tidemark's own tables in {self._server.place} have lost the row of this pipeline.",
                detail="Nothing was written: which epochs the tables have is not known.",
                hint="Restore _tidemark_epochs and _tidemark_tables from a backup of the database, or remove the sink "
                "from the spec and add it again with another place for its tables.",
            )
        if (newest.number, newest.run) != (own.number, own.run):
            self._lost = newest
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


def _newest(state: DatabaseState, session: DatabaseSession) -> Term | None:
    return state.term(session, locks=False) if state.has_tables(session) else None
