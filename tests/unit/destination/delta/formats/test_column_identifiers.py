"""Data files have the identifiers of columns that the Iceberg tables over them have."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import IncompatibleColumnsError
from engine.destination.delta.formats import iceberg_copy
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.log.log_files import newest_version
from engine.destination.iceberg import schemas
from engine.destination.iceberg.manifest_files import Format
from engine.destination.iceberg.schemas import IcebergSchema, evolve
from tests.support.delta import path_of, rows_at
from tests.support.iceberg import opened, snapshots
from tests.unit.destination.lake import Lake


def _ids_of_files(folder: Path) -> list[dict[str, int]]:
    """By column, in each data file."""
    found = []
    for path in folder.glob("*.parquet"):
        schema = pq.read_schema(path)
        with_ids = [one for one in schema if one.metadata]
        found.append({one.name: int(one.metadata[b"PARQUET:field_id"]) for one in with_ids})
    return found


def _copies(lake: Lake, iceberg: Format) -> list[IcebergCopy]:
    return [IcebergCopy(one.lake.folder, "l", iceberg, ()) for one in (lake.pair.mirror, lake.pair.changes)]


@pytest.mark.parametrize("iceberg", [2, 3])
def test_every_file_has_the_identifiers_of_the_table(tmp_path: Path, mode: str, iceberg: Format) -> None:
    """Copied, merged and rewritten."""
    lake = Lake(tmp_path, mode)  # type: ignore[arg-type]
    lake.copy({key: key for key in range(100)})
    for key in range(30):
        lake.change([(key, -key)])
    lake.maintenance.optimize()
    folders = lake.pair.mirror.lake.folder, lake.pair.changes.lake.folder
    for copy, folder in zip(_copies(lake, iceberg), folders, strict=True):
        copy.catch_up()
        columns = {field.name: field.field_id for field in opened(copy.folder).schema().fields}
        files = _ids_of_files(path_of(folder))
        assert files
        assert all(ids and ids.items() <= columns.items() for ids in files)


@pytest.mark.parametrize("iceberg", [2, 3])
def test_a_table_of_an_earlier_version_begins_again(
    tmp_path: Path, iceberg: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files have no identifiers, and its columns had others. Readers find all values, in old and new files."""

    def numbered(schemas_before: Sequence[IcebergSchema], last: int, wanted: pa.Schema) -> schemas.Evolution:
        evolution = evolve(schemas_before, last, wanted)
        columns = [schemas.IcebergColumn(n, one.name, one.type) for n, one in enumerate(evolution.schema.columns, 1)]
        return schemas.Evolution(IcebergSchema(0, tuple(columns)), len(columns))

    lake = Lake(tmp_path, "merge_on_read")
    with monkeypatch.context() as earlier:
        earlier.setattr("engine.capture.files.with_field_ids", lambda schema: schema)
        earlier.setattr("engine.destination.iceberg.table.evolve", numbered)
        earlier.setattr(iceberg_copy, "has_ids_of_files", lambda _: True)
        lake.copy({key: key for key in range(100)})
        lake.change([(7, -7)])
        for copy in _copies(lake, iceberg):
            copy.catch_up()
            assert min(field.field_id for field in opened(copy.folder).schema().fields) == 1
    assert not any(_ids_of_files(path_of(lake.pair.mirror.lake.folder)))
    for value in (8, 9):
        lake.change([(value, -value)])
        folders = lake.pair.mirror.lake.folder, lake.pair.changes.lake.folder
        for copy, folder, order in zip(_copies(lake, iceberg), folders, ("id", "_tm_seq"), strict=True):
            copy.catch_up()
            versions = list(snapshots(opened(copy.folder)))
            for version, rows in versions:
                assert rows.sort_by(order).to_pylist() == rows_at(folder, version).sort_by(order).to_pylist()
            assert versions[-1][0] == newest_version(folder)
    ids = _ids_of_files(path_of(lake.pair.mirror.lake.folder))
    assert any(ids)
    assert not all(ids)


def test_two_columns_with_one_identifier_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers would take the one for the other."""
    monkeypatch.setattr(schemas, "field_id", lambda *_: 1 << 29)
    with pytest.raises(IncompatibleColumnsError, match="the same identifier"):
        evolve((), 0, pa.schema([("a", pa.int32()), ("b", pa.int32())]))
