"""One run of a pipeline, from the lock to the last commit.

In this order: start the driver's JVM (`engine.run.lifecycle.early_start`), take the lock, open the journal, attach
alerts and metrics to it, check the destination, open the Spark session while the source is checked, the first epoch is
loaded or created and the destination is recovered, run epochs, publish the rest, write the outcome.

What is refused meanwhile is refused at once: the JVM is killed. Without an early JVM, the session opens after the check
of the source, as its start cannot be ended for seconds.
"""

import os
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine import __version__
from engine.alerting.notifier import standing_before
from engine.base.allocators import return_freed_memory
from engine.base.errors import TablesStoppedError, TidemarkError
from engine.destination.publisher import Publisher
from engine.journal import Entry, Journal
from engine.journal.event_fields import SourceFacts
from engine.journal.events import RunConnected, RunEnded, RunStarted
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.pipeline import formats
from engine.pipeline.directory import new_run
from engine.run.lifecycle.destination_check import ask_store, require_destination
from engine.run.lifecycle.epoch_assembly import EpochAssembly
from engine.run.lifecycle.final_checks import require_all_tables, require_published, require_sinks
from engine.run.lifecycle.publishing import open_publisher, record_sinks
from engine.run.lifecycle.recovery_loop import RecoveryLoop
from engine.run.lifecycle.run_assembly import RunParts, run_parts
from engine.run.lifecycle.run_start import committed_state
from engine.run.lifecycle.workplace import EarlyJvm, workplace
from engine.run.monitors.blocked_monitor import StartupLook
from engine.run.source_loss import binlog_off
from engine.run.tables.first_epoch import SourceAccess
from engine.run.tables.membership import drop_removed
from engine.run.tables.membership_commands import MembershipCommand
from engine.source.connect import Server
from engine.source.endpoint import endpoint_of, name_rule
from engine.spark.session import Session
from engine.spec.case_folding import spec_on
from engine.spec.globs import EXACT, NameRule
from engine.spec.settings import Spec

Listener = Callable[[Entry], None]


def run_pipeline(
    spec: Spec,
    spec_file: Path,
    until: str | None,
    listener: Listener | None = None,
    *,
    standby: Callable[[str], None] | None = None,
    starting: Callable[[str], None] | None = None,
    driver: EarlyJvm = None,
    as_json: bool = False,
) -> None:
    """Run the pipeline until it reaches `until`, an operator stops it, or an error ends it. Raises that error.

    as_json: print alerts as lines of JSON on stderr.
    driver: the JVM of the first session, which the caller has started and ends.
    standby: if given, wait while another runner holds the pipeline; called with the reason for the wait.
    starting: called with a line about each step of the start, from several threads.
    """
    with workplace(spec, spec_file, standby, driver) as place:
        directory = place.directory
        spec = place.spec
        rule = _name_rule(spec)
        spec = spec_on(spec, rule or EXACT)
        run = new_run(directory)
        journal = Journal(directory.journal(run), run)
        if listener is not None:
            journal.listeners.append(listener)
        return_freed_memory()
        parts = run_parts(spec, rule, place, journal, starting, as_json=as_json)
        _LockedRun(parts, until).execute()


def _name_rule(spec: Spec) -> NameRule | None:
    """How the source compares names; None if it does not answer, which the run then reports."""
    with suppress(TidemarkError):
        return name_rule(spec.source)
    return None


