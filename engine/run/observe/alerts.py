"""Which alerts stand, as the journal's events come and go. Pure: it is given the times.

Those of the events are for people to read; what is decided is decided by seconds that no change of a clock moves.

    lag, lag_bytes, runway    a threshold was exceeded for `for_s`; cleared when it was kept for as long
    table_stopped             at once; cleared when the table streams again, or is removed
    chunk_parked              at once, for the first of a table; cleared when none of it is parked any more
    source_away               after `for_s`, at most 30 s; cleared when the source is back, or a later run has connected
    disk_full                 at once; cleared when there is room, or by the next run that runs
    helper_failed             at once, for the first thread beside the pipeline's own that met an error (`run.helpers`); cleared
                              when all of them work again, or by the next run that runs
    run_failed                at once, and again when a later run fails with another exit code; cleared when a later run has run for
                              `for_s`, or ended well

An alert is raised once, repeated every `repeat_s` while it stands, and cleared by the name that it was raised by: its kind and
table. Alerts outlive a run (`directory.alerts`): a table that stopped yesterday is not news today, and a runner that is started
again and again by a service, and fails each time, tells that once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine import clock
from engine.sentences import parked
from engine.settings import Alerts as Settings

Line = Mapping[str, Any]
Name = tuple[str, str | None]
"""An alert's kind, and its table where it is about one."""


@dataclass(frozen=True)
class Alert:
    """One alert."""

    kind: str
    table: str | None
    value: float | None
    threshold: float | None
    message: str
    hint: str
    since: str
    announced: str
    """`since` is when its cause began, `announced` when it was announced last: UTC text."""
    repeat: int = 0
    """How often it was announced again."""

    @property
    def name(self) -> Name:
        """By which it is cleared."""
        return self.kind, self.table

    def fields(self) -> dict[str, Any]:
        """For the journal, and for a webhook."""
        return {name: value for name, value in asdict(self).items() if name != "announced"}


_AWAY_S = 30.0

Notice = tuple[str, Alert]
"""alert.raised or alert.cleared, and the alert."""


