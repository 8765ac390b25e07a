"""Parquet files that readers write where the destination's tables lie; only files that are reported are ever published.

Names are unique to the attempt, so a task that is run twice leaves a file that nobody knows, never a wrong one.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.durable import make_folders, sync_file, sync_folder

ROW_GROUP_ROWS = 128 << 10


@dataclass(frozen=True)
class DataFile:
    """A finished Parquet file: its name in its table's folder, rows, bytes, and smallest and largest value of integer columns."""

    name: str
    rows: int
    bytes: int
    low: dict[str, int] = field(default_factory=dict)
    high: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For reports and the ledger; `DataFile(**record)` is the inverse."""
        return asdict(self)


class FileWriter:
    """Writes one Parquet file of a table's folder; makes none when no row comes.

    bounded: integer columns whose smallest and largest value are reported, so that a merge can pass over the file.

    The row groups of a change log have statistics only of the columns named in `bounded` and of `_tm_ts`: it is read whole, and
    those of texts cost a sixth of its writing.
    """

    def __init__(self, folder: Path, prefix: str, schema: pa.Schema, bounded: Sequence[str]) -> None:
        self._folder, self._schema = folder, schema
        self._name = f"{prefix}-{uuid.uuid4().hex}.parquet"
        self._bounded = [name for name in bounded if pa.types.is_integer(schema.field(name).type)]
        self._statistics = [*bounded, "_tm_ts"] if "_tm_ts" in schema.names else True
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = self._rows = 0

    def write(self, rows: pa.Table) -> None:
        """Append rows; they are written a row group at a time."""
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows = pa.concat_tables(self._pending)
        self._pending, self._pending_rows = [], 0
        if not rows.num_rows:
            return
        if self._writer is None:
            make_folders(self._folder)
            self._writer = pq.ParquetWriter(
                self._folder / self._name,
                self._schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=_repeating(rows),
                write_statistics=self._statistics,
            )
        for name in self._bounded:
            ends = pc.min_max(rows[name]).as_py()
            if ends["min"] is not None:
                self._low[name] = min(self._low.get(name, ends["min"]), ends["min"])
                self._high[name] = max(self._high.get(name, ends["max"]), ends["max"])
        self._writer.write_table(rows, row_group_size=2 * ROW_GROUP_ROWS)
        self._rows += rows.num_rows

    def close(self) -> list[DataFile]:
        """Finish: the file, or nothing when it would be empty."""
        if self._pending:
            self._flush()
        if self._writer is None:
            return []
        self._writer.close()
        # The ledger will name the file: content and name must outlive a power cut.
        sync_file(self._folder / self._name)
        sync_folder(self._folder)
        size = (self._folder / self._name).stat().st_size
        return [DataFile(self._name, self._rows, size, self._low, self._high)]

    def discard(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            with suppress(OSError):  # a full disk
                self._writer.close()
            (self._folder / self._name).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()


def _repeating(rows: pa.Table) -> list[str]:
    """The columns worth a Parquet dictionary, judged by a sample: building one for distinct values is lost time."""
    sample = rows.slice(0, 2000)
    return [
        name
        for name in rows.column_names
        if not (pa.types.is_floating(rows[name].type) or pa.types.is_nested(rows[name].type))
        and pc.count_distinct(sample[name]).as_py() * 4 < sample.num_rows
    ]
