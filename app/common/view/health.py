"""The three layers of a pipeline's health.

The runner is alive, it keeps up, and the source still has the binlog it needs.

Each layer has its own state, in words and with a colour that shows who must act. If the runner is not alive, the last
numbers stay, in grey, with the time of the reading.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from app.common.view import words
from app.common.view.hints import names_full_resnapshot
from app.common.view.status_style import PIPELINE, Style
from app.common.view.write_words import Unwritten, unwritten_of
from engine.base import exit_codes
from engine.base.errors import ErrorRecord, SourceLostError
from engine.history.runs import Run
from engine.history.series import Lag
from engine.journal.outage_causes import Cause
from engine.pipeline.frozen_runner import FrozenRunner
from engine.pipeline.helpers import SPARK
from engine.pipeline.known_lag import is_current, known_lag
from engine.pipeline.runner_record import RunnerRecord, SourceOutage, StartupStep
from engine.pipeline.state_words import AWAY_STATES, shown_state

LAG_FINE_S = 10.0
"""A smaller lag counts as keeping up."""
CATCHES_UP_S = 60.0
"""Seconds after a start, a pause or an outage in which a growing lag means nothing: commits still bring the rest."""
RETENTION_RED_S, RETENTION_AMBER_S = 3600.0, 6 * 3600.0
"""With less retention left than this, the source layer turns red or orange."""
MERGE_WAITS_S = 30.0
"""Seconds after which a page says that published changes wait for a merge; readers of the mirror do not see them."""

EXIT_CODES = {**exit_codes.EXIT_CODES, exit_codes.UNEXPECTED: "an unexpected error"}
"""The meaning of each exit code, for a run without an error that says it."""


@dataclass(frozen=True)
class Away:
    """An outage of the source, as the runner reports it."""

    since: datetime
    attempt: int
    """How often a try has failed; 0 while the first question is still unanswered."""
    next_try: datetime
    error: str
    """The message of the last attempt."""
    gives_up: datetime | None
    """When the runner gives up; None if there is no limit."""
    cause: Cause = "unreachable"
    hint: str = ""
    """What to do about a refused account."""

    @property
    def refused(self) -> bool:
        """Whether the source answers, but refuses the account."""
        return self.cause != "unreachable"

    @property
    def colour(self) -> str:
        """Orange while the runner retries; red if that cannot help, because the account is refused."""
        return "red" if self.refused else "orange"


@dataclass(frozen=True)
class StartStep:
    """A step of a start."""

    name: str
    since: datetime
    seconds: float | None
    """How long it took; None until it is done."""


@dataclass(frozen=True)
class Runner:
    """What the console knows of a pipeline's runner."""

    state: str
    """A key of `status_style.PIPELINE`, without regard to an outage of the source."""
    phase: str | None
    """starting, snapshot or streaming."""
    heartbeat_age_s: float | None
    alive: bool
    """Whether its process lives, or its heartbeat is recent."""
    host: str | None
    pid: int | None
    spark_ui: str | None
    """The URL of the Spark UI; None without a live runner."""
    started: datetime | None
    last_seen: datetime | None
    """The last heartbeat, or else the last event of the journal."""
    error: ErrorRecord | None
    """The error that ended the run."""
    exit_code: int | None
    away: Away | None = None
    """An outage of the source; None if the source is reachable."""
    startup: tuple[StartStep, ...] = ()
    """The steps of its start."""
    unwritten: Unwritten | None = None
    """Why a live runner writes nothing; None if it can."""
    continued: datetime | None = None
    """When a live runner last began or continued to read: after a start, a pause, or an outage of source or writing."""
    reason: str = ""
    """Who paused a live runner, and why; empty if it is not paused."""
    frozen: FrozenRunner | None = None
    """Its process, if that lives but sends no heartbeats."""
    silent_spark: bool = False
    """Whether its Spark does not answer."""

    @property
    def responds(self) -> bool:
        """Whether it is alive and sends heartbeats: what it says of itself is current."""
        return self.alive and self.frozen is None

    @property
    def shown_state(self) -> str:
        """The key of `status_style.PIPELINE` that is shown.

        "away" during an outage of the source, "refused" if it refuses the login, "privileges" if the account lacks
        some, a `WriteFault` if it cannot write.
        """
        away = None if self.away is None else self.away.cause
        return shown_state(self.state, away=away, unwritten=self.unwritten.fault if self.unwritten else None)

    @property
    def page_state(self) -> tuple[str, bool]:
        """What the buttons and boxes of a page depend on: if it changes, the page is drawn again."""
        return self.shown_state, self.alive

    @property
    def style(self) -> Style:
        """How the state is shown."""
        return PIPELINE[self.shown_state]

    @property
    def problem(self) -> bool:
        """Whether an operator must act on the runner itself: it failed, is lost, or does not respond."""
        return self.state in ("failed", "lost", "frozen")

    @property
    def needs_resnapshot(self) -> bool:
        """Whether the error that ended the run advises to resnapshot all tables, or some.

        Without that, a restart may fail again.
        """
        everything = self.state == "failed" and self.error is not None and names_full_resnapshot(self.error.hint)
        return everything or bool(self.to_resnapshot)

    @property
    def to_resnapshot(self) -> tuple[str, ...]:
        """The tables that the error that ended the run advises to resnapshot; none if that is all tables."""
        return self.error.resnapshots if self.state == "failed" and self.error is not None else ()

    @property
    def works(self) -> bool:
        """Whether it reads and publishes, so that its rates are those of now."""
        return self.alive and self.shown_state == "running"


