"""Computes the active alerts from the journal's events. Pure: the caller passes the time.

Timestamps in events are for people to read. Decisions use monotonic seconds, so that no clock change affects them.

    lag, lag_bytes, runway    raised after `for_s` beyond the threshold; cleared after as long within it
    table_stopped             at once; cleared when the table streams again, or is removed
    chunk_parked              at once, for the first chunk of a table; cleared when none of its chunks is parked
    source_away               after `for_s`, at most 30 s; cleared when the source is back, or a later run has connected
    disk_full                 at once; cleared when there is room, or once a later run is running
    helper_failed             at once, for the first helper thread that met an error (`run.helpers`); cleared when all helpers work
                              again, or once a later run is running
    run_failed                at once, and again when a later run fails with another exit code; cleared when a later run has run for
                              `for_s`, or ended well

An alert is raised once, repeated every `repeat_s` while active, and cleared by its name: kind and table. Alerts outlive a run
(`directory.alerts`). So yesterday's stopped table is not news today, and a service that keeps restarting a failing run raises one
alert.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine import clock
from engine.sentences import parked
from engine.settings import Alerts as Settings

Line = Mapping[str, Any]
Name = tuple[str, str | None]
"""An alert's kind and, if it concerns one, its table."""


@dataclass(frozen=True)
class Alert:
    """An active alert."""

    kind: str
    table: str | None
    value: float | None
    threshold: float | None
    message: str
    hint: str
    since: str
    announced: str
    """`since` is when its cause began, `announced` when it was last announced: UTC text."""
    repeat: int = 0
    """How often it was repeated."""

    @property
    def name(self) -> Name:
        """The name that clears it."""
        return self.kind, self.table

    def fields(self) -> dict[str, Any]:
        """Its fields for the journal and the webhook."""
        return {name: value for name, value in asdict(self).items() if name != "announced"}


_AWAY_S = 30.0

Notice = tuple[str, Alert]
"""`alert.raised` or `alert.cleared`, with the alert."""


