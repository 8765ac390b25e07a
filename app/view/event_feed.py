"""The event feed: events that belong together become one line with a duration."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.view import words
from app.view.health import EXIT_CODES
from engine.history.event_queries import Event

KINDS: dict[str, tuple[str, ...]] = {
    "Run": ("run.started", "run.connected", "run.state", "run.controls", "run.ended"),
    "Alerts": ("alert.raised", "alert.cleared"),
    "Errors": ("error", "chunk.failed", "chunk.parked", "chunk.unparked", "disk.freed", "helper.recovered"),
    "Commands": ("command.accepted", "command.refused", "command.done"),
    "Tables": ("table.planned", "table.resumed", "table.state", "table.nulled"),
    "Chunks": ("chunk.planned", "chunk.assigned", "chunk.finished", "redump.chunk"),
    "Epochs": ("epoch.committed", "sink.applied"),
    "Source": ("source.event", "source.failover", "source.away", "source.back"),
}
USUAL = ("Run", "Alerts", "Errors", "Commands", "Tables", "Source")
_KIND_OF = {event: kind for kind, events in KINDS.items() for event in events}


@dataclass(frozen=True)
class FeedLine:
    """One line of the feed."""

    ts: datetime
    """The time of its first event."""
    kind: str
    """A key of `KINDS`."""
    table: str
    """Empty if the events belong to no table."""
    text: str
    duration_s: float | None
    tone: str
    """Red if an operator must act, orange if the runner retries, else gray."""
    run: str
    seq: int
    """The sequence number of its first event."""


def names(kinds: Iterable[str]) -> list[str]:
    """The journal events of these kinds."""
    return [event for kind in kinds for event in KINDS.get(kind, ())]


def feed_lines(events: Sequence[Event]) -> list[FeedLine]:
    """Newest first. One line per command, per group of chunks, per table that a run splits, and per table of a redump."""
    lines: list[FeedLine] = []
    groups: dict[tuple[str, str], list[tuple[Event, dict[str, Any]]]] = {}
    for event in sorted(events, key=lambda event: (event.ts, event.seq)):
        body = _body(event)
        key = _group_key(event, body)
        if key is None:
            lines.append(_single(event, body))
        else:
            groups.setdefault(key, []).append((event, body))
    lines += [_GROUPS[kind](group) for (kind, _), group in groups.items()]
    return sorted(lines, key=lambda line: (line.ts, line.seq), reverse=True)


def _body(event: Event) -> dict[str, Any]:
    try:
        body = json.loads(event.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _group_key(event: Event, body: Mapping[str, Any]) -> tuple[str, str] | None:
    if event.event.startswith("command.") and body.get("id"):
        return "command", str(body["id"])
    if event.event in ("chunk.assigned", "chunk.finished") and body.get("group"):
        return "group", f"{event.run} {body['group']}"
    if event.event == "chunk.planned":
        return "cut", f"{event.run} {event.table}"
    if event.event == "redump.chunk" and body.get("id"):
        return "redump", f"{event.run} {body['id']} {event.table}"
    return None


def _command(group: Sequence[tuple[Event, dict[str, Any]]]) -> FeedLine:
    first, body = group[0]
    names_seen = {event.event: fields for event, fields in group}
    done, refused = names_seen.get("command.done"), names_seen.get("command.refused")
    who = f" by {body['actor']}" if body.get("actor") else ""
    why = f": {body['reason']}" if body.get("reason") else ""
    outcome = "refused" if refused else "done" if done else "accepted"
    message = f" ({refused.get('message')})" if refused else ""
    text = f"{str(body.get('verb') or 'command').replace('-', ' ').capitalize()}{who}{why} – {outcome}{message}"
    seconds = done.get("duration_s") if done else None
    return FeedLine(first.ts, "Commands", "", text, seconds, "orange" if refused else "gray", first.run, first.seq)


def _chunks(group: Sequence[tuple[Event, dict[str, Any]]]) -> FeedLine:
    first, body = group[0]
    finished = [fields for event, fields in group if event.event == "chunk.finished"]
    numbers = sorted({n for _, fields in group for n in _numbers(fields)})
    rows = sum(fields.get("rows") or 0 for fields in finished)
    text = f"{_named(numbers)} "
    text += f"read: {words.count(rows)} rows" if finished else "given to a reader"
    missing = len(numbers) - len(finished)
    if finished and missing:
        text += f", {words.plural(missing, 'chunk')} to go"
    seconds = (group[-1][0].ts - first.ts).total_seconds() if finished and len(group) > 1 else None
    return FeedLine(first.ts, "Chunks", str(body.get("table") or ""), text, seconds, "gray", first.run, first.seq)


def _cut(group: Sequence[tuple[Event, dict[str, Any]]]) -> FeedLine:
    first, body = group[0]
    named = [number for _, fields in group for number in _cut_numbers(fields)]
    numbers = sorted(set(named))
    text = f"Planned {_named(numbers).lower()}" if numbers else "Planned no chunk"
    if splits := len(named) - len(numbers):
        text += f"; split {words.plural(splits, 'chunk')} larger than planned"
    text += "; all chunks are planned" if any(fields.get("complete") is True for _, fields in group) else ""
    seconds = (group[-1][0].ts - first.ts).total_seconds() if len(group) > 1 else None
    return FeedLine(first.ts, "Chunks", str(body.get("table") or ""), text, seconds, "gray", first.run, first.seq)


def _cut_numbers(body: Mapping[str, Any]) -> list[int]:
    chunks = body.get("chunks")
    items = chunks if isinstance(chunks, list) else []
    return [item[0] for item in items if isinstance(item, list) and item and isinstance(item[0], int)]


def _redump(group: Sequence[tuple[Event, dict[str, Any]]]) -> FeedLine:
    first, body = group[0]
    rows, ghosts = (sum(fields.get(name) or 0 for _, fields in group) for name in ("rows", "ghosts"))
    parts = f"{words.plural(len(group), 'part')}: {words.count(rows)} rows, {words.plural(ghosts, 'ghost')}"
    seconds = (group[-1][0].ts - first.ts).total_seconds() if len(group) > 1 else None
    table = str(body.get("table") or "")
    return FeedLine(first.ts, "Chunks", table, f"Redumped {parts}", seconds, "gray", first.run, first.seq)


_GROUPS = {"command": _command, "group": _chunks, "cut": _cut, "redump": _redump}


def _numbers(body: Mapping[str, Any]) -> list[int]:
    chunks = body.get("chunks")
    return [n for n in chunks if isinstance(n, int)] if isinstance(chunks, list) else [int(body.get("chunk") or 0)]


def _counted(ranges: object) -> int:
    """The total length of closed ranges."""
    return sum(last - first + 1 for first, last in ranges) if isinstance(ranges, list) else 0


def _named(numbers: Sequence[int]) -> str:
    """`Chunk 3`, `Chunks 3, 7–9`."""
    return f"Chunk{'s' if len(numbers) > 1 else ''} {_ranges(numbers)}"


def _ranges(numbers: Sequence[int]) -> str:
    """`3–5, 9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)


def _single(event: Event, body: Mapping[str, Any]) -> FeedLine:
    kind = _KIND_OF.get(event.event, "Run")
    text, tone = _sentence(event.event, body)
    if event.mended:
        since = "retried since" if event.event == "error" else "read since, or planned again"
        text, tone = f"{_failed(event.event, body)} – {since}", "gray"
    seconds = body.get("duration_s")
    return FeedLine(event.ts, kind, event.table or "", text, seconds, tone, event.run, event.seq)


def _sentence(event: str, body: Mapping[str, Any]) -> tuple[str, str]:
    if event in ("error", "chunk.failed"):
        return _failure(event, body)
    if event == "alert.raised":
        repeats = f" (repeated {words.plural(body['repeat'], 'time')})" if body.get("repeat") else ""
        return f"Alert: {body.get('message')}{repeats} {body.get('hint') or ''}".rstrip(), "red"
    if event == "chunk.parked":
        return f"{_failed(event, body)} {body.get('hint') or ''}".rstrip(), "red"
    if event == "run.ended":
        code = body.get("exit_code")
        bad = bool(code)
        return f"Run ended: {body.get('outcome') or words.NOTHING}" + (
            f", {EXIT_CODES.get(code or 0)}" if bad else ""
        ), ("red" if bad else "gray")
    return _PLAIN.get(event, lambda _: event)(body), "gray"


def _failure(event: str, body: Mapping[str, Any]) -> tuple[str, str]:
    retry, text = body.get("retry_in_s"), _failed(event, body)
    attempt = f"attempt {body['attempt']}, " if body.get("attempt") else ""
    if retry is not None:
        return f"{text} – {attempt}next in {words.duration(retry)}", "orange"
    return " ".join(part for part in (text, str(body.get("detail") or ""), str(body.get("hint") or "")) if part), "red"


def _failed(event: str, body: Mapping[str, Any]) -> str:
    """What failed, and the error message."""
    message = body.get("message") or body.get("error") or "failed"
    if event == "chunk.parked":
        tries = words.plural(body.get("attempts") or 0, "attempt")
        return f"Chunk {body.get('chunk')} was parked after {tries}: {message}"
    return f"{_named(_numbers(body))}: {message}" if event == "chunk.failed" else str(message)


def _connected(body: Mapping[str, Any]) -> str:
    source, spark = body.get("source"), body.get("spark")
    server, cluster = "the source", ""
    if isinstance(source, dict):
        server = f"{source.get('flavor')} {source.get('version')}, low watermarks: {source.get('watermark_class')}"
    if isinstance(spark, dict):
        cluster = f"; Spark {spark.get('version')} on {spark.get('master')}, {spark.get('slots')} slots"
    return f"Connected to {server}{cluster}"


def _controls(body: Mapping[str, Any]) -> str:
    tables, limits = body.get("tables"), body.get("throttle")
    parts = ["the snapshot is paused"] if body.get("snapshot") else []
    parts += [f"paused tables: {', '.join(map(str, tables))}"] if isinstance(tables, list) and tables else []
    parts += [f"{name} {value}" for name, value in limits.items()] if isinstance(limits, dict) else []
    return "; ".join(parts) or "no pauses or limits beyond the spec"


def _values_of(columns: Any) -> str:
    known = columns if isinstance(columns, dict) else {}
    return ", ".join(f"{words.plural(count, 'value')} of {column}" for column, count in known.items())


def _planned(body: Mapping[str, Any]) -> str:
    """How many chunks; an empty list means that the table is split while it is copied."""
    if body.get("chunks"):
        return words.plural(len(body["chunks"]), "chunk")
    about = body.get("estimated_chunks")
    return f"about {words.plural(about, 'chunk')}" if isinstance(about, int) else "chunks while the table is read"


def _reason(body: Mapping[str, Any]) -> str:
    return f" – {body['reason']}" if body.get("reason") else ""


_PLAIN: dict[str, Any] = {
    "run.started": lambda b: f"Run {b.get('run')} started on {b.get('host')}, pid {b.get('pid')}",
    "run.connected": _connected,
    "run.state": lambda b: f"Run is {b.get('state')}{_reason(b)}",
    "run.controls": lambda b: f"Set: {_controls(b)}",
    "table.resumed": lambda b: f"Found {words.plural(_counted(b.get('chunks')), 'committed chunk')}",
    "table.planned": lambda b: f"Planned {_planned(b)}: {str(b.get('reason')).removeprefix('one chunk: ')}",
    "redump.chunk": lambda b: f"Redumped {words.count(b.get('rows'))} rows",
    "table.nulled": lambda b: f"Dates that do not exist became NULL: {_values_of(b.get('columns'))}",
    "table.state": lambda b: f"Table is {b.get('state')}{_reason(b)}",
    "epoch.committed": lambda b: (
        f"Epoch {b.get('epoch')}: {words.plural(b.get('changes') or 0, 'change')} to {b.get('to_position')}"
    ),
    "sink.applied": lambda b: (
        f"{str(b.get('sink') or 'Sink').capitalize()} {b.get('kind')} through epoch {b.get('through_epoch')}: "
        f"{words.count(b.get('rows'))} rows"
    ),
    "chunk.unparked": lambda b: f"Chunk {b.get('chunk')} is no longer parked{_reason(b)}",
    "disk.freed": lambda b: f"The disk has space again, after {words.plural(b.get('attempts') or 0, 'failure')}",
    "helper.recovered": lambda b: f"{b.get('helper')} works again, after {words.plural(b.get('errors') or 0, 'error')}",
    "alert.cleared": lambda b: f"Alert cleared: {b.get('message')}",
    "source.event": lambda b: (
        f"{str(b.get('kind') or 'event').capitalize()} at {b.get('position')}"
        + (f": {b['statement']}" if b.get("statement") else "")
    ),
    "source.away": lambda b: f"The source is unreachable – {b.get('message') or ''}",
    "source.back": lambda b: f"The source is reachable again after {words.duration(b.get('seconds'))}",
    "source.failover": lambda b: (
        f"Failover by GTID from {b.get('from_identity')} at {b.get('from_position')} to {b.get('to_identity')} at "
        f"{b.get('to_position')}"
    ),
}
