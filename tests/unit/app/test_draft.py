"""Drafts: the spec so far, the findings of the steps, and the round trip through TOML."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.view import checks, planning, summary
from app.view.draft import (
    STEPS,
    Draft,
    blockers,
    first_spec,
    from_dict,
    missing,
    name_fault,
    state_of,
    unknowns,
    variable_fault,
)
from app.view.template import toml
from engine import settings
from engine.decode.schema import Column, Index, Table
from engine.errors import TableStoppedError, TidemarkError
from engine.plan.chunks import Plan
from engine.plan.strategy import Ends, decide
from engine.settings import Snapshot, Throttle
from engine.source.catalog import Statistics
from engine.source.connect import Server
from engine.source.preflight import Check, Preflight
from tests.unit.app.support import NOW

AT = "2026-01-31T15:30:17Z"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAVES = (
    TEXTS | st.integers(-(2**60), 2**60) | st.booleans() | st.floats(allow_nan=False) | st.lists(TEXTS, max_size=30)
)
VALUES = st.dictionaries(
    TEXTS, st.recursive(LEAVES, lambda below: st.dictionaries(TEXTS, below, max_size=4)), max_size=5
)


def draft(**more: Any) -> Draft:
    """A draft that can be launched."""
    spec = first_spec()
    spec["source"]["tables"] = ["shop.*"]
    return Draft("0123abcd", {**spec, "name": "shop"}, **more)


@given(VALUES)
def test_any_spec_survives_the_round_trip_through_toml(values: dict[str, Any]) -> None:
    """Including quotes, control characters, dots in keys, empty sections and long lists."""
    assert tomllib.loads(toml(values)) == values


WRITTEN = """\
# The shop, asked for by Ada
name = "shop"  # as in the ticket
throttle.readers = 4  # dotted

[source]  # the replica
# never the primary
host = "127.0.0.1"
tables = [
  "shop.*",  # all
  "!shop.audit",  # but this
]

# Small chunks: the rows are wide
[snapshot]
chunk_rows = 5000
chunk_key = { "shop.log" = "at" }  # inline

[snapshot.tables."shop.orders"]  # the largest
chunk_rows = 6000

[sink]
path = "lake"

[snapshot.tables."shop.late"]  # after another section
chunk_rows = 7000
# the end
"""


def test_comments_stay_with_their_values() -> None:
    """An edit changes only its own value; a value that is removed takes its comment along."""
    written = Draft("0123abcd", tomllib.loads(WRITTEN), written=WRITTEN)
    assert toml(written.spec, WRITTEN) == WRITTEN
    edited = written.put("source", "host", value="db").put("source", "tables", value=["shop.*", "crm.*"])
    edited = edited.put("snapshot", "chunk_rows", value=None).put("alerts", "lag_s", value=9)
    assert toml(edited.spec, edited.written) == (
        WRITTEN.replace('"127.0.0.1"', '"db"')
        .replace('"!shop.audit",  # but this', '"crm.*",')
        .replace("chunk_rows = 5000\n", "")
        + "\n[alerts]\nlag_s = 9\n"
    )


@given(VALUES, VALUES)
def test_the_text_never_changes_a_value(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whatever the text was, the result has the draft's values, including the types of numbers."""
    assert json.dumps(tomllib.loads(toml(after, toml(before))), sort_keys=True) == json.dumps(after, sort_keys=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("throttle",), None),
        (("throttle", "max_rows_per_s"), 9),
        (("source", "tables"), ["!shop.audit", "shop.*"]),
        (("snapshot", "tables", "shop.new", "key"), "id"),
        (("snapshot", "tables", "shop.late", "chunk_rows"), 8),
        (("snapshot", "tables", "shop.orders"), None),
        (("snapshot", "chunk_key", "shop.new"), "id"),
        (("snapshot", "chunk_key"), None),
        (("snapshot",), None),
    ],
)
def test_any_edit_of_a_text_is_read_back(path: tuple[str, ...], value: Any) -> None:
    """Dotted keys, inline tables and late sections are edited like all others, and the first comment stays."""
    edited = Draft("0123abcd", tomllib.loads(WRITTEN)).put(*path, value=value)
    text = toml(edited.spec, WRITTEN)
    assert tomllib.loads(text) == edited.spec
    assert text.startswith("# The shop, asked for by Ada\n")


