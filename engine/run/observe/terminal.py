"""A run in a terminal: live progress on a screen, plain lines elsewhere. Fed by the journal's events."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from engine.sentences import describe

Event = dict[str, Any]


def _connected(e: Event) -> str:
    source, spark = e["source"], e["spark"]
    return f"source {source['server']} (watermarks: {source['watermark_class']}); Spark {spark['version']} on {spark['master']}"


def _planned(e: Event) -> str:
    about = "" if e["chunks"] else "about "
    chunks = len(e["chunks"]) or e["estimated_chunks"]
    return f"{e['table']}: {about}{chunks:,} chunks, {e['reason']}" if chunks else f"{e['table']}: {e['reason']}"


def _chunk(e: Event) -> str:
    seconds = sum(e["timings"].values())
    return (
        f"{e['table']} chunk {e['chunk']}: {e['rows']:,} rows in {seconds:.1f} s, backfill {e['backfill']['changes']:,}"
    )


def _epoch(e: Event) -> str | None:
    if not e["changes"] and not e["chunks"]:
        return None
    return f"epoch {e['epoch']}: {e['changes']:,} changes, {e['chunks']} chunks, at {e['to_position']}"


def _applied(e: Event) -> str | None:
    return f"{e['table']}: merged {e['rows']:,} keys in {e['duration_s']:.1f} s" if e["kind"] == "merge" else None


def _of_table(kind: str) -> Callable[[Event], str]:
    """The sentence of an event after the table's name."""

    def shown(event: Event) -> str:
        text = describe(kind, event)
        return f"{event['table']}: {text[0].lower()}{text[1:]}"

    return shown


_PLAIN = (
    "run.state",
    "error",
    "source.away",
    "source.back",
    "source.failover",
    "disk.freed",
    "helper.recovered",
    "command.refused",
)
_LINES: dict[str, Callable[[Event], str | None]] = {
    "run.started": lambda e: f"run {e['run']} of {e['pipeline']} started (until {e['until'] or 'it is stopped'})",
    "run.connected": _connected,
    "run.ended": lambda e: f"run ended: {e['outcome']}",
    "table.planned": _planned,
    "table.state": lambda e: f"{e['table']}: {e['state']}" + (f": {e['reason']}" if e["reason"] else ""),
    "chunk.finished": _chunk,
    "epoch.committed": _epoch,
    "sink.applied": _applied,
    **{kind: partial(describe, kind) for kind in _PLAIN},
    **{kind: _of_table(kind) for kind in ("chunk.failed", "chunk.parked", "chunk.unparked")},
}


def line(event: Event) -> str | None:
    """An event as a line of text; None if it is not worth one."""
    shown = _LINES.get(event["event"])
    return shown(event) if shown else None


class Lines:
    """Plain lines for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def hear(self, event: Event) -> None:
        """Print an event if it is worth a line."""
        text = line(event)
        if text is not None:
            self._console.print(f"{event['ts'][:19]}Z {text}", markup=False, soft_wrap=True)


@dataclass
class _Bar:
    """A table's progress."""

    task: TaskID
    known: set[int]
    """The numbers of the chunks split off so far."""
    estimated: int | None
    whole: bool
    """Whether no more chunks follow, except for chunks that are split again."""
    rows: int = 0

    @property
    def total(self) -> int | None:
        """The expected number of chunks; more than known until the last is split off, so that the bar does not fill too early."""
        if self.whole:
            return len(self.known)
        return None if self.estimated is None else max(self.estimated, len(self.known) + 1)


class Screen:
    """A progress bar per table and a line for the binlog, for a person at a terminal."""

    _QUIET = ("chunk.finished", "epoch.committed", "sink.applied", "table.planned")

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

    def hear(self, event: Event) -> None:
        """Show an event."""
        kind = event["event"]
        bar = self._bars.get(event.get("table", ""))
        if kind == "table.planned":
            self._planned(event)
        elif kind == "chunk.planned" and bar:
            self._cut(bar, event)
        elif kind == "chunk.finished" and bar:
            self._finished(bar, event)
        elif kind == "table.state" and event["state"] == "removed" and bar:
            self._progress.remove_task(self._bars.pop(event["table"]).task)
        elif kind == "epoch.committed":
            self._changes += event["changes"]
        elif kind == "source.lag":
            lag = "unknown" if event["lag_s"] is None else f"{event['lag_s']:.1f} s"
            self._progress.update(self._log, note=f"{event['position']}  lag {lag}  {self._changes:,} changes")
        text = None if kind in self._QUIET else line(event)
        if text is not None:
            self._console.print(text, markup=False)

    def _planned(self, event: Event) -> None:
        known = set(range(len(event["chunks"])))
        task = self._progress.add_task(escape(event["table"]), total=None, note="")
        bar = _Bar(task, known, event["estimated_chunks"], whole=bool(known))
        self._bars[event["table"]] = bar
        self._progress.update(task, total=bar.total)

    def _cut(self, bar: _Bar, event: Event) -> None:
        bar.known |= {number for number, _, _ in event["chunks"]}
        bar.whole = bar.whole or event["complete"]
        self._progress.update(bar.task, total=bar.total)

    def _finished(self, bar: _Bar, event: Event) -> None:
        bar.rows += event["rows"]
        self._progress.update(bar.task, advance=1, note=f"{bar.rows:,} rows")
