"""The section on what has changed on the source."""

from app.live.view.source_changes import compared, rows
from engine.pipeline.runner_record import RunnerRecord

CHANGES = [
    {"what": "setting", "name": "sync_binlog", "before": "1", "after": "0", "seen": "2026-01-31T00:00:05.000000Z"},
    {"what": "version", "name": "version", "before": "9.6", "after": "9.7", "seen": "2026-01-31T00:01:05.000000Z"},
]
SOURCE = {"compared": "2026-01-31T00:02:00.000000Z", "facts": 60, "changes": CHANGES}


def test_the_newest_change_stands_first_with_both_values() -> None:
    """The version has no other name."""
    found = compared(RunnerRecord.from_json({"state": "running", "source": SOURCE}))
    assert found is not None
    assert [(one["What"], one["Name"], one["Before"], one["Now"]) for one in rows(found)] == [
        ("Version", "", "9.6", "9.7"),
        ("Setting", "sync_binlog", "1", "0"),
    ]


def test_nothing_is_said_without_a_comparison_and_a_failing_one_is_named() -> None:
    """A runner that is gone compares nothing; one whose helper fails has compared for the last time then."""
    assert compared(None) is None
    assert compared(RunnerRecord("running")) is None
    helpers = [{"helper": "webhook", "message": "no"}, {"helper": "hidden changes", "message": "It met an error."}]
    found = compared(RunnerRecord.from_json({"state": "running", "source": SOURCE, "helpers": helpers}))
    assert found is not None
    assert (found.facts, found.failing) == (60, "It met an error.")
