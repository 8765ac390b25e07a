"""The rows of the history."""

from app.history.view.past import past
from engine.history.runs import Run, RunTotals
from tests.unit.app.support import NOW, ago


def run(name: str, *, ended: bool, code: int | None = None, error: str | None = None, outcome: str = "") -> Run:
    """A run of an hour ago."""
    end = ago(3000) if ended else None
    return Run(
        "p",
        name,
        ago(3600),
        ago(2900),
        None,
        None,
        None,
        None,
        end,
        outcome or ("failed" if code else "stopped"),
        code,
        error,
        "running",
        None,
        None,
        None,
    )


def test_history_distinguishes_running_from_lost() -> None:
    """Only the newest run can be under way, and only with a live runner."""
    runs = [run("c", ended=False), run("b", ended=False), run("a", ended=True, code=4, error='{"message": "purged"}')]
    totals = {("p", "a"): RunTotals("p", "a", 1000, 3, 10.0, 50, 2, 1)}
    newest, lost, failed = past(runs, totals, {"p"}, NOW)
    assert (newest.outcome, newest.duration_s) == ("running", 3600)
    assert (lost.outcome, lost.duration_s) == ("lost", 700)
    assert (failed.outcome, failed.reason) == ("failed", "purged")
    assert (failed.rows_s, newest.rows_s) == (100, None)
    (silent,) = past([run("d", ended=True, code=4)], {}, set(), NOW)
    assert (silent.outcome, silent.reason) == ("failed", "the source can no longer be streamed")
    assert (failed.errors, silent.errors, newest.errors) == (1, 1, 0), "what ended a run is an error"
    assert past(runs[:1], {}, set(), NOW)[0].reason == "the heartbeat stopped"
    stops = '{"message": "1 of 3 tables stopped: d.t."}'
    (asked,) = past([run("e", ended=True, code=1, error=stops, outcome="stopped")], {}, set(), NOW)
    assert (asked.outcome, asked.reason) == ("stopped", "1 of 3 tables stopped: d.t."), "an operator stopped it"
