"""Transactions that are rolled back, prepared, committed elsewhere or torn, compared with a model of a server."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import SourceLostError
from engine.capture.binlog import transaction_outcomes
from engine.capture.binlog.binlog_range import BinlogRange
from engine.decode.schema import Table
from engine.source.positions import Position
from engine.source.xa_places import XaPlaces
from tests.support.depth import depth
from tests.unit.support.compressed import payload
from tests.unit.support.transaction_log import ITEMS, OTHER, SERVER, STONE, Files, Writer, bare, end_of, read_log
from tests.unit.support.wire import Binlog, table_map

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.sampled_from([ITEMS, ITEMS, OTHER]), st.integers(1, 4)),
        st.tuples(st.just("savepoint"), st.sampled_from("stU")),
        st.tuples(st.just("to"), st.sampled_from("STu")),
    ),
    max_size=8,
)
TRANSACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "rollback", "prepare", "one phase", "decide", "rotate"]),
        STEPS,
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=10,
)


def write(happened: list[Any]) -> Writer:
    """The log of these transactions, and the rows that count."""
    writer = Writer()
    prepared: dict[str, list[int]] = {}
    for number, (how, steps, folded, choice) in enumerate(happened):
        if how == "rotate":
            writer.rotate()
        elif how == "decide":
            if prepared:
                xid = sorted(prepared)[choice % len(prepared)]
                keys = prepared.pop(xid)
                writer.begin(f"XA {'ROLLBACK' if choice == 3 else 'COMMIT'} X'{xid}',X'',1")
                writer.end([] if choice == 3 else keys)
        else:
            free = [xid for xid in ("0a", "0b", "0c") if xid not in prepared]  # ids are used again
            xid = free[choice % len(free)] if free else f"{number + 16:02x}"
            writer.begin(f"XA START X'{xid}',X'',1" if how in ("prepare", "one phase") else "BEGIN")
            keys = take(writer, steps)
            finish(writer, how, xid)
            if how == "prepare":
                prepared[xid] = keys
            if folded:
                writer.fold()
            writer.end(keys if how in ("commit", "one phase") else [])
    return writer


def take(writer: Writer, steps: list[Any]) -> list[int]:
    """Write the steps of a transaction; returns the keys that remain at its end."""
    keys, savepoints = [], dict[str, int]()
    for step in steps:
        name = str(step[1]).lower()
        if step[0] == "rows":
            keys += writer.rows(step[1], step[2])
        elif step[0] == "savepoint":
            if len(keys) > savepoints.get(name, len(keys)):
                continue  # rows between two of one name are unknown, which another test covers
            writer.log.query(f"SAVEPOINT `{step[1]}`")
            savepoints.pop(name, None)
            savepoints[name] = len(keys)
        elif name in savepoints:
            writer.log.query(f"ROLLBACK TO `{step[1]}`")
            del keys[savepoints[name] :]
            for later in list(savepoints)[list(savepoints).index(name) + 1 :]:
                del savepoints[later]
    return keys


def finish(writer: Writer, how: str, xid: str) -> None:
    """Write the end of a transaction."""
    if how == "commit":
        writer.log.commit()
    elif how == "rollback":
        writer.log.query("ROLLBACK")
    else:
        writer.prepare(xid, one_phase=how == "one phase")


@given(TRANSACTIONS, st.data(), st.sampled_from([0, 300, 1 << 20]))
@settings(max_examples=depth(25, 600), deadline=None)
def test_what_counts_is_given_where_it_counts(happened: list[Any], data: st.DataObject, kept: int) -> None:
    """However the log is split into ranges and blocks, and however small the buffer for a transaction is."""
    writer = write(happened)
    files = Files(*writer.logs)
    inner = sorted(data.draw(st.sets(st.integers(0, len(writer.counted)))) | {0, len(writer.counted)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_outcomes, "MAX_HELD_BYTES", kept)
        known = [XaPlaces()]
        for a, b in pairwise(inner):
            cuts = data.draw(st.lists(st.integers(0, 60), max_size=6))
            counted, read = [key for keys in writer.counted[a:b] for key in keys], list[Any]()
            for places in (None, data.draw(st.sampled_from(known)), known[-1]):
                found = read_log(files, writer.places[a], writer.places[b], cuts, known=places, read=read)
                assert [row[1] for row in found] == counted
            known.append(known[-1].after(*read[-1]))
        known.pop(0)
        for a, b in pairwise(inner):  # what is known at a later position gives no wrong place either
            counted = [key for keys in writer.counted[a:b] for key in keys]
            later = data.draw(st.sampled_from(known))
            assert [row[1] for row in read_log(files, writer.places[a], writer.places[b], known=later)] == counted


def test_a_small_transaction_is_not_read_twice() -> None:
    """It is buffered until its end is known.

    A large one is read ahead once if it has captured rows, otherwise never.
    """
    writer = Writer()
    writer.begin()
    keys = writer.rows(count=50)
    writer.log.commit()
    writer.end(keys)
    writer.begin()
    writer.rows(OTHER, count=3000)
    writer.log.commit()
    writer.end([])
    writer.begin()
    large = [key for _ in range(20) for key in writer.rows(count=9)]
    writer.log.commit()
    writer.end(large)
    files = Files(*writer.logs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_outcomes, "MAX_HELD_BYTES", 2000)
        cuts = list(range(60))
        assert [r[1] for r in read_log(files, writer.places[0], writer.places[-2], cuts)] == keys
        assert files.reads == 0
        assert [r[1] for r in read_log(files, writer.places[0], writer.places[-1], cuts)] == keys + large
        assert files.reads == 1


def test_prepared_rows_come_with_their_commit() -> None:
    """With the commit's position and GTID; other rows keep their own, and their order."""
    writer = Writer()
    writer.begin("XA START X'0a',X'',1")
    writer.rows(count=2)
    writer.prepare("0a")
    writer.end([])
    writer.begin()
    writer.rows()
    writer.log.commit()
    between = writer.log.position - 31
    writer.begin("XA COMMIT X'0a',X'',1")
    writer.end([])
    commit = writer.log.position
    writer.begin()
    writer.rows()
    after = writer.log.position
    writer.log.commit()
    writer.end([])
    found = read_log(Files(*writer.logs), writer.places[0], writer.places[-1], places=True)
    assert [(r[1], r[3], r[4]) for r in found] == [
        (2, f"bin.000001:{between}", 2),
        (0, f"bin.000001:{commit}", 3),
        (1, f"bin.000001:{commit}", 3),
        (3, f"bin.000001:{after}", 4),
    ]


