"""The alerts that are over."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import streamlit as st

from app.alerts.resolved_alerts import resolved_alerts
from engine.pipeline.directory import Directory
from engine.watch.record import ResolvedAlert, WatchRecord, write_record
from tests.support.simulation import SimulatedTable, Simulation


def test_a_runner_that_responds_again_is_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the alerts of the journals, the newest first; a damaged record hides none of those."""
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    start = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
    for name in ("shop", "crm"):
        run = Simulation(tmp_path / name, [SimulatedTable("d.t", 100, 1)], start=start)
        run.write("alert.cleared", kind="lag", table=None, since="s1", message="2 s")
    since, until = "2026-11-21T06:00:00.000000Z", "2026-11-21T06:01:00.000000Z"
    frozen = ResolvedAlert("runner_frozen", None, None, None, "It does not respond.", since, until)
    where = Directory(tmp_path / "shop")
    write_record(where, WatchRecord(resolved=(frozen,)))
    st.cache_resource.clear()
    first, *rest = resolved_alerts(None)
    assert (first.pipeline, first.kind, first.message) == ("shop", "runner_frozen", "It does not respond.")
    assert first.cleared == datetime(2026, 11, 21, 6, 1, tzinfo=UTC)
    assert sorted((one.pipeline, one.kind) for one in rest) == [("crm", "lag"), ("shop", "lag")]
    assert [one.kind for one in resolved_alerts("crm")] == ["lag"]
    where.watchdog.write_text('{"format": 99}')
    assert [one.kind for one in resolved_alerts("shop")] == ["lag"]
    st.cache_resource.clear()
