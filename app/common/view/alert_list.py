"""Alerts: which are firing, which need attention, which were resolved, and the rules by which they fire.

A runner raises and clears alerts. Without one, the file keeps the last known alerts, which nobody can clear. So an
alert of a pipeline without a runner is shown with the time at which it was last known, never as current.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from app.common.view import words
from app.common.view.health import EXIT_CODES
from app.common.view.hints import for_console
from app.common.view.runner_view import Runner
from engine.alerting.acknowledgements import Acknowledgement
from engine.alerting.silences import Silence
from engine.base.errors import ErrorRecord
from engine.base.write_causes import WRITE_ALERTS
from engine.history.alert_queries import Cleared
from engine.history.series import Lag
from engine.journal.alert_kinds import ALERTS, alert_title, remedy
from engine.journal.outage_causes import ALERTS as OUTAGES
from engine.pipeline.active_alert import WATCHED_KINDS, Alert, present_alerts
from engine.pipeline.frozen_runner import GONE_HINT
from engine.spec.alert_settings import Alerts as Settings

_MEASURED = ("lag", "lag_bytes", "runway")
"""Alerts on measurements of the source."""
_OF_STATES = {"lost": "runner_lost", "frozen": "runner_frozen", "failed": "run_failed"}
"""The kind of the alert that says no more than the state of the runner."""
_DURATIONS = ("lag", "runway", *OUTAGES.values(), "disk_filling")


@dataclass(frozen=True)
class Firing:
    """An alert that has not cleared."""

    pipeline: str
    standing: Alert
    title: str
    table: str | None
    since: datetime | None
    value: str
    """When it was raised."""
    now: str
    """The latest measurement; empty if there is none."""
    threshold: str
    message: str
    do: str
    acknowledged: Acknowledgement | None
    known_at: datetime | None
    """When it was last known, if nobody can clear it now; None if it is current."""
    silence: Silence | None = None
    """The silence that keeps it from being sent."""
    critical: bool = True
    """Whether rows are wrong, cannot be read or do not arrive; else it is a warning."""

    @property
    def kind(self) -> str:
        """Its kind, as in the journal."""
        return self.standing.kind

    @property
    def waits(self) -> bool:
        """Whether it needs attention: nobody has acknowledged it.

        The badge, the cards and the count of problems go by it.
        """
        return self.acknowledged is None

    @property
    def colour(self) -> str:
        """Gray if it is not current or somebody takes care of it; else red, or orange for a warning."""
        if not self.waits or self.known_at is not None:
            return "gray"
        return "red" if self.critical else "orange"


def standing_alerts(runner: Runner, alerts: Sequence[Alert]) -> list[Alert]:
    """The alerts of a pipeline.

    They include what the runner could not raise: that it is lost, that it failed, and that the disk is too full to
    store the alert. That about a silent process has the words of the pages, which know its number and its state now.
    """
    full_disk = runner.unwritten if runner.unwritten and runner.unwritten.cause == "disk" else None
    if full_disk and all(one.kind != "disk_full" for one in alerts):
        message = f"The pipeline waits: {full_disk.reason}. Nothing is lost."
        since = full_disk.since.isoformat() if full_disk.since else ""
        full = Alert("disk_full", message=message, since=since)
        alerts = [full, *alerts]
    kind = _OF_STATES.get(runner.state)
    alerts = present_alerts(alerts, alive=runner.alive, frozen=runner.state == "frozen")
    if kind is None:
        return alerts
    message, hint = _problem_words(runner)
    if any(one.kind == kind for one in alerts):
        silent = runner.frozen is not None or runner.unseen is not None
        return [replace(one, message=message, hint=hint) if silent and one.kind == kind else one for one in alerts]
    own = Alert(
        kind,
        message=message,
        hint=hint,
        since=at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if (at := runner.last_seen or runner.started) else "",
    )
    return [own, *alerts]


def _problem_words(runner: Runner) -> tuple[str, str]:
    """What is wrong with a runner, and what to do if its alert's kind does not say it."""
    if silent := runner.frozen or runner.unseen:
        return silent.message, silent.hint
    if runner.state == "lost":
        hint = GONE_HINT if runner.gone else remedy("runner_lost", pid=runner.pid)
        return f"The runner has sent no heartbeat since {words.date_time(runner.last_seen)}.", hint
    error = runner.error or ErrorRecord()
    return f"The run failed: {error.message or EXIT_CODES.get(runner.exit_code or -1, 'an unknown error')}", error.hint


