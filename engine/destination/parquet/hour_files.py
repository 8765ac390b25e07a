"""Writes rows of a change log to Parquet files by the date and hour (UTC) of their commit at the source.

Rows of a snapshot were read from the table, not from the binlog. They have no commit time: they are inserts with a
`_tm_seq` below that of every change, under the hour in which they are published.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.capture.batches import batches, parquet_file
from engine.capture.binlog.row_changes import SNAPSHOT_SEQ, redump_changes
from engine.capture.files import DataFile, FileWriter
from engine.decode.schema import TM_KIND, TM_TS
from engine.store.folder import Folder

_HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class HourFile:
    """A finished file, and its folder relative to the table's."""

    folder: str
    file: DataFile


@dataclass
class HourWriter:
    """Writes files of one commit to a table's folder; deletes them if it fails.

    prefix: of their names. hour: of rows without a commit time, in hours since 1970. bounded_columns: the columns that
    get statistics.
    """

    folder: Folder
    prefix: str
    hour: int
    bounded_columns: tuple[str, ...]
    _writers: dict[int, FileWriter] = field(default_factory=dict)
    _finished_files: list[HourFile] = field(default_factory=list)

    def write(self, source: pa.NativeFile) -> None:
        """Write the rows of a reader's file."""
        with parquet_file(source) as file:
            for _, batch in batches(file):
                rows = batch if TM_KIND in batch.column_names else redump_changes(batch, "+I", None, SNAPSHOT_SEQ)
                self._write(rows)

    def _write(self, rows: pa.Table) -> None:
        hours = self._hours(rows)
        present = np.unique(hours)
        for hour in set(self._writers) - set(present.tolist()):
            self._finish(hour)  # the log is in the order of commits, so an hour rarely comes back
        for hour in present.tolist():
            part = rows if len(present) == 1 else rows.filter(pa.array(hours == hour))
            self._writer(hour, rows.schema).write(part)

    def _hours(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        ts = rows[TM_TS].cast(pa.int64())
        return np.asarray(pc.fill_null(ts, self.hour * _HOUR_US).to_numpy()) // _HOUR_US

    def _writer(self, hour: int, schema: pa.Schema) -> FileWriter:
        if hour not in self._writers:
            self._writers[hour] = FileWriter(self.folder / _partition(hour), self.prefix, schema, self.bounded_columns)
        return self._writers[hour]

    def _finish(self, hour: int) -> None:
        self._finished_files += [HourFile(_partition(hour), file) for file in self._writers[hour].close()]
        del self._writers[hour]  # not before it is finished: `__exit__` discards those that are not

    def finish(self) -> list[HourFile]:
        """Finish all files, durably."""
        for hour in list(self._writers):
            self._finish(hour)
        return self._finished_files

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        for writer in self._writers.values():
            writer.discard()
        self.folder.delete(f"{one.folder}/{one.file.name}" for one in self._finished_files)


def _partition(hour: int) -> str:
    at = datetime.fromtimestamp(hour * 3600, UTC)
    return f"date={at:%Y-%m-%d}/hour={at:%H}"


def newest_partitions(folder: Folder, dates: int) -> Iterator[str]:
    """The folders of the hours in a table's newest dates, relative to the table's."""
    for date in [name for name in folder.folders() if name.startswith("date=")][-dates:]:
        yield from (f"{date}/{name}" for name in (folder / date).folders() if name.startswith("hour="))
