"""GEOMETRY and its subtypes, and VECTOR: binaries with a length prefix of four bytes.

A geometry arrives as the server stores it and sends it to every client: the SRID in four little-endian bytes, then WKB
("Geometry storage format", MySQL manual). So the SRID is kept, whatever the reader does with it.

A vector's bytes are a list of 32-bit floats. MariaDB announces and logs it as a VARBINARY, MySQL as a type of its own.
"""

import numpy as np
import pyarrow as pa

from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, fail
from engine.decode.types.strings import image_binaries, prefix_fits, row_binaries

_GEOMETRY, _VECTOR = 255, 242
_VARCHAR, _VAR_STRING = 15, 253
_FLOAT_BYTES = 4


def _floats(value: pa.Array, column: Column) -> pa.Array:
    """Vectors from their bytes. Raises DecodeError if a length is not a multiple of four."""
    offsets = np.frombuffer(value.buffers()[1], np.int32)[: len(value) + 1] if len(value) else np.zeros(1, np.int32)
    if (offsets % _FLOAT_BYTES).any():
        raise fail(column, "a vector is not a sequence of 32-bit floats", "Report this with the server's version.")
    data = value.buffers()[2] if len(value) else None
    numbers = pa.array(np.frombuffer(data, np.float32)[: offsets[-1] // _FLOAT_BYTES] if data else [], pa.float32())
    nulls = value.is_null() if value.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets // _FLOAT_BYTES), numbers, mask=nulls)


def _row_vectors(records: RecordBuffer, at: Offsets, null: Nulls, column: Column) -> tuple[pa.Array, Offsets]:
    value, after = row_binaries(records, at, null, column)
    return _floats(value, column), after


def _image_vectors(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    value, after = image_binaries(records, at, null, column, mapped)
    return _floats(value, column), after


def _vector_fits(column: Column, mapped: Mapped) -> bool:
    """Whether the table map can describe the vector: MariaDB's is a VARBINARY of exactly its length."""
    if mapped.code == _VARCHAR:
        return int.from_bytes(mapped.metadata, "little") == column.length
    return prefix_fits(column, mapped)


_KINDS = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geomcollection",
    "geometrycollection",
)
TYPES = {
    **{
        kind: ValueType(
            arrow=lambda _: pa.binary(),
            row=row_binaries,
            image=image_binaries,
            protocol=frozenset({_GEOMETRY}),
            binlog=frozenset({_GEOMETRY}),
            fits=prefix_fits,
        )
        for kind in _KINDS
    },
    "vector": ValueType(
        arrow=lambda _: pa.list_(pa.float32()),
        row=_row_vectors,
        image=_image_vectors,
        protocol=frozenset({_VECTOR, _VAR_STRING}),
        binlog=frozenset({_VECTOR, _VARCHAR}),
        fits=_vector_fits,
    ),
}
