"""From the bytes of a binlog to changes: transactions, table maps, statements, and where a binlog range ends."""

import math
import uuid
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import SourceLostError
from engine.capture.binlog.binlog_range import BinlogRange, SchemaMismatch
from engine.capture.binlog.row_changes import RowChanges, log_table
from engine.capture.binlog.written_tables import WrittenTables
from engine.decode.schema import KINDS, Column, Table
from engine.decode.stream import StreamPosition
from engine.source.positions import Position
from tests.support.depth import depth
from tests.unit.support.wire import Binlog, laid_out, table_map

SERVER = uuid.UUID("0195a8b2-0000-7000-8000-00000000002a")
ORDERS = Table("shop", "orders", (Column("id", "int"), Column("v", "varchar", length=80, charset="utf8mb4")), ("id",))
ITEMS = Table("shop", "items", (Column("id", "bigint"),), ("id",))
OTHER = Table("shop", "other", (Column("id", "int"),), ("id",))
TABLES = {(t.database, t.name): t for t in (ORDERS, ITEMS)}
NUMBERS = {"shop.orders": 7, "shop.items": 8, "shop.other": 9}
Row = tuple[str, list[Any], str]


def write(log: Binlog, number: int, table: Table, kind: str, rows: list[list[Any]], **options: Any) -> int:
    """Write a transaction with one row event; returns the position behind that event."""
    log.gtid(SERVER, number)
    log.query("BEGIN")
    log.add(19, table_map(table, options.get("id", NUMBERS[table.full_name])))
    at = log.rows(table, options.get("id", NUMBERS[table.full_name]), kind, rows)
    log.commit()
    return at


def read_log(
    log: Binlog, *, cuts: list[int] | None = None, **options: Any
) -> tuple[BinlogRange, list[Row], list[RowChanges]]:
    """Feed a log, in blocks, to a binlog range; returns the range, the rows and the changes."""
    start = options.get("start", Position(log.file, 4))
    end = options.get("end", Position(log.file, log.position))
    more = {name: options[name] for name in ("absent_tables", "since", "handled_through") if name in options}
    binlog_range = BinlogRange(options.get("tables", TABLES), start, end, mariadb=options.get("mariadb", False), **more)
    position = StreamPosition(start.file, start.offset)
    rows: list[Row] = []
    parts = []
    edges = sorted({0, len(log.payloads), *(cuts or [])})
    for a, b in pairwise(edges):
        for run in position.runs(*laid_out(log.payloads[a:b])):
            for table, file, changes in binlog_range.feed(run):
                texts = [KINDS[k] for k in changes.fact("kind")]
                listed = zip(*(c.to_pylist() for c in changes.rows.columns), strict=True)
                where = changes.fact("offset").tolist()
                rows += [(f"{file}:{o}", [table.name, *r], k) for o, r, k in zip(where, listed, texts, strict=True)]
                parts.append(changes)
    return binlog_range, rows, parts


@given(st.lists(st.tuples(st.sampled_from([ORDERS, ITEMS, OTHER]), st.integers(0, 99)), max_size=12), st.data())
@settings(max_examples=depth(25, 600))
def test_changes_come_in_order_with_their_positions(happened: list[tuple[Table, int]], data: st.DataObject) -> None:
    """However the stream is split: every row of the captured tables, at its event's position, and no others."""
    log, expected = Binlog(), []
    for number, (table, key) in enumerate(happened, 1):
        at = write(log, number, table, "insert", [[key, "x"][: len(table.columns)]])
        if table is not OTHER:
            expected.append((f"{log.file}:{at}", [table.name, key, "x"][: len(table.columns) + 1], "+I"))
    cuts = data.draw(st.lists(st.integers(0, len(log.payloads)), max_size=5))
    binlog_range, rows, _ = read_log(log, cuts=cuts)
    for name in ("orders", "items"):
        assert [r for r in rows if r[1][0] == name] == [r for r in expected if r[1][0] == name]
    assert (binlog_range.is_done, binlog_range.transactions.count) == (True, len(happened))
    assert str(binlog_range.transactions.gtids) == (
        f"{SERVER}:1" + (f"-{len(happened)}" if len(happened) > 1 else "") if happened else ""
    )


def test_a_range_ends_at_its_end() -> None:
    """Changes behind the end position are not returned, even though the stream continues."""
    log = Binlog()
    write(log, 1, ITEMS, "insert", [[1]])
    end = Position(log.file, log.position)
    write(log, 2, ITEMS, "insert", [[2]])
    binlog_range, rows, _ = read_log(log, end=end)
    assert [r[1] for r in rows] == [["items", 1]]
    assert (binlog_range.position, str(binlog_range.transactions.gtids)) == (end, f"{SERVER}:1")


