"""The event feed: events that belong together become one line with a duration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from app.common.view import words
from app.common.view.health import EXIT_CODES
from app.common.view.hints import for_console
from app.common.view.status_style import who_acts
from engine.base.wording import sentences
from engine.history.event_queries import JournalLine
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.journal.alert_kinds import remedy
from engine.journal.connection_events import ReadsBlocked, ReadsRefused
from engine.journal.destination_events import SinkApplied, TableMaintained
from engine.journal.events import (
    ChunkAssigned,
    ChunkFailed,
    ChunkFinished,
    ChunkParked,
    ChunkPlanned,
    ChunkRedumped,
    CommandAccepted,
    CommandDone,
    CommandRefused,
    DiskFreed,
    ErrorReported,
    Event,
    HelperRecovered,
    RunEnded,
    SourceAway,
    TableChanged,
    TableStateChanged,
)
from engine.journal.sentences import describe, failure, named_chunks, numbers_of
from engine.journal.store_events import StoreAway
from engine.journal.verification_events import (
    ChangeLogsAudited,
    FormatBehind,
    HiddenChanges,
    MirrorBehind,
    MirrorWritten,
    TableVerified,
)

KINDS: dict[str, tuple[str, ...]] = {
    "Run": (
        "run.started",
        "run.preflight",
        "run.connected",
        "run.state",
        "run.controls",
        "run.ended",
        "watch.restarted",
        "watch.stays_down",
    ),
    "Alerts": ("alert.raised", "alert.cleared"),
    "Errors": (
        "error",
        "chunk.failed",
        "chunk.parked",
        "chunk.unparked",
        "disk.freed",
        "store.away",
        "store.back",
        "helper.recovered",
    ),
    "Commands": ("command.accepted", "command.refused", "command.done"),
    "Tables": (
        "table.planned",
        "table.resumed",
        "table.state",
        "table.nulled",
        "mirror.written",
        "mirror.behind",
        "format.behind",
        "format.written",
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
        "source.refused",
        "source.failover",
        "source.connections",
        "source.away",
        "source.back",
    ),
}
USUAL = ("Run", "Alerts", "Errors", "Commands", "Tables", "Source")
_CommandEvent = CommandAccepted | CommandRefused | CommandDone
_Failure = ErrorReported | ChunkFailed | ChunkParked
_TimedEvent = ChangeLogsAudited | DiskFreed | HelperRecovered | SinkApplied | TableMaintained
E = TypeVar("E", bound=Event)
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
    def search_text(self) -> str:
        """The text that a search looks at: its kind, who acts, its table and its text."""
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


def feed_lines(lines: Sequence[JournalLine]) -> list[FeedLine]:
    """Newest first.

    One line per command, per group of chunks, per table that a run splits, and per table of a redump.
    """
    return [line for line, _ in _lines_of(lines)]


def enders(line: JournalLine) -> list[str]:
    """The names of the events that may end what this one is about; none if nothing does."""
    firsts = {subject[0] for subject in _subjects(line)}
    return [name for name, ended in _ENDS.items() if not firsts.isdisjoint(ended)]


def command_of(line: JournalLine) -> str | None:
    """The id of the command that an event is about."""
    return (line.content.id or None) if isinstance(line.content, _CommandEvent) else None


def line_of(one: JournalLine, others: Sequence[JournalLine]) -> FeedLine:
    """The line of one event as it is now.

    others: later events that may end what it is about, or those of the same command.
    """
    own = (one.run, one.seq)
    others = [other for other in others if (other.run, other.seq) != own]
    return next(line for line, events in _lines_of([one, *others]) if own in events)


def search(newest: Sequence[JournalLine], matching: Sequence[JournalLine], text: str) -> list[FeedLine]:
    """The lines that show `text`, or that have an event whose data contain it, newest first.

    newest: the newest events, whose lines are searched. matching: older events whose data contain the text. No text
    finds all.
    """
    needle = text.casefold()
    newest_ids = {(line.run, line.seq) for line in newest}
    hits = {(line.run, line.seq) for line in matching}
    hits |= {(line.run, line.seq) for line in newest if needle in line.body.casefold()}
    every = [*newest, *(line for line in matching if (line.run, line.seq) not in newest_ids)]
    return [line for line, own in _lines_of(every) if needle in line.search_text.casefold() or not hits.isdisjoint(own)]


def _lines_of(journal: Sequence[JournalLine]) -> list[tuple[FeedLine, list[tuple[str, int]]]]:
    """The lines, newest first, each with the runs and numbers of its events."""
    lines: list[tuple[FeedLine, list[tuple[str, int]]]] = []
    groups: dict[tuple[str, str], list[JournalLine]] = {}
    waiting: dict[tuple[str, ...], list[int]] = {}
    for one in sorted(journal, key=lambda one: (one.ts, one.seq)):
        for ended in _ends(one):
            for number in waiting.pop(ended, ()):
                line, own = lines[number]
                over = " – cleared" if isinstance(one.content, AlertCleared) else ""
                lines[number] = replace(line, tone="gray", advice="", text=f"{line.text}{over}"), own
        key = _group_key(one)
        if key is None:
            line = _single(one)
            for subject in _subjects(one) if line.tone != "gray" else ():
                waiting.setdefault(subject, []).append(len(lines))
            lines.append((line, [(one.run, one.seq)]))
        else:
            groups.setdefault(key, []).append(one)
    lines += [(_GROUPS[kind](group), [(one.run, one.seq) for one in group]) for (kind, _), group in groups.items()]
    return sorted(lines, key=lambda pair: (pair[0].ts, pair[0].seq), reverse=True)


def _subjects(line: JournalLine) -> list[tuple[str, ...]]:
    """What an event is about, if a later event can end it so that nobody must act any more; else empty.

    The end of one of them is enough.
    """
    table = line.table or ""
    subjects: list[tuple[str, ...]] = []
    match line.content:
        case AlertRaised(kind=kind) if line.event == AlertRaised.NAME:
            subjects = [("alert", kind, table)]
        case SourceAway():
            subjects = [("source",)]
        case StoreAway():
            subjects = [("store",)]
        case ErrorReported():
            subjects = [("table", table), ("run",)] if table else [("run",)]
        case TableStateChanged() if table:
            subjects = [("table", table)]
        case TableVerified():
            subjects = [("verified", table)]
        case RunEnded():
            subjects = [("run",)]
    return subjects


_ENDS = {
    "alert.cleared": ("alert",),
    "source.back": ("source",),
    "store.back": ("store",),
    "run.started": ("source", "store", "run"),
    "run.ended": ("source", "store"),
    "table.state": ("table", "verified"),
    "table.verified": ("verified",),
}
"""By event: the first words of the subjects that it ends (`_subjects`)."""


def _ends(line: JournalLine) -> list[tuple[str, ...]]:
    """The subjects that an event ends (`_subjects`)."""
    table, event = line.table or "", line.content
    kind = event.kind if isinstance(event, AlertRaised) else ""
    of = {"alert": (kind, table), "table": (table,), "verified": (table,)}
    over = [(first, *of.get(first, ())) for first in _ENDS.get(line.event, ())]
    # Only a removed table needs no verification any more.
    return over[:1] if isinstance(event, TableStateChanged) and event.state != "removed" else over


def _group_key(line: JournalLine) -> tuple[str, str] | None:
    match line.content:
        case CommandAccepted(id=id_) | CommandRefused(id=id_) | CommandDone(id=id_) if id_:
            return "command", id_
        case ChunkAssigned(group=group) | ChunkFinished(group=group) if group:
            return "group", f"{line.run} {group}"
        case ChunkPlanned():
            return "split", f"{line.run} {line.table}"
        case ChunkRedumped(id=id_) if id_:
            return "redump", f"{line.run} {id_} {line.table}"
    return None


def _contents(group: Sequence[JournalLine], kind: type[E]) -> list[E]:
    """The events of a kind in a group."""
    return [line.content for line in group if isinstance(line.content, kind)]


def _command(group: Sequence[JournalLine]) -> FeedLine:
    first, command = group[0], group[0].content
    completion = next(iter(_contents(group, CommandDone)), None)
    refusal = next(iter(_contents(group, CommandRefused)), None)
    who = why = what = ""
    if isinstance(command, CommandAccepted | CommandRefused):
        who = f" by {command.actor}" if command.actor else ""
        why = f": {command.reason}" if command.reason else ""
    if isinstance(command, CommandAccepted):
        what = f" {command.what}" if command.what else ""
    outcome = "refused" if refusal else "done" if completion else "accepted"
    message = f" ({refusal.message})" if refusal else ""
    verb = ((command.verb if isinstance(command, _CommandEvent) else None) or "command").replace("-", " ").capitalize()
    text = f"{verb}{what}{who}{why} – {outcome}{message}"
    seconds = completion.duration_s if completion else None
    return FeedLine(first.ts, "Commands", "", text, seconds, "gray", first.run, first.seq)


def _chunk_line(group: Sequence[JournalLine], text: str, *, timed: bool) -> FeedLine:
    """The line of a group of events of chunks. timed: whether its time is the duration of something."""
    first = group[0]
    seconds = (group[-1].ts - first.ts).total_seconds() if timed and len(group) > 1 else None
    return FeedLine(first.ts, "Chunks", first.table or "", text, seconds, "gray", first.run, first.seq)


def _chunks(group: Sequence[JournalLine]) -> FeedLine:
    finished_events = _contents(group, ChunkFinished)
    chunk_events = [line.content for line in group if isinstance(line.content, ChunkAssigned | ChunkFinished)]
    numbers = sorted({n for event in chunk_events for n in numbers_of(event)})
    rows = sum(event.rows or 0 for event in finished_events)
    text = f"{named_chunks(numbers)} "
    text += f"read: {words.count(rows)} rows" if finished_events else "given to a reader"
    missing = len(numbers) - len(finished_events)
    if finished_events and missing:
        text += f", {words.plural(missing, 'chunk')} to go"
    return _chunk_line(group, text, timed=bool(finished_events))


def _split(group: Sequence[JournalLine]) -> FeedLine:
    plan_events = _contents(group, ChunkPlanned)
    all_numbers = [
        chunk[0] for event in plan_events for chunk in event.chunks or () if chunk and isinstance(chunk[0], int)
    ]
    numbers = sorted(set(all_numbers))
    text = f"Planned {named_chunks(numbers).lower()}" if numbers else "Planned no chunk"
    if splits := len(all_numbers) - len(numbers):
        text += f"; split {words.plural(splits, 'chunk')} larger than planned"
    text += "; all chunks are planned" if any(event.complete for event in plan_events) else ""
    return _chunk_line(group, text, timed=True)


def _redump(group: Sequence[JournalLine]) -> FeedLine:
    parts = _contents(group, ChunkRedumped)
    rows, ghosts = sum(part.rows or 0 for part in parts), sum(part.ghosts or 0 for part in parts)
    text = f"{words.plural(len(group), 'part')}: {words.count(rows)} rows, {words.plural(ghosts, 'ghost')}"
    return _chunk_line(group, f"Redumped {text}", timed=True)


_GROUPS = {"command": _command, "group": _chunks, "split": _split, "redump": _redump}


def _single(line: JournalLine) -> FeedLine:
    kind, event = _KIND_OF.get(line.event, "Run"), line.content
    text, tone = (line.event, "gray") if event is None else _sentence(event, line.run)
    if line.resolved and isinstance(event, _Failure):
        since = "retried since" if isinstance(event, ErrorReported) else "read since, or planned again"
        text, tone = f"{failure(event)} – {since}", "gray"
    seconds = event.duration_s if isinstance(event, _TimedEvent) else None
    advice = for_console(_hint(line)) if tone == "red" else ""
    about = "" if event is None else _about(event)
    return FeedLine(line.ts, kind, line.table or "", text, seconds, tone, line.run, line.seq, advice, about)


def _about(event: Event) -> str:
    """The class of the error, the kind of the alert or the cause of the outage; empty if there is none."""
    match event:
        case (
            AlertRaised(kind=name)
            | SourceAway(cause=name)
            | StoreAway(cause=name)
            | HiddenChanges(kind=name)
            | TableChanged(kind=name)
        ):
            return name or ""
        case ErrorReported(error=name) | ChunkFailed(error=name) | ChunkParked(error=name):
            return name or ""
        case ReadsRefused():
            return "privileges"
        case RunEnded() if error := event.error:
            return error.error
    return ""


def _hint(line: JournalLine) -> str:
    match line.content:
        case MirrorWritten():
            return remedy("mirror_written", line.table)
        case MirrorBehind():
            return remedy("mirror_behind", line.table)
        case ErrorReported(hint=hint) | ChunkParked(hint=hint) | TableStateChanged(hint=hint):
            return hint or ""
        case AlertRaised(hint=hint) | HiddenChanges(hint=hint) | ReadsBlocked(hint=hint) | SourceAway(hint=hint):
            return hint or ""
        case StoreAway(hint=hint) | ReadsRefused(hint=hint) | FormatBehind(hint=hint):
            return hint or ""
    return ""


def _sentence(event: Event, run: str) -> tuple[str, str]:
    """An event in words, and the tone. run: whose event it is."""
    sentence = describe(event, run), _tone(event)
    match event:
        case ErrorReported() | ChunkFailed():
            sentence = _failure(event)
        case AlertRaised() if event.NAME == AlertRaised.NAME:
            repeats = f" (repeated {words.plural(event.repeat, 'time')})" if event.repeat else ""
            sentence = f"Alert: {event.message}{repeats}", "red"
        case ChunkParked():
            sentence = failure(event), "red"
        case MirrorWritten(commits=bad) | MirrorBehind(since=bad) if bad:
            sentence = f"{describe(event)}.", "red"
        case RunEnded():
            sentence = _run_ended(event)
    return sentence


def _run_ended(event: RunEnded) -> tuple[str, str]:
    """How a run ended, and the error if there was one.

    A run that was stopped did not fail, whatever tables had stopped.
    """
    code, error = event.exit_code or 0, event.error
    why = f": {error.message}" if error else f", {EXIT_CODES.get(code)}" if code else ""
    return describe(event) + why, "red" if code and event.outcome != "stopped" else "gray"


def _tone(event: Event) -> str:
    match event:
        case TableStateChanged(state="stopped"):
            return "red"
        case TableVerified() if event.differences:
            return "red"
        case ReadsRefused() if event.since:
            return "red"
        case SourceAway() | StoreAway():
            return "red" if event.refused else "orange"
    return "gray"


def _failure(event: ErrorReported | ChunkFailed) -> tuple[str, str]:
    retry_in_s: float | None = event.retry_in_s
    if retry_in_s is not None:
        return describe(event), "orange"
    if isinstance(event, ChunkFailed):
        return failure(event), "red"
    # An error that is not retried and has an empty hint is over: nothing is left to do.
    return sentences(failure(event), event.detail), "gray" if event.hint == "" else "red"
