"""Partial updates: how `binlog_row_value_options=PARTIAL_JSON` changes the images of an update.

A PARTIAL_UPDATE_ROWS event is an UPDATE_ROWS event with additional data before each after-image ("Partial JSON
updates", MySQL source, libs/mysql/binlog/event/rows_event.h; seen on MySQL 9.7):

    value options    a length-encoded integer, 0 or 1, per row
    partial bits     only if that is 1: a bit for each JSON column of the table, the lowest first

A JSON column whose bit is set contains, instead of a document, the differences from the one in the before-image; none
if it did not change. The before-image is complete (`images` refuses others), so the document can be computed.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.base.errors import DecodeError
from engine.decode.framing import Offsets
from engine.decode.schema import Column
from engine.decode.types.base import Mapped, Nulls, RecordBuffer
from engine.decode.types.documents import changed_texts, texts
from engine.decode.types.strings import image_binaries

_WITH_BITS = 1


class PartialDocuments:
    """The JSON columns of partial updates, whose before- and after-images are decoded in turn."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = [n for n, column in enumerate(columns) if column.type == "json"]
        self._before: dict[int, tuple[list[bytes | None], pa.Array]] = {}
        self._partial: dict[int, npt.NDArray[np.bool_]] | None = None

    def open(self, records: RecordBuffer, at: Offsets, *, after: bool) -> Offsets:
        """Begin a round of before- or after-images.

        Returns the cursors on the images themselves. Raises DecodeError.
        """
        if not after:
            self._partial = None
            return at
        options = records.unsigned(at, 1)
        size = (len(self._columns) + 7) // 8
        image = at + 1 + np.where(options == _WITH_BITS, size, 0)
        if (options > _WITH_BITS).any() or (image > records.end).any():
            raise DecodeError("A partial update in the binlog has unknown options.", detail="Nothing of it was used.")
        self._partial = {}
        for place, n in enumerate(self._columns):
            bits = np.zeros(len(at), bool)
            with_bits = np.flatnonzero(options == _WITH_BITS)
            bits[with_bits] = records.buffer[at[with_bits] + 1 + (place >> 3)] >> np.uint8(place & 7) & np.uint8(1)
            self._partial[n] = bits
        return image

    def decode(
        self, n: int, records: RecordBuffer, at: Offsets, null: Nulls, column: Column, mapped: Mapped
    ) -> tuple[pa.Array, Offsets]:
        """Decode JSON column `n` of the round."""
        value, end = image_binaries(records, at, null, column, mapped)
        documents = value.to_pylist()
        if self._partial is None:
            json_texts = texts(documents, column)
            self._before[n] = documents, json_texts
            return json_texts, end
        return changed_texts(*self._before[n], documents, self._partial[n], column), end
