"""Reads rows of PostgreSQL back: the text of a COPY, whole columns at a time."""

import binascii
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from engine.base.errors import DestinationError
from engine.destination.database.sql_literals import hexadecimal, plain, quoted
from engine.destination.database.sql_server import DatabaseSession, StoredColumn, TablePlace, in_double_quotes, text

_BLOCK = 8 << 20
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_TYPES: dict[str, pa.DataType] = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
_MOST_DIGITS = 38


class PostgresReads:
    """Rows by COPY. copied: yields the lines of a statement (`sql_server.TableReads`)."""

    def __init__(self, copied: Callable[[DatabaseSession, str], Iterator[bytes]]) -> None:
        self._copied = copied

    def require_there(self) -> None:
        """A login says it."""

    def begin(self, session: DatabaseSession) -> None:
        """A transaction of one snapshot, with the texts that are parsed here."""
        session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for name, value in (("datestyle", "ISO, YMD"), ("bytea_output", "hex"), ("extra_float_digits", "3")):
            session.run(f"SET LOCAL {name} = '{value}'")

    def literals(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Quoted, so that they get the type of the column."""
        if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
            return pc.binary_join_element_wise("'\\x", hexadecimal(values), "'", "")
        literals = quoted(plain(values))
        is_float = pa.types.is_floating(values.type)
        return pc.binary_join_element_wise(literals, "::double precision", "") if is_float else literals

    def rows(
        self,
        session: DatabaseSession,
        place: TablePlace,
        columns: Sequence[StoredColumn],
        lists: Collection[str],
        where: str,
    ) -> Iterator[pa.Table]:
        """By COPY: every value is quoted, and NULL is nothing."""
        names = [column.name for column in columns]
        listed = ", ".join(map(in_double_quotes, names))
        table = f"{in_double_quotes(place.schema)}.{in_double_quotes(place.name)}"
        query = f"SELECT {listed} FROM {table} WHERE {where}"
        for block in _blocks(self._copied(session, f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)")):
            texts = csv.read_csv(
                BytesIO(block),
                csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
                csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            yield pa.table([_parsed(texts[one.name], one, place) for one in columns], names)

    def stored_bytes(self, session: DatabaseSession, place: TablePlace) -> int:
        """With its indexes."""
        name = text(f"{in_double_quotes(place.schema)}.{in_double_quotes(place.name)}")
        return int(session.query(f"SELECT pg_total_relation_size({name}::regclass)")[0][0])


def _blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines in blocks of bounded size."""
    block = bytearray()
    for line in lines:
        block += line
        if len(block) >= _BLOCK:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _parsed(texts: pa.ChunkedArray, column: StoredColumn, place: TablePlace) -> pa.ChunkedArray:
    """The values of a column. Raises DestinationError for one that this pipeline has not written."""
    try:
        return _values(texts, column.type)
    except (pa.ArrowInvalid, ValueError) as error:
        raise DestinationError(
            f"{place} has a value in column {column.name!r} that is no {column.type} of the source: {error}",
            detail="Somebody has written it there.",
            hint="Resnapshot the table: tidemark redump SPEC --table DATABASE.TABLE",
        ) from error


def _values(texts: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    if kind == "boolean":
        return pc.equal(texts, "t")
    if kind == "bytea":
        return pa.chunked_array([_bytes(chunk) for chunk in texts.chunks], pa.binary())
    if kind == "real[]":
        lists = [
            None if one is None else [float(number) for number in one[1:-1].split(",")] for one in texts.to_pylist()
        ]
        return pa.chunked_array([pa.array(lists, pa.list_(pa.float32()))])
    if kind == "timestamp with time zone":
        return pc.replace_substring_regex(texts, r"\+00$", "Z").cast(pa.timestamp("us", "UTC"))
    if (numeric := _NUMERIC.fullmatch(kind)) and int(numeric[1]) <= _MOST_DIGITS:
        return texts.cast(pa.decimal128(int(numeric[1]), int(numeric[2])))
    return texts.cast(_TYPES.get(kind, pa.string()))


def _bytes(texts: pa.Array) -> pa.Array:
    """The bytes of texts in hexadecimal, of a whole column at once."""
    if not len(texts):
        return pa.array([], pa.binary())
    digits = pc.fill_null(pc.utf8_slice_codeunits(texts, 2), "").cast(pa.large_binary())
    _, offsets, data = digits.buffers()
    bounds = np.frombuffer(offsets, np.int64)[digits.offset : digits.offset + len(digits) + 1]
    content = binascii.unhexlify(memoryview(data)[bounds[0] : bounds[-1]]) if data is not None else b""
    starts = np.ascontiguousarray((bounds - bounds[0]) // 2)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(content)]
    whole = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(digits), buffers)
    return pc.if_else(texts.is_null(), None, whole).cast(pa.binary())
