"""Reads Parquet files in batches of a bounded size, however wide the rows are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 64 << 10
BATCH_BYTES = 8 << 20
_DAMAGE = "CRC checksum verification failed"
_NAMED = " is damaged: "


def batch_rows(file: pq.ParquetFile) -> int:
    """How many rows of a file to read at once."""
    # Equal texts are stored once, so a row may be wider than it seems. But a row group has a bounded size
    # (`capture.files`).
    most = max((file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)), default=1)
    return max(min(BATCH_ROWS, most, int(BATCH_BYTES / max(widest_row([file.metadata]), 1.0))), 1)


def batches(
    file: pq.ParquetFile, columns: Sequence[str] | None = None, groups: Iterable[int] | None = None, rows: int = 0
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of a file in batches, with the number of each batch's first row.

    columns, groups: those to read; None for all. rows: of a batch; 0 for as many as have a bounded size. Row groups are
    read one after the other: a reader of several keeps more of them in memory.
    """
    begins, most = [0], rows or batch_rows(file)
    for number in range(file.num_row_groups):
        begins.append(begins[-1] + file.metadata.row_group(number).num_rows)
    for group in range(file.num_row_groups) if groups is None else groups:
        first = begins[group]
        for batch in file.iter_batches(most, row_groups=[group], columns=columns):
            yield first, pa.Table.from_batches([batch])
            first += batch.num_rows


def widest_row(files: Iterable[pq.FileMetaData]) -> float:
    """The average bytes of a row in the row group with the widest rows."""
    groups = (file.row_group(n) for file in files for n in range(file.num_row_groups))
    return max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)


def parquet_file(source: Path | pa.NativeFile) -> pq.ParquetFile:
    """A data file whose pages are compared with their checksums, where they have any: damage is an error (OSError).

    Other programs write times of 96 bits, which Arrow would take for nanoseconds: those after 2262 would be other
    times.
    """
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", page_checksum_verification=True)


@contextmanager
def naming_damage(place: Callable[[], str]) -> Iterator[None]:
    """Arrow's error of a damaged page does not say in which file it is: raise one that does.

    place: asked for the file when it is needed.
    """
    try:
        yield
    except OSError as error:
        if _DAMAGE not in str(error) or _NAMED in str(error):
            raise
        raise OSError(f"{place()}{_NAMED}{error}") from error


def batches_of(
    source: Path | pa.NativeFile, schema: pa.Schema, rows: int | None = None, groups: Sequence[int] | None = None
) -> Iterator[pa.Table]:
    """A data file in batches, in the types of the schema; NULL where it lacks a column.

    Raises OSError, pa.ArrowException.

    rows: in a batch; None for as many as have a bounded size. groups: the row groups; None for all.
    """
    with parquet_file(source) as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        for _, batch in batches(file, names, groups, rows or 0):
            columns = {name: batch.column(name) for name in names}
            arrays = [
                columns[field.name].cast(field.type) if field.name in columns else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.table(arrays, names=schema.names)
