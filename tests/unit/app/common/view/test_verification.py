"""The fourth light and the page Verify."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.common.view.runner_view import Away
from app.common.view.verification import (
    ComparedTable,
    VerifiedTable,
    audits,
    difference_rows,
    layer,
    none_differ,
    outcome,
    part_cells,
    schedule,
    side_by_side,
    table_rows,
    tables_of,
    wait,
)
from app.common.view.write_words import Unwritten
from engine.base import clock
from engine.base.wording import NOTHING
from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline.table_verdict import TableFacts
from engine.pipeline.verification_records import Details, Difference, ForeignChanges, LastAudit, PartState
from engine.spec.verify_settings import Verify
from engine.verify.recorded import forgotten
from tests.unit.app.support import ago, runner

AT = "2026-11-25T10:00:00Z"
NOW = clock.parse_utc("2026-11-25T12:00:00Z")
SUMMARY: Summary = Summary(
    verdict="verified",
    why="",
    at="2026-11-25T10:00:00Z",
    last="2026-11-25T11:00:00Z",
    position="binlog.000001:4",
    version=3,
    level="rows",
    rows=1200,
    differences=0,
    by_kind={},
    parts=2,
    compared=2,
    generation=0,
    seconds=1.5,
)
MISSING = Difference("missing", ("de", "5"), cause="cause", source={"id": 5, "note": None}, chunk=7)


def test_the_last_audit_is_a_sentence() -> None:
    """With its age and what it found; and how often the runner audits."""
    last = LastAudit("2026-11-25T10:00:00Z", 3, 4, 0, "", "", {}, {}, "")
    assert audits(Verify(), None, NOW) == "Change logs are audited only on request (`verify.audit`)."
    text = audits(Verify(audit="1d"), last, NOW)
    assert text.startswith("The runner audits a random part of the change logs about every ")
    assert text.endswith("ago: 4 images of 3 tables, no difference.")
    assert audits(Verify(audit="1d"), replace(last, differences=2), NOW).endswith(", 2 differences.")


def summary(**changes: Any) -> Summary:
    """A summary with other values."""
    return replace(SUMMARY, **changes)


def tables(**summaries: Summary | None) -> list[VerifiedTable]:
    """Tables with these summaries."""
    return tables_of({name: TableFacts(one) for name, one in summaries.items()}, Verify(), NOW)


@pytest.mark.parametrize(
    ("found", "headline", "colour"),
    [
        (tables(a=SUMMARY, b=summary(at="2026-11-24T10:00:00Z")), "Verified", "green"),
        (tables(a=SUMMARY, b=None), "1 of 2 verified", "gray"),
        (tables(a=None, b=None), "Not verified yet", "gray"),
        (tables(a=SUMMARY, b=summary(at="2026-10-01T10:00:00Z")), "1 of 2 verified", "gray"),
        (tables(a=SUMMARY, b=summary(differences=3, verdict="diverged")), "3 rows differ", "red"),
        (tables(a=summary(differences=1, at="", verdict="diverged"), b=None), "1 row differs", "red"),
        (tables(a=summary(verdict="unverifiable", why="it has no key")), "Cannot be verified", "gray"),
        ([], "Not verified", "gray"),
    ],
)
def test_the_light(found: list[VerifiedTable], headline: str, colour: str) -> None:
    """Green only if all tables that can be verified are; red as soon as one row differs."""
    shown = layer(found, NOW)
    assert (shown.title, shown.headline, shown.colour) == ("Data", headline, colour)


def test_details_name_the_age_and_what_is_left_out() -> None:
    """The oldest table counts."""
    found = tables(a=SUMMARY, b=summary(at="2026-11-23T12:00:00Z"), c=summary(verdict="unverifiable", why="no key"))
    assert layer(found, NOW).details == ("within the last 2 d", "1 table cannot be verified")
    assert layer(tables(a=SUMMARY, b=None), NOW).details == ("1 table: not compared yet",)
    assert layer(tables(a=None, b=None), NOW).details == ("2 tables",)
    assert layer(tables(a=None), NOW).details == ("no row was compared yet",)
    old = layer(tables(a=summary(at="2026-10-01T10:00:00Z", last="2026-10-01T10:00:00Z")), NOW)
    assert (old.headline, old.details) == ("Not verified", ("verified too long ago",))
    bad = summary(differences=3, by_kind={"missing": 2, "different": 1})
    assert layer(tables(a=SUMMARY, b=bad), NOW).details == ("in 1 table",)
    assert layer(tables(b=bad), NOW).details == ("2 missing, 1 different",)


def test_the_first_comparison_is_under_way() -> None:
    """It has a colour of its own, and says how far it is; not if something else is the reason, or nothing compares."""
    half = summary(at="", parts=5, compared=1)
    found = layer(tables(a=half), NOW, continuous=True)
    assert (found.headline, found.colour, found.details) == ("Verifying", "blue", ("1 of 5 parts compared so far",))
    assert layer(tables(a=half, b=SUMMARY), NOW, continuous=True).details == ("1 of 2 tables compared so far",)
    assert layer(tables(a=half), NOW).colour == "gray"
    assert layer(tables(a=half), NOW, current=False, continuous=True).colour == "gray"
    old = summary(at="2026-10-01T10:00:00Z", last="2026-10-01T10:00:00Z")
    assert layer(tables(a=half, b=old), NOW, continuous=True).colour == "gray"


def test_the_reasons_of_the_light_count_every_table() -> None:
    """Verified and not verified ones add up; seldom reasons are one."""
    stopped, old = TableFacts(SUMMARY, stopped=True), TableFacts(summary(at="2026-10-01T10:00:00Z"))
    known = {"a": TableFacts(SUMMARY), "b": stopped, "c": stopped, "d": TableFacts()}
    found = layer(tables_of(known, Verify(), NOW), NOW)
    assert (found.headline, found.details) == ("1 of 4 verified", ("2 tables: stopped", "1 table: not compared yet"))
    half, again = TableFacts(summary(at="", parts=5, compared=1)), TableFacts(SUMMARY, generation=1)
    more = {**known, "e": old, "f": old, "g": half, "h": again}
    assert layer(tables_of(more, Verify(), NOW), NOW).details == (
        "2 tables: stopped",
        "2 tables: verified too long ago",
        "1 table: not compared yet",
        "2 tables: other reasons",
    )


def test_the_light_says_that_another_program_changed_a_mirror() -> None:
    """Also if more tables are stale for another reason, and if none was verified yet."""
    old = TableFacts(summary(at="2026-11-01T10:00:00Z"))
    known = {"a": TableFacts(SUMMARY), "b": TableFacts(SUMMARY, foreign=ForeignChanges(commits=2, version=4))}
    found = layer(tables_of({**known, "c": old, "d": old}, Verify(), NOW), NOW)
    assert (found.headline, found.colour) == ("1 of 4 verified", "gray")
    assert found.details == ("1 table: another program changed its mirror", "2 tables: verified too long ago")
    found = layer(tables_of({"a": TableFacts(foreign=ForeignChanges(commits=2, version=4))}, Verify(), NOW), NOW)
    assert (found.headline, found.details) == ("Not verified", ("another program changed its mirror",))
    proved = {**known, "b": TableFacts(SUMMARY, foreign=ForeignChanges(commits=2, version=3))}
    found = layer(tables_of(proved, Verify(), NOW), NOW)
    assert (found.headline, found.colour) == ("Verified", "green"), "it was verified at that version"


def test_tables_that_need_an_operator_come_first() -> None:
    """Then the one that was verified longest ago."""
    found = tables(
        new=SUMMARY,
        old=summary(at="2026-11-24T10:00:00Z"),
        never=None,
        bad=summary(differences=2),
        keyless=summary(verdict="unverifiable", why="it has no key"),
    )
    assert [one.table for one in found] == ["bad", "never", "keyless", "old", "new"]
    rows = table_rows(found)
    assert [row["State"] for row in rows] == [
        "2 rows differ",
        "Not verified",
        "Cannot be verified",
        "Verified",
        "Verified",
    ]
    assert rows[1]["Position"] == rows[1]["Rows"] == rows[1]["Version"] == "—"
    assert rows[2]["Why"] == "It has no key"
    assert rows[4]["Compared"] == clock.parse_utc(SUMMARY.at)


def test_a_mirror_that_another_program_changed_is_among_the_first() -> None:
    """Before those that wait for their turn. Its rows can be compared at once, and then repaired."""
    old = TableFacts(summary(at="2026-11-01T10:00:00Z"))
    written = TableFacts(SUMMARY, foreign=ForeignChanges(commits=2, version=4))
    found = tables_of({"a": old, "b": written, "c": TableFacts(summary(differences=2))}, Verify(), NOW)
    assert [one.table for one in found] == ["c", "b", "a"]
    assert "*Verify this table* compares them all now" in none_differ(found[1])


def test_no_light_is_green_while_the_mirrors_do_not_follow() -> None:
    """Beside an outage, a stopped table or a lost runner, a verdict is one of the past."""
    shown = layer(tables(a=SUMMARY), NOW, current=False)
    assert (shown.headline, shown.colour) == ("Verified", "gray")


def test_a_stopped_table_is_not_verified() -> None:
    """Its mirror stays as it was; the page counts it as not verified, whatever a verification said before or since."""
    refused = summary(verdict="unverifiable", why="it has stopped: a date")
    stopped = {"b": TableFacts(SUMMARY, stopped=True), "c": TableFacts(refused, stopped=True)}
    found = tables_of({"a": TableFacts(SUMMARY), **stopped}, Verify(), NOW)
    light = layer(found, NOW)
    assert (light.headline, light.colour, light.details) == ("1 of 3 verified", "gray", ("2 tables: stopped",))
    assert {row["Table"]: (row["State"], row["Why"]) for row in table_rows(found)} == {
        "a": ("Verified", ""),
        "b": ("Not verified", "Stopped"),
        "c": ("Not verified", "Stopped"),
    }


def test_a_mirror_that_cannot_be_read_is_red_beside_verified_ones() -> None:
    """It comes first, with its remedy; a table without a key is only counted."""
    broken: Unreadable = Unreadable(at=AT, why="a file is gone", hint="Resnapshot it", chunks=())
    known = {
        "fine": SUMMARY,
        "keyless": summary(verdict="unverifiable", why="it has no key"),
        "lost": summary(verdict="unverifiable", why="a file is gone", unreadable=broken),
    }
    found = tables(**known)
    light = layer(found, NOW)
    assert (light.headline, light.colour) == ("1 mirror cannot be read", "red")
    assert light.details == ("lost", "1 table cannot be verified")
    first = table_rows(found)[0]
    assert (first["Table"], first["State"], first["Why"]) == ("lost", "Mirror cannot be read", "A file is gone")
    assert none_differ(found[0]).startswith("The mirror of this table cannot be read")
    also = layer(tables(**known, bad=summary(differences=2)), NOW)
    assert (also.headline, also.details[1]) == ("2 rows differ", "1 mirror cannot be read")


def test_a_replaced_snapshot_leaves_no_number() -> None:
    """A table that was dropped and created again has other rows, and no version of the old mirror."""
    (row,) = table_rows(tables(a=forgotten(SUMMARY, 1)))
    assert (row["State"], row["Why"]) == ("Not verified", "Resnapshotted since")
    assert [row[name] for name in ("Rows", "Parts", "Position", "Version", "Took")] == [NOTHING] * 5
    assert layer(tables(a=forgotten(SUMMARY, 1)), NOW, continuous=True).headline != "Verified"


def test_a_failed_verification_is_not_shown_after_a_good_one() -> None:
    """Its remedy stays as long as the mirror cannot be read."""
    failed = replace(answered("a.b", "unverifiable", 0), why="a file is gone", at=AT, hint="Resnapshot it.")
    red = [("red", "Cannot be verified at 10:00: a.b: a file is gone. Resnapshot it.")]
    older = tables(**{"a.b": summary(last="2026-11-25T09:00:00Z")})
    assert outcome([failed], "10:00", older) == red
    assert outcome([failed], "10:00", tables(**{"a.b": SUMMARY})) == []
    diverged: Summary = replace(SUMMARY, verdict="diverged", differences=2)
    assert outcome([failed], "10:00", tables(**{"a.b": diverged})) == [], "it was compared, whatever was found"
    same: Summary = replace(SUMMARY, verdict="unverifiable", last=failed.at)
    assert outcome([failed], "10:00", tables(**{"a.b": same})) == red, "it is the result itself"
    replaced = forgotten(same, 1)
    assert outcome([failed], "10:00", tables(**{"a.b": replaced})) == [], "that mirror is gone"


def test_no_difference_is_no_verdict_before_a_comparison() -> None:
    """A table that was never compared has no known difference either."""
    (never, compared) = tables(a=None, b=SUMMARY)
    assert none_differ(never) == "This table was not compared with its source yet."
    assert none_differ(compared).startswith("No row of this table is known to differ.")


def test_differences_side_by_side() -> None:
    """Columns that differ are marked; NULL and no row are told apart."""
    assert side_by_side(MISSING) == [
        {"": "≠", "Column": "id", "Source": "5", "Mirror": "no row"},
        {"": "≠", "Column": "note", "Source": "NULL", "Mirror": "no row"},
    ]
    different = replace(MISSING, kind="different", columns=("note",), mirror={"id": 5, "note": "NULL"})
    assert [line[""] for line in side_by_side(different)] == ["", "≠"]
    listed = difference_rows(Details(table="t", complete=True, parts=[], differences=[MISSING]))
    assert listed == [{"Kind": "Missing", "Key": "de, 5", "Chunk": "7", "Columns": "", "Likely cause": "cause"}]


def test_parts_of_a_large_table_are_drawn_together() -> None:
    """A cell has the oldest age of its parts, and all their differences."""
    ats = [clock.utc_text(NOW - timedelta(hours=n)) for n in range(5)]
    parts: list[PartState] = [
        PartState(chunk=n, lower=None, upper=None, at=at, rows=10, differences=n == 3, position=None, version=None)
        for n, at in enumerate(ats)
    ]
    assert [cell[0] for cell in part_cells(parts, 10)] == [f"chunk {n}" for n in range(5)]
    cells = part_cells(parts, 3)
    assert [(label, count) for label, _, _, count in cells] == [("2 chunks", 0), ("2 chunks", 1), ("chunk 4", 0)]
    assert cells[0][2] == clock.parse_utc(ats[1]).timestamp()
    never = [replace(parts[0], at=""), *parts[1:]]
    assert part_cells(never, 3)[0][2] is None


def test_the_schedule() -> None:
    """As set in the spec."""
    assert "7 d" in schedule(Verify())
    assert "5%" in schedule(Verify())
    assert "off" in schedule(Verify(period="off"))


def answered(table: str, verdict: str = "verified", rows: int = 100, differences: int = 0) -> ComparedTable:
    """A table of `verify --json`."""
    why = "connecting failed" if verdict == "lagging" else ""
    return ComparedTable(table, verdict, rows, differences, why)


def test_the_outcome_names_the_tables() -> None:
    """At most three of them."""
    assert outcome([answered("a.b")], "10:00") == [("green", "Compared 100 rows of a.b at 10:00: no row differs.")]
    ((colour, text),) = outcome([answered("a.b"), answered("a.c", "diverged", 100, 2)], "10:00")
    assert (colour, text) == ("red", "Compared 200 rows of 2 tables at 10:00: 2 rows differ in a.c.")
    ((_, text),) = outcome([answered(name, "diverged", 1, 1) for name in "abcd"], "10:00")
    assert text.endswith("4 rows differ in a, b, c and 1 more table.")


def test_a_table_that_was_not_compared_is_not_said_to_be_equal() -> None:
    """The source was away: nothing was compared."""
    lagging = answered("a.b", "lagging", 0)
    failed = ("orange", "Could not be verified at 10:00: a.b: connecting failed.")
    assert outcome([lagging], "10:00") == [failed]
    assert outcome([answered("a.c"), lagging], "10:00") == [
        ("green", "Compared 100 rows of a.c at 10:00: no row differs."),
        failed,
    ]


def test_nothing_can_be_compared_without_the_source_or_the_store() -> None:
    """The buttons wait, and say until when. A full disk does not keep a comparison from reading."""
    away = Away(ago(48), 5, ago(-30), "Connecting failed.", None)
    assert wait(runner()) == wait(runner("lost", alive=False)) == ""
    assert wait(replace(runner(), away=away)) == (
        "The source is unreachable, so nothing can be compared. When the source answers, the buttons work again."
    )
    assert wait(replace(runner(), away=replace(away, cause="login"))).startswith(
        "The source refuses the login, so nothing"
    )
    store = Unwritten("store_away", "store away (log)", "", None, 1)
    assert wait(replace(runner("paused"), unwritten=store)) == (
        "The store of the destination does not answer, so nothing can be compared until the store answers."
    )
    assert wait(replace(runner("paused"), unwritten=replace(store, cause="disk"))) == ""
