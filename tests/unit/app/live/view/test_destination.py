"""The destination section: cells and sums, with tables that have no mirror or cannot be read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.live.view import destination
from engine.destination.capabilities import CatalogEntry, PublishedFormat, Sizes
from engine.explore.destination_sizes import TableSizes
from engine.history.maintenance_queries import Space, WrittenBytes

AT = datetime(2026, 1, 1, tzinfo=UTC)
READ = TableSizes(
    "d.a", Sizes(12, 400_000_000, 1500, 3, 2_000_000, 7, 9_000_000, on_read=True), ("optimize", "compact")
)
WRITTEN = TableSizes("d.b", Sizes(1, 1000, 0, 1, 2000, 0, 0, on_read=False), ())
KEYLESS = TableSizes("d.c", Sizes(0, 0, 0, 1, 2000, 0, 0, on_read=False), ())
BROKEN = TableSizes("d.x", None, (), "The Delta table cannot be read.")
WORK = WrittenBytes("d.a", 1_000_000, 6_000_000, 2_000_000, 10, AT, None)


def test_sizes_have_the_age_of_their_reading() -> None:
    """They are those of now if the logs have not changed since."""
    now = AT + timedelta(minutes=2)
    assert destination.read_at(AT, now) == "read 00:00:00 UTC, 2 min ago"
    assert destination.read_at(AT, now, current=True).endswith("2 min ago; the Delta logs have no newer version")
    assert destination.read_at(AT, now, current=False).endswith("a newer version, which is being read")


def test_a_row_says_how_far_iceberg_is() -> None:
    """The worse of the mirror and the change log."""
    now, place = AT + timedelta(minutes=2), "/lake/d/a__iceberg"
    for published, text in (
        ([(7, 0), (3, 0)], "v3, in step"),
        ([(7, 0), (3, 2)], "v3, 2 versions behind"),
        ([(None, 4), (3, 0)], "v3, not published"),
    ):
        formats = [
            PublishedFormat("Iceberg v3", "/lake/d/a", place, "", version, missing) for version, missing in published
        ]
        assert destination.row(replace(READ, formats=formats), WORK, now)["Iceberg"] == text
    assert "Iceberg" not in destination.row(READ, WORK, now)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([(7, ""), (3, "")], "v3, in step; in the catalog as d.a"),
        ([(6, ""), (3, "")], "v3, in step; the catalog has an earlier version of d.a"),
        ([(None, ""), (3, "")], "v3, in step; not in the catalog"),
        ([(7, ""), (None, "It does not answer.")], "v3, in step; It does not answer."),
    ],
)
def test_a_row_says_what_the_catalog_has(entries: list[tuple[int | None, str]], text: str) -> None:
    """The worse of the mirror and the change log."""
    formats = [
        PublishedFormat(
            "Iceberg v3", "/lake/d/a", "/lake/d/a__iceberg", "", own, 0, CatalogEntry("d", "a", version, fault)
        )
        for own, (version, fault) in zip((7, 3), entries, strict=True)
    ]
    assert destination.row(replace(READ, formats=formats), WORK, AT + timedelta(minutes=2))["Iceberg"] == text


def test_a_row_says_what_a_table_holds_and_costs() -> None:
    """The amplification counts merges and maintenance."""
    now = AT + timedelta(minutes=2)
    row = destination.row(READ, WORK, now)
    assert (row["Merging"], row["Deleted rows"], row["Written"]) == ("on read", "1,500", "8.0 ×")
    assert row["Due"] == "rewrite mirror files, merge change log files"
    assert (row["Merged"], row["Maintained"]) == ("2 min ago", "—")
    written = destination.row(WRITTEN, None, now)
    assert (written["Written"], written["Due"]) == ("—", "nothing")
    assert destination.row(KEYLESS, None, now)["Merging"] == "—"
    assert destination.row(BROKEN, None, now) == {"Table": "d.x", "Due": "The Delta table cannot be read."}


def test_the_sums_are_of_all_readable_tables() -> None:
    """Nothing is said about the amplification without changes."""
    found = [READ, WRITTEN, KEYLESS, BROKEN]
    assert destination.sums(found, {"d.a": WORK}).endswith("8.0 × the changes written in 24 h")
    assert "written" not in destination.sums(found, {})
    assert destination.sums(found, {}).startswith("4 tables · mirrors 400 MB")


def test_no_changes_have_no_amplification() -> None:
    """A quotient by zero is unknown."""
    assert WrittenBytes("d.a", 0, 5, 5, 1, None, None).amplification is None


def test_the_disk_has_a_forecast_once_it_was_measured_for_an_hour() -> None:
    """A disk that does not grow is never full."""
    now = AT + timedelta(seconds=20)
    space = Space(AT, 74_000_000_000, 252_000_000_000, 1_200_000_000, 5_328_000.0)
    assert destination.disk(space, now) == (
        "74 GB of 252 GB free · grows 1.2 GB a day, by the last day · full in 61 d 16 h · measured 20 s ago"
    )
    assert "an hour" in destination.disk(Space(AT, 1, 2, None, None), now)
    assert "does not grow" in destination.disk(Space(AT, 1, 2, -5.0, None), now)
