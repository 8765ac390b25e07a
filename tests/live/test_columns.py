"""Columns and tables that need care, and settings that change values.

Columns that `SELECT *` does not show, tables with thousands of columns, and settings of servers and sessions.
"""

from collections.abc import Callable
from contextlib import closing

import pyarrow.compute as pc
import pytest

from engine.base.errors import DecodeError
from engine.capture.binlog.binlog_range import SchemaMismatch
from engine.decode.images import AFTER, DELETE
from engine.source.catalog import captured_tables, uncaptured
from engine.source.connect import open_connection
from engine.source.preflight import refused
from tests.live.support.both_decoders import assert_both_decoders, endpoint_of, logged, position_of, selected, table_of
from tests.live.support.compare import source_table
from tests.live.support.every_type import session, statements
from tests.servers import Server

ServerFactory = Callable[..., Server]
DatabaseFactory = Callable[[Server], str]


def test_generated_and_invisible_columns_arrive(server: Server, database: str) -> None:
    """Stored and virtual generated columns and invisible columns are in rows and images, and are captured."""
    hidden = "INVISIBLE" if server.flavor == "mysql" else "DEFAULT 7 INVISIBLE"
    server.execute(
        f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, a INT, s INT GENERATED ALWAYS AS (a * 2) STORED,"
        f" v VARCHAR(40) GENERATED ALWAYS AS (CONCAT('a=', a)) VIRTUAL, h INT {hidden}, z VARCHAR(9))"
    )
    fill = [f"INSERT INTO `{database}`.t (id, a, h, z) VALUES ({n}, {n}, {n}, 'z')" for n in range(5)]
    fill.append(f"INSERT INTO `{database}`.t (id, a) VALUES (9, NULL)")
    table = assert_both_decoders(server, database, "t", statements(server, *fill))
    assert [column.name for column in table.columns] == ["id", "a", "s", "v", "h", "z"]


@pytest.mark.parametrize("shown", ["ON", "OFF"])
def test_the_generated_invisible_primary_key_is_the_key(
    private_server: ServerFactory, new_database: DatabaseFactory, shown: str
) -> None:
    """MySQL adds `my_row_id` to a table without a key; every image has it, even if the catalog hides it."""
    server = private_server(
        "mysql",
        sql_generate_invisible_primary_key="ON",
        show_gipk_in_create_table_and_information_schema=shown,
    )
    database = new_database(server)
    server.execute(f"CREATE TABLE `{database}`.t (v VARCHAR(9), n INT)")
    begin = position_of(server)
    server.execute(f"INSERT INTO `{database}`.t VALUES ('a', 1), ('b', 2)")
    server.execute(f"UPDATE `{database}`.t SET n = 3 WHERE v = 'b'")
    table = table_of(server, database, "t")
    assert (table.key, [c.name for c in table.columns]) == (("my_row_id",), ["my_row_id", "v", "n"])
    images = logged(server, table, begin).drop_columns("kind").to_pylist()
    keys = [(row["my_row_id"], row["v"], row["n"]) for row in images]
    assert [(int(key), v, n) for key, v, n in keys] == [(1, "a", 1), (2, "b", 2), (2, "b", 2), (2, "b", 3)]


def test_4096_columns(server: Server, database: str) -> None:
    """The maximum number of columns, NULLs among them. MariaDB's limit of definition files is about 3 000."""
    count = 4096 if server.flavor == "mysql" else 3000
    names = [chr(0x4E00 + n) for n in range(count - 1)]  # short, as the definition's size is limited
    columns = ", ".join(f"`{name}` TINYINT" for name in names)
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, {columns}) ENGINE = MyISAM")
    fill = [
        f"INSERT INTO `{database}`.t VALUES ({row}, "
        + ", ".join("NULL" if (n + row) % 3 == 0 else str((n * row) % 100) for n in range(count - 1))
        + ")"
        for row in range(4)
    ]
    table = assert_both_decoders(server, database, "t", statements(server, *fill))
    assert len(table.columns) == count
    assert not table.transactional


def test_padding_and_blanks(flavor: str, private_server: ServerFactory, new_database: DatabaseFactory) -> None:
    """A server that pads CHAR to its length by default changes nothing.

    Both decoders return CHAR without trailing blanks.
    """
    server = private_server(flavor, sql_mode="PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,ANSI_QUOTES")
    database = new_database(server)
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, c CHAR(6), v VARCHAR(6), b BINARY(6))")
    with closing(session(server)) as connection, connection.cursor() as cursor:
        begin = position_of(server)
        cursor.execute(
            f"INSERT INTO `{database}`.t VALUES (1, 'ab  ', 'ab  ', 'ab'), (2, '', '', ''), (3, NULL, NULL, NULL)"
        )
    table = table_of(server, database, "t")
    want = [(1, "ab", "ab  ", b"ab\0\0\0\0"), (2, "", "", bytes(6)), (3, None, None, None)]
    images = [tuple(row.values()) for row in logged(server, table, begin).drop_columns("kind").to_pylist()]
    assert images == want
    rows = selected(endpoint_of(server), table).to_pylist()
    assert [tuple(row.values()) for row in rows] == want


