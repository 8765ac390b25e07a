"""The coordinator's connection to the source.

It is kept, or opened for each turn where connections are few (`source.turns`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from engine.base.errors import ConnectionLimitError, TidemarkError, TransientError
from engine.ledger.state import State
from engine.run.snapshot.retries import Batch
from engine.run.tables.first_epoch import SourceAccess, check_source
from engine.source.connect import Connection, break_off, open_connection, query
from engine.source.positions import Position, current


class SourceConnection:
    """Open from the start. now: the connection; open during a turn. Used by one thread, but for `abort_waits`."""

    def __init__(self, source: SourceAccess, first_server_id: int) -> None:
        self._source = source
        self._first_server_id = first_server_id
        self._endpoint = source.endpoint
        self._turns = source.turns
        self.now: Connection = open_connection(source.endpoint)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Where connections are few, wait for a turn, open the connection, and close it afterwards."""
        if not self._turns.few:
            yield
            return
        with self._turns.take(self._turns.of_epoch):
            try:
                self._open()
                yield
            finally:
                self.close()

    def reopen(self) -> None:
        """Open it again if it is kept. Raises as `open_connection`."""
        if not self._turns.few:
            self.now = open_connection(self._endpoint)

    def refresh(self) -> None:
        """Open it again if it is kept and was lost, such as by a timeout in a long pause."""
        if not self._turns.few:
            with suppress(TransientError):
                query(self.now, "DO 0")
            self._open()

    def renew(self) -> None:
        """Open another one if it is kept: with the privileges that the account has now."""
        if not self._turns.few:
            self.close()
            self._open()

    def position(self) -> Position:
        """The source's current position."""
        return current(self.now, self._source.server)

    def check(self, state: State) -> None:
        """Raises SourceLostError or SourceChangedError unless the source still has the committed position.

        It must still be in the source's binlog.
        """
        check_source(state, self.now, self._endpoint, self._source.server, self._first_server_id)

    def require_enough(self, refused: TidemarkError | Batch) -> None:
        """Raises an error about too few connections, of an epoch or a reader, if the run does not save them yet."""
        error = refused.refused if isinstance(refused, Batch) else refused
        if isinstance(error, ConnectionLimitError) and not self._turns.few:
            raise error

    def abort_waits(self) -> None:
        """Abort waits for the source's answer; called from another thread."""
        break_off(self.now)

    def close(self) -> None:
        """Close it, if it is open."""
        if self.now.open:
            self.now.close()

    def _open(self) -> None:
        if not self.now.open:
            self.now = open_connection(self._endpoint)
