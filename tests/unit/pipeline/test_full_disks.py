"""A full disk is named: the file that did not fit, and where its disk is mounted."""

from pathlib import Path

import pytest

from engine.base.durable import write_atomically
from engine.base.errors import DiskFullError
from engine.journal import Journal
from engine.pipeline.directory import Directory
from engine.pipeline.disk import Disk
from engine.pipeline.full_disks import file_of, mount_of
from tests.support.mounts import mounted

MB = 1 << 20


def test_the_file_and_its_disk_are_in_the_reason(tmp_path: Path) -> None:
    """Also if the system does not name the file, and if the error comes from a reader or from deltalake as text."""
    with mounted(tmp_path / "lake", 2 * MB) as disk:
        disk.fill()
        file = disk.folder / "state.json"
        with pytest.raises(OSError, match="No space left on device") as full:
            write_atomically(file, "x" * MB)
        journal = Journal(Directory(tmp_path).journal("r"), "r")
        for error in (
            full.value,
            DiskFullError(f"Reading chunk 3 ran out of disk space in {disk.folder} on h: no room"),
        ):
            waits = Disk([tmp_path], journal)
            waits.failed("ledger", error)
            assert waits.reason.startswith("disk full (ledger: ")
            assert f"; {disk.folder} has 0 B of 2.1 MB free)" in waits.reason
        assert str(file) in str(full.value)
        unnamed = Disk([tmp_path, disk.folder], journal)
        unnamed.failed("ledger", OSError(28, "No space left on device"))
        assert f"; {disk.folder}; {disk.folder} has " in unnamed.reason
        assert f"{tmp_path} has" not in unnamed.reason, "there is room"


def test_a_place_that_is_not_there_is_not_named(tmp_path: Path) -> None:
    """A text may have anything in it."""
    assert file_of(RuntimeError("no /such/place, and no rows/s")) is None
    assert file_of(RuntimeError(f"writing {tmp_path}/new.parquet failed")) == tmp_path / "new.parquet"
    assert mount_of(tmp_path / "a" / "b") == mount_of(tmp_path)