def test_a_torn_transaction_at_the_end_of_a_file_does_not_count() -> None:
    """The server died while writing it; the range may end with this file or continue in the next."""
    writer = Writer()
    writer.begin()
    keys = writer.rows()
    writer.log.commit()
    writer.end(keys)
    writer.begin()
    writer.rows(count=5)
    writer.rows(count=5)
    writer.end([])
    writer.logs.append(Binlog("bin.000002"))
    writer.begin()
    more = writer.rows()
    writer.log.commit()
    writer.end(more)
    files = Files(*writer.logs)
    assert [r[1] for r in read_log(files, writer.places[0], writer.places[3])] == keys + more
    assert [r[1] for r in read_log(files, writer.places[0], writer.places[2])] == keys
    assert [r[1] for r in read_log(files, writer.places[0], Position("bin.000002", 4))] == keys
    inside = Position("bin.000001", end_of(writer.logs[0].payloads[-2]))
    for files in (Files(writer.logs[0]), Files(*writer.logs)):
        end = inside if len(files.logs) > 1 else writer.places[2]
        with pytest.raises(SourceLostError, match="ends inside a transaction"):
            read_log(files, writer.places[0], end)


def test_a_transaction_of_unknown_outcome_is_named() -> None:
    """An unknown savepoint; a commit without its PREPARE; rolled-back rows that their engine keeps."""
    writer = Writer()
    writer.begin()
    writer.rows()
    writer.log.query("ROLLBACK TO `s`")
    writer.log.commit()
    writer.end([])
    with pytest.raises(SourceLostError, match="a savepoint that it does not contain: s"):
        read_log(Files(*writer.logs), writer.places[0], writer.places[-1])
    for statements in (
        ("SAVEPOINT `s`", "COMMIT", None, "ROLLBACK TO `s`"),
        ("SAVEPOINT `r`", "SAVEPOINT `s`", "ROLLBACK TO `r`") * 2,
    ):
        writer = Writer()
        writer.begin()
        for statement in (*statements, "ROLLBACK TO `s`"):
            writer.begin() if statement is None else writer.log.query(statement)
        writer.end([])
        with pytest.raises(SourceLostError, match="a savepoint that it does not contain: s"):
            read_log(Files(*writer.logs), writer.places[0], writer.places[-1])
    writer = Writer()
    writer.begin("XA COMMIT X'0b',X'0c',7")
    writer.end([])
    with pytest.raises(SourceLostError, match="X'0b',X'0c',7"):
        read_log(Files(*writer.logs), writer.places[0], writer.places[-1])
    writer = Writer()
    writer.begin()
    writer.rows(STONE)
    writer.rows(ITEMS)
    writer.log.query("ROLLBACK")
    writer.end([])
    assert read_log(Files(*writer.logs), writer.places[0], writer.places[-1], stopped={"shop.stone"}) == []


