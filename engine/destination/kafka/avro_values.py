"""Arrow columns as columns of values in Avro's binary encoding, without a Python object a value.

The encoding of a record is that of its fields, one after the other, so rows are joined as texts of JSON are. Each field
may be NULL: a union of null and its type, which begins with the number of the branch.

Source: Apache Avro specification, "Binary Encoding", "Logical Types".
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_NULL, _THERE = b"\x00", b"\x02"
_DECIMAL_BYTES = 16


def avro_type(kind: pa.DataType) -> Any:  # noqa: PLR0911 - one line a type
    """The Avro type of an Arrow type, as a schema has it."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width > 32 else "int"
    if pa.types.is_floating(kind):
        return "float" if kind.bit_width == 32 else "double"
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-micros"}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_list(kind):
        return {"type": "array", "items": avro_type(kind.value_type)}
    raise AssertionError(f"no Avro for {kind}")  # docs/types.md lists the types of a lake


def nullable_records(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """For each row, a record whose fields are nullable."""
    return joined(rows.num_rows, [or_null(values(rows[name])) for name in names])


def records(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """For each row, a record whose fields are not nullable; NULL for a row with a NULL in it."""
    return joined(rows.num_rows, [values(rows[name]) for name in names])


def joined(count: int, parts: Sequence[pa.ChunkedArray | pa.Array | bytes]) -> pa.ChunkedArray:
    """Encodings side by side; bytes are the same in each. count: how many there are."""
    columns = [pa.scalar(part) if isinstance(part, bytes) else part for part in parts]
    if all(isinstance(part, bytes) for part in parts):
        return pa.chunked_array([pa.repeat(pa.scalar(b"".join(map(bytes, parts))), count)])
    columns = [pa.chunked_array([one]) if isinstance(one, pa.Array) else one for one in columns]
    return pc.binary_join_element_wise(*columns, pa.scalar(b""))


def constant(value: str | int) -> bytes:
    """The encoding of one text or integer."""
    encoded: bytes = values(pa.array([value]))[0].as_py()
    return encoded


def or_null(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    """Encodings as a union with null."""
    return pc.fill_null(joined(len(column), [_THERE, column]), _NULL)


def values(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The encodings of a column's values; NULL for NULL."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = _encoded(array)
    return pc.if_else(array.is_valid(), encoded, pa.scalar(None, pa.binary())) if array.null_count else encoded


def _encoded(array: pa.Array) -> pa.Array:  # noqa: PLR0911 - one line a type
    """The encodings; whatever comes for NULL."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return _fixed(array.fill_null(False).cast(pa.uint8()).to_numpy().reshape(-1, 1))
    if pa.types.is_integer(kind):
        return varints(array.fill_null(0).cast(pa.int64()).to_numpy())
    if pa.types.is_floating(kind):
        width = kind.bit_width // 8
        numbers = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(f"<f{width}")
        return _fixed(numbers.view(np.uint8).reshape(-1, width))
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if pa.types.is_date(kind):
        return varints(array.cast(pa.int32()).fill_null(0).cast(pa.int64()).to_numpy())
    if pa.types.is_timestamp(kind):
        micros = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return varints(micros.fill_null(0).to_numpy())
    if pa.types.is_list(kind):
        return _lists(array)
    return _with_lengths(array.cast(pa.binary()).fill_null(b""))


def varints(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Integers, zigzag, seven bits a byte."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    lengths = np.ones(len(numbers), np.int64)
    for byte in range(1, 10):
        lengths += zigzag >= np.uint64(1 << (7 * byte))
    ends = np.cumsum(lengths)
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for byte in range(int(lengths.max(initial=0))):
        has_it = lengths > byte
        seven = ((zigzag[has_it] >> np.uint64(7 * byte)) & np.uint64(0x7F)).astype(np.uint8)
        more = (lengths[has_it] > byte + 1).astype(np.uint8) << 7
        data[(ends - lengths)[has_it] + byte] = seven | more
    return _of_bytes(data, np.concatenate([[0], ends]))


def _with_lengths(array: pa.Array) -> pa.Array:
    lengths = varints(pc.binary_length(array).cast(pa.int64()).to_numpy())
    return pc.binary_join_element_wise(lengths, array, pa.scalar(b""))


def _decimals(array: pa.Array) -> pa.Array:
    """Each with all sixteen bytes, the largest first: leading ones change nothing."""
    wide = array.cast(pa.decimal128(38, array.type.scale)) if array.type.bit_width != 128 else array
    whole = np.frombuffer(wide.buffers()[1], np.uint8)
    begin = wide.offset * _DECIMAL_BYTES
    own = whole[begin : begin + len(wide) * _DECIMAL_BYTES].reshape(-1, _DECIMAL_BYTES)
    length = np.full((len(wide), 1), 2 * _DECIMAL_BYTES, np.uint8)  # zigzag
    return _fixed(np.concatenate([length, own[:, ::-1]], axis=1))


def _lists(array: pa.Array) -> pa.Array:
    """One block each, and an empty one."""
    encoded = []
    for one in array:
        items = values(one.values).to_pylist() if one.is_valid else []
        count = varints(np.array([len(items)])).to_pylist() if items else []
        encoded.append(b"".join([*count, *items, b"\x00"]))
    return pa.array(encoded, pa.binary())


def _fixed(rows: npt.NDArray[np.uint8]) -> pa.Array:
    count, width = rows.shape
    return _of_bytes(np.ascontiguousarray(rows).reshape(-1), np.arange(count + 1) * width)


def _of_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