class Alerts:
    """What stands; `hear` takes each line of the journal and gives back what is to be announced."""

    def __init__(self, settings: Settings, standing: Iterable[Alert] = ()) -> None:
        """standing: what an earlier run left."""
        self._settings = settings
        self.standing: dict[Name, Alert] = {alert.name: alert for alert in standing}
        self._turning: dict[Name, tuple[str, float]] = {}  # since when it is as it would not be with what stands
        self._running_since_s: float | None = None
        self._announced_s: dict[Name, float] = {}  # what was announced in this run
        self._now_s = 0.0
        self._helpers: set[str] = set()  # those that do not work in this run
        self._disk_full = False

    def as_list(self) -> list[dict[str, Any]]:
        """What stands, for the file; oldest first."""
        return [asdict(alert) for alert in sorted(self.standing.values(), key=lambda a: a.since)]

    def hear(self, line: Line, now_s: float | None = None) -> list[Notice]:
        """What is to be announced now. now_s: seconds that never run backwards; without them the line's time counts."""
        self._now_s = clock.parse_utc(line["ts"]).timestamp() if now_s is None else now_s
        heard = _HEARD.get(line["event"])
        return list(heard(self, line)) if heard else []

    def _lagged(self, line: Line) -> Iterator[Notice]:
        yield from (*self._measured(line), *self._ran(line["ts"]), *self._repeated(line["ts"]))

    def _unparked(self, line: Line) -> Iterator[Notice]:
        if not line["parked"]:
            yield from self._clear(("chunk_parked", line["table"]), f"No chunk of {line['table']} is parked.", None)

    def _moved(self, line: Line) -> Iterator[Notice]:
        running = line["state"] == "running"
        self._running_since_s = self._now_s if running else None
        if running:
            yield from (*self._helped("A later run is running."), *self._roomy("A later run is running."))

    def _freed(self, line: Line) -> Iterator[Notice]:
        self._disk_full = False
        yield from self._roomy("There is room on the disk again.")

    def _recovered(self, line: Line) -> Iterator[Notice]:
        self._helpers.discard(line["helper"])
        yield from self._helped("Everything beside the pipeline works again.")

    def _erred(self, line: Line) -> Iterator[Notice]:
        """A full disk, or a thread beside the pipeline's own; all other errors have events of their own."""
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

    def _helped(self, message: str) -> Iterator[Notice]:
        if not self._helpers:
            yield from self._clear(("helper_failed", None), message, None)

    def _roomy(self, message: str) -> Iterator[Notice]:
        if not self._disk_full:
            yield from self._clear(("disk_full", None), message, None)

    def _measured(self, line: Line) -> Iterator[Notice]:
        at, limits = line["ts"], self._settings
        lag_s, size, runway_s = line["lag_s"], line["lag_bytes"], line["runway_s"]
        hint = "Look at what holds it up (status, the console's readers); give it more slots or less to do. After a pause: resume."
        for kind, value, limit, text in (
            ("lag", lag_s, limits.lag_s, "{:,.0f} s"),
            ("lag_bytes", size, limits.lag_bytes, "{:,.0f} bytes of binlog"),
        ):
            if value is None:
                continue  # not known: no reason to think otherwise than before
            over = limit is not None and value > limit
            more = f", more than {text.format(limit)}" if over else ""
            said = f"The pipeline is {text.format(value)} behind its source{more}."
            yield from self._level(kind, value, limit, at, over=over, said=(said, hint))
        held = "does not purge" if runway_s is None else f"purges in {runway_s / 3600:,.1f} h"
        said = f"The source {held} the binlog at the committed position."
        hint = (
            "Keep the binlog longer on the source (binlog_expire_logs_seconds, MariaDB: also max_binlog_total_size), or let the "
            "pipeline catch up; once it is purged only `redump --all` helps."
        )
        short = runway_s is not None and runway_s < limits.runway_s
        yield from self._level("runway", runway_s, limits.runway_s, at, over=short, said=(said, hint))

    def _level(
        self, kind: str, value: float | None, limit: float | None, at: str, *, over: bool, said: tuple[str, str]
    ) -> Iterator[Notice]:
        """A threshold: what it says counts once it has said so for a while."""
        name = (kind, None)
        if over == (name in self.standing):
            self._turning.pop(name, None)
            return
        since, since_s = self._turning.setdefault(name, (at, self._now_s))
        if self._now_s - since_s < self._settings.for_s:
            return
        if over:
            yield self._raise(Alert(kind, None, value, limit, *said, since, at))
        else:
            yield from self._clear(name, said[0], value)

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
            message = f"{parked(line, line['table'])} The rest goes on without it."
            hint = f"{line['hint']} Then: tidemark resume SPEC --table {line['table']}".strip()
            yield self._raise(Alert(*name, None, None, message, hint, line["ts"], line["ts"]))

    def _source(self, line: Line) -> Iterator[Notice]:
        """Whether the source is there."""
        if line["event"] in ("source.back", "run.connected"):
            yield from self._clear(("source_away", None), "The source can be reached again.", None)
        elif line["event"] == "source.away":
            yield from self._away(line)
            yield from self._repeated(line["ts"])

    def _away(self, line: Line) -> Iterator[Notice]:
        name, seconds = ("source_away", None), _seconds(line["since"], line["ts"])
        if name in self.standing or seconds < min(self._settings.for_s, _AWAY_S):
            return
        until = f"gives up at {line['gives_up_at'][:16]}Z" if line["gives_up_at"] else "waits without end"
        message = f"The source is unreachable: {line['message']} The run waits for it, and {until}."
        hint = "Look at the source and at the way to it. Nothing is lost as long as its binlog is kept."
        yield self._raise(Alert(*name, round(seconds, 1), None, message, hint, line["since"], line["ts"]))

    def _ended(self, line: Line) -> Iterator[Notice]:
        name, error = ("run_failed", None), line["error"]
        if line["outcome"] != "failed":
            yield from self._clear(name, "A later run ended as it should.", None)
            return
        known, at = self.standing.get(name), line["ts"]
        if known is None or known.value != line["exit_code"]:  # failing in another way is news
            since, repeat = (known.since, known.repeat + 1) if known else (at, 0)
            message = f"The run failed: {error['message']}"
            yield self._raise(Alert(*name, line["exit_code"], None, message, error["hint"], since, at, repeat))
        else:
            yield from self._repeated(at, [name])

    def _ran(self, at: str) -> Iterator[Notice]:
        if self._running_since_s is not None and self._now_s - self._running_since_s >= self._settings.for_s:
            yield from self._clear(("run_failed", None), "A later run is running.", None)

    def _repeated(self, at: str, names: Iterable[Name] | None = None) -> Iterator[Notice]:
        """What stands and was not announced for long. A run that failed is not said to fail while another one is on its way."""
        chosen = [n for n in self.standing if n[0] != "run_failed"] if names is None else names
        for name in chosen:
            alert = self.standing[name]
            if name not in self._turning and self._silent_s(alert, at) >= self._settings.repeat_s:
                yield self._raise(replace(alert, announced=at, repeat=alert.repeat + 1))

    def _silent_s(self, alert: Alert, at: str) -> float:
        """Since it was announced. What an earlier run announced is known by the wall clock alone; its future counts as now."""
        if alert.name not in self._announced_s:
            self._announced_s[alert.name] = self._now_s - max(_seconds(alert.announced, at), 0.0)
        return self._now_s - self._announced_s[alert.name]

    def _raise(self, alert: Alert) -> Notice:
        self.standing[alert.name], self._announced_s[alert.name] = alert, self._now_s
        self._turning.pop(alert.name, None)
        return "alert.raised", alert

    def _clear(self, name: Name, message: str, value: float | None) -> Iterator[Notice]:
        self._turning.pop(name, None)
        self._announced_s.pop(name, None)
        if (alert := self.standing.pop(name, None)) is not None:
            yield "alert.cleared", replace(alert, message=message, hint="", value=value)


_HEARD: dict[str, Callable[[Alerts, Line], Iterable[Notice]]] = {
    "source.lag": Alerts._lagged,  # noqa: SLF001 - the table of the class above
    "table.state": Alerts._table,  # noqa: SLF001
    "chunk.parked": Alerts._parked,  # noqa: SLF001
    "chunk.unparked": Alerts._unparked,  # noqa: SLF001
    "error": Alerts._erred,  # noqa: SLF001
    "disk.freed": Alerts._freed,  # noqa: SLF001
    "helper.recovered": Alerts._recovered,  # noqa: SLF001
    "run.state": Alerts._moved,  # noqa: SLF001
    "run.connected": Alerts._source,  # noqa: SLF001
    "source.away": Alerts._source,  # noqa: SLF001
    "source.back": Alerts._source,  # noqa: SLF001
    "run.ended": Alerts._ended,  # noqa: SLF001
}


def _seconds(since: str, until: str) -> float:
    return (clock.parse_utc(until) - clock.parse_utc(since)).total_seconds()