def test_the_steps_produce_a_valid_spec() -> None:
    """The file that the command line takes, including rules for tables with dots in their names."""
    made = draft().put("snapshot", "tables", "shop.orders", "chunk_rows", value=5000)
    made = made.put("tables", "shop.orders", "exclude", value=["note"])
    spec = settings.parse(toml(made.spec), Path("pipeline.toml"))
    assert spec.snapshot.rules("shop", "orders").chunk_rows == 5000
    assert spec.projection_rules("shop", "orders").exclude == ("note",)


def test_a_removed_value_leaves_no_empty_section() -> None:
    """The spec is as before."""
    before = draft()
    after = before.put("snapshot", "tables", "shop.orders", "chunk_rows", value=5)
    assert after.put("snapshot", "tables", "shop.orders", "chunk_rows", value=None).spec == before.spec


def test_a_draft_survives_the_round_trip_through_json() -> None:
    """Including its findings."""
    kept = draft(step="Plan", connection="prod", changed=AT, written=WRITTEN).note(
        "Connect", "ok", "MySQL answered.", AT
    )
    assert from_dict(json.loads(json.dumps(kept.as_dict()))) == kept
    older = {name: value for name, value in kept.as_dict().items() if name != "written"}
    assert from_dict(older).written == ""


@pytest.mark.parametrize(
    ("path", "value", "stale"),
    [
        (("source", "host"), "elsewhere", {"Connect", "Preflight", "Plan"}),
        (("source", "tables"), ["crm.*"], {"Preflight", "Plan"}),
        (("snapshot", "chunk_rows"), 5, {"Plan"}),
        (("spark", "master"), "local[1]", {"Spark"}),
        (("sink", "path"), "other", {"Spark", "Destination"}),
        (("sink", "merge_interval_s"), 5.0, {"Destination"}),
    ],
)
def test_a_change_invalidates_the_findings_that_depend_on_it(
    path: tuple[str, ...], value: Any, stale: set[str]
) -> None:
    """And no others: choosing a table does not invalidate the test of Spark."""
    kept, steps = draft(), ("Connect", "Preflight", "Plan", "Destination", "Spark")
    for step in steps:
        kept = kept.note(step, "ok", "good", AT)
    after = kept.put(*path, value=value)
    assert {step for step in steps if after.finding(step) is None} == stale


def test_each_step_has_a_state() -> None:
    """Open until it is done."""
    one = draft().note("Connect", "fail", "refused", AT).note("Spark", "warn", "slow", AT)
    assert [state_of(one, step) for step in STEPS] == ["fail", "open", "ok", "open", "open", "warn", "open"]
    assert blockers(one, []) == [("Connect", "refused")]
    assert [step for step, _ in unknowns(one)] == ["Preflight", "Plan", "Spark"]


def test_a_launch_needs_a_name_and_tables() -> None:
    """A missing setting is reported with its step."""
    empty = Draft("0123abcd", first_spec())
    assert [step for step, _ in blockers(empty, [])] == ["Connect", "Tables"]
    assert blockers(draft(), []) == []
    assert blockers(draft(), ["shop"])[0][0] == "Connect"
    unreachable = draft().note("Preflight", "fail", "nobody answers", AT)
    assert (missing(unreachable, []), blockers(unreachable, [])) == ([], [("Preflight", "nobody answers")])


@pytest.mark.parametrize(
    ("name", "good"), [("shop", True), ("", False), ("a b", False), ("-x", False), ("x" * 65, False)]
)
def test_valid_names_are_those_of_the_spec(name: str, good: bool) -> None:
    """The engine and the console agree."""
    assert (not name_fault(name, [])) == good
    if good:
        settings.parse(toml(draft().put("name", value=name).spec), Path("p"))


def test_a_password_is_refused_as_a_variable_name_and_not_repeated() -> None:
    """Someone will paste one."""
    assert variable_fault("SHOP_PASSWORD") == ""
    assert "hunter-2!" not in variable_fault("hunter-2!") != ""


