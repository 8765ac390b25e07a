"""The event feed: events that belong together become one line with a duration."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from app.common.view import words
from app.common.view.health import EXIT_CODES, error_of
from app.common.view.hints import for_console
from app.common.view.status_style import who_acts
from engine.base.wording import sentences
from engine.history.event_queries import Event
from engine.journal.alert_texts import remedy
from engine.journal.sentences import describe, failure, named_chunks, numbers_of

KINDS: dict[str, tuple[str, ...]] = {
    "Run": (
        "run.started",
        "run.connected",
        "run.state",
        "run.controls",
        "run.ended",
        "watch.restarted",
        "watch.stays_down",
    ),
    "Alerts": ("alert.raised", "alert.cleared"),
    "Errors": ("error", "chunk.failed", "chunk.parked", "chunk.unparked", "disk.freed", "helper.recovered"),
    "Commands": ("command.accepted", "command.refused", "command.done"),
    "Tables": (
        "table.planned",
        "table.resumed",
        "table.state",
        "table.nulled",
        "mirror.written",
        "mirror.behind",
        "changelog.kept",
    ),
    "Chunks": ("chunk.planned", "chunk.assigned", "chunk.finished", "redump.chunk"),
    "Epochs": ("epoch.committed", "sink.applied"),
    "Maintenance": ("sink.maintained",),
    "Verification": ("table.verified", "audit.done"),
    "Source": (
        "source.event",
        "source.hidden",
        "source.blocked",
        "source.failover",
        "source.connections",
        "source.away",
        "source.back",
    ),
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
    advice: str = ""
    """What an operator must do; empty if nobody must act."""
    about: str = ""
    """The class of the error, the cause of the outage or the kind of the alert (`status_style.who_acts`)."""

    @property
    def shown(self) -> str:
        """What the list shows of it, for a search: its kind, who acts, its table and its text."""
        return f"{self.kind} {self.who} {self.table} {self.text}"

    @property
    def who(self) -> str:
        """Who acts; empty if nobody must."""
        return who_acts(self.tone, self.about)

    @property
    def whole(self) -> str:
        """The text with the advice."""
        return sentences(self.text, self.advice)


def names(kinds: Iterable[str]) -> list[str]:
    """The journal events of these kinds."""
    return [event for kind in kinds for event in KINDS.get(kind, ())]


def feed_lines(events: Sequence[Event]) -> list[FeedLine]:
    """Newest first.

    One line per command, per group of chunks, per table that a run splits, and per table of a redump.
    """
    return [line for line, _ in _lines_of(events)]


def enders(event: Event) -> list[str]:
    """The names of the events that may end what this one is about; none if nothing does."""
    firsts = {matter[0] for matter in _matters(event.event, _body(event))}
    return [name for name, ended in _ENDS.items() if not firsts.isdisjoint(ended)]


def command_of(event: Event) -> str | None:
    """The id of the command that an event is about."""
    return str(_body(event).get("id") or "") or None if event.event in KINDS["Commands"] else None


def line_of(event: Event, others: Sequence[Event]) -> FeedLine:
    """The line of one event as it is now.

    others: later events that may end what it is about, or those of the same command.
    """
    own = (event.run, event.seq)
    others = [one for one in others if (one.run, one.seq) != own]
    return next(line for line, events in _lines_of([event, *others]) if own in events)


def search(newest: Sequence[Event], matching: Sequence[Event], text: str) -> list[FeedLine]:
    """The lines that show `text`, or that have an event whose data contain it, newest first.

    newest: the newest events, whose lines are searched. matching: older events whose data contain the text. No text
    finds all.
    """
    wanted = text.casefold()
    known = {(event.run, event.seq) for event in newest}
    hits = {(event.run, event.seq) for event in matching}
    hits |= {(event.run, event.seq) for event in newest if wanted in event.body.casefold()}
    every = [*newest, *(event for event in matching if (event.run, event.seq) not in known)]
    return [line for line, own in _lines_of(every) if wanted in line.shown.casefold() or not hits.isdisjoint(own)]


def _lines_of(events: Sequence[Event]) -> list[tuple[FeedLine, list[tuple[str, int]]]]:
    """The lines, newest first, each with the runs and numbers of its events."""
    lines: list[tuple[FeedLine, list[tuple[str, int]]]] = []
    groups: dict[tuple[str, str], list[tuple[Event, dict[str, Any]]]] = {}
    waiting: dict[tuple[str, ...], list[int]] = {}
    for event in sorted(events, key=lambda event: (event.ts, event.seq)):
        body = _body(event)
        for ended in _ends(event.event, body):
            for number in waiting.pop(ended, ()):
                line, own = lines[number]
                over = " – cleared" if event.event == "alert.cleared" else ""
                lines[number] = replace(line, tone="gray", advice="", text=f"{line.text}{over}"), own
        key = _group_key(event, body)
        if key is None:
            line = _single(event, body)
            for matter in _matters(event.event, body) if line.tone != "gray" else ():
                waiting.setdefault(matter, []).append(len(lines))
            lines.append((line, [(event.run, event.seq)]))
        else:
            groups.setdefault(key, []).append((event, body))
    lines += [(_GROUPS[kind](group), [(one.run, one.seq) for one, _ in group]) for (kind, _), group in groups.items()]
    return sorted(lines, key=lambda pair: (pair[0].ts, pair[0].seq), reverse=True)


def _matters(event: str, body: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What an event is about that another event ends, so that nobody must act any more; none if no event does.

    The end of one of them is enough.
    """
    table = str(body.get("table") or "")
    match event:
        case "alert.raised":
            found: list[tuple[str, ...]] = [("alert", str(body.get("kind")), table)]
        case "source.away":
            found = [("source",)]
        case "error":
            found = [("table", table), ("run",)] if table else [("run",)]
        case "table.state" if table:
            found = [("table", table)]
        case "table.verified":
            found = [("verified", table)]
        case "run.ended":
            found = [("run",)]
        case _:
            found = []
    return found


