"""What one epoch reads, commits and reports: decided without a server."""

from dataclasses import replace
from typing import Any

import pytest

from engine.base.errors import DecodeError, ErrorRecord
from engine.capture.binlog.statements import Alteration
from engine.capture.files import DataFile
from engine.capture.reports import ChunkReport, RangeReport, ReaderProcess, RedumpReport, WrittenChanges
from engine.journal.event_fields import Backfill, without_redumps
from engine.journal.sentences import describe
from engine.ledger.records import EpochRecord, Switch, TableChange
from engine.plan.chunks import WHOLE
from engine.run.epochs.epoch import commit_event, largest, split_range, table_records, up_to_alteration, with_facts
from engine.run.snapshot.table_copy import Finished
from engine.source.positions import Position

MIB = 1 << 20
READER = ReaderProcess("h", 1)
ERROR = ErrorRecord("TableStoppedError", "no")
SWITCH = Switch({}, {}, {})


def at(file: int, offset: int = 4) -> Position:
    """A position."""
    return Position(f"b.{file:06}", offset)


def epoch_of(tables: dict[str, TableChange]) -> EpochRecord:
    """The record of an epoch."""
    return EpochRecord(4, "r", "", at(1), at(2), 7, tables)


def written(name: str, *kinds: int) -> WrittenChanges:
    """A file of a change log."""
    inserts, before, after, deletes = kinds
    return WrittenChanges(
        files=(DataFile(name, sum(kinds), 10),),
        kinds=(inserts, before, after, deletes),
        nulled_dates={"v": 1},
        next_seq=9,
    )


def part(end: Position, **more: Any) -> RangeReport:
    """The report of a part of the binlog range."""
    whole = RangeReport(
        reader=READER,
        end=end,
        alteration=None,
        may_define_tables=False,
        gtids="",
        anonymous=0,
        complete=False,
        births={},
        tables={},
        stop_errors={},
        transactions=2,
        bytes=100,
        events={"write": 2},
        damaged_events=0,
        unknown_events={},
        largest=None,
        one_phase=False,
        xa=None,
        last_ts=0,
        seconds=0.1,
    )
    return replace(whole, **more)


def chunk(table: str, number: int) -> Finished:
    """A chunk that was read."""
    report = ChunkReport(
        reader=READER,
        table=table,
        chunk=number,
        limits=WHOLE,
        low=at(1),
        high=at(1, 50),
        files=(DataFile(f"chunk-{number}", 3, 10),),
        rows=3,
        backfill=Backfill(),
        nulled_dates={"v": 2},
        timings={},
        started_at="",
        ended_at="",
    )
    return Finished(report)


@pytest.mark.parametrize(
    ("sizes", "start", "end", "slots", "known", "parts"),
    [
        ({1: 500}, at(1, 100), at(1, 100), 2, None, []),
        ({1: 500}, at(1, 100), at(1, 200), 2, None, [(at(1, 100), at(1, 200))]),
        ({1: 70 * MIB, 2: 900}, at(1), at(2, 900), 2, None, [(at(1), at(2, 4)), (at(2, 4), at(2, 900))]),
        (
            {1: 40 * MIB, 2: 40 * MIB, 3: 9},
            at(1),
            at(3, 9),
            4,
            None,
            [(at(1), at(3, 4)), (at(3, 4), at(3, 9))],
        ),
        ({1: 70 * MIB, 2: 70 * MIB, 3: 9}, at(1), at(3, 9), 1, None, [(at(1), at(2, 4))]),
        (
            {1: 70 * MIB, 2: 70 * MIB, 3: 9},
            at(1),
            at(3, 9),
            1,
            at(2, 70 * MIB),
            [(at(1), at(2, 4)), (at(2, 4), at(3, 4))],
        ),
    ],
)
def test_a_range_is_cut_where_files_begin(
    sizes: dict[int, int],
    start: Position,
    end: Position,
    slots: int,
    known: Position | None,
    parts: list[tuple[Position, Position]],
) -> None:
    """Into parts that are worth a task, no more than there are slots; but never to end before the committed position.

    A file's size is never a position: files that MySQL encrypts are larger than their last one.
    """
    files = {f"b.{number:06}": size for number, size in sizes.items()}
    assert split_range(files, start, end, slots, known) == parts


def test_an_epoch_ends_at_the_first_alteration() -> None:
    """Later parts were read with columns that may be gone."""
    altered = Alteration(("d.t",), "d", "ALTER TABLE t ADD c INT", "b.000002:9")
    parts = [part(at(1, 99)), part(at(2, 9), alteration=altered), part(at(3, 9))]
    assert up_to_alteration(parts, at(3, 9)) == (parts[:2], at(2, 9), altered)
    assert up_to_alteration(parts[:1], at(1, 99)) == (parts[:1], at(1, 99), None)


