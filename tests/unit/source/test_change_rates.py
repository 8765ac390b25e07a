"""Row images of the binlog's last minutes, counted by table and kind."""

import pytest

from engine.decode.schema import Column, Table
from engine.decode.stream import StreamPosition
from engine.source import change_rates
from engine.source.change_rates import MOST_BYTES, ChangeCounter, ChangeRates, first_position, recent_changes
from engine.source.connect import Endpoint
from engine.source.positions import Position
from tests.unit.support.compressed import event, packed, payload
from tests.unit.support.wire import Binlog, laid_out, rows_body, table_map

ORDERS = Table(
    "shop", "orders", (Column("id", "int"), Column("note", "varchar", length=40, charset="utf8mb4")), ("id",)
)
ITEMS = Table("shop", "items", (Column("id", "bigint"),), ("id",))
QUIET = Table("shop", "quiet", (Column("id", "int"),), ("id",))
ROW = [1, "x"]
OLD, NOW = 1_700_000_000, 1_700_000_500


def counter(*tables: Table, since: float = OLD) -> ChangeCounter:
    """A counter of these tables."""
    return ChangeCounter(tables, since, mariadb=False)


def counted(log: Binlog, into: ChangeCounter) -> dict[str, tuple[int, int, int]]:
    """Inserts, updates and deletes by table."""
    for run in StreamPosition(log.file, 4).runs(*laid_out(log.payloads)):
        assert into.add(run)
    return {name: (count.inserts, count.updates, count.deletes) for name, count in into.counts.items()}


def test_rows_are_counted_by_table_and_kind() -> None:
    """An update has two images and counts once. Tables that nobody asked for are left out; a quiet one has zeros."""
    log, into = Binlog(), counter(ORDERS, QUIET)
    log.add(19, table_map(ORDERS, 7))
    log.add(19, table_map(ITEMS, 8))
    log.rows(ORDERS, 7, "insert", [ROW] * 3)
    log.rows(ITEMS, 8, "insert", [[5]] * 9)
    log.rows(ORDERS, 7, "update", [ROW] * 4, version=1)
    log.rows(ORDERS, 7, "delete", [ROW])
    assert counted(log, into) == {"shop.orders": (3, 2, 1), "shop.quiet": (0, 0, 0)}
    # Each image is a byte of NULL bits, four of the number and two of the text. Before the first: 10 bytes, the number
    # of columns, and a bitmap of the columns or, for an update, two; in version 1, 8 bytes instead of 10.
    assert into.counts["shop.orders"].image_bytes == (12 + 3 * 7) + (11 + 4 * 7) + (12 + 7)
    assert (into.born_s, into.last_s) == (OLD, OLD)


def test_rows_before_the_window_do_not_count() -> None:
    """Their table map still names the rows that follow."""
    log = Binlog()
    log.add(19, table_map(ORDERS, 7), at=OLD)
    log.add(30, rows_body(ORDERS, 7, "insert", [ROW] * 5, version=2), at=OLD)
    log.add(30, rows_body(ORDERS, 7, "insert", [ROW] * 2, version=2), at=NOW)
    assert counted(log, counter(ORDERS, since=NOW - 300)) == {"shop.orders": (2, 0, 0)}


def test_rows_in_compressed_transactions_count() -> None:
    """MySQL's payload of a transaction, and MariaDB's compressed events."""
    mysql, mariadb = Binlog(), Binlog()
    inner = event(19, table_map(ORDERS, 7)) + event(32, rows_body(ORDERS, 7, "delete", [ROW] * 2, version=2))
    mysql.add(40, payload(inner))
    assert counted(mysql, counter(ORDERS, since=0)) == {"shop.orders": (0, 0, 2)}
    body = rows_body(ORDERS, 7, "insert", [ROW] * 3, version=1)
    mariadb.add(19, table_map(ORDERS, 7))
    mariadb.add(166, body[:10] + packed(body[10:]))
    assert counted(mariadb, counter(ORDERS)) == {"shop.orders": (3, 0, 0)}


def test_a_table_that_was_altered_is_unknown_and_others_are_not() -> None:
    """The reason is that of the reader."""
    log, into = Binlog(), counter(ORDERS, ITEMS)
    log.add(19, table_map(Table("shop", "orders", ORDERS.columns[:1], ("id",)), 7))
    log.rows(Table("shop", "orders", ORDERS.columns[:1], ("id",)), 7, "insert", [[1]])
    log.add(19, table_map(ITEMS, 8))
    log.rows(ITEMS, 8, "insert", [[5]])
    assert counted(log, into)["shop.items"] == (1, 0, 0)
    assert "other columns" in into.faults["shop.orders"]


def test_counting_ends_at_the_deadline() -> None:
    """A slow source is no obstacle."""
    log, into = Binlog(), counter(ORDERS)
    log.add(19, table_map(ORDERS, 7))
    *_, run = StreamPosition(log.file, 4).runs(*laid_out(log.payloads))
    assert not into.add(run, deadline_s=0.0)


@pytest.mark.parametrize(
    ("sizes", "start"),
    [
        ([MOST_BYTES, 10, 20], "b.000002:4"),
        ([MOST_BYTES - 30, 10, 20], "b.000001:4"),
        ([10, 20, MOST_BYTES + 1], "b.000003:777"),
    ],
)
def test_a_read_begins_at_the_head_of_a_file(sizes: list[int], start: str) -> None:
    """As far back as the limit of bytes allows; if the newest file is larger, at the current end."""
    files = {f"b.{n:06}": size for n, size in enumerate(sizes, 1)}
    assert str(first_position(files, Position("b.000003", 777))) == start


def test_an_unreachable_source_gives_no_rates_and_a_reason() -> None:
    """No error is raised."""
    rates = recent_changes(Endpoint("127.0.0.1", 1, "u", "p"), 1, [ORDERS])
    assert rates.rates == {}
    assert rates.why_unknown("shop.orders").startswith("Connecting to 127.0.0.1:1 as u failed")
    assert ChangeRates(faults={"shop.orders": "altered"}).why_unknown("shop.orders") == "altered"
    assert change_rates.MOST_S > change_rates.LEAST_S
