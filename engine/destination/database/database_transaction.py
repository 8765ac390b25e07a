"""What all tables get since the last `publish`, in one transaction.

Each table's part is a step. A step begins with the table's record in the database, and does nothing if that says that
the epoch is there. So when a transaction is lost, by a deadlock, a lost connection or an answer that never came, the
next one runs all steps again, whatever became of the one before: the files are there until the epoch is published.

A step that fails is undone alone, by a savepoint. On MySQL and MariaDB, CREATE, ALTER and DROP commit. A step with one
has a transaction before it and one after it: what is committed early is whole epochs of single tables, with their
records.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from engine.base import clock
from engine.base.errors import DestinationError
from engine.base.store_errors import StoreAwayError
from engine.destination.database.database_terms import DatabaseTerms
from engine.destination.database.sql_server import DatabaseSession, SqlServer

T = TypeVar("T")
_ATTEMPTS = 3
"""Of a transaction that the database ends, such as by a deadlock."""
_PAUSE_S = 1.0
Step = Callable[[DatabaseSession], int]
"""Writes a table's part. Returns how many rows it wrote; -1 if the database has the part."""


class DatabaseTransaction:
    """One for each destination. May be used by several threads: one at a time writes."""

    def __init__(self, server: SqlServer, terms: DatabaseTerms) -> None:
        self._server = server
        self._terms = terms
        self._session: DatabaseSession | None = None
        self._is_open = False
        self._steps: list[tuple[str, Step]] = []
        """By table, in order."""
        self._rejections: dict[str, DestinationError] = {}
        """By table, the error of a step that had worked, and did not when it was run again. Its later steps are
        refused."""
        self._is_ahead = False
        """Whether a definition has committed something since the last end of epochs."""
        self._lock = threading.RLock()

    def add(self, table: str, step: Step) -> int:
        """Run a step of a table. It is committed by `commit`. Returns what the step returns."""
        with self._lock:
            for attempt in range(_ATTEMPTS):
                try:
                    session = self._ready()  # which may run earlier steps again, and reject one of this table
                    self._refuse_rejected(table)
                    count = self._ran(session, step)
                except StoreAwayError:
                    self._discard()
                    self._pause_or_raise(attempt)
                except BaseException:
                    self._end_empty()
                    raise
                else:
                    self._steps.append((table, step))
                    return count
            raise AssertionError

    def _end_empty(self) -> None:
        """End a transaction that has nothing to commit: it holds locks."""
        if self._session is not None and self._is_open and not self._steps:
            self._is_open = False
            try:
                self._session.rollback()
            except self._server.failures:
                self._discard()
            self._make_way()

    def accept_again(self, table: str) -> None:
        """Take steps of a table again: a new copy of it follows."""
        with self._lock:
            self._rejections.pop(table, None)

    def _refuse_rejected(self, table: str) -> None:
        if table in self._rejections:
            raise self._rejections[table]

    def define(self, table: str, step: Step, *, is_durable: bool = False) -> int:
        """Run a step with definitions of a table. It MUST be harmless to run it again after a kill in its middle.

        is_durable: with what was added before, it is committed at once. Where definitions commit, it is in any case.
        """
        with self._lock:
            if not self._server.commits_definitions:
                count = self.add(table, step)
                if is_durable:
                    self._commit(None)
                return count
            self._commit(None)
            self._refuse_rejected(table)
            for attempt in range(_ATTEMPTS):
                try:
                    return self._defined(self._ready(), step)
                except StoreAwayError:
                    self._pause_or_raise(attempt)
            raise AssertionError

    @staticmethod
    def _pause_or_raise(attempt: int) -> None:
        """Wait before the next attempt: a later runner may have ended the session, and takes over meanwhile."""
        if attempt + 1 == _ATTEMPTS:
            raise  # noqa: PLE0704 - called by handlers
        clock.sleep(_PAUSE_S)

    def _defined(self, session: DatabaseSession, step: Step) -> int:
        try:
            count = self._explaining(lambda: step(session))
            self._explaining(session.commit)
        except BaseException:
            self._discard()
            raise
        self._is_open = False
        self._is_ahead = True
        return count

    def commit(self, last: Step | None = None) -> None:
        """Commit what was added; last: the end of the epochs. Does nothing if nothing was added.

        Raises the error of a step that was rejected when it was run again. The others are committed, and the end of the
        epochs is not.
        """
        with self._lock:
            if self._rejections:
                last = None
            self._commit(last)
            for error in self._rejections.values():
                raise error

    def _commit(self, last: Step | None) -> None:
        if not self._steps and not (self._is_ahead and last is not None):
            self._end_empty()
        else:
            for attempt in range(_ATTEMPTS):
                try:
                    session = self._ready()
                    if last is not None and not self._rejections:
                        self._explaining(partial(last, session))
                    self._explaining(session.commit)
                except StoreAwayError:
                    self._discard()
                    self._pause_or_raise(attempt)
                except BaseException:
                    self._discard()
                    raise
                else:
                    self._is_open = False
                    self._is_ahead = last is None
                    self._steps.clear()
                    self._make_way()
                    return

    def _make_way(self) -> None:
        """Let others read, between two transactions."""
        if not self._server.shares:
            self._discard()

    def forget(self) -> None:
        """Give up what was not committed."""
        with self._lock:
            self._steps.clear()
            self._rejections.clear()
            self._discard()

    def _ready(self) -> DatabaseSession:
        """The session, in a transaction in which all steps have run."""
        if self._session is not None and self._is_open:
            return self._session
        try:
            if self._session is None:
                self._session = self._explaining(self._server.connect)
                self._explaining(partial(self._terms.begin_session, self._session))
            session = self._session
            self._explaining(partial(self._terms.lock, session))
            self._is_open = True
            for table, step in list(self._steps):
                self._run_again(session, table, step)
        except BaseException:
            self._discard()
            raise
        return session

    def _run_again(self, session: DatabaseSession, table: str, step: Step) -> None:
        """A step that fails now does not keep the others from being committed."""
        try:
            self._ran(session, step)
        except DestinationError as error:
            self._steps = [one for one in self._steps if one[0] != table]
            self._rejections[table] = error
            if not self._server.has_savepoints:
                raise StoreAwayError("The transaction begins again without a part that failed.") from error

    def _ran(self, session: DatabaseSession, step: Step) -> int:
        def run() -> int:
            if self._server.has_savepoints:
                session.run("SAVEPOINT tidemark")
            try:
                count = step(session)
                if self._server.step_end:
                    session.run(self._server.step_end)
            except BaseException as error:
                if not self._server.has_savepoints:
                    self._discard()  # the next one runs the other steps again
                elif not self._is_lost(error):
                    session.run("ROLLBACK TO SAVEPOINT tidemark")
                raise
            if self._server.has_savepoints:
                session.run("RELEASE SAVEPOINT tidemark")
            return count

        return self._explaining(run)

    def _is_lost(self, error: BaseException) -> bool:
        """Whether the transaction may be gone, with all of its savepoints."""
        if not isinstance(error, self._server.failures):
            return False
        return isinstance(self._server.explained(error), StoreAwayError)

    def _explaining(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except self._server.failures as error:
            raise self._server.explained(error) from error

    def _discard(self) -> None:
        session = self._session
        self._session = None
        self._is_open = False
        if session is not None:
            with suppress(*self._server.failures):
                session.rollback()
            with suppress(*self._server.failures):
                session.close()
