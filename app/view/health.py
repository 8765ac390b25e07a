"""The three layers of every page: the engine is alive, it keeps up, the source still holds what it needs.

Never one green dot: each layer says its own state, in words and with a colour that says who must act. When the runner is
not alive, the last numbers are kept, grey, with the time since when they are stale.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.view import words
from app.view.status_style import PIPELINE, Look
from engine.history.runs import Run
from engine.history.series import Lag

LAG_FINE_S = 10.0
"""Behind by less than this is keeping up."""
RUNWAY_RED_S, RUNWAY_AMBER_S = 3600.0, 6 * 3600.0
LAG_STALE_S = 15.0
"""The runner measures every two seconds; a reading older than this is not the present."""

EXIT_CODES = {
    0: "done",
    1: "an unexpected error",
    2: "the spec or the arguments are wrong",
    3: "preflight failed",
    4: "the source can no longer be followed",
    5: "another runner holds the pipeline",
    6: "verification found differences",
}


@dataclass(frozen=True)
class Away:
    """A source that the runner cannot reach. gives_up: None where it waits without end."""

    since: datetime
    attempt: int
    next_try: datetime
    error: str
    gives_up: datetime | None


@dataclass(frozen=True)
class Runner:
    """What the console knows of a pipeline's runner."""

    state: str
    """A key of `looks.PIPELINE`."""
    phase: str | None
    heartbeat_age_s: float | None
    alive: bool
    host: str | None
    pid: int | None
    spark_ui: str | None
    started: datetime | None
    last_seen: datetime | None
    error: dict[str, str] | None
    """message, detail and hint of the error that ended the run."""
    exit_code: int | None
    away: Away | None = None

    @property
    def look(self) -> Look:
        """Label, letter and colour of the state."""
        return PIPELINE[self.state]


@dataclass(frozen=True)
class Layer:
    """One of the three layers."""

    title: str
    headline: str
    colour: str
    details: tuple[str, ...]
    help: str


def runner_of(record: Mapping[str, Any] | None, run: Run | None, launched_at: datetime | None = None) -> Runner:
    """The runner out of `runner.json`, the newest run of the journal, and when this console launched one (if it did)."""
    record = record or {}
    alive = bool(record.get("alive"))
    ended = run is not None and run.ended is not None
    error = error_of(record.get("error")) or (error_of(run.error) if run is not None and ended else None)
    heartbeat = _time(record.get("heartbeat"))
    state = str(record.get("state") or ("ended" if ended else "lost" if run else "new"))
    exit_code = run.exit_code if run is not None and ended else None
    if launched_at is not None and not alive and (heartbeat is None or heartbeat < launched_at):
        state, error, exit_code = "starting", None, None
    elif state == "ended":
        state = "failed" if error or exit_code else "ended"
    elif not alive and state != "new":
        state = "lost"
    return Runner(
        state=state if state in PIPELINE else "running",
        phase=record.get("phase"),
        heartbeat_age_s=record.get("heartbeat_age_s"),
        alive=alive,
        host=record.get("host") or (run.host if run else None),
        pid=record.get("pid") or (run.pid if run else None),
        spark_ui=record.get("spark_ui") if alive else None,
        started=_time(record.get("started")) or (run.started if run else None),
        last_seen=heartbeat or (run.last_event if run else None),
        error=error,
        exit_code=exit_code,
        away=away_of(record.get("away")) if alive else None,
    )


def away_of(value: object) -> Away | None:
    """The outage out of `runner.json`; None when there is none, or when it is not one that this version knows."""
    if not isinstance(value, Mapping):
        return None
    since, next_try = _time(value.get("since")), _time(value.get("next_try"))
    if since is None or next_try is None:
        return None
    attempt, error = int(value.get("attempt") or 0), str(value.get("error") or "")
    return Away(since, attempt, next_try, error, _time(value.get("gives_up_at")))


def away_line(away: Away, now: datetime) -> str:
    """For how long, how often it was tried, when again, and until when."""
    seconds, left = (now - away.since).total_seconds(), (away.next_try - now).total_seconds()
    tried = f"next try in {words.duration(round(left))}" if left >= 1 else "trying now"
    until = f"gives up at {words.date_time(away.gives_up)}" if away.gives_up else "waits without end"
    return (
        f"Source unreachable for {words.duration(round(max(seconds, 0)))} · attempt {away.attempt} · {tried} · {until}"
    )