def test_labels_of_rows_in_flight_are_those_they_were_written_with(server: Server, database: str) -> None:
    """Rows logged before an ALTER that renumbers labels keep their label, from the table map (metadata FULL)."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, e ENUM('a','b'), s SET('x','y'))")
    begin = position_of(server)
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 'b', 'x,y')")
    before = position_of(server)
    server.execute(f"ALTER TABLE `{database}`.t MODIFY e ENUM('new','a','b'), MODIFY s SET('y','x')")
    behind = position_of(server)
    server.execute(f"INSERT INTO `{database}`.t VALUES (2, 'b', 'y')")
    table = table_of(server, database, "t")
    assert before.order < behind.order
    (old, *_) = logged(server, table, begin, before).to_pylist()
    (new,) = logged(server, table, behind).to_pylist()
    assert ((old["e"], old["s"]), (new["e"], new["s"])) == (("b", "x,y"), ("b", "y"))


def test_a_definition_that_the_images_do_not_have_is_noticed(
    flavor: str, server_with: ServerFactory, new_database: DatabaseFactory
) -> None:
    """The new definition never decodes images from before an ALTER of sign, digits or charset.

    Even with MINIMAL.
    """
    server = server_with(flavor, row_metadata="MINIMAL")
    database = new_database(server)
    for name, old, new in (
        ("signs", "INT UNSIGNED", "INT"),
        ("charsets", "VARCHAR(20) CHARACTER SET latin1", "VARCHAR(20) CHARACTER SET cp1251"),
        ("labels", "ENUM('a') CHARACTER SET latin1", f"ENUM({','.join(repr(f'l{n}') for n in range(300))})"),
        ("digits", "DATETIME(3)", "DATETIME(6)"),
        ("bits", "BIT(7)", "BIT(9)"),
    ):
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, v {old})")
        begin = position_of(server)
        server.execute(f"INSERT INTO `{database}`.{name} VALUES (1, NULL)")
        end = position_of(server)
        server.execute(f"ALTER TABLE `{database}`.{name} MODIFY v {new}")
        with pytest.raises(SchemaMismatch, match="other columns than"):
            logged(server, table_of(server, database, name), begin, end)


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_a_session_that_logs_less_than_whole_rows_stops_the_table(server: Server, database: str, image: str) -> None:
    """Missing values are not guessed."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT, b BLOB)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 1, 'x')")
    begin = position_of(server)
    change = f"UPDATE `{database}`.t SET v = 2"
    statements(server, f"SET SESSION binlog_row_image = '{image}'", change)()
    with pytest.raises(DecodeError, match="lacks columns"):
        logged(server, table_of(server, database, "t"), begin)


def test_partial_updates_of_documents_are_applied(server_with: ServerFactory, new_database: DatabaseFactory) -> None:
    """With binlog_row_value_options=PARTIAL_JSON an update logs differences.

    The after-images still hold whole documents.
    """
    server = server_with("mysql")
    database = new_database(server)
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, a JSON, n INT, b JSON, v VARCHAR(20))")
    long = "x" * 300
    server.execute(
        f"INSERT INTO `{database}`.t WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 40) "
        f"SELECT n, JSON_OBJECT('k', n, 'l', JSON_ARRAY(1, '{long}', n)), n, IF(n % 5, JSON_OBJECT('x', "
        f"'{long}'), NULL), 'v' FROM k"
    )
    begin, table = position_of(server), table_of(server, database, "t")
    statements(
        server,
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        f"UPDATE `{database}`.t SET a = JSON_SET(a, '$.k', n + 1000), v = 'w' WHERE id <= 30",
        f"UPDATE `{database}`.t SET n = n + 1",
        f"UPDATE `{database}`.t SET a = JSON_REMOVE(a, '$.l[0]'), b = JSON_REPLACE(b, '$.x', 'short') WHERE id % 2",
        f"UPDATE `{database}`.t SET a = JSON_SET(a, '$.ü', JSON_ARRAY()), b = JSON_OBJECT('whole', 1) WHERE id > 20",
        f"UPDATE `{database}`.t SET a = NULL WHERE id = 7",
        f"DELETE FROM `{database}`.t WHERE id = 8",
    )()
    images = logged(server, table, begin)
    assert (images["kind"].to_numpy() == AFTER).sum() == 30 + 40 + 20 + 20 + 1
    last = {row["id"]: row for row in images.to_pylist()}
    assert last.pop(8)["kind"] == DELETE
    rows = {row["id"]: row for row in source_table(server, database, "t").to_pylist()}
    assert {key: {**row, "kind": AFTER} for key, row in rows.items()} == last


DATES = (
    "'0000-00-00'", "'2024-00-10'", "'2024-02-00'", "'2024-02-30'", "'2023-02-29'", "'2024-02-29'", "'0000-01-01'",
    "NULL",
)  # fmt: skip


