"""What Live shows of further sinks."""

from datetime import UTC, datetime

from app.live.view.sinks import cards
from engine.pipeline.runner_record import SinkProgress

NOW = datetime(2026, 11, 27, 12, 0, 30, tzinfo=UTC)


def test_each_state_says_whether_epochs_are_lacking() -> None:
    """Up to date is only said of one that lacks nothing. Each state has what an operator can do."""
    since = "2026-11-27T12:00:00.000000Z"
    ages = {"p50": 0.31, "p99": 1.02}
    shown = cards(
        [
            SinkProgress("a", "parquet", "/a", "publishing", 7, None, 0, 1 << 30, None, "b.1:4", 12.4, ages),
            SinkProgress("b", "parquet", "/b", "publishing", 7, since, 1 << 20, 1 << 30),
            SinkProgress("c", "parquet", "/c", "retrying", -1, since, 1 << 20, 1 << 30, "No space left"),
            SinkProgress("d", "parquet", "/d", "stopped", error="too much"),
            SinkProgress("e", "parquet", "/e", "paused", 7, since),
        ],
        NOW,
    )
    assert [one.headline for one in shown] == ["Up to date", "Catching up", "Retrying", "Stopped", "Paused"]
    assert [one.why for one in shown] == ["", "", "No space left", "too much", ""]
    assert [one.acts for one in shown] == [("Pause",), ("Pause",), ("Try again", "Pause"), (), ("Resume",)]
    assert dict(shown[0].facts) == {
        "Applied through": "b.1:4 · epoch 7",
        "Behind since": "—",
        "Rows/s": "12",
        "Freshness": "0.3 s (p99 1.0 s)",
        "Kept for it": "0 B of 1.1 GB",
    }
    assert dict(shown[2].facts)["Applied through"] == "—"
    assert dict(shown[2].facts)["Freshness"] == "—"
    assert "30" in dict(shown[1].facts)["Behind since"]
