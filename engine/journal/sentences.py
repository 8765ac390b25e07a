"""The sentences with which the terminal, `status` and the console describe journal events. They are worded only here.

The texts of alerts are in `journal.alert_kinds`.

A sentence does not name its table, which is shown beside it. Any field may be null, because journals of other versions
are shown too (`journal.event_lines`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from engine.base.json_records import records_from
from engine.base.wording import NOTHING, count, duration, listing, plural, rows_differ, size, utc_time
from engine.journal.alert_events import AlertCleared
from engine.journal.connection_events import ConnectionsLimited, PreflightPassed, ReadsBlocked, ReadsRefused
from engine.journal.destination_events import SinkApplied, TableMaintained
from engine.journal.event_fields import ForeignCommit, LockSession
from engine.journal.events import (
    ChunkAssigned,
    ChunkFailed,
    ChunkFinished,
    ChunkParked,
    ChunkRedumped,
    ChunkUnparked,
    CommandRefused,
    DiskFreed,
    EpochCommitted,
    ErrorReported,
    Event,
    FailedOver,
    HelperRecovered,
    RunConnected,
    RunControls,
    RunEnded,
    RunStarted,
    RunState,
    SourceAway,
    SourceBack,
    TableChanged,
    TableNulled,
    TablePlanned,
    TableResumed,
    TableStateChanged,
)
from engine.journal.outage_causes import cause_of, outage, unwritten
from engine.journal.store_events import StoreAway, StoreBack, StoreRequests
from engine.journal.verification_events import (
    ChangeLogKept,
    ChangeLogsAudited,
    FormatBehind,
    FormatWritten,
    HiddenChanges,
    MirrorBehind,
    MirrorWritten,
    TableVerified,
)
from engine.journal.watch_events import RunnerRestarted, RunnerStaysDown

E = TypeVar("E", bound=Event)
FailureEvent = ErrorReported | ChunkFailed | ChunkParked
_MOST_NAMES = 10
"""Of the tables that a sentence names."""


class ParkedNames(Protocol):
    """A parked chunk."""

    @property
    def chunk(self) -> int: ...
    @property
    def attempts(self) -> int: ...
    @property
    def message(self) -> str: ...


class Audit(Protocol):
    """The result of an audit."""

    @property
    def tables(self) -> int: ...
    @property
    def images(self) -> int: ...
    @property
    def differences(self) -> int: ...


def describe(event: Event, run: str = "") -> str:
    """One sentence without its full stop; the event's name if there is no sentence for it.

    run: the id of the run that wrote it.
    """
    if isinstance(event, RunStarted):
        return f"Run {run} started on {event.host}, pid {event.pid}"
    worded = _SENTENCES.get(type(event))
    return worded(event) if worded else event.NAME


def failure(event: FailureEvent) -> str:
    """The subject of the failure and the error's message."""
    if isinstance(event, ChunkParked):
        return parked(event)
    message = event.message or event.error or "failed"
    return f"{named_chunks(numbers_of(event))}: {message}" if isinstance(event, ChunkFailed) else message


def retry(event: ErrorReported | ChunkFailed | SourceAway | StoreAway) -> str:
    """` – attempt 2, next in 4 s`; empty if nothing is retried."""
    seconds: float | None = event.retry_in_s
    if seconds is None:
        return ""
    attempt = f"attempt {event.attempt}, " if event.attempt else ""
    return f" – {attempt}next in {duration(seconds)}"


def parked(chunk: ParkedNames, table: str = "") -> str:
    """The sentence for a parked chunk. table: if given, it is named too."""
    of = f" of {table}" if table else ""
    tries = plural(chunk.attempts or 0, "attempt")
    return f"Chunk {chunk.chunk}{of} was parked after {tries}: {chunk.message}"