@pytest.mark.parametrize(
    ("between", "ending", "stopped", "counted"),
    [
        (ITEMS, "ROLLBACK TO `s`", {"shop.items"}, None),
        (ITEMS, "COMMIT", set(), [0, 1, 2]),
        (OTHER, "ROLLBACK TO `s`", set(), [0]),
        (STONE, "ROLLBACK TO `s`", {"shop.stone"}, None),
    ],
)
def test_rows_between_two_savepoints_of_one_name_are_unknown(
    between: Table, ending: str, stopped: set[str], counted: list[int] | None
) -> None:
    """A trigger's savepoint shadows the session's, the session's own replaces it, and both are logged alike."""
    writer = Writer()
    writer.begin()
    writer.rows()
    writer.log.query("SAVEPOINT `s`")
    writer.rows(between)
    writer.log.query("SAVEPOINT `S`")
    writer.rows()
    writer.log.query(ending)
    writer.log.commit()
    writer.end([])
    found = read_log(Files(*writer.logs), writer.places[0], writer.places[-1], stopped=stopped)
    assert counted is None or [r[1] for r in found] == counted


def test_rows_of_unknown_outcome_are_refused_also_before_an_alteration() -> None:
    """Although the range then ends before the next transaction."""
    writer = Writer()
    writer.begin()
    for _ in range(2):
        writer.rows()
        writer.log.query("SAVEPOINT `s`")
    writer.rows()
    writer.log.query("ROLLBACK TO `s`")
    writer.log.commit()
    writer.begin("ALTER TABLE items ADD c INT")
    writer.begin()
    writer.rows()
    writer.log.commit()
    files, end = Files(*writer.logs), Position(writer.log.file, writer.log.position)
    binlog_range = BinlogRange({("shop", "items"): ITEMS}, writer.places[0], end, mariadb=False, log=files)
    for run in files.read_batches(writer.places[0], end):
        list(binlog_range.feed(run))
    assert binlog_range.alteration is not None
    assert set(binlog_range.stop_errors) == {"shop.items"}


def test_a_table_under_two_numbers_in_one_position_keeps_its_order() -> None:
    """All events of a compressed transaction have one position; the order of the events counts."""
    log = Binlog()
    log.gtid(SERVER, 1)
    inner = Binlog()
    del inner.payloads[:]
    for n, number in enumerate((8, 11, 8, 11)):
        inner.add(19, table_map(ITEMS, number))
        inner.rows(ITEMS, number, "insert", [[n]])
    inner.commit()
    log.add(40, payload(b"".join(map(bare, inner.payloads))))
    found = read_log(Files(log), Position(log.file, 4), Position(log.file, log.position))
    assert [r[1] for r in found] == [0, 1, 2, 3]
