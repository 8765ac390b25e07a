"""What a pipeline asks of its source."""

from dataclasses import replace

from app.live.view.source_load import asked_rows, of_snapshot, polled
from engine.history.cost_queries import ReaderSeconds, SourceCost

NOTHING = SourceCost(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
BUSY = SourceCost(12, 120_000, 8_000_000, 30.0, 400_000, 2.0, 40, 6_000_000, 4.0, 0)


def test_the_load_now_is_a_rate() -> None:
    """SELECTs at once are the seconds of the readers in each second."""
    found = dict(of_snapshot(ReaderSeconds(12, 150.0, 6.0, 2.0, 9.0, 6e6), 2000.0, BUSY, 60.0))
    assert found == {
        "Rows read": "2k rows/s",
        "SELECTs at once": "2.6 on average",
        "Chunks": "12 a minute",
        "Files": "100 KB/s",
        "Binlog": "107 KB/s",
    }
    assert dict(of_snapshot(ReaderSeconds(0, 0, 0, 0, 0, 0), None, NOTHING, 60.0))["Rows read"] == "—"


def test_each_kind_of_read_has_a_row() -> None:
    """One that never happened has none, and an unknown value is not 0."""
    rows = asked_rows({"Last hour": NOTHING, "Last 24 hours": BUSY})
    assert rows == [
        {"Read": "Chunks", "Last hour": "—", "Last 24 hours": "12 chunks · 120k rows · 8 MB · 30 s"},
        {"Read": "Backfill", "Last hour": "—", "Last 24 hours": "400 KB · 2.0 s"},
        {"Read": "Binlog", "Last hour": "—", "Last 24 hours": "40 epochs · 6 MB · 4.0 s"},
    ]
    assert asked_rows({"Last hour": NOTHING}) == []
    assert asked_rows({"Last hour": replace(NOTHING, redumped_rows=500)}) == [
        {"Read": "Redumps", "Last hour": "500 rows"}
    ]


def test_polled_values_stand_beside_their_limits() -> None:
    """Those above are marked; nothing is polled without limits."""
    throttle = {
        "max_load": {"Threads_running": 4},
        "critical_load": {"Threads_running": 9, "Innodb_row_lock_current_waits": 50},
        "replicas": ["db2:3306"],
        "max_replica_lag_s": 2.0,
    }
    loads = {"Threads_running": 7.0, "Innodb_row_lock_current_waits": 3.0, "db2:3306": 0.5}
    assert polled(loads, throttle) == [
        ("Threads_running", "7 of 4", True),
        ("Innodb_row_lock_current_waits", "3 of 50", False),
        ("Lag of db2:3306", "0.5 s of 2 s", False),
    ]
    assert polled({}, {}) == []
