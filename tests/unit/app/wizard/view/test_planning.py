"""The plan of a new pipeline."""

from pathlib import Path

import pytest

from app.common.view.template import toml
from app.wizard.view import planning
from engine.base.errors import TableStoppedError, TidemarkError
from engine.decode.schema import Column, Index, Table
from engine.plan.chunks import Plan
from engine.plan.strategy import KeyEnds, decide
from engine.source.catalog import Statistics
from engine.spec import settings
from engine.spec.settings import Snapshot
from engine.spec.sink_settings import Sink
from engine.spec.throttle_settings import Throttle
from tests.unit.app.support import AT, NOW, draft

ID = Column("id", "int", nullable=False, precision=10)
MADE = Column("made", "datetime")
ORDERS = Table("shop", "orders", (ID, MADE), ("id",), indexes=(Index("PRIMARY", ("id",)), Index("made", ("made",))))
PLAN = decide(ORDERS, Statistics(1_000_000, 100, 10**8), KeyEnds("1", "1000000"), Snapshot(chunk_rows=10_000))


SINK = Sink(path=Path("lake"))


def test_the_plan_has_one_row_per_table_and_the_totals() -> None:
    """Strategy, chunks, rows per chunk, seconds; tables that cannot be planned come first, with the reason."""
    gone = Table("shop", "gone", (ID,), ("id",))
    plans: dict[str, Plan | TidemarkError] = {"shop.orders": PLAN, "shop.gone": TableStoppedError("It is gone.")}
    own = Snapshot(tables={"shop.orders": {"chunk_rows": 10_000}})
    first, second = planning.lines([ORDERS, gone], plans, own, 10e6, 2, Throttle(), SINK)
    assert (first.table, first.why, planning.row(first)["Chunks"]) == ("shop.gone", "It is gone.", "—")
    row = planning.row(second)
    assert row["Mirror"] == "merge on read"
    assert planning.row(first)["Mirror"] == "—"
    assert (row["Strategy"], row["Chunks"], row["Rows a chunk"], row["Time"]) == ("even", "100", "10,000", "5.0 s")
    assert (row["Factor"], row["Set"]) == ("1", "by you")
    assert planning.sums([second], 10e6, 2, Throttle()) == (
        "1 table · about 1M rows · 100 MB · about 100 chunks · about 5.0 s of reading with 2 readers at 10 MB/s each"
    )
    assert [plan.table for plan in planning.figure_plans([first, second], 0.05, 1000, NOW)] == ["shop.orders"]


def test_the_plan_respects_the_throttle() -> None:
    """A million rows at 10 000 per second take 100 s, however fast the source is.

    Another throttle invalidates the plan.
    """
    slow = Throttle(max_rows_per_s=10_000)
    (line,) = planning.lines([ORDERS], {"shop.orders": PLAN}, Snapshot(), 10e6, 2, slow, SINK)
    assert planning.row(line)["Time"] == "1 min 40 s"
    assert planning.sums([line], 10e6, 2, slow).endswith(
        "about 1 min 40 s of reading with 2 readers at 10 MB/s each, at most 10,000 rows/s in total"
    )
    assert draft().note("Plan", "ok", "planned", AT).put("throttle", "readers", value=1).finding("Plan") is None


def test_possible_chunk_keys_have_an_index_and_an_order() -> None:
    """The default key is not listed again."""
    assert planning.keys_for(ORDERS) == ["made"]
    assert planning.own_key_label(ORDERS) == "its own key (id)"


@pytest.mark.parametrize(
    ("master", "readers"), [("local[*]", 4), ("local[3]", 3), ("local", 1), ("local[2,3]", 2), ("yarn", 4)]
)
def test_the_number_of_readers_comes_from_the_spec(master: str, readers: int) -> None:
    """Or else from the number of cores."""
    spec = settings.parse(toml(draft().put("spark", "master", value=master).spec), Path("p"))
    assert planning.readers_of(spec, 4) == readers
