"""A table's values through both decoders, compared with an independent client.

The decoders are those of a chunk's SELECT and of the binlog's row images.
"""

from collections.abc import Callable
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.decode.images import AFTER, BEFORE, DELETE, INSERT
from engine.decode.result_rows import check_types, decode_rows
from engine.decode.schema import Table
from engine.source.catalog import read_table
from engine.source.connect import Endpoint, describe, open_connection, quote
from engine.source.packets import prepare
from engine.source.positions import Position, current
from tests.live.support.compare import assert_equal, source_table
from tests.servers import PASSWORD, USER, Server


def endpoint_of(server: Server) -> Endpoint:
    """The address by which the engine connects to a test server."""
    return Endpoint(server.host, server.port, USER, PASSWORD)


def position_of(server: Server) -> Position:
    """The current end of the server's binlog."""
    with closing(open_connection(endpoint_of(server))) as connection:
        return current(connection, describe(connection))


def table_of(server: Server, database: str, name: str, *, null_dates: bool = False) -> Table:
    """The table as the engine's catalog reads it."""
    with closing(open_connection(endpoint_of(server))) as connection:
        return read_table(connection, database, name, null_dates=null_dates)


def selected(endpoint: Endpoint, table: Table) -> pa.Table:
    """All rows through the row decoder, sorted by `id`."""
    with closing(open_connection(endpoint)) as connection:
        columns = ", ".join(quote(c.name) for c in table.columns)
        statement = f"SELECT {columns} FROM {quote(table.database, table.name)}"
        types, packets = prepare(connection, statement, "test").execute("test")
        check_types(table.columns, types)
        blocks = [decode_rows(b.buffer, b.start, b.end, table.columns) for b in packets.blocks()]
    return pa.Table.from_batches(blocks).sort_by("id")


def logged(
    server: Server,
    table: Table,
    begin: Position,
    end: Position | None = None,
    nulled: dict[str, int] | None = None,
) -> pa.Table:
    """The table's row images from `begin` on, in order, with their kinds as `kind`. Raises what stops the table.

    nulled: gets the dates that became NULL, by column.
    """
    mariadb, captured = server.flavor == "mariadb", {(table.database, table.name): table}
    binlog_range = BinlogRange(captured, begin, end or position_of(server), mariadb=mariadb)
    runs = read_range(endpoint_of(server), binlog_range, 5000)
    parts = [c.rows.append_column("kind", c.facts["kind"]) for _, _, c in runs]
    for error in binlog_range.stop_errors.values():
        raise error
    if nulled is not None:
        nulled.update(binlog_range.nulled_dates[table.full_name])
    return pa.concat_tables(parts)


def of_kind(images: pa.Table, *kinds: int) -> pa.Table:
    """The images of some kinds, sorted by `id`."""
    chosen = images.filter(pc.is_in(images["kind"], pa.array(kinds, pa.int8())))
    return chosen.drop_columns("kind").sort_by("id")


def assert_both_decoders(server: Server, database: str, name: str, fill: Callable[[], None], **options: bool) -> Table:
    """Fill the empty table `name`, renumber its rows and delete them; every decoder must return the same values.

    The key is `id`. Returns the captured table.
    """
    begin = position_of(server)
    fill()
    table = table_of(server, database, name, **options)
    inserted = source_table(server, database, name)
    assert inserted.num_rows
    assert_equal(inserted, selected(endpoint_of(server), table))
    quoted = quote(database, name)
    server.execute(f"UPDATE {quoted} SET id = id + 1000000")
    updated = source_table(server, database, name)
    server.execute(f"DELETE FROM {quoted}")
    images = logged(server, table, begin)
    assert_equal(inserted, of_kind(images, INSERT))
    assert_equal(inserted, of_kind(images, BEFORE))
    assert_equal(updated, of_kind(images, AFTER))
    assert_equal(updated, of_kind(images, DELETE))
    return table