def test_dates_that_do_not_exist(server: Server, database: str) -> None:
    """Both decoders stop the table and quote the value, or publish NULL and count it."""
    server.execute(f"""
        CREATE TABLE `{database}`.t (id INT PRIMARY KEY, d DATE, t0 DATETIME, t6 DATETIME(6), ts TIMESTAMP(3) NULL)""")
    zero = "'0000-00-00 00:00:00'"
    fill = [f"INSERT INTO `{database}`.t VALUES ({n}, {d}, {d}, {d}, {zero})" for n, d in enumerate(DATES)]
    table = assert_both_decoders(server, database, "t", statements(server, *fill), null_dates=True)
    assert all(column.null_dates and column.nullable for column in table.columns[1:])
    begin = position_of(server)
    statements(server, *fill)()
    nulled: dict[str, int] = {}
    images = logged(server, table, begin, nulled=nulled)
    assert nulled == {"d": 5, "t0": 5, "t6": 5, "ts": 8}
    assert images["d"].null_count == 6
    strict = table_of(server, database, "t")
    with pytest.raises(DecodeError, match=r"Column 'd'.*the date 0000-00-00 does not exist"):
        logged(server, strict, begin)


def test_a_date_of_the_key_is_never_null(server: Server, database: str) -> None:
    """A zero date in the key stops the table whatever the setting: two rows would get the same key."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT, d DATE, PRIMARY KEY (id, d))")
    begin = position_of(server)
    statements(server, f"INSERT INTO `{database}`.t VALUES (1, '0000-00-00')")()
    table = table_of(server, database, "t", null_dates=True)
    with pytest.raises(DecodeError, match="never for a column of the key"):
        logged(server, table, begin)


def test_values_beyond_the_packet_limit(flavor: str, private_server: ServerFactory) -> None:
    """Both decoders read 64 MiB values.

    Even if the server's `max_allowed_packet` was lowered after they were written.
    """
    server = private_server(flavor, max_allowed_packet=128 << 20)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB)")
    begin = position_of(server)
    server.execute(f"INSERT INTO d.t VALUES (1, REPEAT('x', {64 << 20})), (2, 'small')")
    server.execute(f"SET GLOBAL max_allowed_packet = {4 << 20}")
    table = table_of(server, "d", "t")
    for read in (selected(endpoint_of(server), table), logged(server, table, begin)):
        assert pc.binary_length(read["b"]).to_pylist() == [64 << 20, 5]


def test_views_and_their_like_are_named(server: Server, database: str) -> None:
    """The preflight warns about everything that a glob matches and Tidemark does not capture."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    server.execute(f"CREATE VIEW `{database}`.v AS SELECT id FROM `{database}`.t")
    kinds = {f"{database}.v": "VIEW"}
    if server.flavor == "mariadb":
        server.execute(f"CREATE TABLE `{database}`.history (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
        server.execute(f"CREATE SEQUENCE `{database}`.s")
        kinds |= {f"{database}.history": "SYSTEM VERSIONED", f"{database}.s": "SEQUENCE"}
    with closing(open_connection(endpoint_of(server))) as connection:
        assert uncaptured(connection, [f"{database}.*"]) == kinds
        assert [table.name for table in captured_tables(connection, [f"{database}.*"])] == ["t"]


def test_mariadb_tables_whose_images_cannot_be_read_are_refused_at_once(
    private_server: ServerFactory, new_database: DatabaseFactory
) -> None:
    """Two kinds of columns are refused before a row is copied.

    Long unique indexes (hidden hash columns), and dates in the format before 5.6.
    """
    server = private_server("mariadb", mysql56_temporal_format="OFF")
    database = new_database(server)
    server.execute(f"CREATE TABLE `{database}`.hashed (id INT PRIMARY KEY, v TEXT, UNIQUE (v))")
    server.execute(f"CREATE TABLE `{database}`.old (id INT PRIMARY KEY, v DATETIME)")
    server.execute(f"CREATE TABLE `{database}`.fine (id INT PRIMARY KEY, v INT)")
    with closing(open_connection(endpoint_of(server))) as connection:
        errors = refused(captured_tables(connection, [f"{database}.*"]))
    assert set(errors) == {f"{database}.hashed", f"{database}.old"}
    assert "hidden columns" in errors[f"{database}.hashed"].message
    assert "DATETIME (MARIADB-5.3 FORMAT)" in errors[f"{database}.old"].message


def test_an_image_that_lacks_columns_leaves_no_half_transaction(server: Server, database: str) -> None:
    """The decoding error discards what the binlog range wrote of the table: whole transactions or nothing."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT, b LONGBLOB)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 1, NULL)")
    begin = position_of(server)
    inserts = [f"INSERT INTO `{database}`.t VALUES ({n}, 1, REPEAT('x', 4000000))" for n in range(2, 6)]
    change = f"UPDATE `{database}`.t SET v = 2 WHERE id = 1"
    statements(server, "BEGIN", *inserts, "SET SESSION binlog_row_image = 'MINIMAL'", change, "COMMIT")()
    with pytest.raises(DecodeError, match="lacks columns"):
        logged(server, table_of(server, database, "t"), begin)
