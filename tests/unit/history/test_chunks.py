"""A table whose chunks are split while it is copied: what the history knows at each moment."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base import clock
from engine.history import History
from engine.history import chunk_queries as chunks
from engine.history import table_queries as tables
from engine.history.chunk_queries import PLAN
from tests.support.depth import depth
from tests.support.simulation import SimulatedTable, Simulation

START = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
WALKED = SimulatedTable("shop.orders", 400_000, 40, None, estimated_chunks=50, split_each=7)
LISTED = SimulatedTable("shop.customers", 4_000, 4)
Split = tuple[int, str | None, str | None]


def indexed(*runs: Simulation) -> History:
    """An index over the journals of these runs."""
    index = History(None)
    index.refresh({run.directory for run in runs})
    return index


def progress(*runs: Simulation, table: str = "shop.orders") -> tables.TableProgress:
    """The progress of a table."""
    return next(one for one in tables.progress(indexed(*runs).cursor(), "shop") if one.table == table)


def plan(*runs: Simulation) -> tables.NewestPlan:
    """The newest plan of the table that is being split."""
    return next(one for one in tables.plans(indexed(*runs).cursor(), "shop") if one.table == "shop.orders")


def states(*runs: Simulation) -> dict[int, str]:
    """The state of each known chunk."""
    return {one.chunk: one.state for one in chunks.chunk_states(indexed(*runs).cursor(), "shop", "shop.orders")}


def planned(
    run: Simulation, *, estimated: int | None = 50, listed: Sequence[tuple[str | None, str | None]] = ()
) -> None:
    """Plan the table again, a second later."""
    run.now += timedelta(seconds=1)
    run.write(
        "table.planned", table="shop.orders", approx_rows=9, chunks=listed, estimated_chunks=estimated, chunk_rows=7
    )


def split(run: Simulation, *splits: Split, complete: bool = False) -> None:
    """Split off chunks, a second later."""
    run.now += timedelta(seconds=1)
    run.write("chunk.planned", table="shop.orders", chunks=splits, complete=complete)


def finished(run: Simulation, chunk: int, lower: str | None, upper: str | None) -> None:
    """Finish a chunk, a second later."""
    run.now += timedelta(seconds=1)
    run.write(
        "chunk.finished", table="shop.orders", chunk=chunk, lower=lower, upper=upper, rows=10, high="bin.000041:5"
    )


@pytest.fixture
def empty(tmp_path: Path) -> Simulation:
    """A run that has planned its table and split nothing."""
    return Simulation(tmp_path / "shop", [WALKED], start=START)


def test_a_table_that_is_planned_and_not_split_is_waiting(empty: Simulation) -> None:
    """It is listed with its estimate, and is not complete."""
    found = progress(empty)
    assert (found.chunks, found.expected_chunks, found.complete, found.approx_rows) == (0, 50, False, 400_000)
    assert found.planned
    assert not found.copied
    known = plan(empty)
    assert (known.chunks, known.expected_chunks, known.chunk_rows, known.complete) == (0, 50, 10_000, False)
    assert known.last_chunk is None
    assert states(empty) == {}


def test_chunks_are_known_as_they_are_split(empty: Simulation) -> None:
    """The estimate counts until the last chunk is split off, unless more chunks are known."""
    split(empty, (0, None, "5"), (1, "5", "9"))
    assert states(empty) == {0: "waiting", 1: "waiting"}
    assert (plan(empty).chunks, plan(empty).expected_chunks, plan(empty).last_chunk) == (2, 50, 1)
    split(empty, *((n, str(n), str(n + 1)) for n in range(2, 60)))
    assert (progress(empty).expected_chunks, progress(empty).copied) == (60, False)
    split(empty, complete=True)
    assert (progress(empty).expected_chunks, progress(empty).complete, plan(empty).complete) == (60, True, True)
    split(empty, (3, "3", "3a"), (60, "3a", "4"))
    assert (progress(empty).expected_chunks, progress(empty).complete) == (61, False)
    split(empty, complete=True)
    assert progress(empty).complete


def test_a_table_that_is_listed_whole_is_complete_at_once(tmp_path: Path) -> None:
    """Its chunks count, whatever the estimate; a table without a plan is not waited for."""
    run = Simulation(tmp_path / "shop", [LISTED], start=START)
    run.write("table.state", table="shop.odd", state="stopped", reason="no key")
    found = progress(run, table="shop.customers")
    assert (found.chunks, found.expected_chunks, found.complete, found.copied) == (4, 4, True, False)
    odd = progress(run, table="shop.odd")
    assert (odd.planned, odd.expected_chunks) == (False, 0)
    assert tables.expected(4, 9, complete=True) == 4
    assert tables.expected(4, None, complete=False) == 4


def test_the_newest_bounds_of_a_chunk_count(empty: Simulation) -> None:
    """A read within its former bounds does not complete the chunk."""
    split(empty, (0, None, "100"), (1, "100", None), complete=True)
    finished(empty, 0, None, "100")
    assert states(empty) == {0: "finished", 1: "waiting"}
    split(empty, (0, None, "50"), (2, "50", "100"))
    assert states(empty) == {0: "waiting", 1: "waiting", 2: "waiting"}
    finished(empty, 0, None, "50")
    assert states(empty) == {0: "finished", 1: "waiting", 2: "waiting"}
    found = chunks.chunk(indexed(empty).cursor(), "shop", "shop.orders", 0)
    assert found is not None
    assert (found.lower, found.upper, found.rows) == (None, "50", 10)
    assert progress(empty).rows == 10


def test_a_new_plan_forgets_the_chunks_of_the_old_one(empty: Simulation) -> None:
    """Even if the old plan was split to its end."""
    split(empty, (0, None, "5"), (1, "5", None), complete=True)
    finished(empty, 0, None, "5")
    planned(empty, estimated=7)
    assert (plan(empty).chunks, plan(empty).expected_chunks, plan(empty).chunk_rows) == (0, 7, 7)
    split(empty, (0, None, "5"))
    assert states(empty) == {0: "waiting"}


def test_a_run_that_resumes_goes_on_splitting(empty: Simulation, tmp_path: Path) -> None:
    """Chunks of the plan's run and of later runs belong to one table; a chunk that was read twice counts once."""
    empty.advance(3)
    known = len(empty.bounds["shop.orders"])
    assert 0 < known < 40
    assert plan(empty).chunks == progress(empty).chunks == known
    start = empty.now + timedelta(seconds=9)
    later = Simulation(tmp_path / "shop", [WALKED], run="second", start=start, resume=empty).advance(60)
    found = progress(empty, later)
    bounds = later.bounds["shop.orders"]
    assert len(bounds) > 40
    assert (found.state, found.complete, found.chunks, found.published) == ("streaming", True, len(bounds), len(bounds))
    for number in (6, len(bounds) - 1):
        chunk = chunks.chunk(indexed(empty, later).cursor(), "shop", "shop.orders", number)
        assert chunk is not None
        assert (chunk.lower, chunk.upper) == bounds[number]