def test_chunks_and_changes_become_part_of_the_record() -> None:
    """Changes of redumped parts come before those of the binlog; dates that became NULL are added up."""
    redumped = RedumpReport(
        reader=READER, table="d.t", chunk=0, redump="c1", changes=written("r", 2, 0, 0, 1), missing_keys=[]
    )
    parts = [
        part(at(1, 90), tables={"d.t": written("a", 1, 1, 1, 0)}),
        part(at(2), tables={"d.t": written("b", 0, 0, 0, 4)}),
    ]
    tables, newly = table_records({"d.t": {"unsplit": []}}, [chunk("d.t", 7)], parts, {}, {}, [redumped])
    assert not newly
    found = tables["d.t"]
    assert [(one.chunk, one.rows, one.exact) for one in found.chunks] == [(7, 3, at(1, 50))]
    assert [file["name"] for file in found.change_files] == ["r", "a", "b"]
    assert found.changes is not None
    assert found.changes.kinds == (3, 1, 1, 5)
    assert found.changes.nulled == {"v": 3}
    assert found.split == {"unsplit": []}


def test_a_table_that_stops_in_one_part_ends_there() -> None:
    """What a later part has of it is not published, its chunks are not, and no verdict brings it back."""
    error = DecodeError("no such date")
    parts = [
        part(at(1, 90), tables={"d.t": written("a", 1, 0, 0, 0)}, stop_errors={"d.t": error}),
        part(at(2), tables={"d.t": written("b", 1, 0, 0, 0), "d.u": written("c", 1, 0, 0, 0)}),
    ]
    verdicts = {"d.t": TableChange(altered=SWITCH)}
    tables, newly = table_records({}, [chunk("d.t", 1), chunk("d.u", 2)], parts, {}, verdicts)
    assert newly == {"d.t": error}
    hint = "Then resnapshot it: tidemark redump SPEC --table d.t"
    assert tables["d.t"].stopped == replace(error.to_record(), hint=hint)
    assert [file["name"] for file in tables["d.t"].change_files] == ["a"]
    assert tables["d.t"].chunks == ()
    assert tables["d.t"].altered is None
    assert [one.chunk for one in tables["d.u"].chunks] == [2]


def test_a_table_that_had_stopped_before_gets_nothing() -> None:
    """Neither changes nor redumped parts; its error is committed."""
    redumped = RedumpReport(
        reader=READER, table="d.t", chunk=0, redump="c1", changes=written("r", 1, 0, 0, 0), missing_keys=[]
    )
    parts = [part(at(2), tables={"d.t": written("a", 1, 0, 0, 0)}, stop_errors={"d.t": DecodeError("again")})]
    tables, newly = table_records({}, [], parts, {"d.t": ERROR}, {}, [redumped])
    assert (tables, newly) == ({"d.t": TableChange(stopped=ERROR)}, {})


def test_a_resnapshot_publishes_no_chunk_of_the_copy_before() -> None:
    """Nor what was split for it."""
    verdicts = {"d.t": TableChange(resnapshot=SWITCH)}
    tables, _ = table_records({"d.t": {"unsplit": []}}, [chunk("d.t", 1)], [], {}, verdicts)
    assert tables == verdicts


def test_the_largest_transaction_and_unknown_events_are_remembered() -> None:
    """The largest one only where it is larger than any before."""
    small, large = {"bytes": 5, "gtid": "a"}, {"bytes": 50, "gtid": "b"}
    parts = [
        part(at(1, 90), largest=small, unknown_events={"x": 1}),
        part(at(2), largest=large, unknown_events={"x": 2, "y": 1}),
    ]
    assert largest(parts) == large
    bare = epoch_of({})
    assert with_facts(bare, parts, {"bytes": 20}) == replace(bare, unknown={"x": 3, "y": 1}, largest=large)
    assert with_facts(bare, parts, {"bytes": 50}) == replace(bare, unknown={"x": 3, "y": 1})
    assert with_facts(bare, [part(at(2))], None) == bare


def test_the_journal_gets_the_sums_of_an_epoch() -> None:
    """Changes by kind and by table, events and transactions of all parts."""
    parts = [part(at(1, 90), tables={"d.t": written("a", 1, 2, 2, 0)}), part(at(2))]
    tables, _ = table_records({}, [], parts, {}, {})
    event = commit_event(epoch_of(tables), 0, parts, 0.5, 0.75)
    assert (event.changes, event.tables, event.transactions, event.bytes, event.next_seq) == (5, {"d.t": 5}, 4, 200, 7)
    assert list(event.kinds.values()) == [1, 2, 2, 0]
    assert (event.events, event.reader, event.timings) == (
        {"write": 4},
        "h:1",
        {"read": 0.5, "commit": 0.25},
    )


def test_redumped_rows_are_no_changes_of_the_source() -> None:
    """The epoch says how many of its changes they are, but for those of a table that stopped and lost them."""
    redumps = [
        RedumpReport(reader=READER, table=name, chunk=n, redump="c", changes=written("a", 9, 0, 0, 1), missing_keys=())
        for name in ("d.t", "d.u", "d.gone")
        for n in (0, 1)
    ]
    parts = [part(at(1, 90), tables={"d.t": written("a", 1, 2, 2, 0)})]
    tables, _ = table_records({}, [], parts, {"d.gone": ERROR}, {}, redumps)
    event = commit_event(epoch_of(tables), 0, parts, 0.5, 0.75, redumps)
    assert event.redumped == {"d.t": [18, 0, 0, 2], "d.u": [18, 0, 0, 2]}
    assert without_redumps(event.table_kinds, event.redumped) == {"d.t": [1, 2, 2, 0], "d.u": [0, 0, 0, 0]}
    assert describe(event) == "Epoch 4: 5 changes and 40 redumped changes to b.000002:4"
