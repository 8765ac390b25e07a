"""One run of a pipeline, from the lock to the last commit.

In this order: take the lock, open the journal, attach alerts and metrics to it, check source and destination, start
Spark while the first epoch is loaded or created, recover the destination, run epochs, publish the rest, write the
outcome.
"""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine import __version__
from engine.alerting.alert_words import patience_s
from engine.alerting.notifier import Notifier
from engine.audit.background_audit import BackgroundAudit
from engine.base.errors import (
    AccountRefusedError,
    BinlogOffError,
    ConnectionLimitError,
    PreflightError,
    SourceAwayError,
    SourceChangedError,
    SourceLostError,
    SparkLostError,
    SpecError,
    TablesStoppedError,
    TidemarkError,
    TransientError,
)
from engine.capture.projection.projection_rules import as_read
from engine.destination.publisher import Publisher
from engine.destination.registry import destination_of
from engine.journal import Entry, Journal
from engine.journal.connection_events import ConnectionsLimited
from engine.journal.event_fields import SourceFacts
from engine.journal.events import ErrorReported, RunConnected, RunEnded, RunStarted
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.pipeline import formats
from engine.pipeline.directory import Directory, directory_of, new_run
from engine.pipeline.full_disks import scratch_folders
from engine.pipeline.pipeline_lock import held
from engine.pipeline.saved_lists import read_alerts
from engine.run.commands.control import Control
from engine.run.commands.heartbeat import note_continuations
from engine.run.lifecycle.allocators import return_freed_memory
from engine.run.lifecycle.beginning import Beginning, committed
from engine.run.lifecycle.coordinator import Coordinator
from engine.run.lifecycle.destination_check import require_destination
from engine.run.lifecycle.final_checks import require_all_tables, require_published
from engine.run.lifecycle.possession import Possession
from engine.run.lifecycle.spark_sessions import SparkSessions
from engine.run.lifecycle.startup_steps import Startup
from engine.run.monitors import blocked_monitor, source_drift
from engine.run.monitors.blocked_monitor import Blocked, BlockedMonitor, StartupLook
from engine.run.monitors.hidden_monitor import HiddenMonitor, Known
from engine.run.monitors.lag import LagMonitor
from engine.run.monitors.mirror_monitor import MirrorMonitor
from engine.run.monitors.source_drift import SourceDrift
from engine.run.monitors.space import SpaceMonitor
from engine.run.monitors.unpublished_monitor import UnpublishedMonitor
from engine.run.snapshot.gate import Gate
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.throttle import Pace
from engine.run.source_loss import binlog_gap, failover
from engine.run.source_loss.outage import EPOCHS, Account, OutageTracker
from engine.run.tables.bootstrap import Source
from engine.run.tables.membership import drop_removed
from engine.run.tables.membership_commands import MembershipCommand, members_of
from engine.run.tables.table_commands import IN_TURN, parsers
from engine.source.connect import Endpoint, Server, open_connection
from engine.source.endpoint import endpoint_of, name_rule
from engine.source.grants import minimal_grants
from engine.source.preflight import Preflight, run_preflight
from engine.spec.globs import EXACT, NameRule
from engine.spec.settings import Spec
from engine.spec.spec_names import spec_on
from engine.verify.continuous import ContinuousVerifier
from engine.watch.stop_requests import runs_restarted_by

if TYPE_CHECKING:
    from engine.status.exporter import Exporter

T = TypeVar("T")
Listener = Callable[[Entry], None]
UNTIL = ("snapshot", "caught-up")
_MAX_FAILOVERS = 10
_FAILOVER_PAUSE_S = 1.0