def test_changes_become_rows_of_the_change_log() -> None:
    """With kind, commit time, position, number and transaction, for both servers."""
    log = Binlog()
    log.gtid(SERVER, 5, at=1_800_000_000)
    log.add(19, table_map(ITEMS, 8))
    at = log.rows(ITEMS, 8, "update", [[1], [2], [3], [4]], version=1)
    log.commit()
    log.gtid(SERVER, 0)
    log.add(19, table_map(ITEMS, 8))
    log.rows(ITEMS, 8, "delete", [[2]])
    log.commit()
    _, _, (changes,) = read_log(log)
    table = log_table(changes, changes.fact("kind").astype("int8"), log.file, 40).to_pydict()
    assert table["_tm_kind"] == ["-U", "+U", "-U", "+U", "-D"]
    assert table["_tm_seq"] == [40, 41, 42, 43, 44]
    assert table["_tm_position"][0] == f"{log.file}:{at}"
    assert table["_tm_tx"] == [f"{SERVER}:5"] * 4 + [None]
    assert table["_tm_ts"][0].timestamp() == 1_800_000_000
    maria = Binlog()
    maria.maria_gtid(3, 77)
    maria.add(19, table_map(ITEMS, 8))
    maria.rows(ITEMS, 8, "insert", [[9]], version=1)
    maria.commit()
    _, _, (changes,) = read_log(maria, mariadb=True)
    table = log_table(changes, changes.fact("kind").astype("int8"), maria.file, 0).to_pydict()
    assert table["_tm_tx"] == ["3-1-77"]


ALTERS = [
    "TRUNCATE TABLE orders",
    "truncate `shop`.`orders`",
    "ALTER TABLE orders ADD COLUMN x INT",
    "ALTER TABLE orders ADD INDEX (v), RENAME TO past",
    "ALTER TABLE orders ADD INDEX i (v), DROP PRIMARY KEY",
    "ALTER TABLE orders AUTO_INCREMENT = 5, ENGINE = MyISAM",
    "ALTER TABLE orders DISABLE KEYS, DROP COLUMN v",
    "ALTER TABLE orders DROP INDEX u",
    "DROP INDEX u ON orders",
    "RENAME TABLE orders TO old, ghost TO orders",
    "DROP TABLE `orders` /* generated by server */",
    "/* from a tool */ TRUNCATE orders",
    "-- why\nTRUNCATE orders",
    "/*!50000 TRUNCATE orders */",
    "SET STATEMENT max_statement_time = 9 FOR TRUNCATE TABLE orders",
    "CREATE OR REPLACE TABLE orders (id INT)",
    "DROP DATABASE shop",
    "REPAIR TABLE orders",
    "ALTER TABLE other RENAME TO orders",
    "ALTER TABLE other EXCHANGE PARTITION p WITH TABLE orders",
    "ALTER TABLE Shop . ORDERS ADD COLUMN x INT",
]
PASSES = [
    "/*M!100100 TRUNCATE orders */",  # on MariaDB it is code
    "TRUNCATE TABLE other",
    "ALTER TABLE preorders ADD COLUMN x INT",
    "CREATE INDEX i ON orders (v)",
    "ALTER TABLE orders ADD INDEX i (v)",
    "ALTER TABLE `shop`.`orders` ADD KEY `i` (`id`, `v`)",
    "ALTER TABLE orders AUTO_INCREMENT = 100",
    "ANALYZE TABLE orders",
    "OPTIMIZE TABLE orders",
    "GRANT SELECT ON shop.orders TO u",
    "SET PASSWORD FOR u = 'orders'",
    "COMMIT",
    "CREATE TABLE IF NOT EXISTS orders (id INT)",
    "XA ROLLBACK X'01'",
    # Another table is altered, in which this one's name is a column's.
    "ALTER TABLE other ADD COLUMN orders INT",
    "ALTER ONLINE TABLE `shop`.`other` DROP COLUMN `orders`",
    "ALTER TABLE elsewhere.orders ADD COLUMN x INT",
    "DROP TABLE `generated` /* generated by server */",
]


@pytest.mark.parametrize("statement", ALTERS)
def test_a_statement_that_may_alter_a_table_ends_the_range(statement: str) -> None:
    """Everything before it is returned, nothing of any table behind it; in one block or in many."""
    for cuts in ([], list(range(40))):
        log = Binlog()
        write(log, 1, ORDERS, "insert", [[1, "before"]])
        log.gtid(SERVER, 2)
        log.query(statement)
        end = log.position
        write(log, 3, ORDERS, "insert", [[2, "after"]])
        write(log, 4, ITEMS, "insert", [[2]])
        binlog_range, rows, _ = read_log(log, cuts=cuts)
        assert [r[1] for r in rows] == [["orders", 1, "before"]]
        assert binlog_range.alteration is not None
        assert binlog_range.alteration.tables == (
            ("shop.orders", "shop.items") if "DATABASE" in statement else ("shop.orders",)
        )
        assert binlog_range.alteration.at == f"{log.file}:{end}"
        assert (binlog_range.is_done, binlog_range.end, binlog_range.position) == (
            True,
            Position(log.file, end),
            binlog_range.end,
        )
        assert (str(binlog_range.transactions.gtids), binlog_range.stop_errors) == (f"{SERVER}:1-2", {})


