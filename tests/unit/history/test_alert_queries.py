"""Cleared alerts, with the value that raised them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engine.history import History
from engine.history.alert_queries import cleared
from tests.support.simulation import SimulatedTable, Simulation

START = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)


def test_a_cleared_alert_has_the_value_of_its_last_notice(tmp_path: Path) -> None:
    """Also if it was raised in an earlier run. A standing alert is not listed."""
    runs = [
        Simulation(tmp_path / name, [SimulatedTable("d.t", 100, 1)], start=START, run=run)
        for name, run in (("shop", "a"), ("shop", "b"), ("crm", "a"))
    ]
    first, later, other = runs

    def say(run: Simulation, event: str, at_s: float, kind: str, table: str | None = None, **more: Any) -> None:
        run.now = START + timedelta(seconds=at_s)
        run.write(f"alert.{event}", kind=kind, table=table, since=more.pop("since", "s1"), **more)

    say(first, "raised", 1, "run_failed", value=4, message="The run failed: 4")
    say(first, "raised", 2, "run_failed", value=1, message="The run failed: 1", repeat=1)
    say(first, "raised", 3, "table_stopped", "d.t", message="stopped")
    say(first, "raised", 3, "table_stopped", "d.u", message="another")
    say(later, "cleared", 9, "run_failed", value=None, message="A later run is running.")
    say(later, "cleared", 10, "table_stopped", "d.t", message="streams")
    say(other, "raised", 4, "lag", value=75.5, threshold=60, message="75 s")
    say(other, "cleared", 5, "lag", value=2.5, threshold=60, message="2 s")
    say(other, "raised", 6, "lag", value=99.0, threshold=60, message="99 s", since="s2")
    index = History(None)
    index.refresh({run.directory for run in runs})
    found = cleared(index.cursor())
    assert [(one.pipeline, one.kind, one.table, one.value, one.threshold, one.message) for one in found] == [
        ("shop", "table_stopped", "d.t", None, None, "stopped"),
        ("shop", "run_failed", None, 1.0, None, "The run failed: 1"),
        ("crm", "lag", None, 75.5, 60.0, "75 s"),
    ]
    assert found[0].cleared == START + timedelta(seconds=10)
    assert [one.pipeline for one in cleared(index.cursor(), "crm")] == ["crm"]
    assert len(cleared(index.cursor(), limit=1)) == 1
    index.close()