def run_pipeline(
    spec: Spec,
    spec_file: Path,
    until: str | None,
    listener: Listener | None = None,
    *,
    standby: Callable[[str], None] | None = None,
    starting: Callable[[str], None] | None = None,
    as_json: bool = False,
) -> None:
    """Run the pipeline until it reaches `until`, an operator stops it, or an error ends it. Raises that error.

    as_json: print alerts as lines of JSON on stderr.
    standby: if given, wait while another runner holds the pipeline; called with the reason for the wait.
    starting: called with a line about each step of the start, from several threads.
    """
    directory = directory_of(spec_file, spec.name)
    with held(directory, standby=standby is not None, report=standby):
        _link_spec(spec_file, directory)
        rule = _name_rule(spec)
        spec = spec_on(spec, rule or EXACT)
        run = new_run(directory)
        journal = Journal(directory.journal(run), run)
        if listener is not None:
            journal.listeners.append(listener)
        return_freed_memory()
        _Run(spec, rule, directory, journal, until, starting, as_json=as_json).execute()


def _name_rule(spec: Spec) -> NameRule | None:
    """How the source compares names; None if it does not answer, which the run then reports."""
    with suppress(TidemarkError):
        return name_rule(spec.source)
    return None


def _link_spec(spec_file: Path, directory: Directory) -> None:
    """Link the spec into the pipeline's directory, so that there is one file to edit."""
    if spec_file.absolute() == directory.spec:
        return
    if directory.spec.exists() and not directory.spec.is_symlink():
        raise SpecError(
            f"The folder {directory.root} belongs to a pipeline with a spec of its own.",
            detail="Two specs with one name would share one ledger; nothing was started.",
            hint=f"Run {directory.spec}, or give this pipeline another name.",
        )
    with suppress(FileNotFoundError):
        directory.spec.unlink()
    directory.spec.symlink_to(os.path.relpath(spec_file.resolve(), directory.root.resolve()))


