"""The seconds of the readers, and the cost for the source."""

from datetime import timedelta
from pathlib import Path

import pytest

from engine.history import cost_queries, request_queries
from engine.history.request_queries import DayEpochs, RequestSums
from tests.support.simulation import Simulation
from tests.unit.history.test_queries import ORDERS, START, indexed


def test_a_chunk_counts_with_its_part_in_the_interval(tmp_path: Path) -> None:
    """Two intervals add up to both together."""
    run = Simulation(tmp_path / "shop", [ORDERS], start=START).advance(20)
    cursor = indexed(run)
    ends = [START + timedelta(seconds=seconds) for seconds in (0, 3.3, 60)]
    first, second, whole = (
        cost_queries.reader_seconds(cursor, "shop", since, until)
        for since, until in ((ends[0], ends[1]), (ends[1], ends[2]), (ends[0], ends[2]))
    )
    total = cursor.execute("SELECT count(*), sum(read_s), sum(write_s), sum(bytes) FROM finished").fetchone()
    assert total is not None
    assert whole.chunks == first.chunks + second.chunks == total[0]
    assert (whole.read_s, whole.write_s, whole.bytes) == pytest.approx(total[1:], rel=1e-3)
    assert first.busy_s + second.busy_s == pytest.approx(whole.busy_s, rel=1e-3)
    assert 0 < first.busy_s < 2 * 3.4


def test_what_was_asked_of_the_source_adds_up(tmp_path: Path) -> None:
    """Chunks, backfills and epochs since a time, and redumped rows."""
    run = Simulation(tmp_path / "shop", [ORDERS], start=START).advance(20)
    run.write(
        "redump.chunk", id="a", table="shop.orders", chunk=0, lower=None, upper=None, rows=70, ghosts=0, reader=None
    )
    cursor = indexed(run)
    found = cost_queries.source_cost(cursor, "shop", START)
    total = cursor.execute("SELECT count(*), sum(rows), sum(bytes), sum(gap_bytes) FROM finished").fetchone()
    assert (found.chunks, found.rows, found.file_bytes, found.backfill_bytes) == total
    assert found.epochs == run.epoch
    assert found.binlog_bytes > 0
    assert found.redumped_rows == 70
    later = cost_queries.source_cost(cursor, "shop", run.now + timedelta(seconds=1))
    assert later == cost_queries.SourceCost(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_requests_add_up_by_day_place_and_table(tmp_path: Path) -> None:
    """Since a time; epochs are counted by day too."""
    run = Simulation(tmp_path / "shop", [ORDERS], start=START).advance(20)
    one = {"place": "sink", "table": "shop.orders", "puts": 1, "lists": 2, "gets": 3, "deletes": 4}
    one |= {"sent_bytes": 1 << 40, "received_bytes": 6}
    run.write("store.requests", requests=[one, {**one, "table": ""}])
    run.write("store.requests", requests=[one])
    run.now += timedelta(days=1)
    run.write("store.requests", requests=[{**one, "place": "state", "table": ""}])
    cursor, day = indexed(run), START.date()
    after = day + timedelta(days=1)
    assert request_queries.requests(cursor, "shop", START) == [
        RequestSums(day, "sink", "", 1, 2, 3, 4, 1 << 40, 6),
        RequestSums(day, "sink", "shop.orders", 2, 4, 6, 8, 2 << 40, 12),
        RequestSums(after, "state", "", 1, 2, 3, 4, 1 << 40, 6),
    ]
    assert [one.day for one in request_queries.requests(cursor, "shop", run.now)] == [after]
    assert request_queries.epochs(cursor, "shop", START) == [DayEpochs(day, run.epoch)]
