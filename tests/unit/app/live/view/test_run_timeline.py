"""The timeline: phases that follow from the journal's events, interruptions, and the events behind them."""

from collections.abc import Sequence
from datetime import datetime

from app.common.view.status_style import HEX
from app.live.view import run_timeline
from app.live.view.run_timeline import Span
from engine.base.clock import utc_text
from engine.history.runs import Run
from engine.history.timeline_queries import CaughtUp, Copying, Moment
from tests.unit.app.support import NOW, ago, moment

STARTED = [moment(100, "run.started"), moment(95, "run.connected"), moment(95, "run.state", "running")]
LIVES = {"r": NOW}


def phases(
    moments: Sequence[Moment],
    copies: Sequence[Copying] = (),
    small: Sequence[float] = (),
    lives: dict[str, datetime] = LIVES,
) -> list[tuple[str, float, float]]:
    """(phase, begin, end) in seconds before now. small: when the lag was small."""
    spans = run_timeline.activity(moments, copies, lives, NOW)
    starts = [span.begin for span in spans if span.name == run_timeline.STREAMING]
    reached = [CaughtUp(at, next((ago(s) for s in small if ago(s) >= at), None)) for at in starts]
    return [_seconds(span) for span in run_timeline.phases(spans, reached)]


def _seconds(span: Span) -> tuple[str, float, float]:
    return span.name, (NOW - span.begin).total_seconds(), (NOW - span.end).total_seconds()


def test_a_run_starts_copies_catches_up_and_follows() -> None:
    """In this order, without a gap."""
    copies = [Copying(ago(95), "r", True), Copying(ago(40), "r", False)]
    assert phases(STARTED, copies, [90, 30]) == [
        ("starting", 100, 95),
        ("copying", 95, 40),
        ("catching up", 40, 30),
        ("streaming", 30, 0),
    ]


def test_a_frozen_runner_does_nothing_since_its_last_heartbeat() -> None:
    """Its phase ends there, and a red one follows."""
    spans = run_timeline.activity(STARTED, (), {"r": ago(40)}, NOW, "r")
    assert [_seconds(span) for span in spans] == [
        ("starting", 100, 95),
        ("streaming", 95, 40),
        ("not responding", 40, 0),
    ]
    assert run_timeline.COLOURS["not responding"] == HEX["red"]
    assert run_timeline.activity(STARTED, (), {"r": ago(40)}, NOW)[-1].name == run_timeline.NO_RUNNER


def test_after_a_pause_a_run_catches_up_again() -> None:
    """While it is paused there is no phase."""
    found = [*STARTED, moment(60, "run.state", "paused", "ada: backup"), moment(40, "run.state", "running")]
    assert phases(found, (), [95, 20]) == [
        ("starting", 100, 95),
        ("streaming", 95, 60),
        ("catching up", 40, 20),
        ("streaming", 20, 0),
    ]
    (pause,) = run_timeline.interruptions(found, LIVES, NOW)
    assert (pause.row, pause.name, pause.begin, pause.end) == ("Pauses", "paused: ada: backup", ago(60), ago(40))


def test_an_outage_begins_when_the_source_was_last_heard() -> None:
    """Not with the first failed try; and a later try does not begin another one."""
    since = utc_text(ago(70))
    found = [
        *STARTED,
        moment(65, "source.away", text="refused", since=since),
        moment(60, "source.away", text="refused", since=since),
        moment(50, "source.back", since=since),
    ]
    assert phases(found, (), [95, 45]) == [
        ("starting", 100, 95),
        ("streaming", 95, 70),
        ("catching up", 50, 45),
        ("streaming", 45, 0),
    ]
    (outage,) = run_timeline.interruptions(found, LIVES, NOW)
    assert (outage.row, outage.begin, outage.end) == ("Outages", ago(70), ago(50))
    assert outage.name == "source unavailable: refused"


def test_a_lost_run_ends_with_its_last_event() -> None:
    """Nobody knows more, and the time until the next run has no runner."""
    found = [*STARTED, moment(10, "run.started", run="s"), moment(5, "run.connected", run="s")]
    assert phases(found, (), [95, 5], {"r": ago(60), "s": NOW}) == [
        ("starting", 100, 95),
        ("streaming", 95, 60),
        ("no runner", 60, 10),
        ("starting", 10, 5),
        ("streaming", 5, 0),
    ]
    assert phases(STARTED, (), [95], {"r": ago(60)})[-1] == ("no runner", 60, 0)


def test_a_pause_ends_with_its_run() -> None:
    """A paused runner that was lost does not pause the time after it."""
    found = [*STARTED, moment(80, "run.state", "paused")]
    (pause,) = run_timeline.interruptions(found, {"r": ago(50)}, NOW)
    assert (pause.begin, pause.end) == (ago(80), ago(50))
    assert phases(found, (), [95], {"r": ago(50)})[-1] == ("no runner", 50, 0)


def test_a_run_that_never_connected_only_starts() -> None:
    """And an end without a start before it, from a time that is not shown, is no phase."""
    found = [
        moment(120, "run.ended", "stopped", run="q"),
        moment(100, "run.started"),
        moment(80, "run.ended", "failed"),
    ]
    assert phases(found) == [("starting", 100, 80), ("no runner", 80, 0)]


