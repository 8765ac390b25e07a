"""The heartbeat of a runner: `runner.json` shows what it does and that it is alive."""

import json
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from engine.base import clock, processes
from engine.base.durable import overwrite, write_atomically
from engine.base.errors import is_disk_full
from engine.base.redaction import clean
from engine.destination.further_sink import FurtherSink
from engine.journal import Entry, Journal
from engine.journal.events import DiskFreed, RunState, SourceBack
from engine.journal.store_events import StoreBack
from engine.pipeline import formats
from engine.pipeline.directory import Directory
from engine.pipeline.write_outage import WriteOutage


class LongestRead(TypedDict):
    """The longest-running read of a table."""

    chunks: list[int]
    since: str  # UTC
    rows: int
    """Rows read so far of all the table's chunks that are being read; those of a finished group are in the journal
    instead."""


class CurrentStep(TypedDict):
    """A step of a start."""

    step: str
    since: str  # UTC
    seconds: float | None
    """How long it took; None until it is done."""


@dataclass
class Activity:
    """The current activity of a runner, for the heartbeat. Each field has one writer."""

    phase: str = "starting"
    """"starting", "snapshot" or "streaming"."""
    startup: list[CurrentStep] = field(default_factory=list)
    """The steps of the start, in the order in which they began; its only writer is `run.lifecycle.startup_progress`."""
    waiting_for: str = ""
    """Why no chunk is being read; empty if nothing prevents it."""
    away: dict[str, Any] | None = None
    """The fields of `outage.Outage` while the source is away."""
    reading: Mapping[str, LongestRead] = field(default_factory=dict)
    """The longest-running reads, by table."""
    planning: Sequence[str] = ()
    """The tables that join and are being planned, by full name. No event names them until that is committed."""
    source: Mapping[str, Any] | None = None
    """When the source was last compared with the run's beginning, and what has changed
    (`run.monitors.source_drift`)."""
    blocked: Sequence[Mapping[str, Any]] = ()
    """The reads that wait for a lock on the source: the fields of `connection_events.ReadsBlocked`, by table."""
    continued: str | None = None
    """When the run last began or continued to read, after a pause, an outage of the source or a full disk: UTC text."""
    spark_ui: str | None = None
    """The address of Spark's web UI."""
    sinks: Sequence[FurtherSink] = ()
    """The further sinks."""
    loads: Mapping[str, float] = field(default_factory=dict)
    """The status variables that the throttle polls, and the lag of replicas in seconds, by `host:port`; as of the last
    poll."""

    def show_sinks(self, sinks: Sequence[FurtherSink]) -> None:
        """Set `sinks`; called once the run has built them."""
        self.sinks = sinks

    def retry_sinks(self, names: Collection[str]) -> None:
        """Have further sinks try again at once."""
        for sink in self.sinks:
            if sink.name in names:
                sink.pace.try_again()

    def show_outage(self, outage: dict[str, Any] | None) -> None:
        """Set `away`; called by the outage tracker alone."""
        self.away = outage


def note_continuations(activity: Activity, journal: Journal) -> None:
    """Keep `continued` up to date from the events of a run."""

    def hear(entry: Entry) -> None:
        event = entry.event
        if isinstance(event, DiskFreed | SourceBack | StoreBack) or (
            isinstance(event, RunState) and event.state == "running"
        ):
            activity.continued = entry.ts

    journal.listeners.append(hear)


class Heartbeat:
    """Rewrites `runner.json`."""

    def __init__(self, directory: Directory, run: str) -> None:
        self._directory = directory
        self._run = run
        self._started = clock.utc_text()
        self._beats = 0

    def beat(self, activity: Activity, unwritten: WriteOutage | None = None, **more: Any) -> None:
        """Write the heartbeat. Raises OSError; on a full disk it first overwrites the file in place.

        unwritten: why the run cannot write.
        more: "state", "reason", "stop" (whether the run was asked to stop), "helpers", "controls",
        "commands" and "error", as `engine.pipeline.runner_file.read_runner` returns them.
        """
        self._beats += 1
        record = {
            formats.FIELD: formats.VERSIONS["runner"],
            "run": self._run,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "phase": activity.phase,
            "startup": activity.startup,
            "heartbeat": clock.utc_text(),
            "beat": self._beats,
            "process": processes.here(),
            "started": self._started,
            "spark_ui": activity.spark_ui,
            "continued": activity.continued,
            "waiting_for": unwritten.reason if unwritten else activity.waiting_for,
            "write_outage": asdict(unwritten) if unwritten else None,
            "away": activity.away,
            "reading": activity.reading,
            "planning": list(activity.planning),
            "blocked": list(activity.blocked),
            "source": activity.source,
            "loads": activity.loads,
            "sinks": [sink.as_dict() for sink in activity.sinks],
            **more,
        }
        text = json.dumps(clean(record), indent=1)
        try:
            write_atomically(self._directory.runner, text)
        except OSError as error:
            if is_disk_full(error):
                with suppress(OSError):  # otherwise the heartbeat gets stale
                    overwrite(self._directory.runner, text)
            raise
