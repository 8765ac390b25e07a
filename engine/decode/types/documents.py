"""JSON: the server's own text in rows, MySQL's binary form in images, which becomes the very same text.

MariaDB's JSON is a LONGTEXT in every respect and does not come here. The binary form is read a value at a time: it is a tree.
"""

import pyarrow as pa

from engine.decode.binary_json import text_of
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, Records, ValueType
from engine.decode.types.strings import image_binaries, prefix_fits, row_texts

_JSON = 245


def _images(records: Records, at: Offsets, null: Nulls, column: Column, mapped: Mapped) -> tuple[pa.Array, Offsets]:
    value, after = image_binaries(records, at, null, column, mapped)
    return pa.array([v if v is None else text_of(v) for v in value.to_pylist()], pa.string()), after


TYPES = {
    "json": ValueType(
        arrow=lambda _: pa.string(),
        row=row_texts,
        image=_images,
        protocol=frozenset({_JSON}),
        binlog=frozenset({_JSON}),
        fits=prefix_fits,
    ),
}
