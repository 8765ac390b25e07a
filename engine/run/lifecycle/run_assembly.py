"""Builds the components of one run that outlive servers and Spark sessions. It only builds."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.alerting.alert_messages import patience_s
from engine.alerting.notifier import Notifier
from engine.destination.destination_protocol import Destination
from engine.destination.registry import destination_of
from engine.journal import Journal
from engine.pipeline.directory import Directory
from engine.pipeline.full_disks import scratch_folders
from engine.run.commands.control import Control, ControlOptions, control_of
from engine.run.commands.heartbeat import note_continuations
from engine.run.lifecycle.disk_retries import DiskRetries
from engine.run.lifecycle.run_start import RunStart
from engine.run.lifecycle.source_check import SourceCheck
from engine.run.lifecycle.spark_sessions import SparkSessions
from engine.run.lifecycle.startup_progress import StartupProgress
from engine.run.lifecycle.takeover import Takeover
from engine.run.lifecycle.workplace import Workplace
from engine.run.monitors import blocked_monitor, source_drift
from engine.run.monitors.blocked_monitor import Blocked, BlockedMonitor
from engine.run.monitors.hidden_monitor import ReportedChanges
from engine.run.monitors.request_monitor import RequestMonitor, places_of
from engine.run.monitors.source_drift import SourceDrift
from engine.run.monitors.space import SpaceMonitor
from engine.run.snapshot.gate import Gate
from engine.run.snapshot.parking import Parking
from engine.run.snapshot.throttle import ReadPace
from engine.run.source_loss.binlog_off import BinlogCheck
from engine.run.tables.table_commands import IN_TURN, parsers
from engine.spec.globs import NameRule
from engine.spec.settings import Spec
from engine.store.requests import COUNTER
from engine.watch.stop_requests import runs_restarted_by


@dataclass(frozen=True)
class RunParts:
    """The components of one run."""

    spec: Spec
    """Its globs match the names of the source's server."""
    place: Workplace
    directory: Directory
    journal: Journal
    control: Control
    gate: Gate
    notifier: Notifier
    destination: Destination
    run_start: RunStart
    source_check: SourceCheck
    sessions: SparkSessions
    startup: StartupProgress
    disk_retries: DiskRetries
    binlog: BinlogCheck
    hidden: ReportedChanges
    drift: SourceDrift
    blocked: BlockedMonitor
    requests: RequestMonitor


def run_parts(
    spec: Spec,
    rule: NameRule | None,
    place: Workplace,
    journal: Journal,
    starting: Callable[[str], None] | None,
    *,
    as_json: bool,
) -> RunParts:
    """Build a run's components; the caller holds the lock.

    rule: how the source compares names; None if it does not answer. starting, as_json: as in `run_pipeline`.
    """
    directory = place.directory
    pace, parking = ReadPace(spec.throttle), Parking(directory, journal)
    requests = RequestMonitor(places_of(spec, place.state), COUNTER, journal.write)
    control = control_of(directory, journal, _control_options(spec, place, journal, pace, parking, requests))
    note_continuations(control.activity, journal)
    notifier = Notifier(spec, directory, journal, stderr=as_json)
    alerts = notifier.standing()
    destination = destination_of(spec.sink, directory.maintenance, directory.known_tables)
    takeover = Takeover(destination, journal.run)
    alerted = [table for kind, table in alerts if kind == blocked_monitor.KIND]
    blocked = Blocked(patience_s(spec.alerts), alerted)
    return RunParts(
        spec,
        place,
        directory,
        journal,
        control,
        Gate(pace, parking, control.disk, control.settings.pauses),
        notifier,
        destination,
        RunStart(spec, control.intake, control.tables, journal, takeover, destination),
        SourceCheck(spec, rule),
        SparkSessions(
            place.open_session,
            control.state,
            control.activity,
            journal,
            control.helpers,
            spec.spark.master,
            place.driver,
        ),
        StartupProgress(control.activity, starting),
        DiskRetries(control.disk, control.state),
        BinlogCheck(),
        ReportedChanges(alerts),
        SourceDrift(control.activity, alerted=(source_drift.KIND, None) in alerts),
        BlockedMonitor(journal, control.activity, control.helpers, blocked),
        requests,
    )


def _lake_disk(spec: Spec, directory: Directory) -> Path:
    """A folder of the disk that fills: a bucket does not."""
    return spec.sink.local_path or directory.root


def _control_options(
    spec: Spec, place: Workplace, journal: Journal, pace: ReadPace, parking: Parking, requests: RequestMonitor
) -> ControlOptions:
    directory, states = place.directory, [place.state] if place.state is not None else []
    space = SpaceMonitor(_lake_disk(spec, directory), directory.space, journal.write)
    journal.listeners.append(space.hear)
    chores: dict[str, Callable[[], object]] = {
        "disk space": space.measure,
        "requests": requests.look,
    }
    if place.sync is not None:
        chores["remote state"] = place.sync.report
    return ControlOptions(
        spec.name,
        throttle=spec.throttle,
        journal_retention_s=spec.journal.retention_s,
        folders=[
            spec.sink.local_path or spec.sink.quick_folder,
            *states,
            *scratch_folders(spec.spark.master, spec.spark.conf),
        ],
        parsers=parsers(directory.journals),
        in_turn=IN_TURN,
        throttle_changed=pace.change,
        retry_parked=parking.request_retry,
        sinks=[sink.name for sink in spec.sinks],
        restarted=runs_restarted_by(place.pipeline),
        chores=chores,
    )