class Alerts:
    """The active alerts; `hear` takes each line of the journal and returns the notices to announce."""

    def __init__(self, settings: Settings, standing: Iterable[Alert] = ()) -> None:
        """standing: alerts that an earlier run left active."""
        self._settings = settings
        self.standing: dict[Name, Alert] = {alert.name: alert for alert in standing}
        self._crossed: dict[Name, tuple[str, float]] = {}  # when each threshold changed sides
        self._running_since_s: float | None = None
        self._announced_s: dict[Name, float] = {}  # announced in this run
        self._now_s = 0.0
        self._helpers: set[str] = set()  # failing in this run
        self._disk_full = False

    def as_list(self) -> list[dict[str, Any]]:
        """The active alerts for the file, oldest first."""
        return [asdict(alert) for alert in sorted(self.standing.values(), key=lambda a: a.since)]

    def hear(self, line: Line, now_s: float | None = None) -> list[Notice]:
        """The notices to announce now. now_s: monotonic seconds; without them the line's timestamp counts."""
        self._now_s = clock.parse_utc(line["ts"]).timestamp() if now_s is None else now_s
        handler = _HANDLERS.get(line["event"])
        return list(handler(self, line)) if handler else []

    def _lag(self, line: Line) -> Iterator[Notice]:
        yield from (*self._measured(line), *self._clear_run_failed(line["ts"]), *self._repeat(line["ts"]))

    def _unparked(self, line: Line) -> Iterator[Notice]:
        if not line["parked"]:
            yield from self._clear(("chunk_parked", line["table"]), f"No chunk of {line['table']} is parked.", None)

    def _run_state(self, line: Line) -> Iterator[Notice]:
        running = line["state"] == "running"
        self._running_since_s = self._now_s if running else None
        if running:
            yield from (
                *self._clear_helper_failed("A later run is running."),
                *self._clear_disk_full("A later run is running."),
            )

    def _freed(self, line: Line) -> Iterator[Notice]:
        self._disk_full = False
        yield from self._clear_disk_full("There is room on the disk again.")

    def _recovered(self, line: Line) -> Iterator[Notice]:
        self._helpers.discard(line["helper"])
        yield from self._clear_helper_failed("All helper threads work again.")

    def _error(self, line: Line) -> Iterator[Notice]:
        """Handle a full disk or a failed helper; other errors have their own events."""
        if line["error"] not in ("DiskFullError", "HelperError"):
            return
        if line["error"] == "DiskFullError":
            self._disk_full, name = True, ("disk_full", None)
        else:
            self._helpers.add(line["helper"] or "")
            name = ("helper_failed", None)
        if name not in self.standing:
            message = f"{line['message']} {line['detail'] or ''}".strip()
            yield self._raise(Alert(*name, None, None, message, line["hint"] or "", line["ts"], line["ts"]))

    def _clear_helper_failed(self, message: str) -> Iterator[Notice]:
        if not self._helpers:
            yield from self._clear(("helper_failed", None), message, None)

    def _clear_disk_full(self, message: str) -> Iterator[Notice]:
        if not self._disk_full:
            yield from self._clear(("disk_full", None), message, None)

    def _measured(self, line: Line) -> Iterator[Notice]:
        at, limits = line["ts"], self._settings
        lag_s, size, runway_s = line["lag_s"], line["lag_bytes"], line["runway_s"]
        hint = "Find what slows it down (status, the console's readers); give it more slots or less to do. After a pause: resume."
        for kind, value, limit, form in (
            ("lag", lag_s, limits.lag_s, "{:,.0f} s"),
            ("lag_bytes", size, limits.lag_bytes, "{:,.0f} bytes of binlog"),
        ):
            if value is None:
                continue  # unknown: keep the current state
            over = limit is not None and value > limit
            more = f", more than {form.format(limit)}" if over else ""
            message = f"The pipeline is {form.format(value)} behind its source{more}."
            yield from self._level(kind, value, limit, at, over=over, text=(message, hint))
        held = "does not purge" if runway_s is None else f"purges in {runway_s / 3600:,.1f} h"
        message = f"The source {held} the binlog at the committed position."
        hint = (
            "Keep the binlog longer on the source (binlog_expire_logs_seconds, MariaDB: also max_binlog_total_size), or let the "
            "pipeline catch up; once it is purged only `redump --all` helps."
        )
        short = runway_s is not None and runway_s < limits.runway_s
        yield from self._level("runway", runway_s, limits.runway_s, at, over=short, text=(message, hint))

    def _level(
        self, kind: str, value: float | None, limit: float | None, at: str, *, over: bool, text: tuple[str, str]
    ) -> Iterator[Notice]:
        """Raise or clear a threshold alert once the value has stayed on the other side for `for_s`."""
        name = (kind, None)
        if over == (name in self.standing):
            self._crossed.pop(name, None)
            return
        since, since_s = self._crossed.setdefault(name, (at, self._now_s))
        if self._now_s - since_s < self._settings.for_s:
            return
        if over:
            yield self._raise(Alert(kind, None, value, limit, *text, since, at))
        else:
            yield from self._clear(name, text[0], value)

    def _table(self, line: Line) -> Iterator[Notice]:
        name = ("table_stopped", line["table"])
        if line["state"] == "streaming":
            yield from self._clear(name, f"{line['table']} is copied and streamed again.", None)
        elif line["state"] == "removed":
            yield from self._clear(name, f"{line['table']} was removed from the pipeline.", None)
        if line["state"] != "copying":
            yield from self._clear(("chunk_parked", line["table"]), f"{line['table']} is {line['state']}.", None)
        if line["state"] == "stopped" and name not in self.standing:
            hint = line.get("hint") or f"Resnapshot it: tidemark redump SPEC --table {line['table']}"
            message = f"{line['table']} stopped: {line['reason']}"
            yield self._raise(Alert(*name, None, None, message, hint, line["ts"], line["ts"]))

    def _parked(self, line: Line) -> Iterator[Notice]:
        name = ("chunk_parked", line["table"])
        if name not in self.standing:
            message = f"{parked(line, line['table'])} Everything else continues."
            hint = f"{line['hint']} Then: tidemark resume SPEC --table {line['table']}".strip()
            yield self._raise(Alert(*name, None, None, message, hint, line["ts"], line["ts"]))

    def _source(self, line: Line) -> Iterator[Notice]:
        """Handle an unreachable source and its return."""
        if line["event"] in ("source.back", "run.connected"):
            yield from self._clear(("source_away", None), "The source can be reached again.", None)
        elif line["event"] == "source.away":
            yield from self._away(line)
            yield from self._repeat(line["ts"])

    def _away(self, line: Line) -> Iterator[Notice]:
        name, seconds = ("source_away", None), _seconds(line["since"], line["ts"])
        if name in self.standing or seconds < min(self._settings.for_s, _AWAY_S):
            return
        until = f"gives up at {line['gives_up_at'][:16]}Z" if line["gives_up_at"] else "waits without end"
        message = f"The source is unreachable: {line['message']} The run waits for it, and {until}."
        hint = "Check the source and the network. Nothing is lost as long as the source keeps its binlog."
        yield self._raise(Alert(*name, round(seconds, 1), None, message, hint, line["since"], line["ts"]))

    def _ended(self, line: Line) -> Iterator[Notice]:
        name, error = ("run_failed", None), line["error"]
        if line["outcome"] != "failed":
            yield from self._clear(name, "A later run ended as it should.", None)
            return
        known, at = self.standing.get(name), line["ts"]
        if known is None or known.value != line["exit_code"]:  # a different exit code is news
            since, repeat = (known.since, known.repeat + 1) if known else (at, 0)
            message = f"The run failed: {error['message']}"
            yield self._raise(Alert(*name, line["exit_code"], None, message, error["hint"], since, at, repeat))
        else:
            yield from self._repeat(at, [name])

    def _clear_run_failed(self, at: str) -> Iterator[Notice]:
        if self._running_since_s is not None and self._now_s - self._running_since_s >= self._settings.for_s:
            yield from self._clear(("run_failed", None), "A later run is running.", None)

    def _repeat(self, at: str, names: Iterable[Name] | None = None) -> Iterator[Notice]:
        """Repeat active alerts after `repeat_s`. `run_failed` is not repeated while another run is starting."""
        chosen = [n for n in self.standing if n[0] != "run_failed"] if names is None else names
        for name in chosen:
            alert = self.standing[name]
            if name not in self._crossed and self._silent_s(alert, at) >= self._settings.repeat_s:
                yield self._raise(replace(alert, announced=at, repeat=alert.repeat + 1))

    def _silent_s(self, alert: Alert, at: str) -> float:
        """Seconds since the last announcement. An earlier run's is known by the wall clock only; a future one counts as now."""
        if alert.name not in self._announced_s:
            self._announced_s[alert.name] = self._now_s - max(_seconds(alert.announced, at), 0.0)
        return self._now_s - self._announced_s[alert.name]

    def _raise(self, alert: Alert) -> Notice:
        self.standing[alert.name], self._announced_s[alert.name] = alert, self._now_s
        self._crossed.pop(alert.name, None)
        return "alert.raised", alert

    def _clear(self, name: Name, message: str, value: float | None) -> Iterator[Notice]:
        self._crossed.pop(name, None)
        self._announced_s.pop(name, None)
        if (alert := self.standing.pop(name, None)) is not None:
            yield "alert.cleared", replace(alert, message=message, hint="", value=value)


_HANDLERS: dict[str, Callable[[Alerts, Line], Iterable[Notice]]] = {
    "source.lag": Alerts._lag,  # noqa: SLF001 - the table of the class above
    "table.state": Alerts._table,  # noqa: SLF001
    "chunk.parked": Alerts._parked,  # noqa: SLF001
    "chunk.unparked": Alerts._unparked,  # noqa: SLF001
    "error": Alerts._error,  # noqa: SLF001
    "disk.freed": Alerts._freed,  # noqa: SLF001
    "helper.recovered": Alerts._recovered,  # noqa: SLF001
    "run.state": Alerts._run_state,  # noqa: SLF001
    "run.connected": Alerts._source,  # noqa: SLF001
    "source.away": Alerts._source,  # noqa: SLF001
    "source.back": Alerts._source,  # noqa: SLF001
    "run.ended": Alerts._ended,  # noqa: SLF001
}


def _seconds(since: str, until: str) -> float:
    return (clock.parse_utc(until) - clock.parse_utc(since)).total_seconds()
