"""Parquet files that readers write into a table's folder. Only files that a report names are ever published.

Names are unique per attempt: a task that runs twice leaves an orphan, never a wrong file.
"""

import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.base.durable import discarding, naming
from engine.base.errors import MissingFilesError
from engine.base.wording import are_gone
from engine.decode.field_ids import with_field_ids
from engine.decode.schema import TM_TS
from engine.store.folder import FileEntry, Folder, Upload
from engine.store.lookup import find_all

ROW_GROUP_ROWS = 128 << 10
ROW_GROUP_BYTES = 16 << 20
"""Rows are wide or narrow: a row group is written when it has so many rows or so many bytes in memory."""
COMPRESSION, COMPRESSION_LEVEL = "zstd", 1


@dataclass(frozen=True)
class DataFile:
    """A finished Parquet file.

    Its name in the folder of its table's files, rows, bytes, and the minimum and maximum of integer columns. The
    folder's URL and the name are the file's URL. `capture.landing` alone knows the folder, so a lake can be moved, and
    the ledger does not repeat the place with each file.

    A change log's file also has minimum and maximum of `_tm_ts`, in microseconds since 1970.
    """

    name: str
    rows: int
    bytes: int
    low: dict[str, int] = field(default_factory=dict)
    high: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The record for reports and the ledger; `DataFile(**record)` is the inverse."""
        return asdict(self)


class FileWriter:
    """Writes one Parquet file into a table's folder, or none if there are no rows.

    bounded_columns: integer columns to report minimum and maximum of, so that a merge can skip the file.

    A change log's row groups have statistics for `bounded_columns` and `_tm_ts` only: a log is read whole, and
    statistics of text columns took a sixth of the write time.
    """

    def __init__(self, folder: Folder, prefix: str, schema: pa.Schema, bounded_columns: Sequence[str]) -> None:
        self._folder = folder
        self._schema = schema
        self._name = f"{prefix}-{uuid.uuid4().hex}.parquet"
        self._bounded_columns = [name for name in bounded_columns if pa.types.is_integer(schema.field(name).type)]
        self._statistics = [*bounded_columns, TM_TS] if TM_TS in schema.names else True
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._upload: Upload | None = None
        self._writer: pq.ParquetWriter | None = None
        self._is_stored = False
        self._pending_batches: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._rows = 0

    def write(self, rows: pa.Table) -> None:
        """Append rows. They are written one row group at a time."""
        self._pending_batches.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self.flush()

    @property
    def pending_bytes(self) -> int:
        """The bytes of the rows that wait for more in memory."""
        return self._pending_bytes

    def flush(self) -> None:
        """Write the rows that wait, as a row group."""
        if not self._pending_batches:
            return
        rows = pa.concat_tables(self._pending_batches)
        self._pending_batches = []
        self._pending_rows = 0
        self._pending_bytes = 0
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = self._begin(rows)
        for name in [*self._bounded_columns, *([TM_TS] if TM_TS in rows.column_names else [])]:
            column = rows[name] if name != TM_TS else rows[name].cast(pa.int64())
            ends = pc.min_max(column).as_py()
            if ends["min"] is not None:
                self._low[name] = min(self._low.get(name, ends["min"]), ends["min"])
                self._high[name] = max(self._high.get(name, ends["max"]), ends["max"])
        with self._naming():
            self._writer.write_table(rows, row_group_size=2 * ROW_GROUP_ROWS)
        self._rows += rows.num_rows

    def _begin(self, rows: pa.Table) -> pq.ParquetWriter:
        self._upload = self._folder.upload(self._name)
        with self._naming():
            return pq.ParquetWriter(
                self._upload.sink,
                with_field_ids(self._schema),
                compression=COMPRESSION,
                compression_level=COMPRESSION_LEVEL,
                use_dictionary=_repeating(rows),
                write_statistics=self._statistics,
                write_page_checksum=True,
            )

    def close(self) -> list[DataFile]:
        """Finish and store. Returns the file, or nothing if it would be empty."""
        files = self.finish()
        self.store()
        return files

    def finish(self) -> list[DataFile]:
        """Write the last rows. Returns the file, which is there once it is stored, or nothing if it would be empty."""
        self.flush()
        if self._writer is None or self._upload is None:
            return []
        with self._naming():
            self._writer.close()
            size = self._upload.sink.tell()
        return [DataFile(self._name, self._rows, size, self._low, self._high)]

    def store(self) -> None:
        """Wait until the finished file is there to stay: the ledger will name it, so it must survive a power cut.

        That is waiting for a disk or a bucket, so another thread may do it.
        """
        if self._upload is None or self._is_stored:
            return
        with discarding(self.discard), self._naming():
            self._upload.close()
        self._is_stored = True

    def _naming(self) -> AbstractContextManager[None]:
        return naming(Path(self._folder.url) / self._name)

    def discard(self) -> None:
        """Remove the file."""
        if self._is_stored:
            self._folder.delete([self._name])
        elif self._upload is not None:
            with suppress(OSError):  # the disk may be full
                if self._writer is not None:
                    self._writer.close()
            self._upload.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()


def _repeating(rows: pa.Table) -> list[str]:
    """The columns worth a Parquet dictionary, judged by a sample. Building one for distinct values wastes time."""
    sample = rows.slice(0, 2000)
    return [
        name
        for name in rows.column_names
        if not (pa.types.is_floating(rows[name].type) or pa.types.is_nested(rows[name].type))
        and pc.count_distinct(sample[name]).as_py() * 4 < sample.num_rows
    ]


def check_files(folder: Folder, files: Sequence[DataFile]) -> None:
    """Raises MissingFilesError when a file is missing or does not have its recorded size."""
    (error,) = file_errors([(folder, files)])
    if error is not None:
        raise error


def file_errors(lists: Sequence[tuple[Folder, Sequence[DataFile]]]) -> list[MissingFilesError | None]:
    """For each list of files in a folder, the error if any is missing or does not have its recorded size.

    All lists take as long as one: a bucket is asked for several files at a time.
    """
    entries = iter(find_all([(folder, file.name) for folder, files in lists for file in files]))
    errors = list[MissingFilesError | None]()
    for folder, files in lists:
        flaws = [flaw for file in files if (flaw := _flaw(file, next(entries)))]
        errors.append(missing_files(folder, flaws) if flaws else None)
    return errors


def _flaw(file: DataFile, entry: FileEntry | None) -> str:
    """The file's name, and its sizes if it has another one than recorded; "" if nothing is wrong."""
    if entry is None:
        return file.name
    return "" if entry.size == file.bytes else f"{file.name} ({entry.size} of {file.bytes} bytes)"


def missing_files(folder: Folder, names: Sequence[str]) -> MissingFilesError:
    """The error for data files that are gone or damaged."""
    return MissingFilesError(
        f"{are_gone(len(names), 'data file', folder.url, or_damaged=True)}: {', '.join(names[:3])}.",
        detail="They were written but not yet part of the table; a VACUUM or a cleaner may have removed them. The "
        "table's rows are right; missing files are never added to it.",
        hint="Do not let cleaners delete files younger than a day.",
    )
