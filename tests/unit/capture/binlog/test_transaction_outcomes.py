"""Transactions that are rolled back, prepared, committed elsewhere or torn, compared with a model of a server."""

import struct
import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.capture.binlog import prepared_rows, transaction_outcomes
from engine.capture.binlog.binlog_range import BinlogRange
from engine.decode.images import KINDS
from engine.decode.schema import Column, Table
from engine.decode.stream import EventBatch, StreamPosition
from engine.errors import SourceLostError
from engine.source.positions import Position, file_number
from engine.source.xa_places import XaPlaces
from tests.support.depth import depth
from tests.unit.support.compressed import payload
from tests.unit.support.wire import Binlog, laid_out, table_map

SERVER = uuid.UUID("0195a8b2-0000-7000-8000-00000000002a")
ITEMS = Table("shop", "items", (Column("id", "bigint"),), ("id",))
OTHER = Table("shop", "other", (Column("id", "bigint"),), ("id",))
STONE = Table("shop", "stone", (Column("id", "bigint"),), ("id",), transactional=False)
NUMBERS = {"items": 8, "other": 9, "stone": 10}


def end_of(packet: bytes) -> int:
    """The position behind an event, 0 for an artificial one."""
    return int.from_bytes(packet[14:18], "little")


def bare(packet: bytes) -> bytes:
    """An event as a compressed transaction contains it: without checksum."""
    return packet[1:10] + (len(packet) - 5).to_bytes(4, "little") + packet[14:-4]


class Files:
    """Binlog files that can be read several times; counts the reads."""

    def __init__(self, *logs: Binlog) -> None:
        self.logs = {log.file: log for log in logs}
        self.reads = 0

    def files(self) -> Sequence[str]:
        return list(self.logs)

    def packets(self, start: Position, end: Position) -> Iterator[bytes]:
        for name, log in self.logs.items():
            if start.order[0] <= file_number(name) <= end.order[0]:
                for packet in log.payloads:
                    behind = name != start.file or end_of(packet) > start.offset
                    if (
                        not end_of(packet)
                        or packet[5] == 15
                        or (behind and (name, end_of(packet)) <= (end.file, end.offset))
                    ):
                        yield packet

    def read(self, start: Position, end: Position) -> Iterator[EventBatch]:
        self.reads += 1
        yield from StreamPosition(start.file, start.offset).runs(*laid_out(list(self.packets(start, end))))


def read_log(
    files: Files, start: Position, end: Position, cuts: list[int] | None = None, **options: Any
) -> list[list[Any]]:
    """The changes of a binlog range: table, key and kind; on request also position and transaction number."""
    tables = {("shop", t.name): t for t in (ITEMS, STONE)}
    binlog_range = BinlogRange(tables, start, end, mariadb=False, log=files, places=options.get("known"))
    packets, position, found = list(files.packets(start, end)), StreamPosition(start.file, start.offset), []
    for a, b in pairwise(sorted({0, len(packets), *(c % (len(packets) + 1) for c in cuts or [])})):
        for run in position.runs(*laid_out(packets[a:b])):
            for table, file, changes in binlog_range.feed(run):
                for key, kind, offset, number in zip(
                    changes.rows["id"].to_pylist(),
                    *(changes.fact(n).tolist() for n in ("kind", "offset", "tx_n")),
                    strict=True,
                ):
                    place = [f"{file}:{offset}", number] if options.get("places") else []
                    found.append([table.name, key, KINDS[kind], *place])
    assert binlog_range.done
    assert binlog_range.places is not None
    options.get("read", []).append(binlog_range.places)
    assert set(binlog_range.stopped) == options.get("stopped", set())
    return found


class Writer:
    """Writes transactions to files. `places`: the positions between them.

    `counted`: for each binlog range between two positions, the rows that count.
    """

    def __init__(self) -> None:
        self.logs = [Binlog("bin.000001")]
        self.number, self.key = 0, 0
        self.places = [Position(self.log.file, 4)]
        self.counted: list[list[int]] = []

    @property
    def log(self) -> Binlog:
        return self.logs[-1]

    def begin(self, statement: str = "BEGIN") -> None:
        self.number += 1
        self.log.gtid(SERVER, self.number)
        self.log.query(statement)

    def rows(self, table: Table = ITEMS, count: int = 1) -> list[int]:
        keys = list(range(self.key, self.key + count))
        self.key += count
        self.log.add(19, table_map(table, NUMBERS[table.name]))
        self.log.rows(table, NUMBERS[table.name], "insert", [[key] for key in keys])
        return keys if table is not OTHER else []

    def end(self, counted: list[int]) -> None:
        self.places.append(Position(self.log.file, self.log.position))
        self.counted.append(counted)

    def prepare(self, xid: str, *, one_phase: bool = False) -> None:
        self.log.query(f"XA END X'{xid}',X'',1")
        data = bytes.fromhex(xid)
        self.log.add(38, struct.pack("<BIII", one_phase, 1, len(data), 0) + data)

    def rotate(self) -> None:
        name = f"bin.{len(self.logs) + 1:06d}"
        self.log.rotate(name)
        self.logs.append(Binlog(name))

    def fold(self) -> None:
        """Put the last transaction's events behind the GTID into a compressed payload."""
        last = max(n for n, packet in enumerate(self.log.payloads) if packet[5] == 33)
        events = [bare(packet) for packet in self.log.payloads[last + 1 :]]
        del self.log.payloads[last + 1 :]
        self.log.position = end_of(self.log.payloads[last])
        self.log.add(40, payload(b"".join(events)))


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
            xid = f"{number + 1:02x}"
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
        patch.setattr(transaction_outcomes, "MOST", kept)
        known = XaPlaces()
        for a, b in pairwise(inner):
            cuts = data.draw(st.lists(st.integers(0, 60), max_size=6))
            counted, read = [key for keys in writer.counted[a:b] for key in keys], list[Any]()
            for places in (None, known):
                found = read_log(files, writer.places[a], writer.places[b], cuts, known=places, read=read)
                assert [row[1] for row in found] == counted
            known = known.after(*read[-1])


def test_a_small_transaction_is_not_read_twice() -> None:
    """It is buffered until its end is known. A large one is read ahead once if it has captured rows, otherwise never."""
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
        patch.setattr(transaction_outcomes, "MOST", 2000)
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


def prepared(writer: Writer, count: int, table: Table = ITEMS) -> list[list[int]]:
    """XA transactions that are prepared and not decided: the rows of each."""
    rows = []
    for number in range(count):
        writer.begin(f"XA START X'{number:04x}',X'',1")
        rows.append(writer.rows(table))
        writer.prepare(f"{number:04x}")
        writer.end([])
    return rows


def commit(writer: Writer, count: int) -> None:
    """Commit what `prepared` prepared."""
    for number in range(count):
        writer.begin(f"XA COMMIT X'{number:04x}',X'',1")
        writer.end([])


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
