"""What mysql-replication decodes wrongly or not at all: each entry of the audit's list is proved on a real server.

A test that fails here says that the package was fixed: delete the entry.
"""

import gc
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from pymysqlreplication.row_event import RowsEvent

from engine.audit.audit_limits import LIMITS
from engine.audit.audit_source import LoggedRows
from tests.live.support.both_decoders import endpoint_of, position_of, table_of
from tests.live.support.every_type import statements
from tests.live.support.source import COMPRESSED
from tests.servers import Server

ServerFactory = Callable[..., Server]


def logged(server: Server, database: str, columns: str, *lines: str, after: tuple[str, ...] = ()) -> LoggedRows:
    """The binlog of a table `t` with these columns, after these statements. It was not read yet."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, {columns})")
    begin = position_of(server)
    statements(server, *(line.replace("{t}", f"`{database}`.t") for line in lines))()
    table = table_of(server, database, "t")
    return LoggedRows(endpoint_of(server), 7000, {(database, "t"): table}, begin, position_of(server))


def value(server: Server, database: str, column: str, expression: str) -> Any:
    """What the package says of one value."""
    rows = logged(server, database, f"v {column}", f"INSERT INTO {{t}} VALUES (1, {expression})")
    (part,) = rows
    return part[0].rows[0]["values"]["v"]


def opaque(rows: LoggedRows) -> list[str]:
    """The limits of a binlog's events, after reading it; no row may come out of it."""
    assert not list(rows)
    frames = rows.frames
    return [*frames.anywhere.values(), *(limit for found in frames.opaque.values() for limit in found.values())]


def test_year_zero(server: Server, database: str) -> None:
    """The package adds 1900 to every YEAR."""
    assert value(server, database, "YEAR", "0") == int(LIMITS["year_zero"].library) == 1900


def test_a_negative_time(server: Server, database: str) -> None:
    """The package adds the complement of the fraction instead of the fraction."""
    found = value(server, database, "TIME(1)", "'-01:02:03.2'")
    assert found == -timedelta(hours=1, minutes=2, seconds=3, microseconds=800_000)


def test_dates_of_year_zero(server: Server, database: str) -> None:
    """Python's dates begin with year 1."""
    assert value(server, database, "DATE", "'0000-01-01'") is None


def test_a_zero_timestamp(server: Server, database: str) -> None:
    """The package takes it for 1970."""
    assert value(server, database, "TIMESTAMP NULL", "'0000-00-00'") == datetime(1970, 1, 1)  # noqa: DTZ001


def test_labels_in_latin1(server: Server, database: str) -> None:
    """The package decodes labels as UTF-8."""
    assert value(server, database, "ENUM('é') CHARACTER SET latin1", "1") == ""


def test_json(new_database: Callable[[Server], str], server_with: ServerFactory) -> None:
    """Null is None, as for NULL; a negative time in a document loses its sign."""
    server = server_with("mysql")
    assert value(server, new_database(server), "JSON", "'null'") is None
    found = value(server, new_database(server), "JSON", "CAST(TIME'-10:11:12' AS JSON)")
    assert str(found) == LIMITS["json_opaque"].library


def test_an_invalid_date(server: Server, database: str) -> None:
    """Python has no 30 February: the package fails in the event."""
    assert opaque(logged(server, database, "v DATE", "INSERT INTO {t} VALUES (1, '2024-02-30')")) == ["failed_event"]


def test_vectors(new_database: Callable[[Server], str], server_with: ServerFactory) -> None:
    """The package does not know the type."""
    server = server_with("mysql")
    rows = logged(server, new_database(server), "v VECTOR(2)", "INSERT INTO {t} VALUES (1, TO_VECTOR('[1,2]'))")
    assert not list(rows)
    assert "VECTOR" in str(rows.frames.undecoded)


def test_compressed_columns(new_database: Callable[[Server], str], server_with: ServerFactory) -> None:
    """The package does not know the type."""
    server = server_with("mariadb")
    rows = logged(server, new_database(server), "v TEXT COMPRESSED", "INSERT INTO {t} VALUES (1, 'a')")
    assert not list(rows)
    assert "COMPRESSED" in str(rows.frames.undecoded)


def test_compressed_events(flavor: str, new_database: Callable[[Server], str], server_with: ServerFactory) -> None:
    """The package does not unpack them."""
    server = server_with(flavor, **COMPRESSED[flavor])
    rows = logged(server, new_database(server), "v TEXT", "INSERT INTO {t} VALUES (1, REPEAT('a', 1000))")
    assert opaque(rows) == ["compressed"]


def test_partial_json(new_database: Callable[[Server], str], server_with: ServerFactory) -> None:
    """The package shows one difference, not the document."""
    server = server_with("mysql")
    change = "UPDATE {t} SET v = JSON_SET(v, '$.a', 'b')"
    session = "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'"
    insert = """INSERT INTO {t} VALUES (1, '{"a": "a", "c": "a long text, so that a difference is shorter"}')"""
    rows = logged(server, new_database(server), "v JSON", insert, session, change)
    assert len(list(rows)) == 1  # the insert
    assert [limit for found in rows.frames.opaque.values() for limit in found.values()] == ["partial_json"]


def test_tagged_gtids(new_database: Callable[[Server], str], server_with: ServerFactory) -> None:
    """The package does not know the event: the GTID is unknown, the rows are not."""
    server = server_with("mysql")
    lines = "SET gtid_next = 'AUTOMATIC:tag'", "INSERT INTO {t} VALUES (1, 2)", "SET gtid_next = 'AUTOMATIC'"
    (part,) = logged(server, new_database(server), "v INT", *lines)
    assert repr(part[0].tx) == "(not comparable)"


def test_every_limit_is_proved() -> None:
    """Each entry of the list has a test here, or is no fault of the package."""
    proved = {
        "year_zero", "negative_time", "date_out_of_range", "zero_timestamp", "labels", "json_null", "json_opaque",
        "failed_event", "column_type", "compressed", "partial_json", "tagged_gtid",
    }  # fmt: skip
    assert set(LIMITS) - proved == {"text", "prepared"}


def test_events_are_freed_at_once(server: Server, database: str) -> None:
    """An event of the package and its packet refer to each other; the audit does not wait for the garbage collector."""
    inserts = [f"INSERT INTO {{t}} VALUES ({n}, REPEAT('a', 9000))" for n in range(20)]
    rows, alive = logged(server, database, "v LONGTEXT", *inserts), list[int]()
    gc.collect()
    gc.disable()
    try:
        for _ in rows:
            alive.append(sum(isinstance(one, RowsEvent) for one in gc.get_objects()))
    finally:
        gc.enable()
    assert alive == [0] * 20
