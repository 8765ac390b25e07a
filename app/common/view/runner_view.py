"""A pipeline's runner as pages show it: its state, outages, start and end, from `runner.json` and the history."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from app.common.view import words
from app.common.view.hints import names_full_resnapshot
from app.common.view.status_style import PIPELINE, Style
from app.common.view.write_words import Unwritten, unwritten_of
from engine.base.errors import ErrorRecord
from engine.history.runs import Run
from engine.journal.outage_causes import Cause
from engine.pipeline.frozen_runner import FrozenRunner, UnseenRunner
from engine.pipeline.helpers import SPARK
from engine.pipeline.runner_record import RunnerRecord, SourceOutage, StartupStep
from engine.pipeline.state_words import AWAY_STATES, shown_state


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
    unseen: UnseenRunner | None = None
    """That of a lost one, if it may be frozen."""
    gone: bool = False
    """Whether the process of a lost one is known to have ended."""

    @property
    def responds(self) -> bool:
        """Whether it is alive and sends heartbeats: what it says of itself is current."""
        return self.alive and self.frozen is None

    @property
    def shown_state(self) -> str:
        """The key of `status_style.PIPELINE` that is shown.

        "away" during an outage of the source, "refused" if it refuses the login, "privileges" if the account lacks
        some, a `WriteFault` if it cannot write, "silent_spark" if its Spark does not answer.
        """
        away = None if self.away is None else self.away.cause
        unwritten = self.unwritten.fault if self.unwritten else None
        return shown_state(self.state, away=away, unwritten=unwritten, silent_spark=self.silent_spark)

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
        unseen=record.unseen if state == "lost" else None,
        gone=state == "lost" and bool(record.pid and record.host) and record.unseen is None,
    )


def stands_still(runner: Runner) -> str:
    """Why nobody reads the source or writes to the destination; empty if the runner responds and can write."""
    if runner.frozen is not None:
        return f"The runner does not respond. {runner.frozen.message}"
    if runner.unwritten:
        return f"{runner.unwritten.effect} {runner.unwritten.words.then}"
    if runner.alive or runner.state == "starting":
        return ""
    if runner.unseen is not None:
        return runner.unseen.message
    return f"No runner is alive ({runner.style.label}). {runner.error.message if runner.error else ''}".strip()


def stop_during_start(runner: Runner) -> str:
    """What a stop during the start waits for, and how to end the process without it; empty if there is none."""
    if not runner.responds or (runner.state, runner.phase) != ("stopping", "starting"):
        return ""
    pid = runner.pid
    return (
        "The run ends once the step of its start that is under way has ended, such as Spark's. Nothing is read. If "
        f"that step hangs, run this twice on {runner.host}: kill {pid}. The second one ends the run at once; or else "
        f"kill -9 {pid}. Committed data is complete."
    )


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


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
