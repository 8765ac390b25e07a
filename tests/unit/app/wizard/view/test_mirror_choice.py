"""The comparison of both ways of merging on the plan step."""

from dataclasses import replace
from pathlib import Path

from app.wizard.view import mirror_choice
from engine.base.errors import TableStoppedError, TidemarkError
from engine.decode.schema import Column, Table
from engine.plan.chunks import Plan
from engine.source.change_rates import ChangeRate, ChangeRates
from engine.spec.sink_settings import Sink, SinkRules

ID = Column("id", "int", nullable=False)
BUSY, CALM, LOG, GONE = (Table("shop", name, (ID,), ("id",)) for name in ("busy", "calm", "log", "gone"))
HEAP = Table("shop", "heap", (ID,), ())
PLAN = Plan("shop.busy", 10**6, 10**8, ("id",), "PRIMARY", "1", "9", 1.0, "even", "even", 9, 9)
PLANS: dict[str, Plan | TidemarkError] = {
    table.full_name: replace(PLAN, table=table.full_name) for table in (BUSY, CALM, LOG, HEAP)
}
PLANS["shop.gone"] = TableStoppedError("It is gone.")
RATES = ChangeRates(
    60.0,
    {
        "shop.busy": ChangeRate(0.0, 20.0, 0.0, 4000.0),
        "shop.log": ChangeRate(10.0, 0.0, 0.0, 1000.0),
        "shop.heap": ChangeRate(5.0, 0.0, 0.0, 500.0),
    },
    faults={"shop.calm": "It was altered."},
)
SINK = Sink(path=Path("lake"))


def test_tables_where_the_choice_is_not_the_recommended_one_come_first() -> None:
    """Then the busiest. Tables that cannot be planned are left out; one without a key has no mirror."""
    chosen = SINK.model_copy(update={"tables": {"shop.busy": SinkRules(mirror="copy_on_write")}})
    lines = mirror_choice.mirror_lines([CALM, BUSY, HEAP, LOG, GONE], PLANS, RATES, chosen)
    rows = [mirror_choice.mirror_row(line) for line in lines]
    assert [(row["Table"], row["Chosen"], row["Recommended"]) for row in rows] == [
        ("shop.busy", "copy on write", "merge on read"),
        ("shop.log", "merge on read", "merge on read"),
        ("shop.heap", "change log alone", "change log alone"),
        ("shop.calm", "merge on read", "merge on read"),
    ]
    assert [rows[0][f"{kind}/s"] for kind in ("Inserts", "Updates", "Deletes")] == ["0", "20", "0"]
    assert rows[0]["Merge on read"].endswith(" GB a day · 10 s")
    assert rows[0]["Why"].startswith("Copy on write would write 34.6 GB a day, 13 times as much")
    assert (rows[2]["Copy on write"], rows[2]["Why"]) == ("—", "It has no key, so it has no mirror.")
    assert (rows[3]["Updates/s"], rows[3]["Why"]) == ("—", "Changes are unknown: It was altered.")


def test_a_rule_for_one_table_is_its_choice() -> None:
    """Its row then needs no attention."""
    ruled = SINK.model_copy(update={"tables": {"shop.log": SinkRules(mirror="copy_on_write")}})
    lines = mirror_choice.mirror_lines([BUSY, LOG], PLANS, RATES, ruled)
    assert [(line.table, line.merging) for line in lines] == [
        ("shop.busy", "merge_on_read"),
        ("shop.log", "copy_on_write"),
    ]


def test_the_source_of_the_numbers_is_stated() -> None:
    """Or why there are none."""
    assert mirror_choice.measured(RATES).startswith(
        "Changes were counted in the last 1 min of binlog. Costs are estimates for a whole day at that rate"
    )
    assert mirror_choice.measured(ChangeRates(unknown="Access denied.")).endswith("decides: Access denied.")
    assert mirror_choice.readers().startswith("Readers: copy on write excludes no reader; merge on read excludes Delta")
