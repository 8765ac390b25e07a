"""`plan` on the command line and as JSON: every chunk, in key order, streamed in parts."""

import io
import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from engine.base.errors import SpecError
from engine.decode.schema import Table
from engine.plan import planner, show
from engine.plan.chunks import Plan
from engine.plan.planner import check_names, plan_tables
from engine.plan.show import json_parts, text_table
from engine.plan.speed import seconds
from engine.source.catalog import Statistics
from engine.source.change_rates import ChangeRate, ChangeRates
from engine.spec.settings import Snapshot, Source, Spec
from engine.spec.sink_settings import Sink
from engine.spec.store_prices import StorePrices
from engine.spec.throttle_settings import Throttle
from tests.unit.plan.support import Server, column, table, walking

__all__ = ["walking"]
SPEC = Spec(
    name="p",
    source=Source(host="h", user="u", tables=("main.*",)),
    sink=Sink(path=Path("lake")),
    snapshot=Snapshot(readers=2),
)
RATES = ChangeRates(60.0, {"shop.orders": ChangeRate(1.0, 20.0, 0.0, 4100.0)})
KEYLESS = Plan("main.t", 0, 0, (), "", None, None, None, "one", "no key", 9, 1)
UNEVEN = Plan("main.t", 12, 600, ("k0", "k1"), "i", "0", "2", 0.25, "uneven", "walked", 5, 3)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, walking: None) -> list[bool]:
    """One table with two plans, read at 100 bytes per second; records whether exact plans were requested."""
    asked: list[bool] = []

    def plans(*_: object, exact: bool) -> list[Plan]:
        asked.append(exact)
        return [UNEVEN, KEYLESS]

    monkeypatch.setattr(show, "plan_tables", plans)
    monkeypatch.setattr(show, "bytes_per_s", lambda *_: 100.0)
    monkeypatch.setattr(show, "endpoint_of", lambda _: None)
    monkeypatch.setattr(show, "recent_changes", lambda *_: RATES)
    return asked


def parts(server: Server, *, exact: bool) -> Any:
    """The JSON output."""
    tables = [server.table, server.table]
    return json.loads("".join(json_parts(server, tables, SPEC, exact=exact)))["tables"]


