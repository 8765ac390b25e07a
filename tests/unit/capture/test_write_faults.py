"""A task's errors: which are about the folders that it writes to."""

from pathlib import Path

import pytest

from engine.base.errors import DiskFullError
from engine.capture.write_faults import outage_of, writing
from engine.pipeline.full_disks import FORBIDDEN, fault_of, file_of
from engine.store.local_folder import LocalFolder
from tests.support.mounts import immutable


@pytest.mark.parametrize("number", [1, 13])
def test_a_folder_that_the_reader_may_not_write_is_an_outage(tmp_path: Path, number: int) -> None:
    """As Arrow says it, even if the permission is back by the time that it is looked at."""
    error = PermissionError(number, f"Failed to open local file '{tmp_path}/changes-1.parquet'")
    with pytest.raises(DiskFullError, match="Reading the binlog could not write in") as raised:
        _fail(error, tmp_path)
    assert fault_of(raised.value) is FORBIDDEN
    assert f"Let the reader's user write to {tmp_path}." in raised.value.hint


def test_of_many_folders_the_one_at_fault_is_named(tmp_path: Path) -> None:
    """A task writes the changes of many tables."""
    folders = [LocalFolder(tmp_path / name) for name in ("big__changes", "items__changes", "items")]
    for folder in folders:
        folder.path.mkdir()
    denial = PermissionError(1, "Operation not permitted", str(folders[1].path / "changes-1.parquet"))
    outage = outage_of(denial, "It", folders, "", "")
    assert outage is not None
    assert file_of(outage) == folders[1].path
    assert outage.hint.strip() == f"Let the reader's user write to {folders[1].path}."
    unnamed = outage_of(OSError(28, "No space left on device"), "It", folders, "", "")
    assert all(folder.url in str(unnamed) for folder in folders)


def test_a_real_upload_into_such_a_folder_is_one(tmp_path: Path) -> None:
    """What the system and Arrow really say."""
    with immutable(tmp_path), pytest.raises(DiskFullError), writing("It", [LocalFolder(tmp_path)]):
        LocalFolder(tmp_path).upload("changes-1.parquet")


@pytest.mark.parametrize("place", ["/opt/worker/code.py", "/usr/bin/python9"])
def test_another_permission_is_not(tmp_path: Path, place: str) -> None:
    """The worker's Python and its code are not the pipeline's to write."""
    error = PermissionError(13, "Permission denied", place)
    assert outage_of(error, "It", [LocalFolder(tmp_path)], "", "") is None
    with pytest.raises(PermissionError):
        _fail(error, tmp_path)


def _fail(error: Exception, folder: Path) -> None:
    with writing("Reading the binlog", [LocalFolder(folder)]):
        raise error
