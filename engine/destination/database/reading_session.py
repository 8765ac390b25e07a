"""A session that only reads, for what is committed: beside the transaction of the rows."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from engine.destination.database.sql_server import DatabaseSession, SqlServer

T = TypeVar("T")


class ReadingSession:
    """May be used by several threads: one asks at a time."""

    def __init__(self, server: SqlServer) -> None:
        self._server = server
        self._session: DatabaseSession | None = None
        self._lock = threading.Lock()

    def ask(self, question: Callable[[DatabaseSession], T]) -> T:
        """The answer of a session. Raises what the server's errors mean (`SqlServer.explained`)."""
        with self._lock:
            for is_last in (False, True):
                try:
                    return self._asked(question)
                except self._server.failures as error:
                    is_new = self._session is None
                    self._close()
                    if is_new or is_last:  # else the server may have ended an idle session
                        raise self._server.explained(error) from error
            raise AssertionError

    def _asked(self, question: Callable[[DatabaseSession], T]) -> T:
        if self._session is None:
            self._session = self._server.connect()
        answer = question(self._session)
        self._session.rollback()  # its next look is a new one
        if not self._server.shares:
            self._close()
        return answer

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(*self._server.failures):
                session.close()

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._close()