def firing_alerts(
    pipeline: str,
    runner: Runner,
    standing: Iterable[Alert],
    acknowledged: Callable[[Alert], Acknowledgement | None],
    lag: Lag | None = None,
    silenced: Callable[[Alert], Silence | None] = lambda _: None,
    rules: Settings = Settings(),  # noqa: B008 - immutable
) -> list[Firing]:
    """The alerts of one pipeline, as the page shows them. standing: `standing_alerts`. lag: the latest measurement.

    rules: of its spec, which can change the severity of a kind.
    """
    alerts = [_firing(pipeline, runner, one, acknowledged(one), lag) for one in standing]
    return [
        replace(one, silence=silenced(one.standing), critical=rules.severity_of(one.kind) == "critical")
        for one in alerts
    ]


def _firing(
    pipeline: str, runner: Runner, one: Alert, acknowledgement: Acknowledgement | None, lag: Lag | None
) -> Firing:
    kind, table = one.kind, one.table
    known_at = _known_at(kind, runner)
    fresh = {"lag": lag.lag_s, "lag_bytes": lag.lag_bytes, "runway": lag.runway_s} if lag and known_at is None else {}
    now = fresh.get(kind)
    return Firing(
        pipeline,
        one,
        alert_title(kind),
        table,
        _time(one.since),
        amount(kind, one.value),
        "" if now is None else amount(kind, now),
        amount(kind, one.threshold),
        one.message,
        one.hint or remedy(kind, table),
        acknowledgement,
        known_at,
    )


def _known_at(kind: str, runner: Runner) -> datetime | None:
    """When an alert was last known; None if it is current."""
    if runner.responds:
        return runner.away.since if runner.away is not None and kind in _MEASURED else None
    about_the_end = kind in WATCHED_KINDS or (kind == "run_failed" and runner.state == "failed")
    return None if about_the_end else runner.last_seen


def amount(kind: str, value: object) -> str:
    """The value or threshold of an alert, with its unit."""
    if not isinstance(value, int | float):
        return words.NOTHING
    if kind == "run_failed":
        return f"exit code {value:.0f}"
    if kind == "lag_bytes":
        return words.size(value)
    return words.duration(value if value < 10 else round(value)) if kind in _DURATIONS else words.count(value)


def kinds_of_state(runner: Runner) -> frozenset[str]:
    """The kinds of alerts that say no more than the runner's own state, which is shown beside them."""
    kinds = set(_OF_STATES.values()) if runner.problem else set()
    if runner.away is not None:
        kinds |= set(OUTAGES.values())
    if runner.unwritten:
        kinds.add(WRITE_ALERTS[runner.unwritten.cause])
    return frozenset(kinds)


def order(one: Firing) -> tuple[bool, bool, float, str]:
    """The sort key: those that need attention first, the critical ones before warnings, then the newest."""
    return not one.waits, not one.critical, -one.since.timestamp() if one.since else 0.0, one.pipeline


def lasted(one: Firing, now: datetime) -> str:
    """How long it has been firing, until now or until it was last known."""
    if one.since is None:
        return words.NOTHING
    until = one.known_at or now
    return words.duration(round(max((until - one.since).total_seconds(), 0.0)))


def unsilenced(rules: Sequence[Settings]) -> str:
    """What happens to alerts without a silence. rules: of the pipelines."""
    if any(one.all_routes() for one in rules):
        return "No silence is in force: every alert is sent through its routes."
    return "No silence is in force. Nothing is sent, because no route is set (`alerts.routes`)."


def acknowledged_words(acknowledgement: Acknowledgement) -> str:
    """Who acknowledged it, when, and the note."""
    note = f": {acknowledgement.note}" if acknowledgement.note else ""
    return f"Acknowledged by {acknowledgement.actor} at {words.date_time(_time(acknowledgement.at))}{note}"


def silenced_words(one: Silence) -> str:
    """Who silenced an alert, until when, and why."""
    return f"Silenced by {one.actor} until {words.date_time(_time(one.until))}: {one.reason}"