def named_chunks(numbers: Sequence[int]) -> str:
    """`Chunk 3`, `Chunks 3, 7–9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    ranges = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)
    return f"Chunk{'s' if len(numbers) > 1 else ''} {ranges}"


def numbers_of(event: ChunkAssigned | ChunkFailed | ChunkFinished) -> list[int]:
    """The numbers of the chunks that an event is about."""
    if isinstance(event, ChunkFinished):
        return [event.chunk or 0]
    return list(event.chunks or [0])


def hidden(event: HiddenChanges, table: str | None = None) -> str:
    """The sentence for changes that the binlog lacks. table: if given, it is named too."""
    listed = list(event.names or ())
    names, of = ", ".join(listed), f" of {table}" if table else ""
    if event.kind == "new_tables":
        return _left_out(listed)
    if event.kind == "source_changed":
        return _changed(listed)
    if event.kind == "source_settings":
        return f"The source's settings changed: {names}" if names else "The source has all required settings again"
    if event.kind == "binlog_filter":
        return f"The source leaves out of its binlog: {names}" if names else "The binlog has all captured databases"
    if names:
        return f"Foreign keys change rows{of} without an event in the binlog: {names}"
    return f"No foreign key changes rows{of} without an event in the binlog any more"


def _changed(names: list[str]) -> str:
    if not names:
        return "The source is as it was when the run began"
    return f"The source changed since the run began: {listing(names, _MOST_NAMES, '; ')}"


def _left_out(names: list[str]) -> str:
    if not names:
        return "All tables that match source.tables are captured"
    return f"New tables match source.tables and are not captured (source.new_tables): {listing(names, _MOST_NAMES)}"


def blocked(event: ReadsBlocked, table: str | None = None) -> str:
    """The sentence for reads that wait for a lock, and who holds it. table: if given, it is named too."""
    of = f" of {table}" if table else ""
    if not event.since:
        return f"No read{of} waits for a lock on the source any more"
    what = f"Reads{of} have waited for a {event.lock} on the source since {utc_time(event.since)}"
    parts = [what, event.unseen or "", *map(_holder, records_from(LockSession, event.sessions))]
    return ". ".join(part for part in parts if part)


def refused(event: ReadsRefused) -> str:
    """The sentence for a table that the account may not read."""
    return event.message if event.since else f"No read of {event.table} is refused any more"


def _holder(session: LockSession) -> str:
    who = f"Connection {session.connection} ({session.user}@{session.host})"
    lock = f" ({session.lock})" if session.lock else ""
    does = {"holds": f"holds it{lock}", "waits": f"waits for it too{lock}, before them"}.get(
        str(session.role), "may hold it"
    )
    state = "idle" if session.idle else "busy"
    text = f"; {'last' if session.idle else 'its'} statement: {session.statement}" if session.statement else ""
    return f"{who} {does}, {state} since {utc_time(session.since)}{text}"


def written(event: MirrorWritten, table: str | None = None) -> str:
    """The sentence for a mirror that another program changed. table: if given, it is named too."""
    of = f" of {table}" if table else ""
    if not event.commits:
        again = "resnapshotted" if event.cleared_by == "resnapshot" else "verified"
        return f"All rows of the mirror{of} were {again} after another program's changes"
    one = next(iter(event.newest), ForeignCommit())
    what = f"{one.operation} by {one.author}, {utc_time(one.at)}"
    more = f", and {plural(event.commits - 1, 'earlier commit')}" if event.commits > 1 else ""
    return f"Another program changed rows of the mirror{of}: version {one.version} ({what}){more}"


def audited(audit: Audit) -> str:
    """`1,204 images of 3 tables, no difference`."""
    images = f"{plural(audit.images or 0, 'image')} of {plural(audit.tables or 0, 'table')}"
    return f"{images}, {plural(audit.differences, 'difference') if audit.differences else 'no difference'}"


def _because(reason: str | None) -> str:
    return f" – {reason}" if reason else ""


def _connected(event: RunConnected) -> str:
    source, spark = event.source, event.spark
    server, cluster = "the source", ""
    if source.flavor:
        server = f"{source.flavor} {source.version}, low watermarks: {source.watermark_class}"
    if spark.master:
        cluster = f"; Spark {spark.version} on {spark.master}, {spark.slots} slots"
    return f"Connected to {server}{cluster}"


def _controls(event: RunControls) -> str:
    parts = ["the snapshot is paused"] if event.snapshot else []
    parts += [f"paused tables: {', '.join(event.tables)}"] if event.tables else []
    parts += [f"paused sinks: {', '.join(event.sinks)}"] if event.sinks else []
    parts += [f"{name} {value}" for name, value in (event.throttle or {}).items()]
    parts += [f"until {event.until}"] if event.until else []
    return "; ".join(parts) or "no pauses or limits beyond the spec"


def _nulled(event: TableNulled) -> str:
    return ", ".join(f"{plural(times, 'value')} of {column}" for column, times in (event.columns or {}).items())


def behind(event: MirrorBehind) -> str:
    """That a mirror lacks committed changes, or none any more."""
    if not event.since:
        return "The mirror has all committed changes again"
    since = f"since {utc_time(event.since)}"
    if event.epoch is None:
        return f"A resnapshot is due {since} and has not begun"
    return f"The mirror has lacked committed changes {since}"


def format_behind(event: FormatBehind) -> str:
    """The sentence about another format."""
    if event.since is None:
        return f"The Iceberg table of {event.table} has all commits again"
    why = event.failure.rstrip(".") or "it takes longer than the commits"
    return f"The Iceberg table {event.place} lacks the commits since {utc_time(event.since)}: {why}"


def _planned(event: TablePlanned) -> str:
    """The number of chunks. An empty list means that the table is split during its snapshot."""
    if event.chunks:
        return plural(len(event.chunks), "chunk")
    about = event.estimated_chunks
    return "chunks while the table is read" if about is None else f"about {plural(about, 'chunk')}"


def _less(saved_bytes: int) -> str:
    return f"{size(abs(saved_bytes))} {'less' if saved_bytes >= 0 else 'more'}"


def redumped(event: EpochCommitted) -> int:
    """The entries of an epoch that come from redumps."""
    return sum(sum(kinds) for kinds in (event.redumped or {}).values())


def _epoch(event: EpochCommitted) -> str:
    own, again = (event.changes or 0) - redumped(event), redumped(event)
    more = f" and {plural(again, 'redumped change')}" if again else ""
    return f"Epoch {event.epoch}: {plural(own, 'change')}{more} to {event.to_position}"


def _maintained(event: TableMaintained) -> str:
    saved_bytes = (event.removed_bytes or 0) - (event.added_bytes or 0)
    files = f"{plural(event.removed_files or 0, 'file')} became {count(event.added_files)}"
    return f"Maintenance ({event.step}): {files}, {_less(saved_bytes)}"


def _verified(event: TableVerified) -> str:
    """The rows that differ; else the verdict, and why a table could not be verified."""
    if event.differences:
        return rows_differ(event.differences)
    verdict, why = event.summary.verdict, event.summary.why
    return f"{verdict}: {why}" if why and verdict != "verified" else verdict


def _resumed(event: TableResumed) -> int:
    return sum(last - first + 1 for first, last in event.chunks or ())


def _changed_table(event: TableChanged) -> str:
    place = f" at {event.position}" if event.position else ""
    cause = event.statement or event.reason
    return f"{(event.kind or 'event').capitalize()}{place}" + (f": {cause}" if cause else "")


def _away(event: SourceAway) -> str:
    until = f", gives up at {utc_time(event.gives_up_at)}" if event.gives_up_at else ""
    since = f" since {utc_time(event.since)}" if event.since else ""
    return f"{outage(cause_of(event.cause, refused=event.refused))}{since}{retry(event)}{until}: {event.message or ''}"


def _store_away(event: StoreAway) -> str:
    return f"{unwritten(event.cause)} since {utc_time(event.since)}{retry(event)}: {event.message}"


def _of(kind: type[E], sentence: Callable[[E], str]) -> dict[type[Event], Callable[[Any], str]]:
    """The sentence of a kind of event."""
    return {kind: sentence}


_SENTENCES: dict[type[Event], Callable[[Any], str]] = {
    **_of(RunConnected, _connected),
    **_of(PreflightPassed, lambda _: "Preflight passed"),
    **_of(RunState, lambda e: f"Run is {e.state}{_because(e.reason)}"),
    **_of(RunControls, lambda e: f"Set: {_controls(e)}"),
    **_of(RunEnded, lambda e: f"Run ended: {e.outcome or NOTHING}"),
    **_of(
        RunnerRestarted,
        lambda e: f"The watchdog restarted the runner ({e.restart} of {e.most} within an hour): {e.why}",
    ),
    **_of(RunnerStaysDown, lambda e: f"The watchdog does not restart the runner: {e.why}"),
    **_of(ErrorReported, lambda e: failure(e) + retry(e)),
    **_of(TableResumed, lambda e: f"Found {plural(_resumed(e), 'committed chunk')}"),
    **_of(TablePlanned, lambda e: f"Planned {_planned(e)}: {str(e.reason).removeprefix('one chunk: ')}"),
    **_of(TableNulled, lambda e: f"Invalid dates became NULL: {_nulled(e)}"),
    **_of(TableStateChanged, lambda e: f"Table is {e.state}{_because(e.reason)}"),
    **_of(ChunkFailed, lambda e: failure(e) + retry(e)),
    **_of(ChunkParked, parked),
    **_of(ChunkUnparked, lambda e: f"Chunk {e.chunk} is no longer parked{_because(e.reason)}"),
    **_of(ChunkRedumped, lambda e: f"Redumped {count(e.rows)} rows"),
    **_of(EpochCommitted, _epoch),
    **_of(
        SinkApplied,
        lambda e: f"{(e.sink or 'Sink').capitalize()} {e.kind} through epoch {e.through_epoch}: {count(e.rows)} rows",
    ),
    **_of(TableMaintained, _maintained),
    **_of(TableVerified, lambda e: f"Verification: {_verified(e)}"),
    **_of(MirrorWritten, written),
    **_of(MirrorBehind, behind),
    **_of(FormatBehind, format_behind),
    **_of(
        FormatWritten,
        lambda e: (
            f"Another program has written to the Iceberg table {e.place} ({e.commit}); it is the Delta table again"
        ),
    ),
    **_of(
        ChangeLogKept,
        lambda e: f"The change log began again; the one until {utc_time(e.until)} is in {e.folder}",
    ),
    **_of(HiddenChanges, hidden),
    **_of(ReadsBlocked, blocked),
    **_of(ReadsRefused, refused),
    **_of(ChangeLogsAudited, lambda e: f"Audit: {audited(e)}"),
    **_of(DiskFreed, lambda e: f"Files can be written again, after {plural(e.attempts or 0, 'failure')}"),
    **_of(StoreAway, _store_away),
    **_of(
        StoreRequests, lambda e: f"The run made {plural(sum(one.number for one in e.requests), 'request')} to buckets"
    ),
    **_of(StoreBack, lambda e: f"The store of the destination can be used again after {duration(e.seconds)}"),
    **_of(HelperRecovered, lambda e: f"{e.helper} works again, after {plural(e.errors or 0, 'error')}"),
    **_of(AlertCleared, lambda e: f"Alert cleared: {e.message}"),
    **_of(CommandRefused, lambda e: f"Refused {e.verb}: {e.message}"),
    **_of(TableChanged, _changed_table),
    **_of(SourceAway, _away),
    **_of(
        ConnectionsLimited,
        lambda e: (
            f"The source allows few connections: the run has {e.allowed} at most, and "
            f"{plural(e.readers or 1, 'reader')} at once"
        ),
    ),
    **_of(SourceBack, lambda e: f"The source is reachable again after {duration(e.seconds)}"),
    **_of(
        FailedOver,
        lambda e: f"Failover by GTID from {e.from_identity} at {e.from_position} to {e.to_identity} at {e.to_position}",
    ),
}