class _Run:
    """One run; the caller holds the lock."""

    def __init__(
        self,
        spec: Spec,
        rule: NameRule | None,
        directory: Directory,
        journal: Journal,
        until: str | None,
        starting: Callable[[str], None] | None,
        *,
        as_json: bool,
    ) -> None:
        """spec: its globs match the names of a server with this rule."""
        self._spec = spec
        self._directory = directory
        self._journal = journal
        self._rule = rule
        self._until = until or ("snapshot" if spec.source.startup == "snapshot" else None)
        pace, parking = Pace(spec.throttle), Parking(directory, journal)
        self._control = Control(
            directory,
            journal,
            spec.name,
            throttle=spec.throttle,
            journal_retention_s=spec.journal.retention_s,
            folders=[spec.sink.path, *scratch_folders(spec.spark.master, spec.spark.conf)],
            parsers=parsers(directory.journals),
            in_turn=IN_TURN,
            throttle_changed=partial(setattr, pace, "settings"),
            retry_parked=parking.request_retry,
            restarted=runs_restarted_by(directory),
            chores={"disk space": SpaceMonitor(spec.sink.path, directory.space, journal.write).measure},
        )
        note_continuations(self._control.activity, journal)
        self._gate = Gate(pace, parking, self._control.disk, self._control.pauses)
        self._notifier = Notifier(spec, directory, journal, stderr=as_json)
        self._destination = destination_of(spec.sink, directory.maintenance, directory.known_tables)
        self._possession = Possession(self._destination, journal.run)
        self._beginning = Beginning(spec, self._control, journal, self._possession, self._destination)
        self._away = OutageTracker(journal, partial(setattr, self._control.activity, "away"))
        self._control.source = self._away
        self._away.answers = self._control.wake
        self._sessions = SparkSessions(self._start_spark, self._control, journal)
        self._startup = Startup(self._control.activity, starting)
        self._through = partial(self._retry_disk_full, "ledger")
        self._hidden = Known(self._notifier.standing())
        self._drift = SourceDrift(
            self._control.activity, alerted=(source_drift.KIND, None) in self._notifier.standing()
        )
        alerted = [table for kind, table in self._notifier.standing() if kind == blocked_monitor.KIND]
        known = Blocked(patience_s(spec.alerts), alerted)
        self._blocked = BlockedMonitor(journal, self._control.activity, self._control.helpers, known)

    def execute(self) -> None:
        """Run, and write the outcome to the journal whatever happens."""
        error: BaseException | None = None
        self._journal.write(
            RunStarted(
                pipeline=self._spec.name,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=__version__,
                until=self._until,
                spec=self._spec.model_dump(mode="json"),  # the journal redacts it
                format=formats.VERSIONS["journal"],
            )
        )
        self._control.start()
        try:
            self._notifier.connect()
            self._work()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        fields = None
        if error is not None:
            own = error if isinstance(error, TidemarkError) else TidemarkError(f"{type(error).__name__}: {error}")
            fields = own.as_dict()
        # Tables that stopped are no failure of a run that an operator ends; they are in the ledger and have alerts of
        # their own.
        failed = error is not None and not (self._control.stopping and isinstance(error, TablesStoppedError))
        outcome = "failed" if failed else "stopped" if self._control.stopping else "done"
        code = error.exit_code if isinstance(error, TidemarkError) else 1 if error is not None else 0
        self._control.finish(fields if failed else None)
        self._control.done("stop")
        self._journal.write(RunEnded(outcome=outcome, exit_code=code, error=fields))
        self._notifier.close()
        self._journal.close()

    def _work(self) -> None:
        endpoint = endpoint_of(self._spec.source)
        with ExitStack() as stack:
            exporter = self._exporter(stack)
            require_destination(self._spec.sink.path)
            ledger = Ledger(self._directory.ledger)
            looking = stack.enter_context(ExitStack())
            looking.enter_context(closing(StartupLook(endpoint, self._blocked)))
            # What can be refused is refused before Spark starts: its start cannot be ended for seconds.
            preflight = self._startup.run("preflight", partial(self._preflight, endpoint, ledger.state))
            starter = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="spark"))
            session_future = starter.submit(self._startup.run, "Spark", self._start_spark)
            stack.callback(self._stop_spark, session_future)
            self._away.account = self._account(preflight, ledger.state)
            binlog_gap.require(preflight, ledger, self._journal.run, self._through)
            self._hidden.begin(preflight.cascades)
            self._drift.begin(preflight.facts)
            endpoint = replace(endpoint, identity=preflight.server.identity)  # all later connections check it
            if exporter is not None:
                exporter.state = lambda: ledger.state
            begin = partial(self._beginning.begin, ledger, endpoint, preflight)
            source = self._startup.run("plan", partial(self._retry_disk_full, "ledger", begin))
            looking.close()
            # A killed runner may have left tables to delete.
            drop_removed(self._destination, ledger, self._journal.run)
            state = committed(ledger)
            opened = partial(self._publisher, ledger, state)
            publisher = self._startup.run("destination", partial(self._retry_disk_full, "destination", opened))
            stack.callback(publisher.finish)
            if self._control.stopping and self._until is None:
                return
            session = self._sessions.use(session_future.result())
            connected = _source_facts(preflight.server, source.watermarks)
            self._journal.write(RunConnected(source=connected, spark=session.facts()))
            self._control.event("started")
            reached = self._coordinate(source, session, ledger, publisher)
            publisher.finish()
            self._finish_removals(ledger)
            self._destination.release(publisher.tables.complete())
            if self._until is not None and not reached:
                raise TidemarkError(
                    f"The run was stopped before it was {self._until}.",
                    detail="Everything read so far is committed and published; the rest is not read yet.",
                    hint="Run it again: it continues from there.",
                )
            assert ledger.state is not None
            require_published(publisher.tables.unpublished())
            if self._until is not None:
                self._gate.parking.require_none(ledger.state.tables)
            require_all_tables(ledger.state)

    def _retry_disk_full(self, name: str, step: Callable[[], T]) -> T:
        """The result of a startup step; waits while a disk is full, until a stop."""
        return self._control.disk.retry_when_full(name, step, lambda: self._control.stopping)

    def _publisher(self, ledger: Ledger, state: State) -> Publisher:
        """A publisher whose destination is recovered to the ledger. May be called again after a failure."""
        through = partial(self._retry_disk_full, "destination")
        publisher = Publisher(self._spec.sink, self._destination, ledger, self._journal, through)
        publisher.tables.open_all(state)
        publisher.tables.delete_orphans()
        publisher.recover()
        return publisher

    def _exporter(self, stack: ExitStack) -> "Exporter | None":
        """The metrics server, closed with the stack, or None without a port.

        Raises SpecError when the port is taken.
        """
        if self._spec.metrics.port is None:
            return None
        from engine.status.exporter import Exporter

        standing = read_alerts(self._directory)
        exporter = Exporter(self._spec.name, self._spec.metrics, self._journal, self._control.helpers, standing)
        return stack.enter_context(closing(exporter))

    def _coordinate(self, source: Source, session: Any, ledger: Ledger, publisher: Publisher) -> bool:
        """Run epochs, across failovers. Returns True once the goal is reached, False after a stop."""
        failovers = 0
        while True:
            assert ledger.state is not None
            began = ledger.state.epoch
            try:
                with self._noting_gap(ledger):
                    return self._epochs_with_connections(source, session, ledger, publisher)
            except SourceChangedError as error:
                failovers = failover.in_a_row(failovers, began, ledger.state.epoch)
                if failovers > _MAX_FAILOVERS:
                    raise
                self._journal.write(ErrorReported.of(error, attempt=failovers, retry_in_s=_FAILOVER_PAUSE_S))
            except SourceLostError as error:  # purged meanwhile, or changes are missing in the binlog
                before = ledger.state.epoch
                if isinstance(error, BinlogOffError):
                    self._note_gap(ledger)
                    self._away.binlog_off = None
                self._resnapshot_everything(source, ledger, error)
                publisher.submit_after(before)
                continue
            except SparkLostError as error:  # running reads start again
                session = self._sessions.replace_lost(error)
                if session is None:
                    return False
                continue
            except SourceAwayError:  # before the first epoch
                pass
            # Uncommitted reads start again: their positions belong to the other server.
            self._control.wait(_FAILOVER_PAUSE_S)
            reconnected = self._reconnected(ledger, publisher)
            if reconnected is None:
                return False
            source, self._away.binlog_off = reconnected, None

    def _epochs_with_connections(self, source: Source, session: Any, ledger: Ledger, publisher: Publisher) -> bool:
        """`_epochs`; with few connections from the first one on that the account does not allow."""
        self._limit_tasks(source, session)
        try:
            return self._epochs(source, session, ledger, publisher)
        except ConnectionLimitError as error:
            if source.turns.few:
                raise
            self._journal.write(ErrorReported.of(error, attempt=1, retry_in_s=0.0))
        return self._epochs_with_connections(source.with_few_connections(), session, ledger, publisher)

    def _limit_tasks(self, source: Source, session: Any) -> None:
        """Let as many tasks run at once as there are connections for, and say so."""
        tasks = source.turns.tasks
        session.limit_tasks(tasks)
        if tasks is not None:
            self._journal.write(ConnectionsLimited(allowed=source.turns.most, readers=tasks))

    def _resnapshot_everything(self, source: Source, ledger: Ledger, lost: SourceLostError) -> None:
        """As `Beginning.resnapshot_everything`.

        Raises `lost` if the source cannot be reached, as while it is restarted.
        """
        try:
            connection = open_connection(source.endpoint)
        except TransientError:
            raise lost from None
        with closing(connection):
            self._beginning.resnapshot_everything(ledger, connection, source.endpoint, source.server, lost)

    @contextmanager
    def _noting_gap(self, ledger: Ledger) -> Iterator[None]:
        """Note what only the monitor has seen, however the epochs end: before the ledger has another server."""
        try:
            yield
        finally:
            if self._away.binlog_off is not None:
                self._note_gap(ledger)

    def _note_gap(self, ledger: Ledger) -> None:
        binlog_gap.note(ledger, self._journal.run, self._through, self._destination.guard)

    def _epochs(self, source: Source, session: Any, ledger: Ledger, publisher: Publisher) -> bool:
        """`Coordinator.run` with one server and one session, and the threads that look after it."""
        coordinator = Coordinator(
            self._spec, source, session, ledger, publisher, self._control, self._gate, self._journal, self._away
        )
        first = self._spec.first_server_id()
        shared = self._away, self._control.helpers, publisher.oldest_mirror

        def may_read() -> bool:
            return self._control.state == "running" and state().copied and not self._away.now

        helpers, state = self._control.helpers, partial(committed, ledger)
        verified = self._spec, self._directory, self._journal, helpers, may_read
        lag = source.endpoint, first, self._journal, coordinator.committed, *shared, source.turns
        with (
            closing(LagMonitor(*lag, self._blocked.look)),
            closing(ContinuousVerifier(*verified, few_connections=source.turns.few)),
            closing(BackgroundAudit(self._spec, self._directory, self._journal, helpers, state, may_read)),
            closing(HiddenMonitor(source, self._journal, helpers, state, self._hidden, self._spec.source, self._drift)),
            closing(MirrorMonitor(self._destination.landing, self._directory, self._journal, helpers, state)),
            closing(UnpublishedMonitor(self._destination, self._directory, self._journal, helpers, self._spec.alerts)),
        ):
            return coordinator.run(self._until)

    def _reconnected(self, ledger: Ledger, publisher: Publisher) -> Source | None:
        """The source at the server that answers now; None after a stop.

        Raises SourceLostError when the pipeline cannot continue there, and the last error when the source stays away
        too long.
        """
        while not self._control.stopping:
            try:
                source = self._reopen_source(ledger, publisher)
            except (TransientError, AccountRefusedError) as error:  # a promoted server may not be ready yet
                self._control.wait(self._away.failed(EPOCHS, error))
            else:
                self._away.back(EPOCHS)
                return source
        return None

    def _reopen_source(self, ledger: Ledger, publisher: Publisher) -> Source:
        endpoint = endpoint_of(self._spec.source)
        preflight = self._preflight(endpoint, ledger.state)
        binlog_gap.require(preflight, ledger, self._journal.run, self._through)
        before = ledger.state.epoch if ledger.state else -1
        source = self._beginning.begin(ledger, replace(endpoint, identity=preflight.server.identity), preflight)
        assert ledger.state is not None
        publisher.submit_after(before)
        return source

    def _finish_removals(self, ledger: Ledger) -> None:
        """Delete removed tables and answer their command, after all reads and publications."""
        drop_removed(self._destination, ledger, self._journal.run)
        for change in self._control.accepted(MembershipCommand)[:1]:
            if change.done(committed(ledger)):
                self._control.carried_out(change, {})

    def _preflight(self, endpoint: Endpoint, state: State | None) -> Preflight:
        spec, members = self._spec, members_of(state)
        reads, rules, readers = partial(as_read, spec), spec.table_rules(), spec.parallel_readers()
        found = run_preflight(endpoint, spec.source, spec.first_server_id(), reads, members, rules, readers)
        if found.server.names != self._rule:
            raise PreflightError(
                "The source now compares names in another way than when the run began.",
                detail="The globs of the spec could select other tables. Nothing was read.",
                hint="Start again: the run then follows the server's lower_case_table_names.",
            )
        return found

    def _account(self, preflight: Preflight, state: State | None) -> Account:
        """The account and its grants, for all tables that the globs select, or that were added."""
        also = sorted(f"{database}.{table}" for database, table in members_of(state).also)
        user, globs = self._spec.source.user, [*self._spec.source.tables, *also]
        return Account(user, tuple(minimal_grants(user, preflight.server, globs)))

    def _start_spark(self) -> Any:
        from engine.spark.session import open_session

        return open_session(self._spec)

    def _stop_spark(self, first: "Future[Any]") -> None:
        """End the current session, or the first one, which may still be starting."""
        if self._sessions.was_started:
            self._sessions.stop()
        elif not first.cancel() and first.exception() is None:
            first.result().stop()


def _source_facts(server: Server, watermark_class: str) -> SourceFacts:
    return {
        "server": server.version_text,
        "version": ".".join(map(str, server.version)),
        "flavor": server.flavor,
        "uuid": server.identity,
        "watermark_class": watermark_class,
    }
