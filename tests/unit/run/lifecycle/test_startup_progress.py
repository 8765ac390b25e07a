"""The steps of a start are in the heartbeat while they happen."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.run.commands.heartbeat import Activity
from engine.run.lifecycle.startup_progress import StartupProgress


def test_a_step_is_shown_while_it_runs_and_with_its_seconds_afterwards() -> None:
    """Steps keep the order in which they began."""
    activity = Activity()
    startup = StartupProgress(activity)
    assert startup.run("preflight", lambda: [one["seconds"] for one in activity.startup]) == [None]
    assert startup.run("plan", lambda: 5) == 5
    assert [one["step"] for one in activity.startup] == ["preflight", "plan"]
    assert all(one["seconds"] is not None and one["seconds"] >= 0 for one in activity.startup)


def test_a_failed_step_stays_unfinished() -> None:
    """The run ends with its error."""
    activity = Activity()
    with pytest.raises(ZeroDivisionError):
        StartupProgress(activity).run("plan", lambda: 1 // 0)
    assert activity.startup[0]["seconds"] is None


def test_each_step_is_announced_when_it_begins_and_when_it_is_done() -> None:
    """A person at a terminal sees what takes so long. A step that fails is not called done."""
    said: list[str] = []
    startup = StartupProgress(Activity(), said.append)
    startup.run("Spark", lambda: said.append("at work"))
    with pytest.raises(ZeroDivisionError):
        startup.run("plan", lambda: 1 // 0)
    assert said[:2] == ["starting: Spark …", "at work"]
    assert said[2].startswith("starting: Spark is done after ")
    assert said[3:] == ["starting: plan …"]


def test_steps_of_two_threads_are_all_kept() -> None:
    """Spark starts beside the others."""
    activity = Activity()
    startup = StartupProgress(activity)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: startup.run(str(n), lambda: None), range(400)))
    assert {one["step"] for one in activity.startup} == {str(n) for n in range(400)}