@dataclass(frozen=True)
class Layer:
    """One of the three layers."""

    title: str
    headline: str
    """The state in a few words."""
    colour: str
    """A Streamlit colour name: red if an operator must act."""
    details: tuple[str, ...]
    """Facts, the most important first."""
    help: str
    """The tooltip."""


def runner_of(record: RunnerRecord | None, run: Run | None, launched_at: datetime | None = None) -> Runner:
    """The runner, from `runner.json`, the newest run of the journal, and this console's launch.

    The launch is the time at which this console launched a runner, if it did.
    """
    record = record or RunnerRecord("")
    alive, responds = record.alive, record.responds
    ended = run is not None and run.ended is not None
    error = record.error or (error_of(run.error) if run is not None and ended else None)
    heartbeat = _time(record.heartbeat)
    state = record.state or ("ended" if ended else "lost" if run else "new")
    exit_code = run.exit_code if run is not None and ended else None
    if launched_at is not None and not alive and (heartbeat is None or heartbeat < launched_at):
        state, error, exit_code = "starting", None, None
    elif state == "ended":
        as_asked = ended and run is not None and run.outcome == "stopped" and record.error is None
        state = "ended" if as_asked or not (error or exit_code) else "failed"
    elif not alive and state != "new":
        state = "lost"
    elif record.frozen is not None:
        state = "frozen"
    return Runner(
        state=state if state in PIPELINE else "running",
        phase=record.phase,
        heartbeat_age_s=record.heartbeat_age_s,
        alive=alive,
        host=record.host or (run.host if run else None),
        pid=record.pid or (run.pid if run else None),
        spark_ui=record.spark_ui if alive else None,
        started=_time(record.started) or (run.started if run else None),
        last_seen=heartbeat or (run.last_event if run else None),
        error=error,
        exit_code=exit_code,
        away=away_of(record.away) if responds and record.away else None,
        startup=_startup_of(record.startup),
        unwritten=unwritten_of(record.write_outage) if responds else None,
        continued=_time(record.continued),
        reason=record.reason if responds else "",
        frozen=record.frozen,
        silent_spark=responds and any(one.helper == SPARK for one in record.helpers),
    )


def stands_still(runner: Runner) -> str:
    """Why nobody reads the source or writes to the destination; empty if the runner responds and can write."""
    if runner.frozen is not None:
        return f"The runner does not respond. {runner.frozen.message}"
    if runner.unwritten:
        return f"{runner.unwritten.effect} Then the runner continues by itself."
    if runner.alive or runner.state == "starting":
        return ""
    return f"No runner is alive ({runner.style.label}). {runner.error.message if runner.error else ''}".strip()


