"""The rows of the timeline: what a run did when, what interrupted it, and the events that explain its curves.

The journal has no phases. They follow from its events:

    starting      from the start of a run until it has connected
    copying       while at least one table is being copied
    catching up   after that, and after each pause and outage, until the lag is small for the first time
    streaming     from then on

Pauses and outages have rows of their own; meanwhile there is no phase.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from app.common.view import words
from app.common.view.status_style import HEX
from engine.history.runs import Run
from engine.history.timeline_queries import CaughtUp, Copying, Moment
from engine.journal.alert_kinds import alert_title
from engine.pipeline.state_words import WRITE_REASONS

ROWS = ("Phase", "Pauses", "Outages", "Redumps", "Schema changes", "Restarts", "Alerts")
"""From top to bottom."""
STREAMING, NO_RUNNER, FROZEN = "streaming", "no runner", "not responding"
_COLOURS = {
    "starting": "blue",
    "copying": "primary",
    "catching up": "orange",
    STREAMING: "green",
    NO_RUNNER: "gray",
    FROZEN: "red",
}
COLOURS = {name: HEX[colour] for name, colour in _COLOURS.items()}
_WITHOUT_RUNNER = ("runner_lost", "runner_frozen", "not_restarted", "run_failed")
"""Alerts that hold although no runner is alive."""


@dataclass(frozen=True)
class Span:
    """Something that lasted."""

    row: str
    begin: datetime
    end: datetime
    name: str
    moment: Moment | None = None
    """The event that began it."""


@dataclass(frozen=True)
class Instant:
    """Something that happened at one time."""

    row: str
    at: datetime
    name: str
    moment: Moment


def lived_until(run: Run, until: datetime, beats: Mapping[str, datetime], *, alive: bool) -> datetime:
    """Until when a run is known to have lived: `until` if it is alive, else its last event or heartbeat.

    beats: by run.
    """
    return until if alive else max(run.last_event, beats.get(run.run, run.last_event))


def activity(
    moments: Sequence[Moment],
    copies: Sequence[Copying],
    lives: Mapping[str, datetime],
    until: datetime,
    frozen: str | None = None,
) -> list[Span]:
    """The phases, with catching up still a part of streaming.

    lives: until when each run is known to have lived. A run that ended without a word did nothing after that.
    frozen: the run whose process does not respond.
    """
    spans: list[Span] = []
    runs = [one for one in moments if one.event == "run.started"]
    for n, start in enumerate(runs):
        following = runs[n + 1].ts if n + 1 < len(runs) else until
        end = run_end(start, moments, lives, following)
        own = [one for one in moments if start.ts <= one.ts <= end]
        connection = next((one for one in own if one.event == "run.connected" and one.run == start.run), None)
        spans.append(Span("Phase", start.ts, connection.ts if connection else end, "starting", start))
        if connection is not None:
            for begin, stop in _working(own, connection, end):
                spans += _copied(begin, stop, [one for one in copies if one.run == start.run], connection)
        if end < following:
            last = next((one for one in reversed(own) if one.event == "run.ended"), None)
            spans.append(Span("Phase", end, following, FROZEN if start.run == frozen else NO_RUNNER, last))
    return [span for span in spans if span.begin < span.end]


def run_end(start: Moment, moments: Sequence[Moment], lives: Mapping[str, datetime], following: datetime) -> datetime:
    """When a run ended: as it reported, or else when it was last alive.

    following: when the next run started, or now.
    """
    ended = next((one.ts for one in moments if one.event == "run.ended" and one.run == start.run), None)
    if ended is None:
        ended = lives.get(start.run, following)
    return min(ended, following)


def _working(own: Sequence[Moment], connection: Moment, end: datetime) -> list[tuple[datetime, datetime]]:
    """The times in which a connected run was neither paused nor without its source."""
    periods, begin, idle = [], connection.ts, set[str]()
    for one in own:
        before = bool(idle)
        at = _told(one.since) or one.ts if one.event == "source.away" else one.ts
        if one.event == "source.away":
            idle.add("away")
        elif one.event == "source.back":
            idle.discard("away")
        elif one.event == "run.state":
            (idle.add if one.label == "paused" else idle.discard)("paused")
        at = max(at, connection.ts)
        if idle and not before:
            periods.append((begin, max(at, begin)))
        elif before and not idle:
            begin = at
    return periods if idle else [*periods, (begin, end)]


def _copied(begin: datetime, end: datetime, copies: Sequence[Copying], moment: Moment) -> list[Span]:
    """An interval of work, cut where tables began or ended to be copied."""
    cuts = [one for one in copies if begin < one.ts < end]
    copied = next((one.copies for one in reversed(copies) if one.ts <= begin), False)
    spans = []
    for at, next_copied in [*((one.ts, one.copies) for one in cuts), (end, False)]:
        spans.append(Span("Phase", begin, at, "copying" if copied else STREAMING, moment))
        begin, copied = at, next_copied
    return spans


def phases(spans: Sequence[Span], caught_up: Sequence[CaughtUp]) -> list[Span]:
    """The phases, with catching up cut off from streaming. caught_up: for the begin of each streaming span."""
    times = {one.start: one.reached for one in caught_up}
    phase_spans: list[Span] = []
    for span in spans:
        if span.name != STREAMING:
            phase_spans.append(span)
            continue
        at = times.get(span.begin)
        boundary = span.end if at is None or at > span.end else at
        phase_spans += [replace(span, end=boundary, name="catching up"), replace(span, begin=boundary)]
    return [span for span in phase_spans if span.begin < span.end]


def interruptions(moments: Sequence[Moment], lives: Mapping[str, datetime], until: datetime) -> list[Span]:
    """Pauses and outages. They end with the run."""
    spans: list[Span] = []
    began: dict[str, tuple[datetime, Moment]] = {}
    for one in moments:
        over = {"source.back": ("Outages",), "run.started": ("Pauses", "Outages"), "run.ended": ("Pauses", "Outages")}
        rows = over.get(one.event, ())
        if one.event == "run.state" and one.label != "paused":
            rows = ("Pauses",)
        for row in rows:
            spans += _ended(row, began.pop(row, None), one.ts, lives)
        if one.event == "source.away":
            began.setdefault("Outages", (_told(one.since) or one.ts, one))
        elif one.event == "run.state" and one.label == "paused":
            began.setdefault("Pauses", (one.ts, one))
    for row, begin in began.items():
        spans += _ended(row, begin, until, lives)
    return sorted(spans, key=lambda span: span.begin)


def _ended(
    row: str, begin_event: tuple[datetime, Moment] | None, at: datetime, lives: Mapping[str, datetime]
) -> list[Span]:
    if begin_event is None:
        return []
    begin, moment = begin_event
    name = f"paused: {moment.text}" if row == "Pauses" and moment.text else "paused"
    text = moment.text or ""
    if row == "Pauses" and (fault := next(filter(text.startswith, WRITE_REASONS), "")):
        name = f"{fault}: {text.removeprefix(fault).strip(' :()')}"
    if row == "Outages":
        name = f"source unavailable: {moment.text or ''}".rstrip(": ")
    end = min(at, max(lives.get(moment.run, at), moment.ts))
    return [Span(row, begin, end, name, moment)] if begin < end else []


def lasting(moments: Sequence[Moment], lives: Mapping[str, datetime], until: datetime) -> list[Span]:
    """Redumps and alerts, from their first event to the one that ends them, or until a runner was last alive."""
    spans: list[Span] = []
    began: dict[str, Moment] = {}
    for one in moments:
        if one.event in ("command.accepted", "alert.raised"):
            began.setdefault(one.id, one)
        elif one.event in ("command.done", "command.refused", "alert.cleared") and one.id in began:
            spans.append(_lasted(began.pop(one.id), one.ts))
    last = min(max(lives.values(), default=until), until)
    spans += [_lasted(one, until if one.label in _WITHOUT_RUNNER else max(last, one.ts)) for one in began.values()]
    return sorted(spans, key=lambda span: span.begin)


def _lasted(one: Moment, end: datetime) -> Span:
    if one.event == "alert.raised":
        return Span(
            "Alerts", _told(one.since) or one.ts, end, f"{alert_title(one.label)}: {one.text or ''}".rstrip(": "), one
        )
    return Span("Redumps", one.ts, end, f"redump: {one.text}" if one.text else "redump", one)


def instants(moments: Sequence[Moment]) -> list[Instant]:
    """Starts of runs after the first one, schema changes, failovers, stopped tables and parked chunks."""
    marks, ran = [], False
    for one in moments:
        if one.event in ("run.started", "run.ended"):
            earlier, ran = ran, True
            if one.event == "run.ended" or not earlier:
                continue
        place = {
            "run.started": ("Restarts", "run started"),
            "source.event": ("Schema changes", f"{one.table or ''} {one.label}: {one.text or ''}".strip(": ")),
            "source.failover": ("Outages", "failover to another server"),
            "table.state": ("Alerts", f"{one.table} stopped"),
            "chunk.parked": ("Alerts", f"chunk of {one.table} parked"),
        }.get(one.event)
        if place is not None:
            marks.append(Instant(place[0], one.ts, place[1], one))
    return marks


def run_bounds(moments: Sequence[Moment]) -> list[Instant]:
    """The first start and the ends of runs.

    They are listed, but not drawn: the bars of the phases begin and end there.
    """
    starts = [one for one in moments if one.event in ("run.started", "run.ended")][:1]
    bounds = [Instant("Phase", one.ts, "run started", one) for one in starts if one.event == "run.started"]
    return bounds + [
        Instant("Phase", one.ts, f"run ended: {one.label}", one) for one in moments if one.event == "run.ended"
    ]


def within(spans: Sequence[Span], since: datetime, until: datetime) -> list[Span]:
    """The parts of the spans inside the time shown."""
    parts = [replace(span, begin=max(span.begin, since), end=min(span.end, until)) for span in spans]
    return [span for span in parts if span.begin < span.end]


def lines(spans: Sequence[Span], marks: Sequence[Instant]) -> list[tuple[datetime, str, str, Moment]]:
    """The events behind the timeline, newest first: (time, row, words, event).

    Phases are none: the events around them are.
    """
    events = [(one.at, one.row, one.name, one.moment) for one in marks]
    events += [
        (
            span.begin,
            span.row,
            f"{span.name}, for {words.duration((span.end - span.begin).total_seconds())}",
            span.moment,
        )
        for span in spans
        if span.moment is not None and span.row != "Phase"
    ]
    return sorted(events, key=lambda line: (line[0], line[3].seq), reverse=True)


def nearest(moments: Sequence[tuple[datetime, Moment]], at: datetime) -> Moment | None:
    """The event closest to an instant; None if there is none."""
    return min(moments, key=lambda one: abs(one[0] - at), default=(at, None))[1]


def name_of(moment: Moment) -> str:
    """The name of an event in an address: its run and its number there."""
    return f"{moment.run}:{moment.seq}"


def _told(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