def alert_lines(alerts: Iterable[Firing]) -> list[tuple[str, str]]:
    """One line per alert, in the order of the page Alerts, with its colour."""
    lines = []
    for one in sorted(alerts, key=order):
        prefix = "" if one.known_at is None else f"Last known at {words.date_time(one.known_at)}: "
        suffix = "" if one.acknowledged is None else f" {acknowledged_words(one.acknowledged)}"
        suffix += "" if one.silence is None else f" {silenced_words(one.silence)}"
        lines.append((one.colour, f"{prefix}{one.title} since {words.date_time(one.since)}: {one.message}{suffix}"))
    return lines


def page_title(waiting: int, page: str) -> str:
    """The title of the browser's tab: `(2) Live · Tidemark`."""
    return f"({waiting}) {page} · Tidemark" if waiting else f"{page} · Tidemark"


def resolved_rows(
    alerts: Iterable[Cleared], acknowledged: Callable[[str, Alert], Acknowledgement | None]
) -> list[dict[str, Any]]:
    """The table of alerts that are over. acknowledged: by pipeline and alert."""
    rows = []
    for one in alerts:
        kind, since = one.kind or "", _time(one.since)
        alert = Alert(kind, one.table, one.value, since=one.since or "")
        acknowledgement = acknowledged(one.pipeline, alert)
        note = f": {acknowledgement.note}" if acknowledgement and acknowledgement.note else ""
        seconds = None if since is None else round(max((one.cleared - since).total_seconds(), 0.0))
        rows.append(
            {
                "Cleared": one.cleared,
                "Since": since,
                "Duration": words.duration(seconds),
                "Alert": alert_title(kind),
                "Pipeline": one.pipeline,
                "Table": one.table or "",
                "Value": amount(kind, one.value),
                "Threshold": amount(kind, one.threshold),
                "Message": one.message or "",
                "Acknowledged by": f"{acknowledgement.actor}{note}" if acknowledgement else "",
            }
        )
    return rows


def refused_reads(alerts: Iterable[Alert], table: str | None = None) -> list[Alert]:
    """The alerts on tables that the account may not read. table: only this one."""
    refused = [one for one in alerts if one.kind == "privileges_missing" and one.table is not None]
    return [one for one in refused if table in (None, one.table)]


def failing_routes(standing: Iterable[Alert]) -> set[str]:
    """The names of the routes that do not take alerts. standing: of one pipeline."""
    route_lists = (one.routes for one in standing if one.kind == "route_unreachable")
    return {str(name).removeprefix("route ") for names in route_lists for name in names}


def threshold_rows(pipeline: str, rules: Settings, failing: Collection[str] = ()) -> list[dict[str, str]]:
    """The thresholds and durations of a pipeline's spec, then those of some of its tables. failing: names of routes."""
    whole = {
        "Pipeline": pipeline,
        "Tables": "all",
        "Lag above": "no alert" if rules.lag_s is None else words.duration(rules.lag_s),
        "Lag in bytes above": "no alert" if rules.lag_bytes is None else words.size(rules.lag_bytes),
        "Retention left below": words.duration(rules.runway_s) if rules.runway_s else "no alert",
        "Mirror behind above": words.duration(rules.mirror_behind_s),
        "Disk full within": words.duration(rules.disk_filling_s) if rules.disk_filling_s else "no alert",
        "Duration": words.duration(rules.for_s),
        "Repeated every": words.duration(rules.repeat_s),
        "Routes": ", ".join(f"{name} (fails)" if name in failing else name for name in rules.all_routes()) or "none",
    }
    own = [
        {
            **dict.fromkeys(whole, ""),
            "Pipeline": pipeline,
            "Tables": glob,
            "Lag above": "" if rule.lag_s is None else words.duration(rule.lag_s),
            "Mirror behind above": "" if rule.mirror_behind_s is None else words.duration(rule.mirror_behind_s),
        }
        for glob, rule in rules.tables.items()
    ]
    return [whole, *own]


def kind_rows() -> list[dict[str, str]]:
    """Every kind of alert: when it fires, when it clears, and what to do."""
    return [
        {
            "Alert": text.title,
            "Fires when": text.fires,
            "Clears when": text.clears,
            "What to do": for_console(remedy(kind)),
        }
        for kind, text in ALERTS.items()
    ]


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
