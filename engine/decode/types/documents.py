"""JSON: the server's own text in rows; MySQL's binary format in images, which is converted to the same text.

MariaDB's JSON is a LONGTEXT in every respect and is not decoded here. The binary format is a tree, so it is read one
value at a time.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.base.errors import DecodeError
from engine.decode.binary_json import apply_diffs, text_of
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer, ValueType, fail
from engine.decode.types.strings import image_binaries, prefix_fits, row_texts

_JSON = 245


def texts(documents: Sequence[bytes | None], column: Column) -> pa.Array:
    """Binary documents as the server prints them. Raises DecodeError for an invalid one."""
    try:
        return pa.array([None if document is None else text_of(document) for document in documents], pa.string())
    except DecodeError as error:
        raise fail(column, error.message.rstrip("."), error.hint) from None


def changed_texts(
    before: Sequence[bytes | None],
    json_texts: pa.Array,
    after: Sequence[bytes | None],
    partial: npt.NDArray[np.bool_],
    column: Column,
) -> pa.Array:
    """Documents after an update. Where `partial`, the update logged only the differences from the document before.

    json_texts: the texts of `before`. Raises DecodeError if differences do not fit the document.
    """
    out: list[str | None] = []
    try:
        for old, text, new, differs in zip(before, json_texts.to_pylist(), after, partial.tolist(), strict=True):
            if new is None or not differs:
                out.append(None if new is None else text_of(new))
            elif old is None:
                raise fail(column, "the binlog changes a part of a document that is NULL", "")
            else:
                out.append(apply_diffs(old, new) if new else text)
    except DecodeError as error:
        raise fail(column, error.message.rstrip("."), error.hint) from None
    return pa.array(out, pa.string())


def _images(
    records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
) -> tuple[pa.Array, Offsets]:
    value, after = image_binaries(records, at, null, column, mapped)
    return texts(value.to_pylist(), column), after


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