def _startup_of(steps: Sequence[StartupStep]) -> tuple[StartStep, ...]:
    timed_steps = [(one, _time(one.since)) for one in steps]
    return tuple(StartStep(one.step, since, one.seconds) for one, since in timed_steps if since is not None)


def startup_line(runner: Runner, now: datetime) -> str:
    """The steps of a start with their seconds, such as `preflight ✓ 1.2 s → plan … 3.0 s`; empty once started."""
    if runner.state != "starting" or not runner.alive or not runner.startup:
        return ""
    steps = [f"{one.name} ✓ {words.duration(one.seconds)}" for one in runner.startup if one.seconds is not None]
    open_ = [
        f"{one.name} … {words.duration(round(max((now - one.since).total_seconds(), 0)))}"
        for one in runner.startup
        if one.seconds is None
    ]
    return " → ".join([*steps, " · ".join(open_)] if open_ else [*steps, "connected"])


def away_of(outage: SourceOutage) -> Away | None:
    """An outage with its times; None if this version cannot read them."""
    since, next_try = _time(outage.since), _time(outage.next_try)
    if since is None or next_try is None:
        return None
    gives_up = _time(outage.gives_up_at)
    return Away(since, outage.attempt, next_try, outage.error, gives_up, outage.cause, outage.hint)


def away_line(away: Away, now: datetime) -> str:
    """The length of the outage, the attempts so far, the next attempt, and when the runner gives up."""
    seconds = (now - away.since).total_seconds()
    what = PIPELINE[AWAY_STATES[away.cause]].label.capitalize()
    return " · ".join((f"{what} for {words.duration(round(max(seconds, 0)))}", *tries(away, now)))


def tries(away: Away, now: datetime) -> tuple[str, str, str]:
    """The attempts so far, the next attempt, and when the runner gives up."""
    wait_s = (away.next_try - now).total_seconds()
    until = f"gives up at {words.date_time(away.gives_up)}" if away.gives_up else "no time limit"
    if not away.attempt:
        return "no answer yet", "waiting", until
    following = f"next try in {words.duration(round(wait_s))}" if wait_s >= 1 else "trying now"
    return f"attempt {away.attempt}", following, until


