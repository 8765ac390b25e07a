"""Computes the active alerts (`alerting/__init__.py` lists them) from the journal's events. Pure: time is passed.

Timestamps in events are for people to read. Decisions use monotonic seconds, so that no clock change affects them.

An alert is raised once, repeated every `repeat_s` while active, and cleared by its name: kind and table. Alerts outlive
a run (`directory.alerts`). So yesterday's stopped table is not news today, and a service that keeps restarting a
failing run raises one alert.

While a silence covers an alert (`alerting.silences`), it is raised and cleared as ever, but *held*: no route gets it,
and it is not repeated. If it still stands when the silence ends, it is announced then, as it is then; so is one that
has changed meanwhile. The end of an alert that routes know is always sent. Without a runner, the watchdog announces it
(`watch.own_alerts`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from engine.alerting.alert_messages import (
    OF_STORE,
    failure_kind,
    outage_alert,
    patience_s,
    seconds_between,
    space_words,
)
from engine.alerting.lag_rules import LagRules, behind_words
from engine.base import clock
from engine.base.wording import plural, rows_differ, sentences, shell_word, stop_sentence
from engine.base.write_causes import WRITE_ALERTS
from engine.journal import Entry
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.journal.alert_kinds import remedy
from engine.journal.connection_events import PreflightPassed, ReadsBlocked, ReadsRefused
from engine.journal.destination_events import SpaceMeasured
from engine.journal.events import (
    ChunkParked,
    ChunkUnparked,
    DiskFreed,
    ErrorReported,
    Event,
    HelperRecovered,
    LagMeasured,
    RunEnded,
    RunState,
    SourceAway,
    SourceBack,
    TableChanged,
    TableStateChanged,
)
from engine.journal.outage_causes import ALERTS as OUTAGES
from engine.journal.sentences import behind, blocked, format_behind, hidden, parked, refused, written
from engine.journal.store_events import StoreAway, StoreBack
from engine.journal.verification_events import (
    ChangeLogsAudited,
    FormatBehind,
    HiddenChanges,
    MirrorBehind,
    MirrorWritten,
    TableVerified,
)
from engine.pipeline.active_alert import WATCHED_KINDS, Alert, AlertName
from engine.spec.alert_settings import Alerts as Settings

_ROUTES = ("route_unreachable", None)
_WORKS_S = 10.0
"""A run that has worked for so long is no part of a series of failures."""
_HOUR_S = 3600.0
_OF_MIRRORS = ("diverged", "mirror_unreadable", "mirror_written", "mirror_behind")
_OF_TABLES = (*_OF_MIRRORS, "format_behind", "cascade", "resnapshots", "read_blocked", "privileges_missing")

AlertNotice = tuple[type[AlertRaised], Alert]
"""AlertRaised or AlertCleared, and the alert."""


class ActiveAlerts:
    """The active alerts; `hear` takes each line of the journal and returns the notices to announce."""

    def __init__(
        self,
        settings: Settings,
        standing: Iterable[Alert] = (),
        most_resnapshots: int = 20,
        silenced: Callable[[Alert], bool] = lambda _: False,
    ) -> None:
        """Create the alerts of one run.

        standing: alerts that an earlier run left active.
        most_resnapshots: of a table within an hour (`[source]`).
        silenced: whether a silence covers an alert now.
        """
        self._settings = settings
        self._most_resnapshots = most_resnapshots
        self._silenced = silenced
        self._lag_rules = LagRules(settings)
        self._routes: dict[str, str] = {}  # failing, by name, and why
        self._resnapshotted_s: dict[str, float] = {}  # of the last one in this run that nobody requested, by table
        self.standing: dict[AlertName, Alert] = {alert.name: alert for alert in standing}
        self._crossed: dict[AlertName, tuple[str, float]] = {}  # when each threshold changed sides
        self._running_since_s: float | None = None
        self._announced_s: dict[AlertName, float] = {}  # announced in this run
        # of the line that is being handled
        self._now_s = 0.0
        self._at = ""
        self._helpers: set[str] = set()  # failing in this run
        self._unwritten: set[str] = set()  # kinds of alerts that this run has met and that have not ended
        self.unsaved = False
        """Whether the active alerts have changed since they were saved."""

    def as_list(self) -> list[dict[str, Any]]:
        """The active alerts for the file, oldest first."""
        return [alert.to_json() for alert in sorted(self.standing.values(), key=lambda a: a.since)]

    def hear(self, entry: Entry, now_s: float | None = None) -> list[AlertNotice]:
        """The alerts to announce after a line of the journal. now_s: a monotonic clock; the line's time if None."""
        self._at = entry.ts
        self._now_s = clock.parse_utc(entry.ts).timestamp() if now_s is None else now_s
        handler = _HANDLERS.get(type(entry.event))
        return list(handler(self, entry.event)) if handler else []

    def _lag(self, event: LagMeasured) -> Iterator[AlertNotice]:
        yield from (*self._measured(event), *self._clear_run_failed(self._at), *self._clear_resnapshots())
        yield from self._repeat(self._at)

    def _unparked(self, event: ChunkUnparked) -> Iterator[AlertNotice]:
        if not event.parked:
            yield from self._clear(("chunk_parked", event.table), f"No chunk of {event.table} is parked.", None)

    def _run_state(self, event: RunState) -> Iterator[AlertNotice]:
        running = event.state == "running"
        self._running_since_s = self._now_s if running else None
        if running:
            yield from self._clear_watchdogs("A runner is alive.")
            yield from self._clear_helper_failed("A later run is running.")
            yield from self._clear_unwritten("A later run is running.")

    def _freed(self, event: DiskFreed | StoreBack) -> Iterator[AlertNotice]:
        of_disk, room = isinstance(event, DiskFreed), "Files can be written again."
        self._unwritten -= {"disk_full"} if of_disk else set(OF_STORE)
        yield from self._clear_unwritten(room if of_disk else "The store can be used again.")

    def _recovered(self, event: HelperRecovered) -> Iterator[AlertNotice]:
        if event.helper in self._routes:
            del self._routes[event.helper]
            yield from self._route_news(event.helper)
            return
        self._helpers.discard(event.helper)
        yield from self._clear_helper_failed("All helper threads work again.")

    def begin_routes(self, names: Iterable[str], at: str) -> list[AlertNotice]:
        """Take the routes of this run.

        Those of them that an earlier run found unreachable count as that until they work.

        names: as in `ErrorReported.helper`.
        """
        self._at = at
        alert = self.standing.get(_ROUTES)
        if alert is None:
            return []
        self._routes = {name: alert.message for name in names if name in alert.routes}
        self.standing[_ROUTES], self.unsaved = replace(alert, routes=tuple(self._routes)), True
        return [] if self._routes else list(self._clear(_ROUTES, "The route was removed from the spec.", None))

    def _route_news(self, route: str) -> Iterator[AlertNotice]:
        """Raise, update or clear the alert on routes that fail."""
        alert, texts = self.standing.get(_ROUTES), dict.fromkeys(self._routes.values())
        if not self._routes:
            yield from self._clear(_ROUTES, "All routes of alerts work again.", None)
        elif alert is None:
            message, hint = " ".join(texts), remedy("route_unreachable")
            yield self._raise(Alert(*_ROUTES, None, None, message, hint, self._at, self._at, routes=(route,)))
        else:  # another one fails or works, which is no other alert
            changed = replace(alert, message=" ".join(texts), routes=tuple(self._routes))
            self.standing[_ROUTES], self.unsaved = changed, True

    def _error(self, event: ErrorReported) -> Iterator[AlertNotice]:
        """Handle a full disk, a failed helper or a failed route; other errors have their own events."""
        if event.error == "RouteError":
            self._routes[event.helper or ""] = event.message
            yield from self._route_news(event.helper or "")
            return
        if event.error not in ("DiskFullError", "HelperError"):
            return
        if event.error == "DiskFullError":
            name = ("disk_full", None)
            self._unwritten.add(name[0])
        else:
            self._helpers.add(event.helper or "")
            name = ("helper_failed", None)
        message = sentences(event.message, event.detail)
        yield from self._stand(Alert(*name, None, None, message, event.hint or "", self._at, self._at))

    def _clear_helper_failed(self, message: str) -> Iterator[AlertNotice]:
        if not self._helpers:
            yield from self._clear(("helper_failed", None), message, None)

    def _clear_unwritten(self, message: str) -> Iterator[AlertNotice]:
        for kind in WRITE_ALERTS.values():
            if kind not in self._unwritten:
                yield from self._clear((kind, None), message, None)

    def _measured(self, event: LagMeasured) -> Iterator[AlertNotice]:
        at, limits = self._at, self._settings
        lag_s, size, runway_s = event.lag_s, event.lag_bytes, event.runway_s
        yield from self._lag_of_tables(lag_s)
        whole_s = limits.lag_s if self._lag_rules.whole_pipeline() else None
        for kind, value, limit, form in (
            ("lag", lag_s, whole_s, "{:,.0f} s"),
            ("lag_bytes", size, limits.lag_bytes, "{:,.0f} bytes of binlog"),
        ):
            if value is None:
                continue  # unknown: keep the current state
            over = limit is not None and value > limit
            more = f", more than {form.format(limit)}" if over else ""
            message = f"The pipeline is {form.format(value)} behind its source{more}."
            yield from self._level(kind, value, limit, at, over=over, text=(message, remedy(kind)))
        purges = _purges(runway_s)
        message = f"The source {purges} the binlog at the committed position."
        short = runway_s is not None and runway_s < limits.runway_s
        yield from self._level("runway", runway_s, limits.runway_s, at, over=short, text=(message, remedy("runway")))

    def _lag_of_tables(self, lag_s: float | None) -> Iterator[AlertNotice]:
        """Compare the lag with the rules of some tables."""
        rules = self._lag_rules.rules()
        for name in [
            name for name in self.standing if name[0] == "lag" and name[1] is not None and name[1] not in rules
        ]:
            yield from self._clear(name, f"{name[1]} has no threshold of its own any more.", None)
        for glob, (limit_s, tables) in rules.items():
            if lag_s is None:
                continue  # unknown: keep the current state
            over = lag_s > limit_s
            text = (behind_words(glob, tables, lag_s, limit_s if over else None), remedy("lag"))
            yield from self._level("lag", lag_s, limit_s, self._at, over=over, text=text, table=glob)

    def _space(self, event: SpaceMeasured) -> Iterator[AlertNotice]:
        full_in_s, limit_s = event.full_in_s, self._settings.disk_filling_s
        over = full_in_s is not None and full_in_s < limit_s
        text = (space_words(event), remedy("disk_filling"))
        yield from self._level("disk_filling", full_in_s, limit_s, self._at, over=over, text=text)

    def _level(
        self,
        kind: str,
        value: float | None,
        limit: float | None,
        at: str,
        *,
        over: bool,
        text: tuple[str, str],
        table: str | None = None,
    ) -> Iterator[AlertNotice]:
        """Raise or clear a threshold alert once the value has stayed on the other side for `for_s`."""
        name = (kind, table)
        if over == (name in self.standing):
            self._crossed.pop(name, None)
            if over and (alert := self.standing[name]).held:  # no route knows it: it is announced as it is then
                self.standing[name] = replace(alert, value=value, message=text[0])
            return
        since, since_s = self._crossed.setdefault(name, (at, self._now_s))
        if self._now_s - since_s < self._settings.for_s:
            return
        if over:
            yield self._raise(Alert(kind, table, value, limit, *text, since, at))
        else:
            yield from self._clear(name, text[0], value)

    def _table(self, event: TableStateChanged) -> Iterator[AlertNotice]:
        self._lag_rules.hear(event)
        name = ("table_stopped", event.table)
        if event.state == "streaming":
            yield from self._clear(name, f"{event.table} is copied and streamed again.", None)
        elif event.state == "removed":
            for alert in (name, *((kind, event.table) for kind in _OF_TABLES)):
                yield from self._clear(alert, f"{event.table} was removed from the pipeline.", None)
        if event.state == "stopped":
            for kind in ("mirror_behind", "resnapshots"):
                yield from self._clear((kind, event.table), f"{event.table} stopped.", None)
        if event.state in ("copying", "removed"):
            for kind in ("change_log_differs", "mirror_unreadable"):
                yield from self._clear((kind, event.table), f"{event.table} is {event.state}.", None)
        if event.state != "copying":
            yield from self._clear(("chunk_parked", event.table), f"{event.table} is {event.state}.", None)
        if event.state == "stopped" and not event.resnapshots_itself:
            hint = event.hint or remedy(*name)
            message = stop_sentence(event.table, event.reason or "")
            yield from self._stand(Alert(*name, None, None, message, hint, self._at, self._at))

    def _parked(self, event: ChunkParked) -> Iterator[AlertNotice]:
        message = f"{parked(event, event.table)} Everything else continues."
        hint = sentences(event.hint, f"Then: tidemark resume SPEC --table {shell_word(event.table)}")
        yield from self._stand(Alert("chunk_parked", event.table, None, None, message, hint, self._at, self._at))

    def _verified(self, event: TableVerified) -> Iterator[AlertNotice]:
        name, count = ("diverged", event.table), event.differences
        if not count:
            yield from self._clear(name, f"No row of {event.table} differs from the source.", 0.0)
        else:
            message = f"{rows_differ(count, event.table)} from the source."
            yield from self._stand(Alert(*name, float(count), None, message, remedy(*name), self._at, self._at))
        yield from self._readable(event)

    def _readable(self, event: TableVerified) -> Iterator[AlertNotice]:
        name, broken = ("mirror_unreadable", event.table), event.summary.unreadable
        if broken is None:
            yield from self._clear(name, f"The mirror of {event.table} can be read.", None)
        else:
            message = f"{event.table}: {broken.why}"
            yield from self._stand(Alert(*name, None, None, message, broken.hint, broken.at, self._at))

    def _audited(self, event: ChangeLogsAudited) -> Iterator[AlertNotice]:
        if event.again is not None and event.again not in event.differing:
            message = f"The change log of {event.again} does not differ from {event.start} to {event.end} any more."
            yield from self._clear(("change_log_differs", event.again), message, 0.0)
        for table, count in event.differing.items():
            name = ("change_log_differs", table)
            if name not in self.standing:  # an earlier part still differs
                part = f"from {event.start} to {event.end}"
                message = f"The change log of {table} differs from the binlog {part}: {plural(count, 'difference')}."
                yield self._raise(Alert(*name, float(count), None, message, remedy(*name), self._at, self._at))

    def _hidden(self, event: HiddenChanges) -> Iterator[AlertNotice]:
        name, message = (event.kind, event.table), f"{hidden(event, event.table)}."
        if not event.names:
            yield from self._clear(name, message, None)
        elif name not in self.standing or self.standing[name].message != message:
            yield self._raise(Alert(*name, None, None, message, event.hint or remedy(*name), self._at, self._at))

    def _blocked(self, event: ReadsBlocked) -> Iterator[AlertNotice]:
        name, message = ("read_blocked", event.table), f"{blocked(event, event.table)}."
        if event.since is None:
            yield from self._clear(name, message, None)
        elif event.seconds >= (limit_s := patience_s(self._settings)) or name in self.standing:
            hint = event.hint or remedy(*name)  # another session may hold the lock by now, which is no other alert
            yield from self._stand(Alert(*name, event.seconds, limit_s, message, hint, event.since, self._at))

    def _refused(self, event: ReadsRefused | FormatBehind) -> Iterator[AlertNotice]:
        is_format = isinstance(event, FormatBehind)
        name = ("format_behind" if is_format else "privileges_missing", event.table)
        message = format_behind(event) if isinstance(event, FormatBehind) else refused(event)
        if event.since is None:
            yield from self._clear(name, f"{message}.", None)
            return
        hint = event.hint or remedy(*name)
        yield from self._stand(Alert(*name, None, None, message, hint, event.since, self._at))

    def _written(self, event: MirrorWritten) -> Iterator[AlertNotice]:
        name, message = ("mirror_written", event.table), f"{written(event, event.table)}."
        if not event.commits:
            yield from self._clear(name, message, 0.0)
            return
        message += " Rows may differ from the source."
        count = float(event.commits)
        yield from self._stand(Alert(*name, count, None, message, remedy(*name), self._at, self._at))

    def _behind(self, event: MirrorBehind) -> Iterator[AlertNotice]:
        name, message = ("mirror_behind", event.table), f"{event.table}: {behind(event)}."
        if event.since is None:
            yield from self._clear(name, message, 0.0)
        elif name not in self.standing:
            age_s = round(seconds_between(event.since, self._at), 1)
            limit_s = self._settings.mirror_behind_of(event.table)
            yield self._raise(Alert(*name, age_s, limit_s, message, remedy(*name), event.since, self._at))

    def _changed(self, event: TableChanged) -> Iterator[AlertNotice]:
        """Count automatic resnapshots."""
        name, count = ("resnapshots", event.table), event.within_hour or 0
        if count:
            self._resnapshotted_s[event.table] = self._now_s
        if name not in self.standing and count >= max(2, self._most_resnapshots // 4):
            again = f"{event.table} had to be resnapshotted {count} times within an hour"
            message = f"{again}, last because: {event.reason}."
            limit = float(self._most_resnapshots)
            yield self._raise(Alert(*name, float(count), limit, message, remedy(*name), self._at, self._at))

    def _clear_resnapshots(self) -> Iterator[AlertNotice]:
        for kind, table in [name for name in self.standing if name[0] == "resnapshots"]:
            # An earlier run's last one is not known: then the hour begins with this run.
            if self._now_s - self._resnapshotted_s.setdefault(table or "", self._now_s) >= _HOUR_S:
                yield from self._clear((kind, table), f"{table} was not resnapshotted for an hour.", None)

    def _source(self, event: PreflightPassed | SourceBack) -> Iterator[AlertNotice]:
        names = [name for name in self.standing if name[0] in OUTAGES.values()]
        for kind, table in names if isinstance(event, PreflightPassed) else [one for one in names if one[1] is None]:
            text = f"A new run tries to read {table}." if table else "The source can be reached again."
            yield from self._clear((kind, table), text, None)

    def _away(self, event: SourceAway | StoreAway) -> Iterator[AlertNotice]:
        kind, others, text, replaced = outage_alert(event)
        name, seconds = (kind, None), seconds_between(event.since, self._at)
        if isinstance(event, StoreAway):
            self._unwritten = (self._unwritten - set(OF_STORE)) | {kind}
        for other in others:
            yield from self._clear((other, None), replaced, None)
        if name not in self.standing and seconds >= patience_s(self._settings):
            hint = event.hint or remedy(*name)
            yield self._raise(Alert(*name, round(seconds, 1), None, text, hint, event.since, self._at))
        yield from self._repeat(self._at)

    def _ended(self, event: RunEnded) -> Iterator[AlertNotice]:
        name, error = ("run_failed", None), event.error
        yield from self._clear_watchdogs("A later run has ended.")
        if event.outcome != "failed" or error is None:
            yield from self._clear(name, "A later run ended as it should.", None)
            return
        alert, at = self.standing.get(name), self._at
        message = f"The run failed: {error.message}"
        if alert is not None and (alert.value, failure_kind(alert.message)) == (event.exit_code, failure_kind(message)):
            yield from self._repeat(at, [name])
            return
        yield from self._clear(name, "A later run failed too, with another message.", None)
        yield self._raise(Alert(*name, event.exit_code, None, message, error.hint, at, at))

    def _clear_watchdogs(self, message: str) -> Iterator[AlertNotice]:
        for kind in WATCHED_KINDS:
            yield from self._clear((kind, None), message, None)

    def _clear_run_failed(self, at: str) -> Iterator[AlertNotice]:
        works_s = min(self._settings.for_s, _WORKS_S)
        if self._running_since_s is not None and self._now_s - self._running_since_s >= works_s:
            yield from self._clear(("run_failed", None), "A later run is running.", None)

    def _repeat(self, at: str, names: Iterable[AlertName] | None = None) -> Iterator[AlertNotice]:
        """Repeat active alerts after `repeat_s`. `run_failed` is not repeated while another run is starting."""
        waiting = [name for name, alert in self.standing.items() if alert.held or alert.changed]
        chosen = [n for n in self.standing if n[0] != "run_failed" or n in waiting] if names is None else names
        for name in chosen:
            alert = self.standing[name]
            if name in waiting:
                if not self._silenced(alert):
                    yield self._raise(replace(alert, announced=at))
                continue
            due = name not in self._crossed and self._silent_s(alert, at) >= self._settings.repeat_s
            if due and not self._silenced(alert):
                yield self._raise(replace(alert, announced=at, repeat=alert.repeat + 1))

    def _silent_s(self, alert: Alert, at: str) -> float:
        """Seconds since the last announcement: an earlier run's by the wall clock, where a future one counts as now."""
        if alert.name not in self._announced_s:
            self._announced_s[alert.name] = self._now_s - max(seconds_between(alert.announced, at), 0.0)
        return self._now_s - self._announced_s[alert.name]

    def _stand(self, alert: Alert) -> Iterator[AlertNotice]:
        """Raise an alert, or let the one that stands say what is true now, which is no other alert."""
        before = self.standing.get(alert.name)
        if before is None:
            yield self._raise(alert)
        elif (before.message, before.hint) != (alert.message, alert.hint):
            changed = replace(before, value=alert.value, message=alert.message, hint=alert.hint)
            self.standing[alert.name], self.unsaved = changed, True

    def _raise(self, alert: Alert) -> AlertNotice:
        before, silent = self.standing.get(alert.name), self._silenced(alert)
        is_held = silent and (before is None or before.held)  # routes that know it get its end
        self.standing[alert.name] = replace(alert, held=is_held, changed=silent and not is_held)
        self._announced_s[alert.name], self.unsaved = self._now_s, True
        self._crossed.pop(alert.name, None)
        return AlertRaised, replace(alert, held=silent)

    def _clear(self, name: AlertName, message: str, value: float | None) -> Iterator[AlertNotice]:
        self._crossed.pop(name, None)
        self._announced_s.pop(name, None)
        if (alert := self.standing.pop(name, None)) is not None:
            self.unsaved = True
            yield AlertCleared, replace(alert, message=message, hint="", value=value)


def _purges(runway_s: float | None) -> str:
    if runway_s is None:
        return "does not purge"
    return f"purges in {runway_s / 3600:,.1f} h" if runway_s else "may have purged"


_HANDLERS: dict[type[Event], Callable[[ActiveAlerts, Any], Iterable[AlertNotice]]] = {
    LagMeasured: ActiveAlerts._lag,  # noqa: SLF001 - the table of the class above
    SpaceMeasured: ActiveAlerts._space,  # noqa: SLF001
    TableStateChanged: ActiveAlerts._table,  # noqa: SLF001
    ChunkParked: ActiveAlerts._parked,  # noqa: SLF001
    ChunkUnparked: ActiveAlerts._unparked,  # noqa: SLF001
    ErrorReported: ActiveAlerts._error,  # noqa: SLF001
    DiskFreed: ActiveAlerts._freed,  # noqa: SLF001
    StoreBack: ActiveAlerts._freed,  # noqa: SLF001
    StoreAway: ActiveAlerts._away,  # noqa: SLF001
    HelperRecovered: ActiveAlerts._recovered,  # noqa: SLF001
    RunState: ActiveAlerts._run_state,  # noqa: SLF001
    PreflightPassed: ActiveAlerts._source,  # noqa: SLF001
    SourceAway: ActiveAlerts._away,  # noqa: SLF001
    SourceBack: ActiveAlerts._source,  # noqa: SLF001
    RunEnded: ActiveAlerts._ended,  # noqa: SLF001
    TableVerified: ActiveAlerts._verified,  # noqa: SLF001
    MirrorWritten: ActiveAlerts._written,  # noqa: SLF001
    MirrorBehind: ActiveAlerts._behind,  # noqa: SLF001
    FormatBehind: ActiveAlerts._refused,  # noqa: SLF001
    TableChanged: ActiveAlerts._changed,  # noqa: SLF001
    HiddenChanges: ActiveAlerts._hidden,  # noqa: SLF001
    ReadsBlocked: ActiveAlerts._blocked,  # noqa: SLF001
    ReadsRefused: ActiveAlerts._refused,  # noqa: SLF001
    ChangeLogsAudited: ActiveAlerts._audited,  # noqa: SLF001
}
