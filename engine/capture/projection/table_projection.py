"""A table's projection: which of its rows and columns are published, and which columns only as digests.

A projection is applied by the reader, before a row is written anywhere:

    a chunk      the SELECT names the columns that are needed; its rows are filtered, masked and cut as they come. The keys that the
                 backfill touches are taken out of them whether their new images pass or not.
    the log      an image is emitted if the rule of emission says so and the row passes. An update into the filter has one lone
                 half left and becomes an insert, one out of it a delete (`emission.published`).

So the destination is at any time the filtered source, given that the same columns identify a row as before: the columns of
the key and of the chunk key are always published as they are. (Bounds of chunks are shown in plans and journals too.)
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
from engine.capture.projection.row_filter import Condition, columns_of, passing
from engine.decode.schema import Column, Table

_DIGEST_LENGTH = 512


@dataclass(frozen=True)
class Projection:
    """Which columns and rows of a table are published."""

    kept: tuple[str, ...] | None = None
    """The columns that are published; None for all."""
    masks: Mapping[str, str] = field(default_factory=dict)
    """By masked column, the algorithm."""
    where: Condition | None = None
    """The row filter; None for all rows."""
    salt: bytes = field(default=b"", repr=False)
    """The salt of the masks."""

    def published(self, table: Table) -> Table:
        """The table as its destination has it."""
        if self.kept is None and not self.masks:
            return table
        columns = (self._masked_column(c) if c.name in self.masks else c for c in table.columns if self._keeps(c.name))
        return replace(table, columns=tuple(columns))

    def needed(self, table: Table) -> tuple[Column, ...]:
        """The columns that a SELECT must fetch."""
        filtered = self._filtered()
        return tuple(c for c in table.columns if self._keeps(c.name) or c.name in filtered)

    def tolerant(self, table: Table) -> Table:
        """The table as row images of it are read: columns of no use are passed over, so that nothing in them stops it.

        Not documents: a change of a part of one is understood with the rest alone.
        """
        if self.kept is None:
            return table
        needed = self.needed(table)
        columns = (replace(c, unread=c not in needed and c.type != "json") for c in table.columns)
        return replace(table, columns=tuple(columns))

    def counted(self, nulled: Mapping[str, int]) -> Counter[str]:
        """Counts by column, of the published ones."""
        return Counter({name: count for name, count in nulled.items() if self._keeps(name)})

    def as_dict(self) -> dict[str, Any]:
        """What of it makes the columns of the destination, for the ledger; `published_as` reads it."""
        return {"kept": None if self.kept is None else list(self.kept), "masks": dict(self.masks)}

    def apply(self, rows: pa.Table) -> pa.Table:
        """Rows, with the columns that are needed at least, as they are published."""
        if self.where is not None:
            rows = rows.filter(pa.array(passing(self.where, rows)))
        return self._shown(rows)

    def emitted(self, changes: RowChanges, emit: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Those of the emitted images whose rows pass."""
        return emit if self.where is None or not emit.any() else emit & passing(self.where, changes.rows)

    def chosen(self, changes: RowChanges, chosen: npt.NDArray[np.int64]) -> RowChanges:
        """Some changes, with their rows as they are published."""
        if self.kept is not None:
            names = [name for name in changes.rows.column_names if self._keeps(name)]
            changes = replace(changes, rows=changes.rows.select(names))
        if len(chosen) < len(changes):
            changes = changes.take(chosen)
        return replace(changes, rows=self._shown(changes.rows)) if self.masks else changes

    def _keeps(self, name: str) -> bool:
        return self.kept is None or name in self.kept

    def _filtered(self) -> set[str]:
        return set(columns_of(self.where)) if self.where is not None else set()

    def _shown(self, rows: pa.Table) -> pa.Table:
        if self.kept is not None:
            rows = rows.select([name for name in rows.column_names if self._keeps(name)])
        for name, algorithm in self.masks.items():
            if name in rows.column_names:
                number, nullable = rows.column_names.index(name), rows.schema.field(name).nullable
                digests = digested(rows[name], algorithm, self.salt)
                rows = rows.set_column(number, pa.field(name, pa.string(), nullable), digests)
        return rows

    @staticmethod
    def _masked_column(column: Column) -> Column:
        nullable = column.nullable or column.null_dates
        return Column(column.name, "varchar", nullable, length=_DIGEST_LENGTH, charset="utf8mb4")


WHOLE_TABLE = Projection()
"""Everything is published."""


def published_as(table: Table, record: Mapping[str, Any] | None) -> Table:
    """A table as the destination has it, by what the ledger holds of its projection (`Projection.as_dict`; None: all of it)."""
    if record is None:
        return table
    return Projection(None if record["kept"] is None else tuple(record["kept"]), record["masks"]).published(table)


def digested(values: pa.ChunkedArray, algorithm: str, salt: bytes) -> pa.ChunkedArray:
    """The digest in hexadecimal of each value's bytes, or of its text where it is neither text nor binary; NULL stays NULL.

    With a salt it is the HMAC, keyed by it. Each distinct value is digested once.
    """
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        values = values.cast(pa.string())
    return pa.chunked_array([_digested(chunk, algorithm, salt) for chunk in values.chunks], pa.string())


def _digested(values: pa.Array, algorithm: str, salt: bytes) -> pa.Array:
    encoded = pc.dictionary_encode(values)
    distinct: Iterable[bytes] = encoded.dictionary.cast(pa.binary()).to_pylist()
    if salt:
        digests = [hmac.digest(salt, value, algorithm).hex() for value in distinct]
    else:
        digests = [hashlib.new(algorithm, value).hexdigest() for value in distinct]
    return pa.array(digests, pa.string()).take(encoded.indices)
