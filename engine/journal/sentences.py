"""The sentences with which the terminal, `status` and the console describe journal events. They are worded only here.

The texts of alerts are in `journal.alert_texts`.

A sentence does not name its table, which is shown beside it. Fields may be missing, because journals of other versions
are shown too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.base.wording import NOTHING, count, duration, plural, rows_differ, size, utc_time
from engine.journal.outage_causes import cause_of, outage

Event = Mapping[str, Any]


_MOST_NAMES = 10
"""Of the tables that a sentence names."""


def describe(kind: str, event: Event) -> str:
    """One sentence without its full stop; `kind` itself if there is no sentence for it.

    kind: the event's name in the journal.
    """
    worded = _SENTENCES.get(kind)
    return worded(event) if worded else kind


def failure(kind: str, event: Event) -> str:
    """The subject of the failure and the error's message, for `error`, `chunk.failed` and `chunk.parked`."""
    message = event.get("message") or event.get("error") or "failed"
    if kind == "chunk.parked":
        return parked(event)
    return f"{named_chunks(numbers_of(event))}: {message}" if kind == "chunk.failed" else str(message)


def retry(event: Event) -> str:
    """` – attempt 2, next in 4 s`; empty if nothing is retried."""
    if event.get("retry_in_s") is None:
        return ""
    attempt = f"attempt {event['attempt']}, " if event.get("attempt") else ""
    return f" – {attempt}next in {duration(event['retry_in_s'])}"


def parked(event: Event, table: str = "") -> str:
    """The sentence for a parked chunk. table: if given, it is named too."""
    of = f" of {table}" if table else ""
    tries = plural(event.get("attempts") or 0, "attempt")
    return f"Chunk {event.get('chunk')}{of} was parked after {tries}: {event.get('message')}"


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


def numbers_of(event: Event) -> list[int]:
    """The numbers of the chunks that an event is about."""
    chunks = event.get("chunks")
    return [n for n in chunks if isinstance(n, int)] if isinstance(chunks, list) else [int(event.get("chunk") or 0)]


def hidden(event: Event, table: str | None = None) -> str:
    """The sentence for changes that the binlog lacks. table: if given, it is named too."""
    names, of = ", ".join(map(str, event.get("names") or ())), f" of {table}" if table else ""
    if event.get("kind") == "new_tables":
        return _left_out([str(name) for name in event.get("names") or ()])
    if event.get("kind") == "source_changed":
        return _changed([str(name) for name in event.get("names") or ()])
    if event.get("kind") == "source_settings":
        return f"The source's settings changed: {names}" if names else "The source has all required settings again"
    if event.get("kind") == "binlog_filter":
        return f"The source leaves out of its binlog: {names}" if names else "The binlog has all captured databases"
    if names:
        return f"Foreign keys change rows{of} without an event in the binlog: {names}"
    return f"No foreign key changes rows{of} without an event in the binlog any more"


def _changed(names: list[str]) -> str:
    if not names:
        return "The source is as it was when the run began"
    more = f"; and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"The source changed since the run began: {'; '.join(names[:_MOST_NAMES])}{more}"


def _left_out(names: list[str]) -> str:
    if not names:
        return "All tables that match source.tables are captured"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (
        "New tables match source.tables and are not captured (source.new_tables): "
        f"{', '.join(names[:_MOST_NAMES])}{more}"
    )


def blocked(event: Event, table: str | None = None) -> str:
    """The sentence for reads that wait for a lock, and who holds it. table: if given, it is named too."""
    of = f" of {table}" if table else ""
    if not event.get("since"):
        return f"No read{of} waits for a lock on the source any more"
    what = f"Reads{of} have waited for a {event.get('lock')} on the source since {utc_time(event['since'])}"
    parts = [what, str(event.get("unseen") or ""), *map(_holder, event.get("sessions") or ())]
    return ". ".join(part for part in parts if part)


def _holder(session: Mapping[str, Any]) -> str:
    who = f"Connection {session.get('connection')} ({session.get('user')}@{session.get('host')})"
    lock = f" ({session['lock']})" if session.get("lock") else ""
    does = {"holds": f"holds it{lock}", "waits": f"waits for it too{lock}, before them"}.get(
        str(session.get("role")), "may hold it"
    )
    state = "idle" if session.get("idle") else "busy"
    text = (
        f"; {'last' if session.get('idle') else 'its'} statement: {session['statement']}"
        if session.get("statement")
        else ""
    )
    return f"{who} {does}, {state} since {utc_time(session.get('since'))}{text}"