def test_the_json_lists_every_chunk_in_order(planned: list[bool]) -> None:
    """With its number in that order, its bounds, and the copy's duration in seconds."""
    with closing(Server(2, nullable=False)) as server:
        server.insert((n // 4, n % 4) for n in range(12))
        walked, keyless = parts(server, exact=True)
    assert walked["chunks"] == [
        {"index": 0, "lower": None, "upper": '["1", "0"]'},
        {"index": 1, "lower": '["1", "0"]', "upper": '["2", "0"]'},
        {"index": 2, "lower": '["2", "0"]', "upper": None},
    ]
    assert (walked["approx_bytes"], walked["estimated_s"], walked["estimated_chunks"]) == (600, 3.0, 3)
    assert (walked["chunk_key"], walked["distribution_factor"]) == (["k0", "k1"], 0.25)
    assert keyless["chunks"] == [{"index": 0, "lower": None, "upper": None}]
    assert planned == [True]


def test_an_estimate_lists_no_chunks(planned: list[bool]) -> None:
    """It neither walks nor measures anything."""
    with closing(Server(2, nullable=False)) as server:
        found = parts(server, exact=False)
    assert [(t["chunks"], t["estimated_s"]) for t in found] == [(None, None), (None, None)]
    assert planned == [False]


def test_the_grid_has_a_line_a_table_and_sums(planned: list[bool]) -> None:
    """For people, followed by the reason for each table's plan."""
    out = Console(file=io.StringIO(), width=120)
    with closing(Server(2, nullable=False)) as server:
        out.print(text_table(server, [server.table] * 2, SPEC, exact=True))
    lines = [line.split() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines[1] == ["main.t", "12", "0.0", "k0,", "k1", "0.25", "3", "5", "3.0", "change", "log", "alone"]
    assert lines[3:7] == [["2", "tables", "12", "0.0", "4", "3.0"], [], ["main.t:", "walked"], ["main.t:", "no", "key"]]
    assert lines[7][:6] == ["factor:", "the", "distribution", "factor", "of", "the"]
    assert [show._seconds(value) for value in (None, 0.0, 0.049, 0.05, 1234.5)] == [
        *("", "< 0.1", "< 0.1", "0.1", "1,234.5")
    ]


@pytest.fixture
def keyed(planned: list[bool], monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table with a key; its plan says 100 MB."""
    large = replace(UNEVEN, table="shop.orders", approx_rows=10**6, approx_bytes=10**8)
    monkeypatch.setattr(show, "plan_tables", lambda *_, **__: [large])
    monkeypatch.setattr(show, "chunks_of", lambda *_: ())
    return table(column("id", "int"), key=["id"])


def shown(server: Any, tables: list[Table], *, exact: bool = True) -> str:
    """The text, with lines of any length."""
    out = Console(file=io.StringIO(), width=400)
    out.print(text_table(server, tables, SPEC, exact=exact))
    return out.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_both_ways_of_merging_are_compared_for_each_table(keyed: Table) -> None:
    """With changes a second, bytes written and the age of the mirror.

    A recommendation, its reason, the excluded readers.
    """
    text = shown(None, [keyed])
    assert (
        "shop.orders  21 (1 inserts, 20 updates)  35.4 GB a day, 4 min 6 s  2.7 GB a day, 10 s  merge on read" in text
    )
    assert "Changes were counted in the last 1 min of binlog. Costs are estimates for a whole day at that rate" in text
    assert "shop.orders: merge on read. Copy on write would write 35.4 GB a day, 13 times as much, and make the" in text
    assert "and make the mirror 4 min 6 s old instead of 10 s." in text
    assert (
        "Readers: copy on write excludes no reader; merge on read excludes Delta readers without deletion vectors"
        in text
    )
    (found,) = json.loads("".join(json_parts(None, [keyed], SPEC, exact=True)))["tables"]
    merging = found["merging"]
    assert merging["changes"] == {
        "inserts_per_s": 1.0,
        "updates_per_s": 20.0,
        "deletes_per_s": 0.0,
        "bytes_per_s": 4100,
        "window_s": 60.0,
    }
    assert (merging["recommended"], merging["changes_unknown"]) == ("merge_on_read", None)
    assert merging["copy_on_write"]["excluded_readers"] == []
    assert merging["copy_on_write"]["mirror_age_s"] > merging["merge_on_read"]["mirror_age_s"]
    assert found["mirror"] == "merge_on_read"


def test_a_bucket_has_requests(keyed: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """With money if the spec has prices; nothing of that for a folder, or if changes are unknown."""
    assert "Requests to the bucket" not in shown(None, [keyed])
    prices = StorePrices(puts_1000=0.005, gets_1000=0.0004)
    sink = Sink(path="s3://bucket/lake", prices=prices)
    monkeypatch.setattr("tests.unit.plan.test_show.SPEC", SPEC.model_copy(update={"sink": sink}))
    text = " ".join(shown(None, [keyed]).split())
    assert "Requests to the bucket: at most 371,510 puts and 440,630 gets a day: 61.01 USD a month" in text
    (found,) = json.loads("".join(json_parts(None, [keyed], SPEC, exact=True)))["tables"]
    assert found["requests_per_day"] == {"puts": 371510, "gets": 440630}
    assert "Requests to the bucket" not in shown(None, [keyed], exact=False)
    (found,) = json.loads("".join(json_parts(None, [keyed], SPEC, exact=False)))["tables"]
    assert found["requests_per_day"] is None


def test_an_estimate_does_not_read_the_binlog(keyed: Table) -> None:
    """The changes are unknown, and the size alone decides."""
    assert "Changes a second are unknown: the binlog was not read for an estimate" in shown(None, [keyed], exact=False)
    (found,) = json.loads("".join(json_parts(None, [keyed], SPEC, exact=False)))["tables"]
    assert found["merging"]["changes"] is None
    assert found["merging"]["copy_on_write"]["bytes_per_day"] is None
    assert found["merging"]["reason"] == "By its size (at least 16 MiB). Its changes are unknown."


def test_a_table_whose_changes_could_not_be_counted_says_why(keyed: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are shown as usual."""
    monkeypatch.setattr(show, "recent_changes", lambda *_: ChangeRates(60.0, faults={"shop.orders": "It was altered."}))
    text = shown(None, [keyed])
    assert "shop.orders: unknown: It was altered." in text
    assert "merge on read. By its size" in text


def test_what_the_spec_chooses_is_recommended_unless_it_costs_too_much(
    keyed: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large table with inserts alone would need no deletion vectors. Otherwise the setting to change is named."""
    assert 'mirror = "' not in shown(None, [keyed])
    chosen = SPEC.model_copy(update={"sink": SPEC.sink.model_copy(update={"mirror": "copy_on_write"})})
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "SPEC", chosen)
        assert 'make the mirror 4 min 6 s old instead of 10 s. To follow it, set mirror = "merge_on_read" in ' in shown(
            None, [keyed]
        )
    rates = ChangeRates(60.0, {"shop.orders": ChangeRate(10.0, 0.0, 0.0, 1000.0)})
    monkeypatch.setattr(show, "recent_changes", lambda *_: rates)
    text = shown(None, [keyed])
    assert "shop.orders: merge on read. By its size (at least 16 MiB). At that rate, it writes " in text
    assert "; copy on write would do too, if a reader needs it." in text
    assert 'mirror = "' not in text


@pytest.mark.parametrize(
    ("speed", "readers", "took_s"),
    [(100.0, 1, 6.0), (100.0, 3, 2.0), (100.0, 99, 2.0), (7.0, 3, 28.6)],
)
def test_how_long_a_copy_takes(speed: float, readers: int, took_s: float) -> None:
    """All readers share it, if there are enough chunks; without a speed it is unknown."""
    assert seconds(UNEVEN, None, readers, Throttle()) is None
    assert seconds(UNEVEN, speed, readers, Throttle()) == pytest.approx(took_s, abs=0.05)


@pytest.mark.parametrize(
    ("throttle", "took_s"),
    [
        (Throttle(max_rows_per_s=2), 6.0),
        (Throttle(max_bytes_per_s=50), 12.0),
        (Throttle(max_rows_per_s=2, max_bytes_per_s=50), 12.0),
        (Throttle(max_rows_per_s=1000), 2.0),
        (Throttle(readers=1), 6.0),
    ],
)
def test_a_copy_is_no_faster_than_its_throttle(throttle: Throttle, took_s: float) -> None:
    """The tighter rate limits it, if reading would be faster."""
    assert seconds(UNEVEN, 100.0, 3, throttle) == took_s


def test_many_small_tables_take_their_time() -> None:
    """A thousand tables of a few milliseconds each are not rounded to zero."""
    small = replace(UNEVEN, approx_rows=20, approx_bytes=100, estimated_chunks=1)
    took_s = seconds(small, 1e6, 4, Throttle(max_rows_per_s=1000))
    assert took_s is not None
    assert 1000 * took_s == pytest.approx(20)


def test_a_chunk_key_of_a_table_that_is_not_captured_is_refused() -> None:
    """The error suggests the nearest name, before the server is asked."""
    tables = [table(column("id", "int"), key=["id"])]
    with pytest.raises(SpecError, match=r"names 'shop\.order', which is not among") as raised:
        check_names(tables, Snapshot(chunk_key={"shop.order": "id"}))
    assert raised.value.hint == "The nearest of them is 'shop.orders'."


@pytest.mark.parametrize(("counted", "rows"), [(7, 7), (100_000, 100_000), (100_001, 0)])
def test_rows_that_the_statistics_do_not_know_are_counted(
    monkeypatch: pytest.MonkeyPatch, counted: int, rows: int
) -> None:
    """For a table that was just filled, as far as that is quick."""
    monkeypatch.setattr(planner, "statistics", lambda *_: {"shop.orders": Statistics(0, 100, 100)})
    monkeypatch.setattr(planner, "key_ends", lambda *_: ["1", "5"])
    monkeypatch.setattr(planner, "query", lambda *_: [{"n": counted}])
    tables = [table(column("id", "int"), key=["id"])]
    assert plan_tables(None, tables, Snapshot())[0].approx_rows == rows
    assert plan_tables(None, tables, Snapshot(), exact=False)[0].approx_rows == 0


@pytest.mark.parametrize(
    ("known", "counted", "maximum", "rows", "outdated"),
    [
        (0, 100_001, "5000000", 0, "they show 0 rows, and the table has more than 100,000."),
        (0, 5000, "5000", 5000, "they show 0 rows, and the table has 5,000."),
        (0, 7, "7", 7, ""),
        (40, 100_001, "5000000", 0, "they show 40 rows, and the table has more than 100,000."),
        (40, 40, "5000000", 40, ""),  # a key with large gaps
        (40, 90_000, "40", 40, ""),  # nobody asks
    ],
)
def test_statistics_that_look_outdated_are_named(
    monkeypatch: pytest.MonkeyPatch, known: int, counted: int, maximum: str, rows: int, outdated: str
) -> None:
    """After a bulk load they show what the table had before. The reason has the statement that renews them."""
    monkeypatch.setattr(planner, "statistics", lambda *_: {"shop.orders": Statistics(known, 100, 100)})
    monkeypatch.setattr(planner, "key_ends", lambda *_: ["1", maximum])
    monkeypatch.setattr(planner, "query", lambda *_: [{"n": counted}])
    tables = [table(column("id", "int"), key=["id"])]
    (plan,) = plan_tables(None, tables, Snapshot())
    assert plan.approx_rows == rows
    assert outdated in plan.reason
    assert ("ANALYZE TABLE `shop`.`orders`" in plan.reason) == bool(outdated)
    (estimate,) = plan_tables(None, tables, Snapshot(), exact=False)
    assert ("they show no rows, unless the table is empty" in estimate.reason) == (not known)


@pytest.mark.parametrize(
    ("size", "engine", "outdated"),
    [(16384, "InnoDB", "by them, a row has 0.0082 bytes"), (20_000_000, "InnoDB", ""), (16384, "MyISAM", "")],
)
@pytest.mark.parametrize("exact", [True, False])
def test_a_size_that_no_rows_can_have_is_outdated(
    monkeypatch: pytest.MonkeyPatch, size: int, engine: str, outdated: str, exact: bool
) -> None:
    """InnoDB counts rows at once, and measures sizes later: the plan would show 0.0 MB of two million rows."""
    known = Statistics(2_000_000, size // 2_000_000, size, engine)
    monkeypatch.setattr(planner, "statistics", lambda *_: {"shop.orders": known})
    monkeypatch.setattr(planner, "key_ends", lambda *_: ["1", "2000000"])
    (plan,) = plan_tables(None, [table(column("id", "int"), key=["id"])], Snapshot(), exact=exact)
    assert outdated in plan.reason
    assert ("ANALYZE TABLE `shop`.`orders`" in plan.reason) == bool(outdated)
