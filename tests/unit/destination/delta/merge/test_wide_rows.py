"""Rows of a megabyte: writers and merges have bounds in bytes, not only in rows."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.capture.batches import batches
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import ROW_GROUP_BYTES, ROW_GROUP_ROWS, DataFile, FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.delta.merge import mirror_files, newest_images
from engine.destination.delta.merge.mirror_files import MirrorFiles
from engine.destination.delta.merge.newest_images import ChangeFiles, Newest, newest_parts
from engine.destination.delta.schema_evolution import mirror_schema
from engine.store.local_folder import LocalFolder
from tests.support.depth import depth

MIB = 1 << 20
ROWS = depth(100, 3_072)
"""In a soak test, more than 2 GiB: Arrow's texts have offsets of 32 bits."""
TABLE = Table("d", "t", (Column("id", "bigint"), Column("v", "longtext", charset="utf8mb4")), ("id",))
CHANCE = np.random.default_rng(1)


def changes(first: int, count: int) -> pa.Table:
    """Rows of a change log, of a megabyte each."""
    texts = [CHANCE.bytes(MIB // 2).hex() for _ in range(count)]
    numbers, schema = range(first, first + count), log_schema(arrow_schema(TABLE))
    kinds, seqs = pa.array(["+I"] * count), pa.array(numbers, pa.int64())
    known = {"id": pa.array(numbers, pa.int64()), "v": pa.array(texts), "_tm_kind": kinds, "_tm_seq": seqs}
    return pa.table([known.get(f.name, pa.nulls(count, f.type)) for f in schema], schema=schema)


@pytest.mark.parametrize("on_read", [False, True])
def test_wide_rows_are_written_and_merged_a_bounded_number_of_bytes_at_a_time(tmp_path: Path, on_read: bool) -> None:
    """However many there are: a row group, a batch and what is sorted at once have a size in bytes."""
    with FileWriter(LocalFolder(tmp_path), "changes", log_schema(arrow_schema(TABLE)), ("id", "_tm_seq")) as writer:
        for first in range(0, ROWS, 8):
            writer.write(changes(first, min(8, ROWS - first)))
        (log,) = writer.close()
    groups = pq.ParquetFile(tmp_path / log.name).metadata
    most = max(groups.row_group(n).num_rows for n in range(groups.num_row_groups))
    assert most * MIB <= ROW_GROUP_BYTES + 8 * MIB
    files = MirrorFiles(LocalFolder(tmp_path), mirror_schema(TABLE), TABLE, [], on_read)
    assert files.merge(ChangeFiles(files.folder, [log.name], log.rows)) == ROWS
    found = [pq.ParquetFile(tmp_path / file.name) for file in files.added_files]
    assert sum(file.metadata.num_rows for file in found) == ROWS
    ids = [key for file in found for key in file.read(["id"])["id"].to_pylist()]
    assert sorted(ids) == list(range(ROWS))


GIANT = Table("d", "t", (Column("id", "bigint"),), ("id",))


def giant(folder: Path, numbers: npt.NDArray[np.int64]) -> DataFile:
    """The change file of a transaction that inserts rows with these keys."""
    schema = log_schema(arrow_schema(GIANT))
    with FileWriter(LocalFolder(folder), "changes", schema, ("id", "_tm_seq")) as writer:
        for first in range(0, len(numbers), ROW_GROUP_ROWS):
            ids = numbers[first : first + ROW_GROUP_ROWS]
            seqs = np.arange(first, first + len(ids))
            known = {"id": pa.array(ids), "_tm_seq": pa.array(seqs), "_tm_kind": pa.repeat("+I", len(ids))}
            writer.write(pa.table([known.get(f.name, pa.nulls(len(ids), f.type)) for f in schema], schema=schema))
        (log,) = writer.close()
    return log


def test_the_keys_of_a_giant_transaction_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides how its changes are divided does not keep all keys in memory."""
    count, seen = 400_000, list[int]()
    log = giant(tmp_path, np.arange(count))
    monkeypatch.setattr(newest_images, "MOST_KEYS", count // 4)
    quantile, before = np.quantile, pa.total_allocated_bytes()

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.append(pa.total_allocated_bytes())
        return quantile(*arguments, **options)

    monkeypatch.setattr(np, "quantile", watched)
    parts = newest_parts(ChangeFiles(LocalFolder(tmp_path), [log.name], log.rows), GIANT)
    assert sum(part.keys.num_rows for part in parts) == count
    assert seen[0] - before < 8 * count / 4, "a fourth of the keys"


@pytest.mark.parametrize("ordered", [True, False])
def test_each_part_of_a_giant_transaction_reads_the_row_groups_that_may_have_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    """In a transaction that changes rows in the order of their keys these are few.

    In any other one no key is missed.
    """
    parts, groups, count = 8, 6, 6 * ROW_GROUP_ROWS
    log, seen = giant(tmp_path, np.arange(count) if ordered else CHANCE.permutation(count)), list[int]()
    monkeypatch.setattr(newest_images, "MOST_KEYS", count // parts)

    def watched(file: pq.ParquetFile, columns: Any, chosen: list[int], rows: int) -> Any:
        seen.extend(chosen)
        return batches(file, columns, chosen, rows)

    monkeypatch.setattr(newest_images, "batches", watched)
    merged = newest_parts(ChangeFiles(LocalFolder(tmp_path), [log.name], log.rows), GIANT)
    keys = np.sort(np.concatenate([part.keys["id"].to_numpy() for part in merged]))
    assert (keys == np.arange(count)).all()
    assert len(seen) - groups <= (groups + parts if ordered else groups * parts), "the sample reads each group once"


def test_a_merge_has_the_keys_of_one_part_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the part before are gone when the next one is read."""
    log = giant(tmp_path, np.arange(3_000))
    monkeypatch.setattr(newest_images, "MOST_KEYS", 1_000)
    known = list[weakref.ref[Newest]]()

    def watched(*arguments: Any) -> Iterator[Newest]:
        parts = newest_parts(*arguments)
        while (part := next(parts, None)) is not None:
            known.append(weakref.ref(part))
            yield part
            del part
            assert known[-1]() is None

    monkeypatch.setattr(mirror_files, "newest_parts", watched)
    merged = MirrorFiles(LocalFolder(tmp_path), mirror_schema(GIANT), GIANT, [])
    assert merged.merge(ChangeFiles(merged.folder, [log.name], log.rows)) == 3_000
    assert len(known) == 3
