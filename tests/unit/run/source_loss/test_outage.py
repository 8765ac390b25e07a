"""How long a run waits for its source, by a simulated clock: for hours, if the binlog is kept for hours."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine.alerting.alerts import ActiveAlerts
from engine.base.clock import parse_utc
from engine.base.errors import (
    LoginRefusedError,
    PrivilegesMissingError,
    SourceAwayError,
    SparkLostError,
    TidemarkError,
    TransientError,
)
from engine.journal import Journal
from engine.journal.events import LagMeasured, RunState
from engine.journal.parts import parts_in
from engine.pipeline.helpers import Helpers
from engine.run.commands.heartbeat import Activity
from engine.run.lifecycle.spark_sessions import PATIENCE_S, SparkSessions
from engine.run.source_loss.outage import EPOCHS, MEASURE_PATIENCE_S, MONITOR, Account, OutageTracker
from engine.spec.alert_settings import Alerts as Settings
from engine.status.terminal import line
from tests.support.entries import entry_of

BEGIN = parse_utc("2026-01-31T06:00:00.000000Z")
GONE = SourceAwayError("Connecting failed.", hint="Check that the server runs.")


class Waiting:
    """The source, journal and clock of one run; `shown` is the content of `runner.json`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.shown: dict[str, Any] | None = None
        monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: self.now_s)
        monkeypatch.setattr("engine.base.clock.utc_now", lambda: BEGIN + timedelta(seconds=self.now_s - 1000.0))
        self.journal = Journal(folder / "j.jsonl", "r")
        self.woken = 0
        self.away = OutageTracker(self.journal, self._show, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def _show(self, outage: dict[str, Any] | None) -> None:
        self.shown = outage

    def is_shown(self) -> bool:
        """Whether an outage is shown."""
        return self.shown is not None

    def measured(self, runway_s: float | None) -> None:
        """The lag monitor's last measurement."""
        self.journal.write(LagMeasured(position="b:4", source_position="b:4", runway_s=runway_s))

    def wait(self, most: int = 100_000) -> tuple[int, float]:
        """Fail until the run ends; returns how often, and after how many seconds."""
        began_s = self.now_s
        with pytest.raises(TransientError) as ended:
            self.try_for(most)
        assert not isinstance(ended.value, SourceAwayError)
        assert "may be purged by now" in ended.value.detail
        return len(self.events("source.away")), self.now_s - began_s

    def try_for(self, tries: int, error: TidemarkError = GONE) -> None:
        """Fail that many times."""
        for _ in range(tries):
            self.now_s += self.away.pause_after(error)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The journal's events."""
        texts = [part.path.read_text() for part in parts_in(self.journal.path.parent)]  # these tests last for days
        lines = map(json.loads, "".join(texts).splitlines())
        return [event for event in lines if event["event"] in kinds]


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    """A run that has just started."""
    made = Waiting(tmp_path, monkeypatch)
    yield made
    made.journal.close()


def test_a_source_is_waited_for_until_its_binlog_may_be_purged(waiting: Waiting) -> None:
    """Here six hours; pauses grow to half a minute, and the last one ends with the runway."""
    waiting.measured(6 * 3600.0)
    tries, seconds = waiting.wait()
    assert seconds == pytest.approx(6 * 3600.0, abs=1)
    assert [e["retry_in_s"] for e in waiting.events("source.away")[:7]] == [1, 2, 4, 8, 16, 30, 30]
    assert tries == pytest.approx(6 * 120, abs=5)
    assert {e["gives_up_at"] for e in waiting.events("source.away")} == {"2026-01-31T12:00:00.000000Z"}


def test_the_end_of_a_wait_does_not_move(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    """From try to try, though time passes while a try is recorded."""
    ticks = count()
    monkeypatch.setattr(
        "engine.base.clock.utc_now", lambda: BEGIN + timedelta(seconds=waiting.now_s - 1000.0, milliseconds=next(ticks))
    )
    waiting.try_for(5, LoginRefusedError("Access denied for user 'x'@'y'", hint="Check the password."))
    assert len({e["gives_up_at"] for e in waiting.events("source.away")}) == 1


def test_a_source_that_does_not_purge_is_waited_for_without_end(waiting: Waiting) -> None:
    """For a week, until it is back."""
    waiting.measured(None)
    for _ in range(7 * 24 * 120):
        waiting.now_s += waiting.away.pause_after(GONE)
    shown = waiting.shown
    assert shown is not None
    assert shown["gives_up_at"] is None
    waiting.away.epoch_done()
    assert waiting.shown is None
    (back,) = waiting.events("source.back")
    assert back["seconds"] == pytest.approx(7 * 86400, rel=0.01)
    assert waiting.away.pause_after(GONE) == 1, "the next outage begins with a short pause"


def test_a_short_runway_is_not_the_end_at_once(waiting: Waiting) -> None:
    """Purging may be late: the run waits at least five minutes."""
    waiting.measured(0.0)
    assert waiting.wait()[1] == pytest.approx(300, abs=1)


def test_the_last_measurement_counts_from_when_it_was_made(waiting: Waiting) -> None:
    """The runway shrinks with time."""
    waiting.measured(3600.0)
    waiting.now_s += 600
    assert waiting.wait()[1] == pytest.approx(3000, abs=1)


def test_a_login_that_is_refused_is_waited_for_minutes(waiting: Waiting) -> None:
    """Then its own error ends the run; a successful login resets the time."""
    waiting.measured(None)
    refused, began_s = LoginRefusedError("Access denied.", hint="Check the password."), waiting.now_s
    with pytest.raises(LoginRefusedError, match="Access denied"):
        waiting.try_for(1000, refused)
    assert waiting.shown is not None
    assert (waiting.shown["refused"], waiting.shown["hint"]) == (True, "Check the password.")
    assert all(event["refused"] for event in waiting.events("source.away"))
    assert waiting.now_s - began_s == pytest.approx(300, abs=1)


def test_lost_privileges_are_waited_for_minutes(waiting: Waiting) -> None:
    """The grants are shown meanwhile, and the error that ends the run has them too: with what to do then."""
    waiting.measured(None)
    waiting.away.preflight_passed(Account("tidemark", ("GRANT SELECT ON `d`.* TO 'tidemark'@'%';",)))
    denied, began_s = PrivilegesMissingError("Access denied (error 1227)."), waiting.now_s
    with pytest.raises(PrivilegesMissingError, match="The account tidemark lacks privileges: Access denied") as ended:
        waiting.try_for(1000, denied)
    assert waiting.shown is not None
    assert (waiting.shown["refused"], waiting.shown["cause"]) == (True, "privileges")
    assert waiting.shown["hint"].splitlines()[0].startswith("Grant them: the run then continues by itself")
    assert ended.value.hint.splitlines()[0].startswith("Grant them, then start the run again")
    for hint in (waiting.shown["hint"], ended.value.hint):
        assert hint.splitlines()[1:] == ["GRANT SELECT ON `d`.* TO 'tidemark'@'%';"]
    assert "Nothing is lost" in ended.value.detail
    assert waiting.now_s - began_s == pytest.approx(300, abs=1)


def test_other_failures_end_the_run_the_tenth_time(waiting: Waiting) -> None:
    """The source is connected then, and not shown as away."""
    for _ in range(9):
        waiting.away.pause_after(TransientError("deadlock"))
    with pytest.raises(TransientError, match="deadlock"):
        waiting.away.pause_after(TransientError("deadlock"))
    assert waiting.shown is None


def test_the_source_is_back_when_nobody_misses_it(waiting: Waiting) -> None:
    """The lag monitor may fail first and recover last.

    It ends no run, and is journalled only if the coordinator has not failed.
    """
    waiting.measured(0.0)
    for _ in range(100):
        waiting.now_s += waiting.away.failed(MONITOR, GONE)
    count = len(waiting.events("source.away"))
    waiting.now_s -= 10_000
    waiting.away.pause_after(GONE)
    waiting.away.failed(MONITOR, GONE)
    assert len(waiting.events("source.away")) == count + 1
    waiting.away.back(EPOCHS)
    assert not waiting.events("source.back")
    waiting.away.back(MONITOR)
    assert len(waiting.events("source.back")) == 1


def test_a_stop_lets_go_of_a_source_that_is_away(waiting: Waiting) -> None:
    """In either order; not while the source is connected."""
    abort_waits: list[float] = []
    with waiting.away.aborting(lambda: abort_waits.append(waiting.now_s)):
        waiting.away.failed(MONITOR, GONE)
        assert not abort_waits
        waiting.journal.write(RunState(state="stopping"))
        assert len(abort_waits) == 1
        waiting.away.back(MONITOR)
        waiting.journal.write(RunState(state="stopping"))
        assert len(abort_waits) == 1
        waiting.away.failed(MONITOR, GONE)
        assert len(abort_waits) == 2
    waiting.away.back(MONITOR)
    waiting.away.failed(MONITOR, GONE)
    assert len(abort_waits) == 2, "the coordinator is gone"


def test_a_source_that_does_not_answer_is_shown_before_the_question_fails(waiting: Waiting) -> None:
    """After a second; nothing is journaled. The outage began with the question."""
    waiting.measured(6 * 3600.0)
    waiting.away.asks()
    waiting.now_s += 0.9
    waiting.away.look()
    assert not waiting.is_shown()
    waiting.now_s += 0.2
    waiting.away.look()
    assert waiting.shown
    assert (waiting.shown["attempt"], waiting.shown["since"]) == (0, "2026-01-31T06:00:00.000000Z")
    assert waiting.shown["gives_up_at"] == "2026-01-31T12:00:00.000000Z"
    assert not waiting.events("source.away")
    waiting.away.answered()
    assert not waiting.is_shown()
    waiting.away.look()
    assert not waiting.is_shown()
    waiting.away.asks()
    waiting.now_s += 15
    waiting.away.failed(MONITOR, GONE)
    assert waiting.shown
    assert (waiting.shown["attempt"], waiting.shown["since"]) == (1, "2026-01-31T06:00:01.100000Z")
    waiting.away.asks()
    waiting.now_s += 5
    waiting.away.look()
    assert waiting.shown["attempt"] == 1
    waiting.away.answered()
    waiting.away.back(MONITOR)
    assert not waiting.is_shown()
    assert [round(event["seconds"]) for event in waiting.events("source.back")] == [20]


def test_a_silent_source_is_shown_again_when_the_epochs_have_it_back(waiting: Waiting) -> None:
    """The monitor's question is still unanswered. A stop lets go of it."""
    freed: list[float] = []
    with waiting.away.aborting(lambda: freed.append(waiting.now_s)):
        waiting.away.asks()
        waiting.now_s += 2
        waiting.away.look()
        waiting.away.failed(EPOCHS, GONE)
        waiting.away.back(EPOCHS)
        assert not waiting.is_shown()
        waiting.away.look()
        assert waiting.shown
        assert not freed
        waiting.journal.write(RunState(state="stopping"))
        assert freed


def test_a_pause_ends_by_request(tmp_path: Path) -> None:
    """And when the monitor is closed."""
    journal, closing = Journal(tmp_path / "j.jsonl", "r"), threading.Event()
    tracker = OutageTracker(journal, lambda _: None)
    for end in (tracker.try_now, closing.set):
        waiter = threading.Thread(target=tracker.pause, args=(3600.0, closing))
        waiter.start()
        time.sleep(0.05)
        assert waiter.is_alive()
        end()
        waiter.join(10)
        assert not waiter.is_alive()
    journal.close()


def test_an_alert_is_raised_after_half_a_minute_and_cleared_when_the_source_is_back(waiting: Waiting) -> None:
    """Once; it is repeated after hours like others. The terminal shows each retry."""
    waiting.measured(6 * 3600.0)
    alerts = ActiveAlerts(Settings(repeat_s=3600))
    notices: list[tuple[Any, ...]] = []
    waiting.journal.listeners.append(lambda heard: notices.extend((heard.ts, *notice) for notice in alerts.hear(heard)))
    for _ in range(130):
        waiting.now_s += waiting.away.pause_after(GONE)
    waiting.away.epoch_done()
    assert [(event.NAME, alert.repeat) for _, event, alert in notices] == [
        ("alert.raised", 0),
        ("alert.raised", 1),
        ("alert.cleared", 1),
    ]
    at, _, alert = notices[0]
    assert at == "2026-01-31T06:00:31.000000Z"
    assert alert.message.startswith(
        "The source is unreachable: Connecting failed. The run waits for it, and gives up at 2026-01-31 12:00:00 UTC"
    )
    assert line(entry_of(waiting.events("source.away")[1])) == (
        "The source is unreachable since 2026-01-31 06:00:00 UTC – attempt 2, next in 2.0 s, "
        "gives up at 2026-01-31 12:00:00 UTC: Connecting failed."
    )
    assert str(line(entry_of(waiting.events("source.back")[0]))).startswith("The source is reachable again after ")


class Signal:
    """A stop signal for `SparkSessions`; waiting takes no time."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self.stopping = False

    def wait(self, seconds: float) -> None:
        self._waiting.now_s += seconds


class Session:
    """A session that can be ended."""

    ui, stopped = None, 0

    def stop(self) -> None:
        self.stopped += 1


def test_a_lost_spark_is_started_again_for_an_hour(waiting: Waiting) -> None:
    """The caller does the first start; an error of the workers at a start ends the run at once."""
    lost, tries = SparkLostError("Spark is gone."), list[float]()

    def start() -> Session:
        tries.append(waiting.now_s)
        if waiting.now_s < 1000 + 1800:
            raise lost if len(tries) % 2 else RuntimeError("Java gateway process exited")
        return Session()

    state, activity, first = Signal(waiting), Activity(), Session()
    sessions = SparkSessions(start, state, activity, waiting.journal, Helpers(waiting.journal), "local[2]")  # type: ignore[arg-type]
    sessions.use(first)  # type: ignore[arg-type]
    second = sessions.replace_lost(lost)
    assert (first.stopped, second is not None, activity.waiting_for) == (1, True, "")
    assert len(tries) == pytest.approx(5 + 1800 / 60, abs=3)
    waiting.now_s, tries[:] = 1000.0, []

    def failing() -> Session:
        raise lost

    sessions = SparkSessions(failing, state, activity, waiting.journal, Helpers(waiting.journal), "local[2]")  # type: ignore[arg-type]
    with pytest.raises(SparkLostError):
        sessions.replace_lost(lost)
    assert waiting.now_s == pytest.approx(1000 + PATIENCE_S, abs=60)
    state.stopping = True
    helpers = Helpers(waiting.journal)
    sessions = SparkSessions(start, state, activity, waiting.journal, helpers, "local[2]")  # type: ignore[arg-type]
    assert sessions.replace_lost(lost) is None


def test_a_measurement_has_more_time_than_a_ping(waiting: Waiting) -> None:
    """A source that freezes in a measurement is shown too, after three seconds."""
    waiting.away.asks(MEASURE_PATIENCE_S)
    waiting.now_s += MEASURE_PATIENCE_S - 0.1
    waiting.away.look()
    assert not waiting.is_shown()
    waiting.now_s += 0.2
    waiting.away.look()
    assert waiting.is_shown()


def test_the_epochs_try_as_soon_as_the_monitor_reaches_the_source(waiting: Waiting) -> None:
    """The monitor asks every five seconds, and nobody waits for the end of a long pause.

    It journals none of its tries.
    """
    pauses = [(waiting.away.failed(EPOCHS, GONE), waiting.away.failed(MONITOR, GONE)) for _ in range(7)]
    assert pauses[-1] == (30.0, 5.0)
    assert len(waiting.events("source.away")) == 7
    waiting.away.back(MONITOR)
    waiting.away.back(MONITOR)
    assert waiting.woken == 1
    assert waiting.is_shown()
    waiting.away.back(EPOCHS)
    assert not waiting.is_shown()