def test_the_summary_lists_the_settings() -> None:
    """Tables, columns, chunks, Spark; no line for defaults."""
    found = dict(summary.facts(draft().put("tables", "shop.orders", "mask", value=["email"])))
    assert found["Tables"] == ["shop.*"]
    assert found["Columns"] == ["left out or masked in shop.orders"]
    assert "Chunks" not in found
    later = draft().put("source", "startup", value="timestamp:2026-01-31T00:00:00Z")
    assert summary.begins(later) == "follows changes from timestamp 2026-01-31T00:00:00Z; nothing is copied"
    assert len(summary.happens(later)) == len(summary.happens(draft())) - 1


def check(outcome: str, table: str = "", name: str = "log_bin") -> Check:
    """A check's result."""
    return Check(name, outcome, "this", "that", "because", table=table)  # type: ignore[arg-type]


SERVER = Server("mysql", (9, 7, 4), "9.7.4", "uuid")
TABLES = [Table("d", "a", (), ()), Table("d", "b", (), ())]


def test_a_preflight_fails_if_nothing_can_be_captured() -> None:
    """If only one table cannot, only it stops."""
    server = Preflight([check("fail"), check("ok", "d.a")], SERVER, TABLES)
    assert (checks.outcome(server), checks.headline(server)) == ("fail", "1 of 2 checks failed")
    one = Preflight([check("fail", "d.a"), check("ok", "d.b"), check("warn")], SERVER, TABLES)
    assert checks.outcome(one) == "warn"
    assert checks.headline(one) == "1 of 3 checks failed, 1 warning; only the affected tables stop"
    every = Preflight([check("fail", "d.a"), check("fail", "d.b")], SERVER, TABLES)
    assert checks.outcome(every) == "fail"
    good = Preflight([check("ok")], SERVER, [])
    assert (checks.outcome(good), checks.headline(good)) == ("ok", "All 1 check passed")


def test_equal_checks_of_tables_are_grouped() -> None:
    """Five checks of a thousand tables are five rows."""
    passed = [check("ok", "d.a", "d.a: key"), check("ok", "d.b", "d.b: key"), check("ok")]
    assert [(c.name, c.actual) for c in checks.shown(passed)[2]] == [
        ("log_bin", "that"),
        ("2 tables: key", "ok in 2 tables"),
    ]


ID = Column("id", "int", nullable=False, precision=10)
MADE = Column("made", "datetime")
ORDERS = Table("shop", "orders", (ID, MADE), ("id",), indexes=(Index("PRIMARY", ("id",)), Index("made", ("made",))))
PLAN = decide(ORDERS, Statistics(1_000_000, 100, 10**8), Ends("1", "1000000"), Snapshot(chunk_rows=10_000))


def test_the_plan_has_one_row_per_table_and_the_totals() -> None:
    """Strategy, chunks, rows per chunk, seconds; tables that cannot be planned come first, with the reason."""
    gone = Table("shop", "gone", (ID,), ("id",))
    plans: dict[str, Plan | TidemarkError] = {"shop.orders": PLAN, "shop.gone": TableStoppedError("It is gone.")}
    own = Snapshot(tables={"shop.orders": {"chunk_rows": 10_000}})
    first, second = planning.lines([ORDERS, gone], plans, own, 10e6, 2, Throttle())
    assert (first.table, first.why, planning.row(first)["Chunks"]) == ("shop.gone", "It is gone.", "—")
    row = planning.row(second)
    assert (row["Strategy"], row["Chunks"], row["Rows a chunk"], row["Time"]) == ("even", "100", "10,000", "5.0 s")
    assert (row["Factor"], row["Set"]) == ("1", "by you")
    assert planning.sums([second], 10e6, 2, Throttle()) == (
        "1 table · about 1M rows · 100 MB · about 100 chunks · about 5.0 s of reading with 2 readers at 10 MB/s each"
    )
    assert [plan.table for plan in planning.factored([first, second], 0.05, 1000, NOW)] == ["shop.orders"]


def test_the_plan_respects_the_throttle() -> None:
    """A million rows at 10 000 per second take 100 s, however fast the source is; another throttle invalidates the plan."""
    slow = Throttle(max_rows_per_s=10_000)
    (line,) = planning.lines([ORDERS], {"shop.orders": PLAN}, Snapshot(), 10e6, 2, slow)
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