def error_of(value: object) -> dict[str, str] | None:
    """An error's three parts, out of a dictionary, its JSON text or a plain sentence."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return {"message": str(value), "detail": "", "hint": ""}
    if isinstance(value, str) and value:
        return {"message": value, "detail": "", "hint": ""}
    if isinstance(value, dict) and value:
        return {part: str(value.get(part) or "") for part in ("message", "detail", "hint")}
    return None


def layers(runner: Runner, lag: Lag | None, recent: Sequence[Lag], now: datetime) -> tuple[Layer, Layer, Layer]:
    """Engine, keeping up, source safe; `recent`: the readings of about the last minute, oldest first."""
    stale = stale_since(runner, lag, now)
    return engine_layer(runner), keeping_up_layer(runner, lag, recent, stale), source_layer(lag, stale)


def stale_since(runner: Runner, lag: Lag | None, now: datetime) -> datetime | None:
    """Since when the numbers are no longer the present; None while they are."""
    if lag is not None and (not runner.alive or (now - lag.ts).total_seconds() > LAG_STALE_S):
        return lag.ts
    return None if runner.alive else runner.last_seen


def engine_layer(runner: Runner) -> Layer:
    """Is the runner alive, and what is it doing?"""
    details = []
    if runner.alive:
        details.append(f"heartbeat {words.duration(runner.heartbeat_age_s)} ago")
        details.append(phase_words(runner))
    elif runner.state == "failed":
        code = (
            ""
            if runner.exit_code is None
            else f"exit code {runner.exit_code}: {EXIT_CODES.get(runner.exit_code, 'unknown')}"
        )
        details.append(code or "it ended with an error")
    elif runner.state in ("lost", "ended"):
        details.append(f"last heartbeat {words.time_of_day(runner.last_seen)}")
    elif runner.state == "new":
        details.append("nothing was read yet")
    elif runner.state == "starting":
        details.append("the first heartbeat is due within seconds")
    if runner.host and runner.pid and runner.alive:
        details.append(f"{runner.host}, pid {runner.pid}")
    meaning = runner.look.meaning
    return Layer(
        "Engine", runner.look.label.capitalize(), runner.look.colour, tuple(filter(None, details)), f"{meaning}."
    )


def phase_words(runner: Runner) -> str:
    """The phase as a person says it."""
    return {"starting": "connecting", "snapshot": "copying and following", "streaming": "following the binlog"}.get(
        runner.phase or "", runner.phase or ""
    )


def keeping_up_layer(runner: Runner, lag: Lag | None, recent: Sequence[Lag], stale: datetime | None) -> Layer:
    """How far behind the source, by the source's clock; no traffic is not lag."""
    tip = (
        "Age, by the source's clock, of the oldest committed transaction that is not yet published, and the bytes of binlog "
        "behind it. No traffic is not lag."
    )
    if lag is None:
        headline, colour, details = (
            "Not measured yet",
            "gray",
            ("the first reading comes two seconds after connecting",),
        )
        return Layer("Keeping up", headline, colour, details, tip)
    numbers = f"lag {words.duration(lag.lag_s)} · {words.size(lag.lag_bytes)}"
    headline, colour, detail = _verdict(runner, lag, recent, stale)
    return Layer("Keeping up", headline, colour, (numbers, detail), tip)


def _verdict(runner: Runner, lag: Lag, recent: Sequence[Lag], stale: datetime | None) -> tuple[str, str, str]:
    """Headline, colour and detail of a measured lag."""
    if stale is not None:
        return "No longer measured", "gray", f"stale since {words.time_of_day(stale)}"
    if runner.state == "paused":
        return "Paused, lag grows", "violet", "resume to catch up"
    if lag.lag_s is None:
        return "Not known", "gray", "no commit was seen yet to measure from"
    if lag.lag_s < LAG_FINE_S:
        return "Keeping up", "green", "published within seconds" if lag.lag_bytes else "nothing is waiting"
    known = [reading.lag_s for reading in recent if reading.lag_s is not None]
    if known and lag.lag_s < known[0]:
        return "Catching up", "orange", "it shrinks; nothing to do"
    return "Falling behind", "red", "it grows: give the pipeline more slots or less to do"


def source_layer(lag: Lag | None, stale: datetime | None) -> Layer:
    """For how long the source still holds the binlog that the pipeline needs."""
    title = "Source safe"
    tip = "Time until the source purges the binlog at the committed position; behind that point only a new copy helps."
    if lag is None:
        return Layer(title, "Not measured yet", "gray", ("the binlog is looked at after connecting",), tip)
    position = lag.position or "no position committed yet"
    if lag.runway_s is None:
        return Layer(title, "Runway not known", "gray", ("the source purges by no known age", position), tip)
    runway = f"runway {words.duration(lag.runway_s)}"
    if stale is not None:
        return Layer(title, "No longer measured", "gray", (f"{runway} at {words.time_of_day(stale)}", position), tip)
    if lag.runway_s < RUNWAY_RED_S:
        return Layer(title, "About to be lost", "red", (runway, "keep the binlog longer on the source, now"), tip)
    if lag.runway_s < RUNWAY_AMBER_S:
        return Layer(title, "Runway is short", "orange", (runway, position), tip)
    return Layer(title, "Safe", "green", (runway, position), tip)


def troubles(record: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What, meaning and remedy of each thing that a living runner says is wrong beside the data: a full disk, a failing helper."""
    found = []
    if record.get("disk_full"):
        meaning = "The pipeline waits. Nothing is lost; the lag grows."
        found.append((str(record["disk_full"]), meaning, "Free space. It goes on by itself when there is room."))
    helpers = record.get("helpers")
    for helper in helpers if isinstance(helpers, list) else []:
        since = words.date_time(_time(helper.get("since")))
        meaning = f"The pipeline goes on. {words.plural(helper.get('errors') or 1, 'error')} since {since}."
        found.append(
            (str(helper.get("message")), meaning, "It tries again by itself; the events say when it works again.")
        )
    return found


def alert_lines(alerts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each alert that stands: since when, and what it says."""
    return [f"Alert since {words.date_time(_time(one.get('since')))}: {one.get('message')}" for one in alerts]


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
