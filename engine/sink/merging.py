"""What of a change log a merge needs: the newest image of each key, and which of those can be appended."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from engine.capture.backfill import last_of_each
from engine.capture.files import DataFile
from engine.decode.images import GONE
from engine.decode.schema import Table, conformed
from engine.sink.evolution import mirror_schema

_MERGE_ROWS, _MERGE_BYTES = 64 << 10, 24 << 20
_RANGE_ROWS = 1_000_000
Limits = tuple[int, int] | None


def key_ranges(files: Sequence[DataFile], table: Table) -> list[Limits]:
    """Ranges of the key's first column that a giant set of changes is merged by, one after the other; None for all of it.

    In the order of their keys, ranges touch few files of the mirror each, or none; in the order of the log each part touches all of
    them, and the merge's memory grows with the mirror (measured: 10 M new rows in random order took 1.2 GiB).
    """
    rows, name = sum(file.rows for file in files), table.key[0]
    if rows <= 2 * _RANGE_ROWS or any(name not in file.low for file in files):
        return [None]
    low, high = min(file.low[name] for file in files), max(file.high[name] for file in files)
    step = max(-(-(high - low + 1) * _RANGE_ROWS // rows), 1)
    return [(start, min(start + step - 1, high)) for start in range(low, high + 1, step)]


def newest_per_key(paths: Iterable[Path], table: Table, limits: Limits = None) -> Iterator[pa.Table]:
    """The newest image of each key in `limits`: the mirror's columns and `_tm_gone`, whether it says that the row is gone.

    Comes in several tables, to be applied in order, when they hold more than `_MERGE_BYTES`. Rows are reduced as soon as they
    outnumber what is held, so that each is looked at a logarithmic number of times.
    """
    wanted = mirror_schema(table).append(pa.field("_tm_kind", pa.string()))
    newest, more, rows = pa.table({}), [], 0
    for path in paths:
        for batch in _batches(pq.ParquetFile(path), table.key[0], wanted.names, limits):
            more.append(conformed(batch, wanted))
            rows += batch.num_rows
            if rows > newest.num_rows:
                newest, more, rows = _reduced([newest, *more], table.key), [], 0
                if newest.nbytes > _MERGE_BYTES:
                    yield _marked(newest)
                    newest = pa.table({})
    if newest.num_rows or more:
        yield _marked(_reduced([newest, *more], table.key))


def _batches(file: pq.ParquetFile, key: str, names: Sequence[str], limits: Limits) -> Iterator[pa.Table]:
    """The rows of a change log's file in a range; it may be older than some of the columns."""
    there = [name for name in names if name in file.schema_arrow.names]
    groups = [n for n in range(file.num_row_groups) if limits is None or _touches(file, n, key, limits)]
    if not groups:
        return
    for batch in file.iter_batches(_MERGE_ROWS, row_groups=groups, columns=there):
        rows = pa.Table.from_batches([batch])
        if limits is not None:
            rows = rows.filter(pc.and_(pc.greater_equal(rows[key], limits[0]), pc.less_equal(rows[key], limits[1])))
        if rows.num_rows:
            yield rows


def _touches(file: pq.ParquetFile, group: int, key: str, limits: tuple[int, int]) -> bool:
    columns = map(file.metadata.row_group(group).column, range(file.metadata.num_columns))
    told = next(column.statistics for column in columns if column.path_in_schema == key)
    return told is None or not told.has_min_max or not (told.max < limits[0] or told.min > limits[1])


def _marked(newest: pa.Table) -> pa.Table:
    gone = pc.is_in(newest["_tm_kind"], pa.array(GONE))
    return newest.drop_columns("_tm_kind").append_column("_tm_gone", gone)


def _reduced(parts: list[pa.Table], key: Sequence[str]) -> pa.Table:
    """The last row of each key in the parts, in their order."""
    rows = pa.concat_tables(part for part in parts if part.num_rows)
    keys = rows.select(key)
    for n, column in enumerate(keys.columns):
        if pa.types.is_floating(column.type):
            keys = keys.set_column(n, key[n], pc.add(column, 0.0))  # -0.0 is the same key as 0.0, for the merge too
    return rows.take(pa.array(last_of_each(keys)))


def largest_key(delta: DeltaTable, table: Table) -> float | None:
    """The largest value of the key's first column that the mirror holds, by its files' statistics; None when they do not tell."""
    name = table.key[0]
    if not delta.file_uris():
        return -math.inf if pa.types.is_integer(mirror_schema(table).field(name).type) else None
    files = pa.table(delta.get_add_actions(flatten=True))
    if f"max.{name}" not in files.column_names or not pa.types.is_integer(files[f"max.{name}"].type):
        return None
    ends = files[f"max.{name}"]
    largest: int | None = None if ends.null_count else pc.max(ends).as_py()
    return largest


def beyond(newest: pa.Table, table: Table, largest: float | None) -> tuple[pa.Table, pa.Table]:
    """The rows whose keys are larger than any that the mirror holds, which are new to it, and all others.

    Those that are gone already are in neither. Applied again they are no longer beyond, so that doing it twice does no harm.
    """
    if largest is None:
        return newest.slice(0, 0), newest
    keys = newest[table.key[0]]
    larger = pc.greater(keys, largest) if largest != -math.inf else pc.is_valid(keys)
    new = newest.filter(pc.and_(larger, pc.invert(newest["_tm_gone"])))
    return new.drop_columns("_tm_gone"), newest.filter(pc.invert(larger))
