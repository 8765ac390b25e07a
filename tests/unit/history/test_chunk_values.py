"""The numbers that the chunk map is coloured by, and the chunks that were split."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.history import History
from engine.history import chunk_queries as chunks
from engine.history.chunk_splits import ChunkSplit, splits
from engine.history.chunk_values import MEASURES
from tests.support.simulation import SimulatedTable, Simulation

START = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
ORDERS = SimulatedTable("shop.orders", 400_000, 40)
WALKED = SimulatedTable("shop.orders", 400_000, 40, None, estimated_chunks=50, split_each=7)


def indexed(*runs: Simulation) -> History:
    """An index over the journals of these runs."""
    index = History(None)
    index.refresh({run.directory for run in runs})
    return index


def values(run: Simulation, measure: str) -> dict[int, float | None]:
    """The value of each chunk."""
    return {one.chunk: one.value for one in chunks.chunk_states(indexed(run).cursor(), "shop", "shop.orders", measure)}


@pytest.fixture
def half(tmp_path: Path) -> Simulation:
    """A run that has read a part of the table."""
    return Simulation(tmp_path / "shop", [ORDERS], start=START).advance(4)


def test_the_map_has_the_values_of_the_details(half: Simulation) -> None:
    """For every chunk, in one query; chunks that were not read have none."""
    cursor = indexed(half).cursor()
    details = [chunks.chunk(cursor, "shop", "shop.orders", number) for number in range(40)]
    expected = {"gap": "gap_bytes", "rows": "rows", "changes": "backfill_changes", "attempts": "attempts"}
    for measure, field in expected.items():
        assert list(values(half, measure).values()) == [getattr(one, field) for one in details]
    known = [one for one in details if one is not None and one.read_s is not None]
    assert 0 < len(known) < 40
    seconds = values(half, "duration")
    for one in known:
        parts = (one.low_s, one.read_s, one.high_s, one.backfill_s, one.write_s)
        assert seconds[one.chunk] == pytest.approx(sum(part or 0 for part in parts))
    assert sum(value is None for value in seconds.values()) == 40 - len(known)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_changes_no_state(half: Simulation, measure: str) -> None:
    """Each chunk is there once, whatever it is coloured by."""
    cursor = indexed(half).cursor()
    plain = chunks.chunk_states(cursor, "shop", "shop.orders")
    coloured = chunks.chunk_states(cursor, "shop", "shop.orders", measure)
    assert [(one.chunk, one.state) for one in coloured] == [(one.chunk, one.state) for one in plain]


def test_bounds_come_where_single_chunks_are_shown(half: Simulation) -> None:
    """For few chunks, or for an opened tile: a large map does not pay for them."""
    cursor = indexed(half).cursor()
    assert {one.lower for one in chunks.chunk_states(cursor, "shop", "shop.orders", few=39)} == {None}
    assert chunks.chunk_states(cursor, "shop", "shop.orders", few=40)[2][3:] == ("20001", "30001")
    window = chunks.chunk_states(cursor, "shop", "shop.orders", bounds=(2, 3))
    assert [one.chunk for one in window if one.upper is not None] == [2, 3]


def test_failures_count_as_attempts(half: Simulation) -> None:
    """A waiting chunk has none, one that is being read its first; details and map agree."""
    waiting = max(values(half, "attempts"))
    assert values(half, "attempts")[waiting] is None
    half.now += timedelta(seconds=1)
    half.write("chunk.assigned", table="shop.orders", chunks=[waiting], group="g")
    assert values(half, "attempts")[waiting] == 1
    for attempt in (1, 2):
        half.now += timedelta(seconds=1)
        half.write(
            "chunk.failed",
            table="shop.orders",
            chunks=[waiting],
            group="g",
            error="E",
            message="lost",
            attempt=attempt,
            retry_in_s=4.0,
        )
    assert values(half, "attempts")[waiting] == 2


def test_the_age_counts_from_the_epoch_that_published_the_chunk(half: Simulation) -> None:
    """The first one after it that reaches its high watermark. A finished chunk has no age."""
    cursor = indexed(half).cursor()
    newest = values(half, "newest")
    at = {
        epoch: ts.replace(tzinfo=UTC).timestamp()
        for epoch, ts in cursor.execute("SELECT epoch, ts FROM epoch").fetchall()
    }
    for number, value in newest.items():
        found = chunks.chunk(cursor, "shop", "shop.orders", number)
        assert found is not None
        assert value == (at[found.epoch] if found.state == "published" and found.epoch else None)
    assert any(newest.values())


def redump(run: Simulation, *parts: tuple[str | None, str | None], done: bool = True, keys: int | None = None) -> float:
    """Redump parts of the table; returns the time of the last one."""
    run.write("command.accepted", id="r", verb="redump", what="chunks of shop.orders")
    for number, (lower, upper) in enumerate(parts):
        run.now += timedelta(seconds=1)
        run.write("redump.chunk", id="r", table="shop.orders", chunk=number, lower=lower, upper=upper, rows=9)
    last = run.now.timestamp()
    run.now += timedelta(seconds=1)
    if done:
        run.write("command.done", id="r", verb="redump", duration_s=1.0, result={"rows": 9, "missing_keys": keys})
    return last


def test_a_redump_of_the_chunk_makes_it_new(half: Simulation) -> None:
    """Also one that read it in several parts, or with its neighbours, once it is done."""
    before = values(half, "newest")
    assert before[1]
    last = redump(half, ("10001", "15000"), ("15000", "20001"), ("30001", "40001"), ("40001", "50001"))
    after = values(half, "newest")
    assert all((after[number] or 0) > (before[number] or 0) for number in (1, 3, 4))
    assert after[4] == last
    assert (after[0], after[2]) == (before[0], before[2])


@pytest.mark.parametrize("redumped", ["a part", "not done", "keys"])
def test_what_did_not_redump_the_chunk_leaves_its_age(half: Simulation, redumped: str) -> None:
    """A part of it, a redump that is under way, and single keys, which have no bounds."""
    before = values(half, "newest")
    if redumped == "a part":
        redump(half, ("10001", "15000"))
    elif redumped == "not done":
        redump(half, ("10001", "20001"), done=False)
    else:
        redump(half, (None, None), keys=0)
    assert values(half, "newest") == before


def test_a_chunk_that_was_larger_than_planned_is_known(tmp_path: Path) -> None:
    """By the nearer bound that the journal announced between its assignment and its end; the rest names its parent."""
    run = Simulation(tmp_path / "shop", [WALKED], start=START).advance(60)
    lines = [json.loads(line) for line in run.journal.path.read_text().splitlines()]
    announced = [chunk[0] for line in lines if line["event"] == "chunk.planned" for chunk in line["chunks"]]
    again = sorted(number for number, times in Counter(announced).items() if times > 1)
    found = splits(indexed(run).cursor(), "shop", "shop.orders")
    assert [one.chunk for one in found] == again
    assert len(again) > 1
    rest = {line["parent"]: line["chunks"][0][0] for line in lines if line.get("parent") is not None}
    assert found[0] == ChunkSplit(
        6, str(1 + 6 * WALKED.step + WALKED.step // 2), str(1 + 7 * WALKED.step), into=(rest[6],)
    )
    assert {one.chunk: one.into for one in found} == {parent: (child,) for parent, child in rest.items()}


def test_a_chunk_that_is_planned_again_was_not_split(tmp_path: Path) -> None:
    """A runner that lost its plan splits the table again, by other bounds, and then assigns the chunk again."""
    run = Simulation(tmp_path / "shop", [SimulatedTable("shop.orders", 9, 2, None, estimated_chunks=2)], start=START)

    def write(event: str, **fields: object) -> None:
        run.now += timedelta(seconds=1)
        run.write(event, table="shop.orders", **fields)

    write("chunk.planned", chunks=[[0, None, "9"]], complete=False)
    write("chunk.assigned", chunks=[0], group="g")
    write("chunk.planned", chunks=[[0, None, "5"]], complete=False)
    write("chunk.assigned", chunks=[0], group="h")
    write("chunk.finished", chunk=0, lower=None, upper="5", rows=1, high="bin.000041:5")
    assert splits(indexed(run).cursor(), "shop", "shop.orders") == []
    write("chunk.assigned", chunks=[0], group="i")
    write("chunk.planned", chunks=[[0, None, "3"]], complete=False)
    write("chunk.finished", chunk=0, lower=None, upper="3", rows=1, high="bin.000041:6")
    write("chunk.planned", chunks=[[1, "3", "5"]], complete=True)  # an earlier version, which named no parent
    assert splits(indexed(run).cursor(), "shop", "shop.orders") == [ChunkSplit(0, "3", "5")]
    write("chunk.planned", chunks=[[2, "3", "4"], [1, "4", "5"]], complete=True, parent=0)
    assert splits(indexed(run).cursor(), "shop", "shop.orders") == [ChunkSplit(0, "3", "5", into=(1, 2))]
