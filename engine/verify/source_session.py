"""The session with the source in which tables are verified."""

from contextlib import closing, suppress
from dataclasses import replace

import pymysql

from engine.base.errors import OnePhaseCommitError, TidemarkError
from engine.capture.binlog.known_gtids import known_gtids
from engine.capture.reader_session import ReaderSession
from engine.ledger.state import State
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.endpoint import endpoint_of
from engine.source.positions import current
from engine.source.watermarks import Candidate, server_time_s, watermark_class
from engine.spec.settings import Spec


class SourceSession:
    """Open while tables are compared; used by one thread."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._session: ReaderSession | None = None
        self._identity = ""
        self._has_one_phase = False

    def endpoint(self, state: State) -> Endpoint:
        """The source, which must be the server of the committed position."""
        return replace(endpoint_of(self._spec.source), identity=state.identity)

    def opened(self, state: State) -> ReaderSession:
        """The session, with a settled position."""
        session = self._alive(state) or self._new(state)
        if state.position.gtids is not None:
            session.watermarks.offer(Candidate(state.position, server_time_s(session.connection)))
        return session

    def _alive(self, state: State) -> ReaderSession | None:
        if self._session is not None and self._identity == state.identity:
            with suppress(pymysql.Error, OSError):
                self._session.connection.ping(reconnect=False)
                return self._session
        return None

    def _new(self, state: State) -> ReaderSession:
        self.drop()
        endpoint, first = self.endpoint(state), self._spec.first_server_id()
        with closing(open_connection(endpoint)) as connection:
            kind = "aged" if self._has_one_phase else watermark_class(connection, describe(connection))
        session = ReaderSession(endpoint, kind, self._spec.source.settle_s, first)
        # The end of the binlog, not the committed position: what lies between them would be replayed over the rows that
        # are read, and hide what changed without an event.
        position = current(session.connection, session.server)
        gtids = known_gtids(session.connection, endpoint, session.server, position, first)
        session.watermarks.offer(
            Candidate(replace(position, gtids=gtids.proved_set), server_time_s(session.connection))
        )
        self._session = session
        self._identity = state.identity
        return session

    def failed(self, error: TidemarkError) -> None:
        """End it after an error. If snapshots may lack commits, the next session takes watermarks without them."""
        self._has_one_phase |= isinstance(error, OnePhaseCommitError)
        self.drop()

    def drop(self) -> None:
        """End it."""
        if self._session is not None:
            with suppress(pymysql.Error, OSError):
                self._session.connection.close()
        self._session = None