def error_of(value: object) -> ErrorRecord | None:
    """An error, from an object, its JSON or a plain sentence."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            return ErrorRecord.from_json(json.loads(value))
    return ErrorRecord.from_json(value)


def layers(
    runner: Runner,
    lag: Lag | None,
    recent: Sequence[Lag],
    now: datetime,
    stopped: Sequence[str] = (),
    lacks: Sequence[str] = (),
    *,
    others: bool = True,
) -> tuple[Layer, Layer, Layer]:
    """Engine, keeping up, source safe.

    recent: the readings of the last minute, oldest first. stopped: the stopped tables.

    lacks: the required settings that the source lacks, as alerts say it. others: whether other tables continue.
    """
    keeping_up = keeping_up_layer(runner, lag, recent, now, stopped, others=others)
    safe = _lacking_layer(lacks) if lacks and runner.responds else source_layer(runner, lag, now)
    return engine_layer(runner, now), keeping_up, safe


def stale_since(runner: Runner, lag: Lag | None, now: datetime) -> datetime | None:
    """Since when the numbers are stale; None if they are current."""
    followed = _followed(runner)
    if lag is not None and not is_current((now - lag.ts).total_seconds(), followed=followed):
        return lag.ts
    return None if followed else runner.last_seen


def _followed(runner: Runner) -> bool:
    return runner.responds and runner.away is None


def lag_words(runner: Runner, lag: Lag | None, now: datetime) -> str:
    """The lag, as `status` says it; without a current reading, the most that it can be."""
    if lag is None:
        return words.NOTHING
    return known_lag(lag.lag_s, (now - lag.ts).total_seconds(), followed=_followed(runner)).words


def retention_left_s(runner: Runner, lag: Lag | None, now: datetime) -> float | None:
    """The time until the source purges what the pipeline needs; without a new reading, the rest of the last one."""
    if lag is None or lag.runway_s is None:
        return None
    passed_s = 0.0 if stale_since(runner, lag, now) is None else (now - lag.ts).total_seconds()
    return max(lag.runway_s - passed_s, 0.0)


def engine_layer(runner: Runner, now: datetime) -> Layer:
    """Whether the runner is alive, and what it does."""
    details = []
    if runner.away is not None:
        since = f"for {words.duration(round(max((now - runner.away.since).total_seconds(), 0)))}"
        details += [since, *tries(runner.away, now)[:2], f"heartbeat {words.duration(runner.heartbeat_age_s)} ago"]
    elif runner.responds:
        details.append(runner.reason)
        details.append(f"heartbeat {words.duration(runner.heartbeat_age_s)} ago")
        details.append(phase_words(runner))
    elif runner.state == "failed":
        details.append(exit_words(runner.exit_code, runner.error))
    elif runner.state in ("frozen", "lost", "ended"):
        details.append(f"last heartbeat {words.time_of_day(runner.last_seen)}")
    elif runner.state == "new":
        details.append("nothing read yet")
    elif runner.state == "starting":
        details.append("waiting for the first heartbeat")
    where = f" It runs on {runner.host}, pid {runner.pid}." if runner.host and runner.pid and runner.alive else ""
    tip = f"{runner.style.meaning}.{where}"
    return Layer("Engine", runner.style.label.capitalize(), runner.style.colour, tuple(filter(None, details)), tip)


def exit_words(code: int | None, error: ErrorRecord | None) -> str:
    """The exit code and its meaning. Code 1 has many causes: it is called unexpected only if there is no error."""
    if code is None:
        return "it ended with an error"
    if code == 1 and error:
        return "exit code 1: the error is below"
    return f"exit code {code}: {EXIT_CODES.get(code, 'unknown')}"


def phase_words(runner: Runner) -> str:
    """The phase in plain words."""
    return {
        "starting": "connecting",
        "snapshot": "copying",
        "streaming": "streaming",
    }.get(runner.phase or "", runner.phase or "")


def keeping_up_layer(
    runner: Runner,
    lag: Lag | None,
    recent: Sequence[Lag],
    now: datetime,
    stopped: Sequence[str] = (),
    *,
    others: bool = True,
) -> Layer:
    """The lag behind the source, by the source's clock. An idle source has no lag. A stopped table does not keep up."""
    tip = (
        "The age, by the source's clock, of the oldest committed transaction that is not yet published, and the size "
        "of the binlog from there on. An idle source has no lag."
    )
    if lag is None:
        headline, colour = "Not measured yet", "gray"
        details = ("the first reading follows two seconds after connecting",)
        return Layer("Keeping up", headline, colour, details, tip)
    stale, mirrors = stale_since(runner, lag, now), ""
    numbers = f"lag {lag_words(runner, lag, now)}"
    headline, colour, detail = _verdict(runner, lag, recent, stale, now)
    if waits_to_merge(lag) and colour == "green":
        headline, colour, detail = (
            "Waits to be merged",
            "orange",
            "readers of the mirrors do not see the newest changes",
        )
    if stale is None and runner.unwritten:
        says = runner.unwritten.words
        headline, colour, detail = says.headline, runner.unwritten.colour, runner.unwritten.lag
    elif stale is None and stopped and runner.works:
        headline, colour = f"{words.plural(len(stopped), 'table')} stopped", "red"
        detail = "the others continue" if others else "no other table is left"
    if stale is None:
        numbers += f" · {words.size(lag.lag_bytes)}"
        behind = words.duration(lag.mirror_age_s)
        mirrors = f"tables up to {behind} old" if runner.unwritten else f"mirrors {behind} behind the change log"
        mirrors = mirrors if lag.mirror_age_s else ""
        if stopped and colour == "red" and not runner.unwritten:  # the lag of the other tables is not the problem
            numbers, detail = detail, numbers
    return Layer("Keeping up", headline, colour, tuple(filter(None, (numbers, detail, mirrors))), tip)


