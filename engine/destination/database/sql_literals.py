"""Arrow columns as texts of SQL, whole columns at a time. NULL stays NULL until rows are made of columns.

A column is first plain text, then, unless it is a bare number, quoted: by `'` in statements, by `"` in the lines of a
COPY. The mark is doubled within, so sessions must not take a backslash for an escape.
"""

import binascii
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.destination.database.sql_server import BATCH_BYTES


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers, texts, dates and times. A float has the shortest text that is read back as the same number."""
    texts = values.cast(pa.string())
    if not pa.types.is_decimal(values.type):
        return texts
    joined = texts.combine_chunks()
    has_exponent = pc.fill_null(pc.match_substring(joined, "E"), False)
    places = pc.indices_nonzero(has_exponent).to_pylist()
    if not places:
        return texts
    rewritten = [format(values[place].as_py(), "f") for place in places]
    return pa.chunked_array([pc.replace_with_mask(joined, has_exponent, pa.array(rewritten, pa.string()))])


def hexadecimal(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as digits, two for each."""
    return pa.chunked_array([_digits(chunk.cast(pa.large_binary())) for chunk in values.chunks], pa.string())


def _digits(values: pa.Array) -> pa.Array:
    if not len(values):
        return pa.array([], pa.string())
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    digits = binascii.hexlify(memoryview(data)[bounds[0] : bounds[-1]]) if data is not None else b""
    starts = pa.array((bounds - bounds[0]) * 2)
    strings = pa.LargeStringArray.from_buffers(len(values), starts.buffers()[1], pa.py_buffer(digits))
    return pc.if_else(values.is_null(), None, strings).cast(pa.string())


def number_lists(values: pa.ChunkedArray, begin: str, end: str) -> pa.ChunkedArray:
    """Lists of numbers, between two marks."""
    lists = [None if one is None else f"{begin}{','.join(map(repr, one))}{end}" for one in values.to_pylist()]
    return pa.chunked_array([pa.array(lists, pa.string())])


def quoted(texts: pa.ChunkedArray, mark: str = "'", before: str = "") -> pa.ChunkedArray:
    """Texts between two marks."""
    return pc.binary_join_element_wise(before + mark, pc.replace_substring(texts, mark, mark * 2), mark, "")


def lines(columns: Sequence[pa.ChunkedArray], null: str, begin: str = "", end: str = "") -> pa.ChunkedArray:
    """Rows, from the texts of their columns."""
    joined = pc.binary_join_element_wise(*(pc.fill_null(column, null) for column in columns), ",")
    return pc.binary_join_element_wise(begin, joined, end, "")


def batches_of(
    rows: pa.ChunkedArray, between: str, most: int = 1 << 30, most_bytes: int = BATCH_BYTES
) -> Iterator[str]:
    """Lines joined to texts of so many bytes, and of at most so many lines. A longer line has a text of its own."""
    if not len(rows):
        return
    joined = rows.combine_chunks()
    ends = np.cumsum(pc.binary_length(joined).to_numpy().astype(np.int64) + len(between))
    begin = 0
    while begin < len(joined):
        before = int(ends[begin - 1]) if begin else 0
        end = min(max(int(np.searchsorted(ends, before + most_bytes, "right")), begin + 1), begin + most)
        batch = pa.ListArray.from_arrays(pa.array([0, end - begin], pa.int32()), joined.slice(begin, end - begin))
        yield pc.binary_join(batch, between)[0].as_py()
        begin = end