def test_the_rows_that_a_statement_brings_with_it_belong_to_its_transaction() -> None:
    """CREATE TABLE … SELECT is logged with its rows (MySQL 8.0.21 on): no binlog range ends between the two."""
    log = Binlog()
    log.gtid(SERVER, 1)
    log.query("CREATE TABLE `orders` (`id` int) START TRANSACTION")
    log.add(19, table_map(ITEMS, 8))
    log.rows(ITEMS, 8, "insert", [[1]])
    log.commit()
    end = log.position
    write(log, 2, ITEMS, "insert", [[2]])
    for cuts in ([], list(range(40))):
        binlog_range, rows, _ = read_log(log, cuts=cuts, tables={("shop", "items"): ITEMS}, absent_tables=[ORDERS])
        assert binlog_range.alteration is not None
        assert (binlog_range.alteration.tables, binlog_range.end) == (("shop.orders",), Position(log.file, end))
        assert [r[1] for r in rows] == [["items", 1]]


def test_a_write_that_is_logged_as_a_statement_ends_the_range() -> None:
    """A view or a trigger may lead to any table. The error names the tables in the statement, but no values."""
    log = Binlog()
    write(log, 1, ORDERS, "insert", [[1, "before"]])
    log.gtid(SERVER, 2)
    log.query("UPDATE orders SET v = 1")
    write(log, 3, ORDERS, "insert", [[2, "after"]])
    binlog_range, rows, _ = read_log(log)
    assert [r[1] for r in rows] == [["orders", 1, "before"]]
    assert not binlog_range.stop_errors
    assert binlog_range.alteration is not None
    assert binlog_range.alteration.tables == ("shop.orders", "shop.items")
    assert binlog_range.alteration.written_tables == WrittenTables((("shop", "orders"),))
    assert binlog_range.alteration.statement == "UPDATE orders SET v = …"


def test_all_writes_of_a_transaction_are_taken_together() -> None:
    """However the log is split into blocks. Rows that the same transaction logged as rows are kept."""
    log = Binlog()
    log.gtid(SERVER, 1)
    log.query("BEGIN")
    log.query("INSERT INTO orders VALUES (1, 'hidden')")
    log.add(19, table_map(ITEMS, 9))
    log.rows(ITEMS, 9, "insert", [[5]])
    log.query("CALL fill()")
    end = log.commit()
    write(log, 2, ORDERS, "insert", [[2, "after"]])
    for cuts in ([], list(range(40))):
        binlog_range, rows, _ = read_log(log, cuts=cuts)
        assert binlog_range.alteration is not None
        assert binlog_range.alteration.written_tables is not None
        assert binlog_range.alteration.written_tables.tables == (("shop", "orders"),)
        assert "fill" in binlog_range.alteration.written_tables.routines
        assert binlog_range.end == Position(log.file, end)
        assert len(rows) == 1


@pytest.mark.parametrize("statement", PASSES)
def test_a_harmless_statement_or_one_about_another_table_passes(statement: str) -> None:
    """The table streams on."""
    log = Binlog()
    log.gtid(SERVER, 1)
    log.query(statement)
    write(log, 2, ORDERS, "insert", [[2, "after"]])
    binlog_range, rows, _ = read_log(log)
    assert [r[1] for r in rows] == [["orders", 2, "after"]]
    assert not binlog_range.stop_errors
    assert binlog_range.alteration is None


def test_a_statement_in_another_character_set_is_taken_seriously() -> None:
    """A name that cannot be decoded may be the table's; the default database decides."""
    table = Table("shop", "été", ITEMS.columns, ("id",))
    log = Binlog()
    log.query("TRUNCATE `été`".encode("latin-1"))
    binlog_range = BinlogRange(
        {("shop", "été"): table}, Position(log.file, 4), Position(log.file, log.position), mariadb=False
    )
    for run in StreamPosition(log.file, 4).runs(*laid_out(log.payloads)):
        list(binlog_range.feed(run))
    assert binlog_range.alteration is not None
    assert binlog_range.alteration.tables == ("shop.été",)