def test_a_streaming_table_is_complete_without_its_last_line(empty: Simulation) -> None:
    """A killed runner may not have journalled the last chunk; a table streams only after all of it was split."""
    split(empty, (0, None, "5"))
    empty.write("table.state", table="shop.orders", state="streaming", reason=None)
    assert (progress(empty).complete, progress(empty).copied) == (True, True)


CUTS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([None, "3", "7"]), st.sampled_from([None, "5", "9"])), max_size=4
)
EVENTS = st.lists(st.tuples(st.sampled_from(["plan", "split", "split", "split"]), CUTS, st.booleans()), max_size=8)


@settings(max_examples=depth(10, 100), deadline=None)
@given(events=EVENTS, restart=st.integers(0, 8))
def test_any_history_of_plans_and_splits_ends_with_the_newest_bounds(
    events: list[tuple[str, list[Split], bool]], restart: int
) -> None:
    """Compared with a dictionary that a plan empties and a split fills, over two runs."""
    with TemporaryDirectory() as folder:
        runs = [Simulation(Path(folder) / "shop", [WALKED], start=START)]
        known: dict[int, tuple[str | None, str | None]] = {}
        complete = False
        for at, (kind, splits, last) in enumerate(events):
            if at == restart:
                runs.append(
                    Simulation(Path(folder) / "shop", [WALKED], run="second", start=runs[0].now, resume=runs[0])
                )
            if kind == "plan":
                listed = [(lower, upper) for _, lower, upper in splits]
                planned(runs[-1], listed=listed)
                known, complete = dict(enumerate(listed)), bool(listed)
            else:
                split(runs[-1], *splits, complete=last)
                known |= {number: (lower, upper) for number, lower, upper in splits}
                complete = last
        cursor = indexed(*runs).cursor()
    rows = cursor.execute(
        f"{PLAN} SELECT chunk, lower, upper FROM plan", {"pipeline": "shop", "table": None}
    ).fetchall()
    assert {number: (lower, upper) for number, lower, upper in rows} == known
    (found,) = tables.plans(cursor, "shop")
    assert (found.chunks, found.complete) == (len(known), complete)


def test_the_chunk_that_had_a_row_is_found_by_its_key(empty: Simulation) -> None:
    """The newest read before the row's first change. Bounds are numbers, not texts; open ends have no bound."""
    for chunk, bounds in enumerate([(None, "9"), ("9", "100"), ("100", None), ("9", "100")]):
        finished(empty, chunk, *bounds)
    before = empty.now
    empty.write("chunk.finished", table="shop.orders", chunk=9, lower="9", upper="100", ended=clock.utc_text(before))

    def found(key: str, before: datetime | None = None) -> int | None:
        one = chunks.read_of(indexed(empty).cursor(), "shop", "shop.orders", key, before)
        return one.chunk if one else None

    assert [found(key) for key in ("-5", "8.5", "9", "100", str(10**20), "no number")] == [0, 0, 9, 2, 2, None]
    assert found("9", before) is None
    assert found("9", before + timedelta(seconds=1)) == 9


def test_a_chunk_that_is_read_again_after_a_new_plan_is_finished_before_it_is_committed(empty: Simulation) -> None:
    """With the same bounds. The committed read of the plan before does not count."""
    bounds: list[tuple[str | None, str | None]] = [(None, "9"), ("9", None)]
    planned(empty, listed=bounds)
    finished(empty, 0, *bounds[0])
    empty.write("epoch.committed", epoch=1, to_position="bin.000099:9", changes=0, tables={})
    assert states(empty) == {0: "published", 1: "waiting"}
    planned(empty, listed=bounds)
    empty.write("chunk.assigned", table="shop.orders", chunks=[0], group="g")
    assert states(empty) == {0: "reading", 1: "waiting"}
    finished(empty, 0, *bounds[0])
    assert states(empty) == {0: "finished", 1: "waiting"}
