"""The ranges in which a table is compared cover it, whatever the journals say."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.decode.schema import Column, Index, Table
from engine.journal import Journal
from engine.journal.event_fields import Backfill
from engine.journal.events import ChunkFinished, TablePlanned
from engine.ledger.state import TableState
from engine.pipeline.directory import Directory
from engine.plan.chunks import WHOLE, Plan, Range
from engine.plan.coverage import Coverage, covers
from engine.verify.scope import Scope, ranges_of

TABLE = Table("d", "t", (Column("id", "int", nullable=False),), ("id",), indexes=(Index("PRIMARY", ("id",)),))
PLAN = Plan("d.t", 90, 0, ("id",), "PRIMARY", "0", "90", 1.0, "even", "", 30, 3, "30", "30")
COPIED = TableState(TABLE.as_dict(), PLAN.as_dict(), Coverage((WHOLE,), ((0, 2),), next_number=3))
Ends = tuple[str | None, str | None]


def ranges(folder: Path, chunks: Sequence[Ends]) -> list[tuple[int | None, Range]]:
    """Those of the table, if its journal has these bounds."""
    directory = Directory(folder)
    journal = Journal(directory.journal("20260101T000000-abcdef"), "20260101T000000-abcdef")
    journal.write(TablePlanned(table="d.t"))
    for number, (lower, upper) in enumerate(chunks):
        journal.write(_finished(number, lower, upper))
    journal.close()
    return [(one.chunk, one.limits) for one in ranges_of(Scope(), directory, COPIED, TABLE, PLAN)]


def _finished(number: int, lower: str | None, upper: str | None) -> ChunkFinished:
    return ChunkFinished(
        table="d.t",
        chunk=number,
        lower=lower,
        upper=upper,
        low="b.1:4",
        high="b.1:4",
        gap_bytes=0,
        rows=1,
        backfill=Backfill(),
        file=None,
        bytes=0,
        timings={},
        started="",
        ended="",
        reader="h:1",
        host="h",
        pid=1,
        attempt=1,
        group=1,
    )


def test_the_chunks_of_the_copy_are_the_ranges(tmp_path: Path) -> None:
    """In their order, each with its number."""
    found = ranges(tmp_path, [(None, "30"), ("30", "60"), ("60", None)])
    assert found == [(0, Range(None, ("30",))), (1, Range(("30",), ("60",))), (2, Range(("60",), None))]


@pytest.mark.parametrize(
    "chunks",
    [
        [(None, "30"), ("40", "60"), ("60", None)],
        [(None, "30"), ("30", "60"), ("60", "90")],
        [("0", "30"), ("30", "60"), ("60", None)],
        [(None, "30"), ("30", "60"), ("30", "60")],
        [(None, "30"), ("30", "60")],
    ],
    ids=["gap", "end", "begin", "twice", "lost"],
)
def test_a_journal_with_a_gap_is_not_believed(tmp_path: Path, chunks: Sequence[Ends]) -> None:
    """The table is one range then."""
    assert [limits for _, limits in ranges(tmp_path, chunks)] == [WHOLE]


def test_what_covers_a_table() -> None:
    """In any order; a chain from open to open without anything beside it."""
    assert covers([("b", None), (None, "a"), ("a", "b")])
    assert covers([(None, None)])
    for gap in ([], [(None, "a")], [(None, "a"), ("b", None)], [(None, None), ("a", "b")], [(None, "a"), ("a", "a")]):
        assert not covers(gap)
