"""The summary of a new pipeline."""

from app.wizard.view import summary
from engine.base import clock
from tests.unit.app.support import draft


def test_the_summary_lists_the_settings() -> None:
    """Tables, columns, chunks, Spark; no line for defaults."""
    found = dict(summary.facts(draft().put("tables", "shop.orders", "mask", value=["email"])))
    assert found["Tables"] == ["shop.*"]
    assert found["Columns"] == ["left out or masked in shop.orders"]
    assert "Chunks" not in found
    later = draft().put("source", "startup", value="timestamp:2026-01-31T00:00:00Z")
    assert summary.begins(later) == "follows changes from timestamp 2026-01-31T00:00:00Z; nothing is copied"
    assert len(summary.happens(later)) == len(summary.happens(draft())) - 1


def test_the_summary_names_the_throttle_and_the_time_that_it_leads_to() -> None:
    """Without a throttle too: then the source is read as fast as possible."""
    planned = (
        "1 table · about 6M rows · about 33 min of reading with 2 readers at 20 MB/s each, "
        "at most 3,000 rows/s in total"
    )
    limited = draft().put("throttle", "max_rows_per_s", value=3000).put("throttle", "hours", value=["22:00-06:00"])
    found = dict(summary.facts(limited.note("Plan", "ok", planned, clock.utc_text())))
    assert found["Tables"] == ["shop.*", "1 table · about 6M rows"]
    assert found["Throttle"] == ["3,000 rows/s; hours (UTC) 22:00-06:00", planned.rpartition(" · ")[2]]
    assert dict(summary.facts(draft()))["Throttle"] == ["no limit"]
    assert "Throttle" not in dict(summary.facts(draft().put("source", "startup", value="latest")))
    assert "Throttle" not in dict(summary.facts(draft().put("throttle", "max_rows_per_s", value=-1)))
