"""Reads rows of MySQL and MariaDB back: by prepared statements, decoded as those of a source."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import DestinationError, TidemarkError, TransientError
from engine.base.store_errors import StoreAwayError
from engine.decode.arrow_schema import image_schema
from engine.decode.result_rows import check_types, decode_rows
from engine.decode.schema import Column, Table
from engine.destination.database.sql_literals import hexadecimal, plain, quoted
from engine.destination.database.sql_server import DatabaseSession, StoredColumn, TablePlace, text
from engine.source.catalog import read_table
from engine.source.connect import Connection, quote
from engine.source.packets import prepare


class MysqlReads:
    """Rows by prepared statements (`sql_server.TableReads`)."""

    def require_there(self) -> None:
        """A login says it."""

    def begin(self, session: DatabaseSession) -> None:
        """A transaction of one snapshot."""
        session.rollback()
        session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def literals(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Numbers as they are, others quoted."""
        kind = values.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return pc.binary_join_element_wise("x'", hexadecimal(values), "'", "")
        if pa.types.is_timestamp(kind):
            return quoted(plain(values.cast(pa.timestamp("us"))))
        if pa.types.is_boolean(kind):
            return pc.if_else(values, "1", "0")
        is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind)
        return plain(values) if is_number else quoted(plain(values))

    def rows(
        self,
        session: DatabaseSession,
        place: TablePlace,
        columns: Sequence[StoredColumn],
        lists: Collection[str],
        where: str,
    ) -> Iterator[pa.Table]:
        """In the types that the server has now."""
        connection: Connection = session.connection  # type: ignore[attr-defined]
        doing = f"Reading {place}"
        try:
            stored = read_table(connection, place.schema, place.name)
            wanted = _columns_of(stored, columns)
            schema = image_schema(replace(stored, columns=wanted))
            names = ", ".join(quote(one.name) for one in wanted)
            statement = prepare(
                connection, f"SELECT {names} FROM {quote(place.schema, place.name)} WHERE {where}", doing
            )
            types, packets = statement.execute(doing)
            check_types(wanted, types)
            for block in packets.blocks():
                batch = decode_rows(block.buffer, block.start, block.end, wanted)
                rows = pa.Table.from_batches([batch]).cast(schema)
                yield _with_lists(rows.rename_columns([column.name for column in columns]), lists)
            statement.close()
        except DestinationError:
            raise
        except TransientError as error:
            raise StoreAwayError(f"The database does not answer: {error.message}") from error
        except TidemarkError as error:
            raise DestinationError(f"{place} cannot be read: {error.message}") from error

    def stored_bytes(self, session: DatabaseSession, place: TablePlace) -> int:
        """As the server estimates."""
        return int(
            session.query(
                "SELECT COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA "
                f"= {text(place.schema)} AND TABLE_NAME = {text(place.name)}"
            )[0][0]
        )


def _columns_of(stored: Table, columns: Sequence[StoredColumn]) -> tuple[Column, ...]:
    """The columns as the server has them now. Raises DestinationError for one that is gone."""
    by_name = {one.name.casefold(): one for one in stored.columns}
    if missing := [one.name for one in columns if one.name.casefold() not in by_name]:
        raise DestinationError(f"The table {stored.full_name} has lost its column {missing[0]}.")
    return tuple(by_name[one.name.casefold()] for one in columns)


def _with_lists(rows: pa.Table, lists: Collection[str]) -> pa.Table:
    for number, name in enumerate(rows.column_names):
        if name in lists:
            values = [None if one is None else json.loads(one) for one in rows[name].to_pylist()]
            rows = rows.set_column(number, name, pa.array(values, pa.list_(pa.float32())))
    return rows
