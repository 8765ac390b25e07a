"""The summary of a new pipeline."""

from app.view import summary
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