_ENDS = {
    "alert.cleared": ("alert",),
    "source.back": ("source",),
    "run.started": ("source", "run"),
    "run.ended": ("source",),
    "table.state": ("table", "verified"),
    "table.verified": ("verified",),
}
"""The first words of the matters that an event ends (`_matters`)."""


def _ends(event: str, body: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What an event ends (`_matters`)."""
    table = str(body.get("table") or "")
    of = {"alert": (str(body.get("kind")), table), "table": (table,), "verified": (table,)}
    over = [(first, *of.get(first, ())) for first in _ENDS.get(event, ())]
    # Only a removed table needs no verification any more.
    return over if event != "table.state" or body.get("state") == "removed" else over[:1]


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
        return "split", f"{event.run} {event.table}"
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
    what = f" {body['what']}" if body.get("what") else ""
    verb = str(body.get("verb") or "command").replace("-", " ").capitalize()
    text = f"{verb}{what}{who}{why} – {outcome}{message}"
    seconds = done.get("duration_s") if done else None
    return FeedLine(first.ts, "Commands", "", text, seconds, "gray", first.run, first.seq)


def _chunks(group: Sequence[tuple[Event, dict[str, Any]]]) -> FeedLine:
    first, body = group[0]
    finished = [fields for event, fields in group if event.event == "chunk.finished"]
    numbers = sorted({n for _, fields in group for n in numbers_of(fields)})
    rows = sum(fields.get("rows") or 0 for fields in finished)
    text = f"{named_chunks(numbers)} "
    text += f"read: {words.count(rows)} rows" if finished else "given to a reader"
    missing = len(numbers) - len(finished)
    if finished and missing:
        text += f", {words.plural(missing, 'chunk')} to go"
    seconds = (group[-1][0].ts - first.ts).total_seconds() if finished and len(group) > 1 else None
    return FeedLine(first.ts, "Chunks", str(body.get("table") or ""), text, seconds, "gray", first.run, first.seq)


def _split(group: Sequence[tuple[Event, dict[str, Any]]]) -> FeedLine:
    first, body = group[0]
    named = [number for _, fields in group for number in _split_numbers(fields)]
    numbers = sorted(set(named))
    text = f"Planned {named_chunks(numbers).lower()}" if numbers else "Planned no chunk"
    if splits := len(named) - len(numbers):
        text += f"; split {words.plural(splits, 'chunk')} larger than planned"
    text += "; all chunks are planned" if any(fields.get("complete") is True for _, fields in group) else ""
    seconds = (group[-1][0].ts - first.ts).total_seconds() if len(group) > 1 else None
    return FeedLine(first.ts, "Chunks", str(body.get("table") or ""), text, seconds, "gray", first.run, first.seq)


def _split_numbers(body: Mapping[str, Any]) -> list[int]:
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


_GROUPS = {"command": _command, "group": _chunks, "split": _split, "redump": _redump}


def _single(event: Event, body: Mapping[str, Any]) -> FeedLine:
    kind = _KIND_OF.get(event.event, "Run")
    text, tone = _sentence(event.event, body)
    if event.resolved:
        since = "retried since" if event.event == "error" else "read since, or planned again"
        text, tone = f"{failure(event.event, body)} – {since}", "gray"
    seconds = body.get("duration_s")
    alert = {"mirror.written": "mirror_written", "mirror.behind": "mirror_behind"}.get(event.event)
    hint = remedy(alert, event.table) if alert else str(body.get("hint") or "")
    advice = for_console(hint) if tone == "red" else ""
    return FeedLine(event.ts, kind, event.table or "", text, seconds, tone, event.run, event.seq, advice, _about(body))


def _about(body: Mapping[str, Any]) -> str:
    """The class of the error, the kind of the alert or the cause of the outage; empty if there is none."""
    error = body.get("error")
    name = error.get("error") if isinstance(error, dict) else error
    return str(body.get("kind") or body.get("cause") or name or "")


def _sentence(event: str, body: Mapping[str, Any]) -> tuple[str, str]:
    if event in ("error", "chunk.failed"):
        return _failure(event, body)
    if event == "alert.raised":
        repeats = f" (repeated {words.plural(body['repeat'], 'time')})" if body.get("repeat") else ""
        return f"Alert: {body.get('message')}{repeats}", "red"
    if event == "chunk.parked":
        return failure(event, body), "red"
    if (event == "mirror.written" and body.get("commits")) or (event == "mirror.behind" and body.get("since")):
        return f"{describe(event, body)}.", "red"
    if event == "run.ended":
        return _run_ended(event, body)
    return describe(event, body), _tone(event, body)


def _run_ended(event: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """How a run ended, and the error if there was one.

    A run that was stopped did not fail, whatever tables had stopped.
    """
    code, error = body.get("exit_code") or 0, error_of(body.get("error"))
    why = f": {error.message}" if error else f", {EXIT_CODES.get(code)}" if code else ""
    return describe(event, body) + why, "red" if code and body.get("outcome") != "stopped" else "gray"


def _tone(event: str, body: Mapping[str, Any]) -> str:
    stopped = event == "table.state" and body.get("state") == "stopped"
    if stopped or (event == "table.verified" and body.get("differences")):
        return "red"
    if event == "source.away":
        return "red" if body.get("refused") else "orange"
    return "gray"


def _failure(event: str, body: Mapping[str, Any]) -> tuple[str, str]:
    if body.get("retry_in_s") is not None:
        return describe(event, body), "orange"
    # An error that is not retried and has an empty hint is over: nothing is left to do.
    return sentences(failure(event, body), body.get("detail")), "gray" if body.get("hint") == "" else "red"