def waits_to_merge(lag: Lag | None) -> bool:
    """Whether a mirror has lacked published changes for long."""
    return lag is not None and (lag.mirror_age_s or 0.0) >= MERGE_WAITS_S


def _verdict(
    runner: Runner, lag: Lag, recent: Sequence[Lag], stale: datetime | None, now: datetime
) -> tuple[str, str, str]:
    """Headline, colour and detail of a measured lag."""
    if stale is not None:
        colour = runner.away.colour if runner.away is not None else "gray"
        return "Not current", colour, f"since {words.time_of_day(stale)}"
    if runner.state == "paused":
        return "Paused, lag grows", "violet", "resume to catch up"
    if lag.lag_s is None:
        return "Unknown", "gray", "no commit seen yet"
    if lag.lag_s < LAG_FINE_S:
        return "Keeping up", "green", "" if lag.lag_bytes or lag.mirror_age_s else "nothing is waiting"
    return _large_lag(runner, lag, recent, now)


def _large_lag(runner: Runner, lag: Lag, recent: Sequence[Lag], now: datetime) -> tuple[str, str, str]:
    """Headline, colour and detail of a large lag: whether it grows or shrinks, as far as that is known."""
    if runner.silent_spark:
        return "Spark does not answer", "red", "nothing is read: the panel says what to do"
    since = runner.continued
    lags_s = [one.lag_s for one in recent if one.lag_s is not None and (since is None or one.ts >= since)]
    if lags_s and (lag.lag_s or 0.0) < lags_s[0]:
        return "Catching up", "orange", "the lag shrinks; nothing to do"
    if since is not None and (now - since).total_seconds() < CATCHES_UP_S:
        return "Catching up", "orange", f"it reads again since {words.time_of_day(since)}; nothing to do"
    return "Falling behind", "red", "the lag grows: add slots, or capture less"


def _lacking_layer(lacks: Sequence[str]) -> Layer:
    """The source's light without a required setting: rows cannot be followed, however long the binlog is kept."""
    tip = "A run requires these settings of the source. The alert has the statement that corrects them."
    return Layer(
        "Source safe", "Settings changed", "red", (*lacks, "the alert has the statement that corrects it"), tip
    )


def source_layer(runner: Runner, lag: Lag | None, now: datetime) -> Layer:
    """How long the source keeps the binlog that the pipeline still needs.

    Without a reading, the time left gets shorter.
    """
    tip = "The time until the source purges the binlog at the committed position. After that, only a resnapshot helps."
    if runner.state == "failed" and runner.error is not None and runner.error.error == SourceLostError.__name__:
        return Layer(
            "Source safe", "Position lost", "red", ("the source lacks what follows it: the error says what helps",), tip
        )
    if lag is None:
        return Layer("Source safe", "Not measured yet", "gray", ("measured after connecting",), tip)
    tip += f" Committed position: {lag.position or 'none yet'}."
    return Layer("Source safe", *_retention(runner, lag, now), tip)


def _retention(runner: Runner, lag: Lag, now: datetime) -> tuple[str, str, tuple[str, ...]]:
    """Headline, colour and details of a position whose retention was measured."""
    left_s, stale = retention_left_s(runner, lag, now), stale_since(runner, lag, now)
    if left_s is None:
        return "Retention left unknown", "gray", ("no time limit is known for the binlog of the source",)
    if left_s == 0:
        do = "if it did, only a resnapshot of all tables helps, and the next read says so"
        return "Maybe purged", "red", ("the source may have purged the committed position", do)
    time_left = f"retention left {'about ' if stale is not None else ''}{words.duration(round(left_s))}"
    if left_s < RETENTION_RED_S:
        do = "reach the source" if runner.away is not None else "raise the source's binlog retention now"
        return "About to be purged", "red", (time_left, do)
    if stale is not None:
        colour = runner.away.colour if runner.away is not None else "gray"
        return "Not current", colour, (time_left, f"since {words.time_of_day(stale)}")
    little = left_s < RETENTION_AMBER_S
    return "Little retention left" if little else "Safe", "orange" if little else "green", (time_left,)


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
