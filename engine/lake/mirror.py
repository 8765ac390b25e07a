"""The rows that a mirror holds, read back."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable


class Mirror:
    """A mirror as it is now: one version of it, whatever is committed meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._rows = DeltaTable(str(folder)).to_pyarrow_dataset()

    def batches(self, columns: Sequence[str], condition: pc.Expression | None = None) -> Iterator[pa.Table]:
        """The rows that fulfil the condition, some at a time; columns that the mirror lacks are left out."""
        there = [name for name in columns if name in self._rows.schema.names]
        for batch in self._rows.to_batches(columns=there, filter=condition):
            yield pa.Table.from_batches([batch])
