"""The events behind the timeline: bounded, and with what was under way at its begin."""

from datetime import datetime, timedelta
from pathlib import Path

from engine.base import clock
from engine.history import event_queries, series
from engine.history import timeline_queries as timeline
from tests.support.simulation import Simulation
from tests.unit.history.test_queries import COUNTRIES, ORDERS, START, indexed


def at(seconds: float) -> datetime:
    """An instant after the start."""
    return START + timedelta(seconds=seconds)


def night(folder: Path) -> Simulation:
    """A copy, a pause, and an outage with an alert."""
    run = Simulation(folder / "shop", [ORDERS, COUNTRIES], start=START).advance(20)
    run.command("pause", reason="backup").advance(10).command("resume", "c0ffef").advance(10)
    since = clock.utc_text(run.now)
    for attempt in (1, 2, 3):
        run.write("source.away", since=since, attempt=attempt, retry_in_s=1.0, message="refused", gives_up_at=None)
        run.now += timedelta(seconds=2)
    run.raise_alert("source_away", message="The source is unreachable.", since=since)
    run.write(
        "alert.raised",
        kind="source_away",
        table=None,
        message="m",
        hint="",
        since=since,
        repeat=1,
        value=None,
        threshold=None,
    )
    run.now += timedelta(seconds=2)
    run.write("source.back", since=since, seconds=8.0)
    return run.clear_alert("source_away").advance(4)


def test_repeats_say_nothing_new(tmp_path: Path) -> None:
    """One line for an outage and one for an alert, however long they last, and the ends of both."""
    found = timeline.moments(indexed(night(tmp_path)), "shop", START, at(100))
    names = [one.event for one in found if one.event.startswith(("source.", "alert."))]
    assert names == ["source.away", "alert.raised", "source.back", "alert.cleared"]
    raised, cleared = (one for one in found if one.event.startswith("alert."))
    assert raised.id == cleared.id != ""


def test_the_begin_knows_what_was_under_way(tmp_path: Path) -> None:
    """The run, its state, and the outage and the alert that had not ended."""
    cursor = indexed(night(tmp_path))
    during = timeline.moments(cursor, "shop", at(48), at(100))
    assert [one.event for one in during if one.ts < at(48)] == [
        "run.started",
        "run.connected",
        "run.state",
        "source.away",
        "alert.raised",
    ]
    after = timeline.moments(cursor, "shop", at(51), at(100))
    assert "alert.raised" not in {one.event for one in after}
    assert [one.event for one in timeline.moments(cursor, "shop", START, at(1))].count("run.state") == 1


def test_the_newest_events_are_kept(tmp_path: Path) -> None:
    """With what was under way before."""
    found = timeline.moments(indexed(night(tmp_path)), "shop", at(15), at(100), limit=2)
    assert [one.event for one in found if one.ts >= at(15)] == ["source.back", "alert.cleared"]
    assert found[0].event == "run.started"


def test_a_run_copies_while_one_table_does(tmp_path: Path) -> None:
    """Each run reports its tables again; what an earlier one reported does not count."""
    first = Simulation(tmp_path / "shop", [ORDERS, COUNTRIES], start=START).advance(3)
    again = Simulation(tmp_path / "shop", [ORDERS, COUNTRIES], run="second", start=at(60), resume=first).advance(30)
    cursor = indexed(first, again)
    found = timeline.copying(cursor, "shop", START, at(200))
    assert [(one.run, one.copies) for one in found] == [(first.run, True), ("second", True), ("second", False)]
    assert [one.run for one in timeline.copying(cursor, "shop", at(70), at(200))] == ["second", "second"]


def test_the_first_small_lag_after_each_instant(tmp_path: Path) -> None:
    """None if there was none."""
    run = Simulation(tmp_path / "shop", [ORDERS], start=START)
    for seconds, lag_s in ((2, 40.0), (4, 5.0), (6, 30.0), (8, 1.0)):
        run.now = at(seconds)
        run.write(
            "source.lag",
            position="b:1",
            source_position="b:2",
            lag_s=lag_s,
            lag_bytes=1,
            runway_s=None,
            percentiles=None,
        )
    found = timeline.caught_up(indexed(run), "shop", [at(1), at(4), at(5), at(9)], 10.0)
    assert [one.reached for one in found] == [at(4), at(4), at(8), None]
    assert timeline.caught_up(indexed(run), "shop", [], 10.0) == []


def test_series_end_where_the_chart_ends(tmp_path: Path) -> None:
    """A past run has no readings of later runs, and all its rows, however many chunks they came in."""
    run = Simulation(tmp_path / "shop", [ORDERS, COUNTRIES], start=START).advance(60)
    cursor = indexed(run)
    assert all(one.ts < at(20) for one in series.lag_series(cursor, "shop", START, 2000, at(20)))
    assert all(one.ts < at(20) for one in series.epoch_series(cursor, "shop", START, 2000, at(20)))
    rows = series.row_series(cursor, "shop", START, 2000)
    total = cursor.execute("SELECT sum(rows), count(*) FROM finished").fetchone()
    assert total is not None
    assert sum(one.rows for one in rows) == total[0]
    assert len(rows) < total[1]


def test_one_event_is_found_by_its_name(tmp_path: Path) -> None:
    """And the feed can begin at a time and end before one."""
    cursor = indexed(night(tmp_path))
    found = event_queries.one(cursor, "shop", "20261121-053000-a1b2", 1)
    assert found is not None
    assert found.event == "run.started"
    assert event_queries.one(cursor, "shop", "nobody", 1) is None
    states = event_queries.events(cursor, "shop", ["run.state"], until=at(20))
    assert len(states) == 1
    assert event_queries.events(cursor, "shop", ["run.state"], since=states[0].ts, until=at(20)) == states
    assert states[0] not in event_queries.events(cursor, "shop", ["run.state"], since=at(20))
