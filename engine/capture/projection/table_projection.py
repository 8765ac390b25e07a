"""A table's projection: which of its rows and columns are published, and which columns only as digests.

The reader applies a projection before it writes a row anywhere:

    a chunk      the SELECT lists the needed columns. Its rows are filtered, masked and cut as they arrive. Keys that
                 the backfill touches are removed from them, whether or not their new images pass.
    the log      an image is emitted if the rule of emission says so and its row passes. An update into the filter has
                 only one half left and becomes an insert; an update out of it becomes a delete
                 (`emission.published_images`).

So the destination always equals the filtered source, provided the same columns identify a row: the columns of the key
and the chunk key are always published unchanged. (Plans and journals show chunk bounds too.)
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.binlog.row_changes import RowChanges
from engine.capture.projection.row_filter import Condition, columns_of, filter_mask
from engine.decode.schema import Column, Table

_DIGEST_LENGTH = 512


@dataclass(frozen=True)
class Projection:
    """Which columns and rows of a table are published."""

    columns: tuple[str, ...] | None = None
    """The published columns; None for all."""
    masks: Mapping[str, str] = field(default_factory=dict)
    """The digest algorithm of each masked column."""
    where: Condition | None = None
    """The row filter; None for all rows."""
    salt: bytes = field(default=b"", repr=False)
    """The salt of the masks."""

    def published_table(self, table: Table) -> Table:
        """The table as the destination has it."""
        if self.columns is None and not self.masks:
            return table
        columns = (self._masked_column(c) if c.name in self.masks else c for c in table.columns if self._keeps(c.name))
        return replace(table, columns=tuple(columns))

    def needed_columns(self, table: Table) -> tuple[Column, ...]:
        """The columns that a SELECT must fetch."""
        filtered = self._filter()
        return tuple(c for c in table.columns if self._keeps(c.name) or c.name in filtered)

    def tolerant(self, table: Table) -> Table:
        """The table for decoding its row images. Unneeded columns are skipped, so nothing in them can stop the table.

        JSON columns are always decoded: a partial update cannot be understood without the rest of the document.
        """
        if self.columns is None:
            return table
        needed = self.needed_columns(table)
        columns = (replace(c, unread=c not in needed and c.type != "json") for c in table.columns)
        return replace(table, columns=tuple(columns))

    def published_counts(self, nulled: Mapping[str, int]) -> Counter[str]:
        """The counts of the published columns."""
        return Counter({name: count for name, count in nulled.items() if self._keeps(name)})

    def as_dict(self) -> dict[str, Any]:
        """The part of the projection that determines the destination's columns, for the ledger.

        `published_as` reads it.
        """
        return {"kept": None if self.columns is None else list(self.columns), "masks": dict(self.masks)}

    def apply(self, rows: pa.Table) -> pa.Table:
        """Convert rows, which have at least the needed columns, to rows as published."""
        if self.where is not None:
            rows = rows.filter(pa.array(filter_mask(self.where, rows)))
        return self._show_columns(rows)

    def emission_mask(self, changes: RowChanges, emit: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """The mask `emit`, without the images whose rows do not pass the filter."""
        return emit if self.where is None or not emit.any() else emit & filter_mask(self.where, changes.rows)

    def published_changes(self, changes: RowChanges, chosen: npt.NDArray[np.int64]) -> RowChanges:
        """The chosen changes, with their rows as published."""
        if self.columns is not None:
            names = [name for name in changes.rows.column_names if self._keeps(name)]
            changes = replace(changes, rows=changes.rows.select(names))
        if len(chosen) < len(changes):
            changes = changes.take(chosen)
        return replace(changes, rows=self._show_columns(changes.rows)) if self.masks else changes

    def _keeps(self, name: str) -> bool:
        return self.columns is None or name in self.columns

    def _filter(self) -> set[str]:
        return set(columns_of(self.where)) if self.where is not None else set()

    def _show_columns(self, rows: pa.Table) -> pa.Table:
        if self.columns is not None:
            rows = rows.select([name for name in rows.column_names if self._keeps(name)])
        for name, algorithm in self.masks.items():
            if name in rows.column_names:
                number, nullable = rows.column_names.index(name), rows.schema.field(name).nullable
                digests = digest_column(rows[name], algorithm, self.salt)
                rows = rows.set_column(number, pa.field(name, pa.string(), nullable), digests)
        return rows

    @staticmethod
    def _masked_column(column: Column) -> Column:
        nullable = column.nullable or column.null_dates
        return Column(column.name, "varchar", nullable, length=_DIGEST_LENGTH, charset="utf8mb4")


WHOLE_TABLE = Projection()
"""Publishes everything."""


def published_as(table: Table, record: Mapping[str, Any] | None) -> Table:
    """The table as the destination has it.

    record: its projection in the ledger (`Projection.as_dict`; None: everything).
    """
    if record is None:
        return table
    return Projection(None if record["kept"] is None else tuple(record["kept"]), record["masks"]).published_table(table)


def digest_column(values: pa.ChunkedArray, algorithm: str, salt: bytes) -> pa.ChunkedArray:
    """The hexadecimal digest of each value's bytes, or of its text if it is neither text nor binary. NULL stays NULL.

    With a salt, it is the HMAC keyed by the salt. Each distinct value is digested once.
    """
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        values = values.cast(pa.string())
    return pa.chunked_array([_digest_texts(chunk, algorithm, salt) for chunk in values.chunks], pa.string())


def _digest_texts(values: pa.Array, algorithm: str, salt: bytes) -> pa.Array:
    encoded = pc.dictionary_encode(values)
    distinct: Iterable[bytes] = encoded.dictionary.cast(pa.binary()).to_pylist()
    if salt:
        digests = [hmac.digest(salt, value, algorithm).hex() for value in distinct]
    else:
        digests = [hashlib.new(algorithm, value).hexdigest() for value in distinct]
    return pa.array(digests, pa.string()).take(encoded.indices)