def test_rows_of_a_transaction_that_was_rolled_back_are_dropped() -> None:
    """Servers log it if it changed tables that cannot be rolled back."""
    log = Binlog()
    write(log, 1, ITEMS, "insert", [[1]])
    log.gtid(SERVER, 2)
    log.query("BEGIN")
    log.add(19, table_map(ITEMS, 8))
    log.rows(ITEMS, 8, "insert", [[2]])
    log.query("ROLLBACK")
    write(log, 3, ITEMS, "insert", [[3]])
    _, rows, _ = read_log(log)
    assert [r[1][1] for r in rows] == [1, 3]


@pytest.mark.parametrize("statement", ["ROLLBACK TO `s`", "XA COMMIT X'01',X'',1"])
def test_a_schema_change_that_cannot_be_read_is_refused(statement: str) -> None:
    """A partial rollback, or a commit of rows that were logged earlier."""
    log = Binlog()
    write(log, 1, ITEMS, "insert", [[1]])
    log.gtid(SERVER, 2)
    log.query("BEGIN")
    log.query(statement)
    with pytest.raises(SourceLostError):
        read_log(log)


def test_rows_of_a_table_that_was_never_named_are_refused() -> None:
    """It may be a captured table. Row events without rows, which end a statement, are accepted."""
    log = Binlog()
    log.rows(ITEMS, 0xFFFFFF, "insert", [])
    log.rows(ITEMS, 99, "insert", [[1]])
    with pytest.raises(SourceLostError, match="does not name"):
        read_log(log)
    log = Binlog()
    log.rows(ITEMS, 0xFFFFFF, "insert", [])
    assert read_log(log)[1] == []


def test_a_table_whose_number_changes_keeps_its_order() -> None:
    """FLUSH TABLES gives a table a new number; the rows under both keep the log's order."""
    log = Binlog()
    for number, key in enumerate([5, 3, 4, 1], 1):
        write(log, number, ITEMS, "insert", [[key], [key + 10]], id=8 + key % 2)
    _, rows, _ = read_log(log)
    assert [r[1][1] for r in rows] == [5, 15, 3, 13, 4, 14, 1, 11]


def test_an_altered_table_is_recognised_by_its_map() -> None:
    """If the columns differ without a statement, the error has the position in front of the transaction."""
    log = Binlog()
    wider = Table("shop", "orders", (*ORDERS.columns, Column("n", "int")), ("id",))
    write(log, 1, ITEMS, "insert", [[1]])
    end = log.position
    write(log, 2, wider, "insert", [[1, "a", 2]])
    write(log, 3, ITEMS, "insert", [[2]])
    for cuts in ([], list(range(40))):
        with pytest.raises(SchemaMismatch, match="other columns") as caught:
            read_log(log, cuts=cuts)
        assert caught.value.position == Position(log.file, end)
        assert caught.value.alteration.tables == ("shop.orders",)


def test_two_tables_altered_one_after_the_other() -> None:
    """The first ends the binlog range; the next range stops at the second, unless the change is already known."""
    log = Binlog()
    log.gtid(SERVER, 1)
    log.query("ALTER TABLE orders ADD COLUMN m INT")
    end = Position(log.file, log.position)
    log.gtid(SERVER, 2)
    log.query("ALTER TABLE items ADD COLUMN m INT")
    for cuts in ([], list(range(20))):
        binlog_range, _, _ = read_log(log, cuts=cuts)
        assert binlog_range.alteration is not None
        assert (binlog_range.alteration.tables, binlog_range.end) == (("shop.orders",), end)
        binlog_range, _, _ = read_log(log, cuts=cuts, handled_through=end)
        assert binlog_range.alteration is not None
        assert binlog_range.alteration.tables == ("shop.items",)


def test_rows_that_are_of_no_use_are_not_looked_at() -> None:
    """Up to the high watermark of a table's first finished chunk its rows may have other columns.

    Statements still count.
    """
    log = Binlog()
    wider = Table("shop", "orders", (*ORDERS.columns, Column("n", "int")), ("id",))
    write(log, 1, wider, "insert", [[1, "a", 2]])
    since = Position(log.file, log.position).order
    write(log, 2, ORDERS, "insert", [[2, "b"]], id=11)
    for cuts in ([], list(range(40))):
        _, rows, _ = read_log(log, cuts=cuts, since={"shop.orders": since})
        assert [r[1] for r in rows] == [["orders", 2, "b"]]
        assert read_log(log, cuts=cuts, since={"shop.orders": (math.inf, math.inf)})[1] == []
        with pytest.raises(SchemaMismatch):
            read_log(log, cuts=cuts)
    log.gtid(SERVER, 3)
    log.query("ALTER TABLE orders ADD COLUMN m INT")
    binlog_range, _, _ = read_log(log, since={"shop.orders": (math.inf, math.inf)})
    assert binlog_range.alteration is not None
