"""Values: every type of this version arrives exactly, by snapshot and by log, in the clear and by TLS, on both servers."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from engine.capture.binlog import BinlogStretch
from engine.capture.segment import read_stretch
from engine.decode.rows import check_types, decode_rows
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection, quote
from engine.source.packets import prepare
from engine.source.positions import current
from tests.live.compare import assert_equal, source_table
from tests.live.conftest import PipelineFactory
from tests.servers import PASSWORD, USER, Server

TABLE = """
CREATE TABLE `{database}`.t (
  id BIGINT UNSIGNED PRIMARY KEY, i1 TINYINT, u1 TINYINT UNSIGNED, i2 SMALLINT, u2 SMALLINT UNSIGNED, i3 MEDIUMINT,
  u3 MEDIUMINT UNSIGNED, i4 INT, u4 INT UNSIGNED, i8 BIGINT, u8 BIGINT UNSIGNED, f FLOAT, d DOUBLE,
  n1 DECIMAL(10,2), n2 DECIMAL(38,10), n3 DECIMAL(65,30), n4 DECIMAL(5,5), n5 DECIMAL(18,0), n6 DECIMAL(1,0),
  c CHAR(10), v VARCHAR(300), t TEXT, l LONGTEXT, latin VARCHAR(50) CHARACTER SET latin1,
  ascii CHAR(200) CHARACTER SET ascii, b BINARY(8), vb VARBINARY(300), bl LONGBLOB,
  da DATE, dt DATETIME, dt1 DATETIME(1), dt6 DATETIME(6), ts TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL, ts6 TIMESTAMP(6) NULL
)"""
ROWS: list[tuple[Any, ...]] = [
    (0, *[None] * 34),
    (1, -128, 0, -32768, 0, -8388608, 0, -(2**31), 0, -(2**63), 0, -3.4028234e38, -1.7976931348623157e308,
     "-99999999.99", "-9999999999999999999999999999.9999999999", "-" + "9" * 35 + "." + "9" * 30, "-0.99999", "-" + "9" * 18, "-9",
     "", "", "", "", "", "", b"", b"", b"",
     "1000-01-01", "1000-01-01 00:00:00", "1000-01-01 00:00:00.1", "1000-01-01 00:00:00.000001",
     "1970-01-01 00:00:01", "1970-01-01 00:00:01.001", "1970-01-01 00:00:01.000001"),
    (2**64 - 1, 127, 255, 32767, 65535, 8388607, 16777215, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 3.4028234e38, 5e-324,
     "99999999.99", "9999999999999999999999999999.9999999999", "9" * 35 + "." + "9" * 30, "0.99999", "9" * 18, "9",
     "zehn Zeich", "ü" * 300, "😀" * 1000, "x" * 70_000, "Grüße €\x81", "a" * 200, b"\1\2\3\4\5\6\7\0", b"\0" * 300,
     bytes(range(256)),
     "9999-12-31", "9999-12-31 23:59:59", "9999-12-31 23:59:59.9", "9999-12-31 23:59:59.999999",
     "2038-01-19 03:14:07", "2038-01-19 03:14:07.999", "2038-01-19 03:14:07.999999"),
    (2**63, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 16777217.0, 0.1, "0.05", "0.0000000001", "0", "0.00001", "0", "0",
     "trailing  ", "trailing  ", "'quoted' \"\\", "\0", "\x7f", "b", b"\0", b"\0", b"\0\xff",
     "2024-02-29", "2024-02-29 12:34:56", "2024-02-29 12:34:56.5", "2024-02-29 12:34:56.123456",
     "2024-02-29 12:34:56", "2024-02-29 12:34:56.123", "2024-02-29 12:34:56.123456"),
]  # fmt: skip


def _fill(server: Server, database: str) -> None:
    server.execute(TABLE.format(database=database))
    with closing(server.connect(init_command="SET time_zone = '+00:00'")) as connection, connection.cursor() as cursor:
        marks = ", ".join(["%s"] * len(ROWS[0]))
        cursor.executemany(f"INSERT INTO `{database}`.t VALUES ({marks})", ROWS)


def _snapshot(endpoint: Endpoint, database: str) -> pa.Table:
    """The table by the row decoder, sorted by its key."""
    with closing(open_connection(endpoint)) as connection:
        table = read_table(connection, database, "t")
        columns = ", ".join(quote(c.name) for c in table.columns)
        types, packets = prepare(connection, f"SELECT {columns} FROM {quote(database, 't')}", "test").execute("test")
        check_types(table.columns, types)
        blocks = [decode_rows(b.buffer, b.start, b.end, table.columns) for b in packets.blocks()]
    return pa.Table.from_batches(blocks).sort_by("id")


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_both_decoders_agree_with_the_server(
    flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str], metadata: str
) -> None:
    """Rows by the binary protocol, row images and an independent client give the same Arrow values, bounds and NULLs included."""
    server = server_with(flavor, row_metadata=metadata, time_zone="+05:30")
    database, endpoint = new_database(server), Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        described = describe(connection)
        begin = current(connection, described)
        _fill(server, database)
        server.execute(f"UPDATE `{database}`.t SET id = 7 WHERE id = 0")
        server.execute(f"UPDATE `{database}`.t SET id = 0 WHERE id = 7")
        server.execute(f"DELETE FROM `{database}`.t WHERE id = 1")
        end = current(connection, described)
        table = read_table(connection, database, "t")
    assert_equal(source_table(server, database, "t"), _snapshot(endpoint, database))
    stretch = BinlogStretch({(database, "t"): table}, begin, end, mariadb=flavor == "mariadb")
    images = pa.concat_tables(changes.rows for _, _, changes in read_stretch(endpoint, stretch, 5000))
    assert not stretch.stopped
    inserted = images.slice(0, len(ROWS)).sort_by("id")
    kept = inserted.filter(pa.compute.not_equal(inserted["id"], pa.scalar(1, inserted["id"].type)))
    assert kept.to_pylist() == _snapshot(endpoint, database).to_pylist()
    deleted = images.slice(images.num_rows - 1).to_pylist()
    assert deleted == [row for row in inserted.to_pylist() if row["id"] == 1]


@pytest.mark.parametrize("tls", ["off", "preferred", "required", "verify"])
def test_tls_and_large_packets(
    flavor: str, server_with: Callable[..., Server], new_database: Callable[[Server], str], tls: str
) -> None:
    """Values of 16 MiB and more arrive whole by snapshot and by log, with every setting of TLS."""
    server = server_with(flavor, tls=True)
    database = new_database(server)
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD, tls, str(server.ca_file))
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v LONGTEXT)")
    with closing(open_connection(endpoint)) as connection:
        used = connection._secure
        assert bool(used) == (tls in ("required", "verify"))
        described = describe(connection)
        begin = current(connection, described)
        sizes = {1: 10, 2: 0xFFFFFF - 20, 3: 0xFFFFFF, 4: 2 * 0xFFFFFF + 5, 5: 7}
        for key, size in sizes.items():
            server.execute(f"INSERT INTO `{database}`.t VALUES ({key}, REPEAT('z', {size}))")
        end = current(connection, described)
        table = read_table(connection, database, "t")
    read = _snapshot(endpoint, database)
    assert {row["id"]: len(row["v"]) for row in read.to_pylist()} == sizes
    stretch = BinlogStretch({(database, "t"): table}, begin, end, mariadb=flavor == "mariadb")
    images = [row for _, _, c in read_stretch(endpoint, stretch, 5000) for row in c.rows.to_pylist()]
    assert {row["id"]: len(row["v"]) for row in images} == sizes


def test_the_mirror_of_every_type_is_equal(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """Rows of every type, copied and then changed, are in the mirror as an independent client reads them."""
    _fill(server, database)
    pipeline = new_pipeline(server, database, chunk_rows=2)
    pipeline.run("snapshot")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    server.execute(f"UPDATE `{database}`.t SET id = 5, v = 'changed' WHERE id = 1")
    server.execute(f"UPDATE `{database}`.t SET d = -0.0, u8 = 18446744073709551615, dt6 = NULL")
    server.execute(f"DELETE FROM `{database}`.t WHERE id = 0")
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
