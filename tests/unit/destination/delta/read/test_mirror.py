"""What makes a mirror unreadable is found without reading its data, and named; a read that fails says the same."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from engine.base.errors import DestinationError
from engine.capture.landing import read_or_raise
from engine.destination.delta.read.delta_reader import DeltaReader
from engine.destination.delta.read.mirror import Mirror, defect_of
from engine.store.local_folder import LocalFolder


def _data_file(folder: Path) -> Path:
    return next(folder.glob("*.parquet"))


def _lose_data(folder: Path) -> None:
    _data_file(folder).unlink()


def _truncate_data(folder: Path) -> None:
    path = _data_file(folder)
    path.write_bytes(path.read_bytes()[:-20])


def _lose_log(folder: Path) -> None:
    for path in (folder / "_delta_log").iterdir():
        path.unlink()


def _damage_log(folder: Path) -> None:
    next((folder / "_delta_log").glob("*.json")).write_text("{", encoding="utf-8")


def _mirror(folder: Path) -> Path:
    write_deltalake(str(folder), pa.table({"id": pa.array([1, 2, 3])}))
    return folder


@pytest.mark.parametrize("damage", [_lose_data, _truncate_data, _lose_log, _damage_log])
def test_a_defect_is_named(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A data file or the log is gone or damaged; a whole mirror has no defect."""
    folder = _mirror(tmp_path / "mirror")
    assert defect_of(LocalFolder(folder)) == ""
    damage(folder)
    assert defect_of(LocalFolder(folder))
    assert "\n" not in defect_of(LocalFolder(folder))


def test_a_lost_file_is_named_with_its_path(tmp_path: Path) -> None:
    """As the operator finds it on the disk."""
    folder = _mirror(tmp_path / "mirror")
    path = _data_file(folder)
    path.unlink()
    assert defect_of(LocalFolder(folder)) == f"{path}: No such file or directory"


def test_damage_within_a_file_is_an_error_of_the_destination(tmp_path: Path) -> None:
    """The size is right, the rows are not: reading them says what to do, and a table that is whole again is read."""
    folder = _mirror(tmp_path / "mirror")
    path = _data_file(folder)
    good = path.read_bytes()
    path.write_bytes(bytes(len(good)))
    assert defect_of(LocalFolder(folder)) == ""
    reader, tries = DeltaReader(LocalFolder(folder), LocalFolder(folder)), []

    def read() -> int:
        tries.append(1)
        if len(tries) == 5:
            path.write_bytes(good)
        return sum(batch.num_rows for batch in Mirror(LocalFolder(folder)).batches(["id"]))

    with pytest.raises(DestinationError, match="cannot be read") as failed:
        read_or_raise(reader, read)
    assert "redump the whole table" in failed.value.hint
    assert read_or_raise(reader, read) == 3
