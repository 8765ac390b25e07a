"""A run in a terminal: live progress on a screen, plain lines elsewhere. Fed by the journal's events."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from engine.base import clock
from engine.base.wording import plural, sentences
from engine.journal import Entry
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.journal.alert_kinds import alert_title
from engine.journal.connection_events import ConnectionsLimited
from engine.journal.destination_events import SinkApplied
from engine.journal.events import (
    ChunkFailed,
    ChunkFinished,
    ChunkParked,
    ChunkPlanned,
    ChunkUnparked,
    CommandRefused,
    DiskFreed,
    EpochCommitted,
    ErrorReported,
    Event,
    FailedOver,
    HelperRecovered,
    LagMeasured,
    RunConnected,
    RunEnded,
    RunStarted,
    RunState,
    SourceAway,
    SourceBack,
    TablePlanned,
    TableStateChanged,
)
from engine.journal.sentences import describe
from engine.journal.store_events import StoreAway, StoreBack


def _connected(e: RunConnected) -> str:
    source, spark = e.source, e.spark
    return f"source {source.server} (watermarks: {source.watermark_class}); Spark {spark.version} on {spark.master}"


def _planned(e: TablePlanned) -> str:
    about = "" if e.chunks else "about "
    chunks = len(e.chunks) or e.estimated_chunks
    return f"{e.table}: {about}{plural(chunks, 'chunk')}, {e.reason}" if chunks else f"{e.table}: {e.reason}"


def _state(e: TableStateChanged) -> str:
    return f"{e.table}: {e.state}" + (f": {e.reason}" if e.reason else "")


def _chunk(e: ChunkFinished) -> str:
    seconds = sum(e.timings.values())
    return f"{e.table} chunk {e.chunk}: {plural(e.rows, 'row')} in {seconds:.1f} s, backfill {e.backfill.changes:,}"


def _epoch(e: EpochCommitted) -> str | None:
    if not e.changes and not e.chunks:
        return None
    return f"epoch {e.epoch}: {plural(e.changes, 'change')}, {plural(e.chunks, 'chunk')}, at {e.to_position}"


def _applied(e: SinkApplied) -> str | None:
    return f"{e.table}: merged {plural(e.rows, 'key')} in {e.duration_s:.1f} s" if e.kind == "merge" else None


def _alert(e: AlertRaised) -> str | None:
    """The alert; None for that of a failed run, whose error is printed at the end."""
    return None if e.kind == "run_failed" else sentences(f"alert: {e.message}", e.hint)


def _sentence(e: Event) -> str:
    return describe(e)


def _of_table(e: ChunkFailed | ChunkParked | ChunkUnparked) -> str:
    """The sentence of an event after the table's name."""
    text = _sentence(e)
    return f"{e.table}: {text[0].lower()}{text[1:]}"


_LINES: dict[type[Event], Callable[[Any], str | None]] = {
    RunConnected: _connected,
    RunEnded: lambda e: f"run ended: {e.outcome}",
    TablePlanned: _planned,
    TableStateChanged: _state,
    ChunkFinished: _chunk,
    EpochCommitted: _epoch,
    SinkApplied: _applied,
    AlertRaised: _alert,
    AlertCleared: lambda e: f"alert cleared: {e.message} ({alert_title(e.kind)})",
    **dict.fromkeys((ChunkFailed, ChunkParked, ChunkUnparked), _of_table),
    **dict.fromkeys(
        (
            RunState,
            ErrorReported,
            SourceAway,
            SourceBack,
            StoreAway,
            StoreBack,
            ConnectionsLimited,
            FailedOver,
            DiskFreed,
            HelperRecovered,
            CommandRefused,
        ),
        _sentence,
    ),
    **dict.fromkeys((DiskFreed, HelperRecovered, CommandRefused), _sentence),
}


def line(entry: Entry) -> str | None:
    """One line of the journal as text; None for events that are not worth one."""
    event = entry.event
    if isinstance(event, RunStarted):
        return f"run {entry.run} of {event.pipeline} started (until {event.until or 'it is stopped'})"
    text_of = _LINES.get(type(event))
    return text_of(event) if text_of else None


class Lines:
    """Plain lines for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def hear(self, entry: Entry) -> None:
        """Print an event if it is worth a line."""
        text = line(entry)
        if text is not None:
            self._print(entry.ts, text)

    def say(self, text: str) -> None:
        """Print a line that is in no journal."""
        self._print(clock.utc_text(), text)

    def _print(self, ts: str, text: str) -> None:
        self._console.print(f"{ts[:19]}Z {text}", markup=False, soft_wrap=True)


@dataclass
class _Bar:
    """A table's progress."""

    task: TaskID
    chunk_numbers: set[int]
    """The numbers of the chunks split off so far."""
    estimated: int | None
    whole: bool
    """Whether no more chunks follow, except for chunks that are split again."""
    rows: int = 0

    @property
    def total(self) -> int | None:
        """The expected number of chunks.

        More than known until the last is split off, so that the bar does not fill too early.
        """
        if self.whole:
            return len(self.chunk_numbers)
        return None if self.estimated is None else max(self.estimated, len(self.chunk_numbers) + 1)


class Screen:
    """A progress bar per table and a line for the binlog, for a person at a terminal."""

    _QUIET = (ChunkFinished, EpochCommitted, SinkApplied, TablePlanned)

    def __init__(self, console: Console, name: str) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._progress = Progress(SpinnerColumn(), *columns, console=console)
        self._console = self._progress.console
        self._bars: dict[str, _Bar] = {}
        self._log = self._progress.add_task(f"{escape(name)}: log", total=None, note="starting")
        self._changes = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Show a line that is in no journal."""
        self._console.print(text, markup=False)

    def hear(self, entry: Entry) -> None:
        """Show an event."""
        event = entry.event
        match event:
            case TablePlanned():
                self._planned(event)
            case ChunkPlanned() if bar := self._bars.get(event.table):
                self._split(bar, event)
            case ChunkFinished() if bar := self._bars.get(event.table):
                self._finished(bar, event)
            case TableStateChanged(state="removed") if event.table in self._bars:
                self._progress.remove_task(self._bars.pop(event.table).task)
            case EpochCommitted():
                self._changes += event.changes
            case LagMeasured():
                lag = "unknown" if event.lag_s is None else f"{event.lag_s:.1f} s"
                self._progress.update(self._log, note=f"{event.position}  lag {lag}  {plural(self._changes, 'change')}")
        text = None if isinstance(event, self._QUIET) else line(entry)
        if text is not None:
            self._console.print(text, markup=False)

    def _planned(self, event: TablePlanned) -> None:
        numbers = set(range(len(event.chunks)))
        task = self._progress.add_task(escape(event.table), total=None, note="")
        bar = _Bar(task, numbers, event.estimated_chunks, whole=bool(numbers))
        self._bars[event.table] = bar
        self._progress.update(task, total=bar.total)

    def _split(self, bar: _Bar, event: ChunkPlanned) -> None:
        bar.chunk_numbers |= {number for number, _, _ in event.chunks}
        bar.whole = bar.whole or event.complete
        self._progress.update(bar.task, total=bar.total)

    def _finished(self, bar: _Bar, event: ChunkFinished) -> None:
        bar.rows += event.rows
        self._progress.update(bar.task, advance=1, note=plural(bar.rows, "row"))
