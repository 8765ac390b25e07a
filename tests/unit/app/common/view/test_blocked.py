"""The panels of blocked reads."""

from app.common.view.blocked import panels
from engine.pipeline.runner_record import RunnerRecord

READ = {"table": "d.t", "since": "2026-01-31T00:00:00.000000Z", "lock": "table metadata lock", "hint": "KILL 42;"}


def test_each_blocked_table_of_a_live_runner_has_a_panel() -> None:
    """With what to do. A page about one table has only that one's; a runner that is gone reads nothing."""
    reads = [READ, {**READ, "table": "d.u", "hint": ""}]
    record = RunnerRecord.from_json({"state": "running", "blocked": reads})
    first, second = panels(record)
    assert first[0] == "Reads of d.t have waited for a table metadata lock on the source since 2026-01-31 00:00:00 UTC."
    assert (first[2], panels(record, "d.t")) == ("KILL 42;", [first])
    assert "Find the session that holds the lock" in second[2]
    assert panels(None) == []
    assert panels(RunnerRecord.from_json({"state": "running", "blocked": None})) == []