def written(event: Event, table: str | None = None) -> str:
    """The sentence for a mirror that another program changed. table: if given, it is named too."""
    of, commits, newest = f" of {table}" if table else "", event.get("commits") or 0, event.get("newest")
    if not commits:
        again = "resnapshotted" if event.get("cleared_by") == "resnapshot" else "verified"
        return f"All rows of the mirror{of} were {again} after another program's changes"
    one = newest[0] if isinstance(newest, list | tuple) and newest else {}
    what = f"{one.get('operation')} by {one.get('author')}, {utc_time(one.get('at'))}"
    more = f", and {plural(commits - 1, 'earlier commit')}" if commits > 1 else ""
    return f"Another program changed rows of the mirror{of}: version {one.get('version')} ({what}){more}"


def audited(event: Event) -> str:
    """`1,204 images of 3 tables, no difference`."""
    images = f"{plural(event.get('images') or 0, 'image')} of {plural(event.get('tables') or 0, 'table')}"
    return f"{images}, {plural(event['differences'], 'difference') if event.get('differences') else 'no difference'}"


def _reason(event: Event) -> str:
    return f" – {event['reason']}" if event.get("reason") else ""


def _connected(event: Event) -> str:
    source, spark = event.get("source"), event.get("spark")
    server, cluster = "the source", ""
    if isinstance(source, dict):
        server = f"{source.get('flavor')} {source.get('version')}, low watermarks: {source.get('watermark_class')}"
    if isinstance(spark, dict):
        cluster = f"; Spark {spark.get('version')} on {spark.get('master')}, {spark.get('slots')} slots"
    return f"Connected to {server}{cluster}"


def _controls(event: Event) -> str:
    tables, limits = event.get("tables"), event.get("throttle")
    parts = ["the snapshot is paused"] if event.get("snapshot") else []
    parts += [f"paused tables: {', '.join(map(str, tables))}"] if isinstance(tables, list) and tables else []
    parts += [f"{name} {value}" for name, value in limits.items()] if isinstance(limits, dict) else []
    parts += [f"until {event['until']}"] if event.get("until") else []
    return "; ".join(parts) or "no pauses or limits beyond the spec"


def _nulled(event: Event) -> str:
    columns = event.get("columns")
    known = columns if isinstance(columns, dict) else {}
    return ", ".join(f"{plural(times, 'value')} of {column}" for column, times in known.items())


def behind(event: Event) -> str:
    """That a mirror lacks committed changes, or none any more."""
    if not event.get("since"):
        return "The mirror has all committed changes again"
    since = f"since {utc_time(event['since'])}"
    if event.get("epoch") is None:
        return f"A resnapshot is due {since} and has not begun"
    return f"The mirror has lacked committed changes {since}"


def _planned(event: Event) -> str:
    """The number of chunks. An empty list means that the table is split during its snapshot."""
    if event.get("chunks"):
        return plural(len(event["chunks"]), "chunk")
    about = event.get("estimated_chunks")
    return f"about {plural(about, 'chunk')}" if isinstance(about, int) else "chunks while the table is read"


def _less(saved_bytes: int) -> str:
    return f"{size(abs(saved_bytes))} {'less' if saved_bytes >= 0 else 'more'}"


def redumped(event: Event) -> int:
    """The entries of an epoch that come from redumps."""
    return sum(sum(kinds) for kinds in (event.get("redumped") or {}).values())


def _verdict(summary: Mapping[str, Any]) -> str:
    """The verdict, and why a table could not be verified."""
    why = f": {summary['why']}" if summary.get("why") and summary.get("verdict") != "verified" else ""
    return f"{summary.get('verdict')}{why}"


def _committed(event: Event) -> int:
    ranges = event.get("chunks")
    return sum(last - first + 1 for first, last in ranges) if isinstance(ranges, list) else 0


