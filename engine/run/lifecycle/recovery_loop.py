"""Runs epochs again after what ended them: a failover, a lost source or Spark session, too few connections."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from engine.base.errors import (
    AccountRefusedError,
    BinlogOffError,
    ConnectionLimitError,
    OnePhaseCommitError,
    SourceAwayError,
    SourceChangedError,
    SourceLostError,
    SparkLostError,
    TransientError,
)
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.journal.connection_events import ConnectionsLimited
from engine.journal.events import ErrorReported
from engine.ledger.store import Ledger
from engine.run.commands.runner_state import StopSignal
from engine.run.lifecycle.run_start import RunStart
from engine.run.lifecycle.source_check import SourceCheck
from engine.run.lifecycle.spark_sessions import SparkSessions
from engine.run.source_loss import binlog_off, failover
from engine.run.source_loss.binlog_off import BinlogCheck, Through
from engine.run.source_loss.outage import EPOCHS, OutageTracker
from engine.run.tables.first_epoch import SourceAccess
from engine.source.connect import open_connection
from engine.source.endpoint import endpoint_of
from engine.spark.session import Session

_MAX_FAILOVERS = 10
_FAILOVER_PAUSE_S = 1.0


@dataclass(frozen=True)
class RecoveryLoop:
    """The loop of one run.

    epochs: runs epochs with one server and one session; returns whether they reached the goal. through: calls a step
    until the disk has room for the ledger.
    """

    epochs: Callable[[SourceAccess, Session], bool]
    run_start: RunStart
    source_check: SourceCheck
    sessions: SparkSessions
    state: StopSignal
    away: OutageTracker
    binlog: BinlogCheck
    ledger: Ledger
    publisher: Publisher
    journal: Journal
    through: Through

    def run(self, source: SourceAccess, session: Session) -> bool:
        """Run epochs, across failovers. Returns True once the goal is reached, False after a stop."""
        failovers = 0
        while True:
            assert self.ledger.state is not None
            began = self.ledger.state.epoch
            try:
                with self._noting_gap():
                    return self._epochs_with_connections(source, session)
            except SourceChangedError as error:
                failovers = self._failed_over(failover.in_a_row(failovers, began, self.ledger.state.epoch), error)
            except SourceLostError as error:  # purged meanwhile, or changes are missing in the binlog
                before = self.ledger.state.epoch
                if isinstance(error, BinlogOffError):
                    self._note_gap()
                    self.binlog.gap_handled()
                source = self._resnapshot_everything(source, error)
                self.publisher.submit_after(before)
                continue
            except OnePhaseCommitError as error:  # uncommitted reads start again
                self.journal.write(ErrorReported.of(error, attempt=1, retry_in_s=0.0))
                source = replace(source, watermarks="aged")
                continue
            except SparkLostError as error:  # running reads start again
                replacement = self.sessions.replace_lost(error)
                if replacement is None:
                    return False
                session = replacement
                continue
            except SourceAwayError:  # before the first epoch
                pass
            # Uncommitted reads start again: their positions belong to the other server.
            self.state.wait(_FAILOVER_PAUSE_S)
            reconnected = self._reconnected()
            if reconnected is None:
                return False
            source = reconnected
            self.binlog.gap_handled()

    def _failed_over(self, failovers: int, error: SourceChangedError) -> int:
        """Journal it. Returns the number of failovers in a row; raises the error after too many."""
        if failovers > _MAX_FAILOVERS:
            raise error
        self.journal.write(ErrorReported.of(error, attempt=failovers, retry_in_s=_FAILOVER_PAUSE_S))
        return failovers

    def _epochs_with_connections(self, source: SourceAccess, session: Session) -> bool:
        """`_epochs`; with few connections from the first one on that the account does not allow."""
        self._limit_tasks(source, session)
        try:
            return self.epochs(source, session)
        except ConnectionLimitError as error:
            if source.turns.few:
                raise
            self.journal.write(ErrorReported.of(error, attempt=1, retry_in_s=0.0))
        return self._epochs_with_connections(source.with_few_connections(), session)

    def _limit_tasks(self, source: SourceAccess, session: Session) -> None:
        """Let as many tasks run at once as there are connections for, and say so."""
        tasks = source.turns.tasks
        session.limit_tasks(tasks)
        if tasks is not None:
            self.journal.write(ConnectionsLimited(allowed=source.turns.most, readers=tasks))

    def _resnapshot_everything(self, source: SourceAccess, error: SourceLostError) -> SourceAccess:
        """As `RunStart.resnapshot_everything`. Returns the source as of the new position.

        Raises `error` if the source cannot be reached, as while it is restarted.
        """
        try:
            connection = open_connection(source.endpoint)
        except TransientError:
            raise error from None
        with closing(connection):
            self.run_start.resnapshot_everything(self.ledger, connection, source.endpoint, source.server, error)
            return self.run_start.settled(source, connection)

    @contextmanager
    def _noting_gap(self) -> Iterator[None]:
        """Note what only the monitor has seen, however the epochs end: before the ledger has another server."""
        try:
            yield
        finally:
            if self.binlog.is_off:
                self._note_gap()

    def _note_gap(self) -> None:
        binlog_off.note(self.ledger, self.journal.run, self.through, self.publisher.destination.terms.check)

    def _reconnected(self) -> SourceAccess | None:
        """The source at the server that answers now; None after a stop.

        Raises SourceLostError when the pipeline cannot continue there, and the last error when the source stays away
        too long.
        """
        while not self.state.stopping:
            try:
                source = self._reopen_source()
            except (TransientError, AccountRefusedError) as error:  # a promoted server may not be ready yet
                self.state.wait(self.away.failed(EPOCHS, error))
            else:
                self.away.back(EPOCHS)
                return source
        return None

    def _reopen_source(self) -> SourceAccess:
        endpoint = endpoint_of(self.source_check.spec.source)
        preflight = self.source_check.preflight(endpoint, self.ledger.state)
        binlog_off.require(preflight, self.ledger, self.journal.run, self.through)
        before = self.ledger.state.epoch if self.ledger.state else -1
        source = self.run_start.begin(self.ledger, replace(endpoint, identity=preflight.server.identity), preflight)
        assert self.ledger.state is not None
        self.publisher.submit_after(before)
        return source
