"""The three layers of a pipeline's health.

The runner is alive, it keeps up, and the source still has the binlog it needs.

Each layer has its own state, in words and with a colour that shows who must act. If the runner is not alive, the last
numbers stay, in grey, with the time of the reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.common.view import words
from app.common.view.runner_view import Runner, tries
from engine.base import exit_codes
from engine.base.errors import ErrorRecord, SourceLostError
from engine.history.series import Lag
from engine.pipeline.known_lag import NOT_MEASURED, is_current, known_lag

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


def position_lost(runner: Runner) -> bool:
    """Whether a run has ended because the source no longer has what follows the committed position."""
    return runner.state == "failed" and runner.error is not None and runner.error.error == SourceLostError.__name__


def retention_left_s(runner: Runner, lag: Lag | None, now: datetime) -> float | None:
    """The time until the source purges what the pipeline needs; without a new reading, the rest of the last one.

    0 once the position is lost, whatever was measured before.
    """
    if position_lost(runner):
        return 0.0
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
        "of the binlog from there on. An idle source has no lag. Readable in: how soon after its commit on the source "
        "a change could be read, in the median and for 99 % of the changes of the last ten minutes. "
        "sink.merge_interval_s, poll_interval_s and max_epoch_interval_s trade it against files written."
    )
    if lag is None:
        headline, colour = NOT_MEASURED.capitalize(), "gray"
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
    fresh = freshness_words(lag) if stale is None and not runner.unwritten else ""
    return Layer("Keeping up", headline, colour, tuple(filter(None, (numbers, detail, mirrors, fresh))), tip)


def freshness_words(lag: Lag) -> str:
    """How soon after its commit a change can be read: of half of them, and of 99 %; "" if none came lately."""
    places = [("log", lag.log_p50_s, lag.log_p99_s), ("mirrors", lag.mirror_p50_s, lag.mirror_p99_s)]
    parts = [f"{name} {words.ages({'p50': p50_s, 'p99': p99_s})}" for name, p50_s, p99_s in places if p50_s and p99_s]
    return f"readable in {', '.join(parts)}" if parts else ""


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
    changes = [one.partition(": ")[2].rstrip(".") or one for one in lacks]
    return Layer(
        "Source safe", "Settings changed", "red", (*changes, "the alert has the statement that corrects it"), tip
    )


def source_layer(runner: Runner, lag: Lag | None, now: datetime) -> Layer:
    """How long the source keeps the binlog that the pipeline still needs.

    Without a reading, the time left gets shorter.
    """
    tip = "The time until the source purges the binlog at the committed position. After that, only a resnapshot helps."
    if position_lost(runner):
        return Layer(
            "Source safe", "Position lost", "red", ("the source lacks what follows it: the error says what helps",), tip
        )
    if lag is None:
        return Layer("Source safe", NOT_MEASURED.capitalize(), "gray", ("measured after connecting",), tip)
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