def _away(event: Event) -> str:
    until = f", gives up at {utc_time(event['gives_up_at'])}" if event.get("gives_up_at") else ""
    since = f" since {utc_time(event['since'])}" if event.get("since") else ""
    return f"{outage(cause_of(event))}{since}{retry(event)}{until}: {event.get('message') or ''}"


_SENTENCES: dict[str, Callable[[Event], str]] = {
    "run.started": lambda e: f"Run {e.get('run')} started on {e.get('host')}, pid {e.get('pid')}",
    "run.connected": _connected,
    "run.state": lambda e: f"Run is {e.get('state')}{_reason(e)}",
    "run.controls": lambda e: f"Set: {_controls(e)}",
    "run.ended": lambda e: f"Run ended: {e.get('outcome') or NOTHING}",
    "watch.restarted": lambda e: (
        f"The watchdog restarted the runner ({e.get('restart')} of {e.get('most')} within an hour): {e.get('why')}"
    ),
    "watch.stays_down": lambda e: f"The watchdog does not restart the runner: {e.get('why')}",
    "error": lambda e: failure("error", e) + retry(e),
    "table.resumed": lambda e: f"Found {plural(_committed(e), 'committed chunk')}",
    "table.planned": lambda e: f"Planned {_planned(e)}: {str(e.get('reason')).removeprefix('one chunk: ')}",
    "table.nulled": lambda e: f"Invalid dates became NULL: {_nulled(e)}",
    "table.state": lambda e: f"Table is {e.get('state')}{_reason(e)}",
    "chunk.failed": lambda e: failure("chunk.failed", e) + retry(e),
    "chunk.parked": parked,
    "chunk.unparked": lambda e: f"Chunk {e.get('chunk')} is no longer parked{_reason(e)}",
    "redump.chunk": lambda e: f"Redumped {count(e.get('rows'))} rows",
    "epoch.committed": lambda e: (
        f"Epoch {e.get('epoch')}: {plural((e.get('changes') or 0) - redumped(e), 'change')}"
        + (f" and {plural(redumped(e), 'redumped change')}" if redumped(e) else "")
        + f" to {e.get('to_position')}"
    ),
    "sink.applied": lambda e: (
        f"{str(e.get('sink') or 'Sink').capitalize()} {e.get('kind')} through epoch {e.get('through_epoch')}: "
        f"{count(e.get('rows'))} rows"
    ),
    "sink.maintained": lambda e: (
        f"Maintenance ({e.get('step')}): {plural(e.get('removed_files') or 0, 'file')} became "
        f"{count(e.get('added_files'))}, {_less((e.get('removed_bytes') or 0) - (e.get('added_bytes') or 0))}"
    ),
    "table.verified": lambda e: (
        f"Verification: {rows_differ(e['differences'])}"
        if e.get("differences")
        else f"Verification: {_verdict(e.get('summary') or {})}"
    ),
    "mirror.written": written,
    "mirror.behind": behind,
    "changelog.kept": lambda e: (
        f"The change log began again; the one until {utc_time(e.get('until'))} is in {e.get('folder')}"
    ),
    "source.hidden": hidden,
    "source.blocked": blocked,
    "audit.done": lambda e: f"Audit: {audited(e)}",
    "disk.freed": lambda e: f"The disk has space again, after {plural(e.get('attempts') or 0, 'failure')}",
    "helper.recovered": lambda e: f"{e.get('helper')} works again, after {plural(e.get('errors') or 0, 'error')}",
    "alert.cleared": lambda e: f"Alert cleared: {e.get('message')}",
    "command.refused": lambda e: f"Refused {e.get('verb')}: {e.get('message')}",
    "source.event": lambda e: (
        f"{str(e.get('kind') or 'event').capitalize()} at {e.get('position')}"
        + (f": {e['statement']}" if e.get("statement") else "")
    ),
    "source.away": _away,
    "source.connections": lambda e: (
        f"The source allows few connections: the run has {e.get('allowed')} at most, and "
        f"{plural(e.get('readers') or 1, 'reader')} at once"
    ),
    "source.back": lambda e: f"The source is reachable again after {duration(e.get('seconds'))}",
    "source.failover": lambda e: (
        f"Failover by GTID from {e.get('from_identity')} at {e.get('from_position')} to {e.get('to_identity')} at "
        f"{e.get('to_position')}"
    ),
}
