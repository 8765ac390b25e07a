"""What the console knows of pipelines at a glance, for the badge on every page."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import streamlit as st

from app.common import badge, home
from engine.alerting.acknowledgements import acknowledge
from engine.pipeline.directory import Directory
from engine.pipeline.launch import launch
from engine.pipeline.saved_lists import read_alerts
from tests.support.simulation import SPEC, SimulatedTable, Simulation, real_now

ERROR = {"error": "SourceLostError", "message": "It is purged.", "detail": "", "hint": "Copy again."}


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Simulation]]:
    """Pipelines in all states.

    The runner lives, was lost, failed with and without an error, or ended well; one has no `runner.json`.
    """
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    st.cache_resource.clear()
    then = real_now() - timedelta(minutes=5)
    found = {
        name: Simulation(tmp_path / name, [SimulatedTable("d.t", 100, 1)], start=then).advance(2)
        for name in ("live", "lost", "failed", "stopped_table", "done", "bare")
    }
    found["live"].runner()
    found["lost"].runner(heartbeat=then)
    found["failed"].end("failed", 4, ERROR).runner(heartbeat=then, error=ERROR)
    found["stopped_table"].end("failed", 1).runner(heartbeat=then)
    found["done"].end("done").runner(heartbeat=then)
    found["bare"].end("failed", 4, ERROR)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "pipeline.toml").write_text(SPEC.format(name="new"))
    yield found
    home.history().close()
    st.cache_resource.clear()


def test_a_glance_sees_the_same_problems_as_a_look(pipelines: dict[str, Simulation]) -> None:
    """Also a problem that only the journal has."""
    for _ in range(2):
        seen = {where.root.name: home.glance(where) for where in home.directories()}
        assert {name for name, found in seen.items() if found.problem} == {"lost", "failed", "stopped_table", "bare"}
        assert len(seen) == len(pipelines) + 1
        for where in home.directories():
            looked, glanced = home.runner(where), seen[where.root.name]
            assert (looked.state, looked.last_seen, looked.error) == (glanced.state, glanced.last_seen, glanced.error)


def test_the_badge_counts_alerts_and_problems_that_nobody_has_acknowledged(pipelines: dict[str, Simulation]) -> None:
    """A failed run with an alert counts once. A damaged file holds no alerts."""
    assert badge.waiting() == 4
    live, failed = pipelines["live"], pipelines["failed"]
    live.raise_alert("lag", value=75.0, threshold=60.0)
    live.raise_alert("table_stopped", "d.t")
    failed.raise_alert("run_failed", value=4)
    assert badge.waiting() == 6
    acknowledge(live.directory, read_alerts(live.directory)[0])
    acknowledge(failed.directory, read_alerts(failed.directory)[0])
    lost = pipelines["lost"].directory
    (own,) = home.firing(lost)
    acknowledge(lost, own.standing)
    assert badge.waiting() == 3
    for damage in ("", "{", "[1]", '{"alerts": 5}'):
        Directory(live.directory.root).alerts.write_text(damage)
        assert badge.waiting() == 2


def test_a_launch_that_fails_at_once_is_an_error_of_its_own(pipelines: dict[str, Simulation]) -> None:
    """Whatever the run before it has left: its error, an end, a lost runner, or nothing.

    The page shows the runner's log.
    """
    for name in ("lost", "failed", "done", "bare", "new"):
        where = Directory(home.home() / name)
        where.spec.write_text("no TOML")
        home.launch(where)
        home.launches()[name].process.wait()
        found = home.runner(where)
        assert found.error is not None
        assert (found.state, found.error.message) == ("failed", "The runner ended at once with exit code 2.")
        assert "Correct that line." in home.log_tail(where)


def test_a_relative_home_is_resolved_where_it_enters(
    pipelines: dict[str, Simulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runners start in another folder, and read the spec there."""
    monkeypatch.chdir(home.home())
    monkeypatch.setenv("TIDEMARK_HOME", ".")
    (where,) = (one for one in home.directories() if one.root.name == "new")
    assert where.spec.is_absolute()
    with launch(Path("new/pipeline.toml"), where) as runner:
        runner.wait()
    assert "cannot be read" not in home.log_tail(where)
