"""The key index finds the rows that reading the key columns finds, for every type of key."""

import random
import uuid
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from engine.base.errors import MissingFilesError
from engine.capture.chunk.backfill import among
from engine.destination.delta.log.delta_log import files_of
from engine.destination.delta.merge import mirror_files
from engine.destination.delta.merge.key_index import KeyIndex, codes_of
from engine.destination.delta.merge.newest_images import comparable
from tests.support.delta import path_of, rows_at
from tests.unit.destination.lake import INT, TEXT, Lake

CHANCE = random.Random(1)
COUNT = 3000


def _values(kind: pa.DataType, count: int) -> list[Any]:
    number = [CHANCE.randrange(-(2**31), 2**31) for _ in range(count)]
    if pa.types.is_string(kind):
        return [f"{value:x}"[: CHANCE.randrange(1, 9)] + "é" * (value % 3) for value in number]
    if pa.types.is_binary(kind):
        return [value.to_bytes(9, "big", signed=True)[value % 9 :] for value in number]
    if pa.types.is_decimal(kind):
        return [Decimal(value) / 100 for value in number]
    if pa.types.is_floating(kind):
        return [value / 7 if value % 5 else -0.0 for value in number]
    bits = kind.bit_width
    return [value % 2 ** (bits - 2) - 2 ** (bits - 3) for value in number]


KINDS = [
    [pa.int64()], [pa.int8()], [pa.int32()], [pa.string()], [pa.binary()], [pa.decimal128(20, 2)], [pa.float64()],
    [pa.timestamp("us")], [pa.date32()], [pa.int16(), pa.string()], [pa.string(), pa.string(), pa.int64()],
]  # fmt: skip


@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_the_index_finds_what_a_scan_finds(tmp_path: Path, kinds: list[pa.DataType]) -> None:
    """Also keys that stand twice, and keys that are not there.

    From memory, read back, torn, and with any bit flipped.
    """
    columns = {f"k{n}": _as(kind, _values(kind, COUNT)) for n, kind in enumerate(kinds)}
    rows = comparable(pa.table(columns).slice(17))
    others = pa.table({f"k{n}": _as(kind, _values(kind, 400)) for n, kind in enumerate(kinds)})
    wanted = comparable(pa.concat_tables([rows.slice(100, 300), others])).combine_chunks()
    wanted = wanted.group_by(wanted.column_names).aggregate([])
    expected = np.flatnonzero(among(rows, wanted))
    found_codes, reads = codes_of(wanted), []
    assert found_codes is not None
    codes = found_codes.in_order()

    def read() -> pa.Table:
        reads.append(1)
        return rows

    for _ in range(2):
        found = KeyIndex(tmp_path).find("a.parquet", codes, read)
        assert found is not None
        assert list(found) == list(expected)
    assert len(reads) == 1
    entry = tmp_path / "a.parquet.keys"
    whole = entry.read_bytes()
    for torn in (b"", b"torn", whole[:-1], whole[:100], b"another " + whole[8:]):
        entry.write_bytes(torn)
        again = KeyIndex(tmp_path).find("a.parquet", codes, read)
        assert again is not None
        assert list(again) == list(expected)
        assert entry.read_bytes() == whole
    for at in (*range(0, 50, 7), *(CHANCE.randrange(len(whole)) for _ in range(40))):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << CHANCE.randrange(8)
        entry.write_bytes(flipped)
        again = KeyIndex(tmp_path).find("a.parquet", codes, read)
        assert again is not None
        assert list(again) == list(expected), at


@pytest.mark.parametrize("step", [1, 7, 1 << 40], ids=["dense", "gaps", "far"])
def test_a_file_in_key_order_needs_no_positions(tmp_path: Path, step: int) -> None:
    """Ascending keys, some of them missing: the same rows are found as in a scan, and the entry has only codes."""
    kept = np.flatnonzero(np.random.default_rng(step).random(COUNT) < 0.9) * step + 5
    rows = pa.table({"k": pa.array(kept)})
    wanted = pa.table({"k": pa.array(np.arange(0, COUNT + 50, 3) * step + 5)})
    codes = codes_of(wanted)
    assert codes is not None
    found = KeyIndex(tmp_path).find("a.parquet", codes.in_order(), lambda: rows)
    assert found is not None
    assert list(found) == list(np.flatnonzero(among(rows, wanted)))
    assert (tmp_path / "a.parquet.keys").stat().st_size < 8 * len(kept) + 2 * 4096


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _as(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(kind) if _is_time(kind) else pa.array(values, kind)


def test_keys_without_codes_are_scanned() -> None:
    """NULL in a unique key, and types that are not known."""
    assert codes_of(pa.table({"k": pa.array([1, None])})) is None
    assert codes_of(pa.table({"k": pa.array([True])})) is None


def test_texts_are_told_apart_by_column() -> None:
    """The same characters in other columns, and other lengths, are other keys."""
    codes = codes_of(pa.table({"a": ["x", "xy", "", "\0"], "b": ["yz", "z", "xyz", "xyz"]}))
    assert codes is not None
    assert codes.second is not None
    assert len(set(codes.first.tolist())) == len(set(codes.second.tolist())) == 4


@pytest.mark.parametrize("table", [INT, TEXT], ids=["int", "uuid"])
def test_merges_use_the_index(tmp_path: Path, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of a scan; entries of files that are gone go too."""
    monkeypatch.setattr(mirror_files, "LEAST_ROWS", 100)
    lake, chance = Lake(tmp_path / "lake", "merge_on_read", table), random.Random(2)
    keys = [str(uuid.UUID(int=n * 7919)) if table is TEXT else n * 3 for n in range(2000)]
    lake.pair.mirror.index = KeyIndex(tmp_path / "keys")
    lake.copy(dict.fromkeys(keys[:1500], 0))
    for _ in range(12):
        lake.change(lake.random_changes(chance, 60, keys))
        assert lake.mirror() == lake.rows
    while lake.maintenance.optimize():
        assert lake.mirror() == lake.rows
    lake.change(lake.random_changes(chance, 60, keys))
    lake.check()
    there = {path.stem for path in (tmp_path / "keys").iterdir()}
    lake.maintenance.vacuum(set(), timedelta())
    left = {path.stem for path in (tmp_path / "keys").iterdir()}
    assert left < there


def test_a_data_file_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index finds rows in it, so a merge on write opens it late."""
    monkeypatch.setattr(mirror_files, "LEAST_ROWS", 100)
    lake = Lake(tmp_path / "lake", "copy_on_write")
    lake.pair.mirror.index = KeyIndex(tmp_path / "keys")
    lake.copy(dict.fromkeys(range(2000), 0))
    (file,) = files_of(DeltaTable(lake.pair.mirror.folder.url), lake.pair.mirror.folder)
    codes = codes_of(pa.table({"id": pa.array([7], pa.int32())}))
    assert codes is not None
    lake.pair.mirror.index.find(file.name, codes.in_order(), lambda: rows_at(lake.pair.mirror.folder).select(["id"]))
    (path_of(lake.pair.mirror.folder) / file.name).unlink()
    with pytest.raises(MissingFilesError, match=file.name):
        lake.change([(7, 1)])