class _LockedRun:
    """One run; the caller holds the lock."""

    def __init__(self, parts: RunParts, until: str | None) -> None:
        self._parts = parts
        self._spec = parts.spec
        self._journal = parts.journal
        self._state = parts.control.state
        self._destination = parts.destination
        self._until = until or ("snapshot" if parts.spec.source.startup == "snapshot" else None)

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
        self._parts.control.thread.start()
        sync = self._parts.place.sync
        if sync is not None:
            stops = partial(self._state.stop_unless_ending, "another runner has taken the pipeline")
            sync.start(stops, lambda: self._state.stopping)
        try:
            self._parts.notifier.connect()
            self._work()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        record = None
        if error is not None:
            own = error if isinstance(error, TidemarkError) else TidemarkError(f"{type(error).__name__}: {error}")
            record = own.to_record()
        # Tables that stopped are no failure of a run that an operator ends; they are in the ledger and have alerts of
        # their own.
        stopping = self._state.stopping
        failed = error is not None and not (stopping and isinstance(error, TablesStoppedError))
        outcome = "failed" if failed else "stopped" if stopping else "done"
        code = error.exit_code if isinstance(error, TidemarkError) else 1 if error is not None else 0
        self._parts.control.thread.finish(record if failed else None)
        self._parts.requests.write()
        self._parts.control.states.done("stop")
        self._journal.write(RunEnded(outcome=outcome, exit_code=code, error=record))
        self._parts.notifier.close()
        self._journal.close()

    def _work(self) -> None:
        with ExitStack() as stack:
            ledger = Ledger(self._parts.place.ledger)
            self._export(stack, ledger)
            if not self._store_answers(ledger):
                require_all_tables(committed_state(ledger))
                return
            require_destination(self._spec.sink)
            start = self._start(stack, ledger)
            publisher = start.publisher
            if self._state.stopping and self._until is None:
                require_all_tables(committed_state(ledger))
                return
            session = self._parts.sessions.use(start.session.result())
            connected = _source_facts(start.server, start.source.watermarks)
            self._journal.write(RunConnected(source=connected, spark=session.facts()))
            self._state.apply("started")
            reached = self._recovery_loop(ledger, publisher).run(start.source, session)
            publisher.finish(drains=self._until is not None)
            record_sinks(publisher, ledger, self._journal.run)
            self._finish_removals(ledger)
            publisher.tables.release()
            self._require_success(publisher, committed_state(ledger), reached=reached)

    def _store_answers(self, ledger: Ledger) -> bool:
        """Wait for the store of the destination. Returns False if the run was stopped meanwhile.

        Only a pipeline that has committed an epoch waits: its store could be used once. At a first start, endpoint,
        bucket or credentials are probably wrong, which the check of the destination then reports.
        """
        if ledger.state is None:
            return True
        try:
            self._parts.disk_retries.run("destination", partial(ask_store, self._spec.sink))
        except OSError:
            if not self._state.stopping or self._until is not None:
                raise
            return False
        return True

    def _start(self, stack: ExitStack, ledger: Ledger) -> "_Start":
        """Check the source, begin there, and open the destination, while Spark starts."""
        parts, startup = self._parts, self._parts.startup
        endpoint = endpoint_of(self._spec.source)
        looking = stack.enter_context(ExitStack())
        looking.enter_context(closing(StartupLook(endpoint, parts.blocked)))
        starter = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="spark"))
        check = partial(startup.run, "preflight", partial(parts.source_check.preflight, endpoint, ledger.state))
        preflight = check() if parts.place.driver is None else None
        session = starter.submit(startup.run, "Spark", parts.sessions.open_first)
        stack.callback(parts.sessions.end, session)
        preflight = preflight or check()
        parts.control.away.preflight_passed(parts.source_check.account(preflight, ledger.state))
        binlog_off.require(preflight, ledger, self._journal.run, partial(parts.disk_retries.run, "ledger"))
        parts.hidden.begin(preflight.cascades)
        parts.drift.begin(preflight.facts)
        endpoint = replace(endpoint, identity=preflight.server.identity)  # all later connections check it
        begin = partial(parts.run_start.begin, ledger, endpoint, preflight)
        source = startup.run("plan", partial(parts.disk_retries.run, "ledger", begin))
        looking.close()
        # A killed runner may have left tables to delete.
        removal = partial(drop_removed, self._destination, ledger, self._journal.run)
        parts.disk_retries.run("destination", removal)
        opened = partial(open_publisher, parts, ledger)
        publisher = startup.run("destination", partial(parts.disk_retries.run, "destination", opened))
        stack.callback(publisher.finish)
        return _Start(source, preflight.server, publisher, session)

    def _export(self, stack: ExitStack, ledger: Ledger) -> None:
        """Serve the metrics until the stack is closed, if there is a port for them.

        Raises SpecError when the port is taken.
        """
        settings = self._spec.metrics
        if settings.port is None:
            return
        from engine.status.exporter import Exporter

        standing = standing_before(self._parts.directory)
        helpers = self._parts.control.helpers
        exporter = Exporter(self._spec.name, settings, self._journal, helpers, lambda: ledger.state, standing)
        stack.enter_context(closing(exporter))

    def _recovery_loop(self, ledger: Ledger, publisher: Publisher) -> RecoveryLoop:
        parts, control = self._parts, self._parts.control
        return RecoveryLoop(
            partial(self._epochs, EpochAssembly(parts, ledger, publisher, bounded=self._until is not None)),
            parts.run_start,
            parts.source_check,
            parts.sessions,
            control.state,
            control.away,
            parts.binlog,
            ledger,
            publisher,
            self._journal,
            partial(parts.disk_retries.run, "ledger"),
        )

    def _epochs(self, assembly: EpochAssembly, source: SourceAccess, session: Session) -> bool:
        """Run epochs with one server and one session, and the threads that look after them."""
        coordinator = assembly.coordinator(source, session)
        with self._parts.sessions.watched(session), assembly.monitors(source, coordinator):
            return coordinator.run(self._until)

    def _finish_removals(self, ledger: Ledger) -> None:
        """Delete removed tables and answer their command, after all reads and publications."""
        drop_removed(self._destination, ledger, self._journal.run)
        commands = self._parts.control.tables
        for change in commands.accepted(MembershipCommand)[:1]:
            if change.done(committed_state(ledger)):
                commands.carried_out(change, {})

    def _require_success(self, publisher: Publisher, state: State, *, reached: bool) -> None:
        """Raises an error if the run did not reach its goal, or if tables are not published, parked or stopped."""
        if self._until is not None and not reached:
            raise TidemarkError(
                f"The run was stopped before it was {self._until}.",
                detail="Everything read so far is committed and published; the rest is not read yet.",
                hint="Run it again: it continues from there.",
            )
        require_published(publisher.tables.failed_tables())
        if self._until is not None:
            require_sinks({sink.name: error for sink in publisher.further if (error := sink.error) is not None})
        if self._until is not None:
            self._parts.gate.parking.require_none(state.tables)
        require_all_tables(state)


@dataclass(frozen=True)
class _Start:
    """What a start has opened."""

    source: SourceAccess
    server: Server
    publisher: Publisher
    session: "Future[Session]"
    """The first Spark session, which may still be starting."""


def _source_facts(server: Server, watermark_class: str) -> SourceFacts:
    return SourceFacts(
        server=server.version_text,
        version=".".join(map(str, server.version)),
        flavor=server.flavor,
        uuid=server.identity,
        watermark_class=watermark_class,
    )
