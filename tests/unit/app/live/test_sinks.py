"""What Live shows of further sinks."""

from datetime import UTC, datetime

from app.live.view.sinks import rows
from engine.pipeline.runner_record import SinkProgress

NOW = datetime(2026, 11, 27, 12, 0, 30, tzinfo=UTC)


def test_each_state_says_whether_epochs_are_lacking() -> None:
    """Up to date is only said of one that lacks nothing."""
    since = "2026-11-27T12:00:00.000000Z"
    sinks = [
        SinkProgress("a", "parquet", "/a", "publishing", 7, None, 0, 1 << 30),
        SinkProgress("b", "parquet", "/b", "publishing", 7, since, 1 << 20, 1 << 30),
        SinkProgress("c", "parquet", "/c", "retrying", -1, since, 1 << 20, 1 << 30, "No space left"),
        SinkProgress("d", "parquet", "/d", "stopped", error="too much"),
    ]
    found = rows(sinks, NOW)
    assert [row["State"] for row in found] == ["up to date", "catching up", "retrying", "stopped"]
    assert [row["Why"] for row in found] == ["—", "—", "No space left", "too much"]
    assert found[2]["Through epoch"] == "—"
    assert "30" in found[1]["Behind since"]
    assert " of " in found[1]["Kept for it"]
