"""Prepared XA transactions: their rows are kept, found again, and counted where they are committed."""

from typing import Any

import pytest

from engine.capture.binlog import prepared_rows, transaction_outcomes
from engine.decode.schema import Table
from engine.source.positions import Position
from engine.source.xa_places import XaPlaces
from tests.unit.support.transaction_log import ITEMS, OTHER, Files, Writer, commit, prepared, read_log


@pytest.mark.parametrize("table", [ITEMS, OTHER])
def test_prepared_rows_are_read_once_for_all(table: Table) -> None:
    """Not again in the range of their PREPARE, once in a later one if their places are known, and else one search."""
    writer = Writer()
    keys = [key for rows in prepared(writer, 30, table) for key in rows]
    commit(writer, 30)
    files, read = Files(*writer.logs), list[Any]()
    begin, middle, end = (writer.places[n] for n in (0, 30, 60))
    assert [r[1] for r in read_log(files, begin, end)] == keys
    assert files.reads == 0
    assert read_log(files, begin, middle, read=read) == []
    known = XaPlaces().after(*read[0])
    assert len(known.undecided) == 30
    assert [r[1] for r in read_log(files, middle, end, known=known, read=read)] == keys
    assert files.reads == 1
    assert known.after(*read[1]).undecided == {}
    assert [r[1] for r in read_log(files, middle, end)] == keys
    assert files.reads == 2


def test_a_transaction_that_two_blocks_contain_is_not_read_twice() -> None:
    """It is held back until it ends, and kept as a whole, wherever the blocks of the dump end."""
    writer = Writer()
    keys = [key for rows in prepared(writer, 6) for key in rows]
    commit(writer, 6)
    files = Files(*writer.logs)
    for cut in range(1, len(writer.log.payloads)):
        assert [r[1] for r in read_log(files, writer.places[0], writer.places[-1], [cut])] == keys
    assert [r[1] for r in read_log(files, writer.places[0], writer.places[-1], [*range(60)])] == keys
    assert files.reads == 0


@pytest.mark.parametrize("cuts", [[], [8], [14], [*range(30)]])
def test_a_prepare_whose_transaction_a_crash_rolled_back_counts_never(cuts: list[int]) -> None:
    """Its id is prepared again; the decision is that of the later PREPARE, and the earlier one is not remembered."""
    writer = Writer()
    prepared(writer, 1)
    rows = prepared(writer, 1)
    commit(writer, 1)
    files, read = Files(*writer.logs), list[Any]()
    assert [[r[1]] for r in read_log(files, writer.places[0], writer.places[-1], cuts, read=read)] == rows
    assert read[0][0].undecided == {}
    assert read[0][0].recent[b"\0\0", b"", 1].start == writer.places[1]


def test_what_is_known_earlier_bounds_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read from the start back to there, each part once.

    What was undecided then is read alone, if it is far away.
    """
    monkeypatch.setattr(transaction_outcomes, "MAX_HELD_BYTES", 2000)
    writer = Writer()
    writer.begin("XA START X'0b',X'',1")
    keys = writer.rows()
    writer.prepare("0b")
    writer.end([])
    writer.begin()
    writer.rows(OTHER, count=400)
    writer.log.commit()
    writer.end([])
    early = writer.places[-1]
    writer.rotate()
    keys += [key for rows in prepared(writer, 4) for key in rows]
    start = writer.places[-1]
    writer.rotate()
    writer.begin("XA COMMIT X'0b',X'',1")
    writer.end([])
    commit(writer, 4)
    read, files = list[Any](), Files(*writer.logs)
    read_log(files, writer.places[0], early, read=read)
    known, second = XaPlaces().after(*read[-1]), Position("bin.000002", 4)
    (old,) = known.undecided.values()
    for places, parts in (
        (known, [(second, start), (early, second), (old.start, old.end)]),
        (XaPlaces(), [(second, start), (writer.places[0], second)]),
    ):
        files = Files(*writer.logs)
        assert [r[1] for r in read_log(files, start, writer.places[-1], known=places)] == keys
        assert files.parts == parts


def test_a_search_finds_what_later_ranges_need() -> None:
    """Everything undecided at the start of a range that searched is known at its end."""
    writer = Writer()
    keys = [key for rows in prepared(writer, 3) for key in rows]
    begin = writer.places[-1]
    writer.begin("XA COMMIT X'0000',X'',1")
    writer.end([])
    middle = writer.places[-1]
    for number in (1, 2):
        writer.begin(f"XA COMMIT X'{number:04x}',X'',1")
        writer.end([])
    files, read = Files(*writer.logs), list[Any]()
    assert [r[1] for r in read_log(files, begin, middle, read=read)] == keys[:1]
    known = XaPlaces().after(*read[-1])
    assert len(known.undecided) == 2
    files = Files(*writer.logs)
    assert [r[1] for r in read_log(files, middle, writer.places[-1], known=known)] == keys[1:]
    assert files.reads == 1


@pytest.mark.parametrize("count", [1, 3])
def test_an_id_that_is_used_again_in_the_block_of_its_commit(count: int) -> None:
    """The earlier transaction was prepared in a block before; each decision is that of the PREPARE before it."""
    writer = Writer()
    keys = prepared(writer, count)
    cut = len(writer.log.payloads)
    for _ in range(3):
        commit(writer, count)
        keys += prepared(writer, count)
    commit(writer, count)
    files = Files(*writer.logs)
    found = read_log(files, writer.places[0], writer.places[-1], [cut])
    assert [[r[1]] for r in found] == keys
    assert files.reads == 0


def test_a_place_after_the_start_is_that_of_another_transaction_of_the_same_name() -> None:
    """Its id was used again since; the range then searches for the earlier PREPARE."""
    writer = Writer()
    (first,) = prepared(writer, 1)
    commit(writer, 1)
    (second,) = prepared(writer, 1)
    files, read = Files(*writer.logs), list[Any]()
    read_log(files, writer.places[0], writer.places[3], read=read)
    known = XaPlaces().after(*read[0])
    assert known.before((b"\0\0", b"", 1), writer.places[1]) is None
    assert [r[1] for r in read_log(files, writer.places[1], writer.places[2], known=known)] == first
    assert second


def test_rows_beyond_the_limits_are_spilled_or_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file of bounded size; what has no room there is read from the log again, one by one."""
    writer = Writer()
    header = len(writer.log.payloads)
    keys = [key for rows in prepared(writer, 40) for key in rows]
    commit(writer, 40)
    for spilled, reads in ((1 << 30, range(1)), (30_000, range(1, 40))):
        monkeypatch.setattr(prepared_rows, "MOST_MEMORY", 10_000)
        monkeypatch.setattr(prepared_rows, "MOST_SPILLED", spilled)
        files = Files(*writer.logs)
        found = read_log(files, writer.places[0], writer.places[-1], list(range(header, header + 240, 6)))
        assert [r[1] for r in found] == keys
        assert files.reads in reads