def test_redumps_and_alerts_last_until_they_end() -> None:
    """Those that have not ended last until now."""
    found = [
        moment(90, "command.accepted", "redump", "wrong totals", id="a"),
        moment(80, "alert.raised", "lag", "75 s behind", id="lag x", since=utc_text(ago(85))),
        moment(70, "command.done", "redump", id="a"),
        moment(60, "command.accepted", "redump", id="b"),
        moment(50, "alert.cleared", "lag", id="lag x"),
        moment(40, "command.done", "redump", id="unknown"),
    ]
    shown = [(one.row, one.name, *_seconds(one)[1:]) for one in run_timeline.lasting(found, LIVES, NOW)]
    assert shown == [
        ("Redumps", "redump: wrong totals", 90, 70),
        ("Alerts", "Lag: 75 s behind", 85, 50),
        ("Redumps", "redump", 60, 0),
    ]


def test_each_line_leads_to_its_event() -> None:
    """Newest first; phases are no lines of their own."""
    found = [*STARTED, moment(30, "source.event", "evolved", "ALTER TABLE t", table="d.t")]
    spans = [
        *run_timeline.activity(found, (), LIVES, NOW),
        Span("Pauses", ago(50), ago(40), "paused", moment(50, "run.state")),
    ]
    lines = run_timeline.lines(spans, run_timeline.instants(found))
    assert [(row, text) for _, row, text, _ in lines] == [
        ("Schema changes", "d.t evolved: ALTER TABLE t"),
        ("Pauses", "paused, for 10 s"),
    ]
    assert run_timeline.name_of(lines[0][3]) == "r:970"


def test_a_click_finds_the_closest_event() -> None:
    """By time."""
    early, late = moment(90, "run.started"), moment(30, "run.ended")
    timed = [(early.ts, early), (late.ts, late)]
    assert run_timeline.nearest(timed, ago(45)) == late
    assert run_timeline.nearest(timed, ago(85)) == early
    assert run_timeline.nearest([], NOW) is None


def test_spans_are_cut_to_the_time_shown() -> None:
    """And those outside of it are left out."""
    spans = [Span("Phase", ago(100), ago(40), "copying"), Span("Phase", ago(200), ago(150), "starting")]
    assert run_timeline.within(spans, ago(60), NOW) == [Span("Phase", ago(60), ago(40), "copying")]


def test_no_bar_reaches_beyond_the_life_of_its_runner() -> None:
    """Phases, outages, redumps and most alerts end when the runner was last alive, however short ago that was."""
    lost = {"r": ago(4)}
    assert phases(STARTED, (), [95], lost)[-2:] == [("streaming", 95, 4), ("no runner", 4, 0)]
    away = [*STARTED, moment(50, "source.away", text="refused", since=utc_text(ago(50)))]
    (outage,) = run_timeline.interruptions(away, lost, NOW)
    assert outage.end == ago(4)
    found = [
        moment(60, "command.accepted", "redump", id="b"),
        moment(50, "alert.raised", "lag", id="lag x", since=utc_text(ago(50))),
        moment(3, "alert.raised", "runner_lost", id="runner_lost x", since=utc_text(ago(4)), run="watch"),
    ]
    ends = {span.name: span.end for span in run_timeline.lasting(found, lost, NOW)}
    assert ends == {"redump": ago(4), "Lag": ago(4), "Runner lost": NOW}
    assert {one.end for one in run_timeline.lasting(found, lost | {"s": NOW}, NOW)} == {NOW}, "another run continues"


def test_a_run_lived_until_its_last_event_or_heartbeat() -> None:
    """A runner without events may have sent heartbeats; those of another run say nothing of it."""
    run = Run("p", "r", ago(90), ago(20), None, None, None, None, None, None, None, None, "running", None, None, None)
    assert run_timeline.lived_until(run, NOW, {"r": ago(5)}, alive=False) == ago(5)
    assert run_timeline.lived_until(run, NOW, {"s": ago(5)}, alive=False) == ago(20)
    assert run_timeline.lived_until(run, NOW, {}, alive=True) == NOW


def test_a_restart_is_a_start_after_another_run() -> None:
    """The first start is none, nor is an end; the end is listed with its outcome."""
    first = [moment(100, "run.started"), moment(80, "run.ended", "failed")]
    assert run_timeline.instants(first) == []
    again = [*first, moment(50, "run.started", run="s")]
    assert [(one.row, one.at) for one in run_timeline.instants(again)] == [("Restarts", ago(50))]
    spans = run_timeline.activity(again, (), {"s": NOW}, NOW)
    listed = [*run_timeline.instants(again), *run_timeline.run_bounds(again)]
    assert [text for *_, text, _ in run_timeline.lines(spans, listed)] == [
        "run started",
        "run ended: failed",
        "run started",
    ]


def test_a_full_disk_is_no_pause() -> None:
    """Nobody paused: its bar says what it is."""
    found = [
        *STARTED,
        moment(60, "run.state", "paused", "disk full (log: no space)"),
        moment(40, "run.state", "running"),
    ]
    (span,) = run_timeline.interruptions(found, LIVES, NOW)
    assert span.name == "disk full: log: no space"
