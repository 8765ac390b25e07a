"""A full disk is named: the file that did not fit, and where its disk is mounted."""

from pathlib import Path

import pytest

from engine.base.durable import write_atomically
from engine.base.errors import DiskFullError, StoreUnreachableError, is_unwritable
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.journal import Journal
from engine.pipeline.directory import Directory
from engine.pipeline.disk import Disk
from engine.pipeline.full_disks import fault_of, file_of, mount_of, scratch_folders
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


SPARK = """PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "{code}", line 35, in work
    data = to_bytes(replace(report, attempt=context.attemptNumber()))
OSError: [Errno 28] No space left on device{file}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


def test_our_own_code_in_a_traceback_is_not_what_did_not_fit(tmp_path: Path) -> None:
    """The folder that has no room is named, or that none of them is known to be full; the file, if the error has it."""
    with mounted(tmp_path / "lake", 2 * MB) as disk:
        unnamed = RuntimeError(SPARK.format(code=__file__, file=""))
        assert file_of(unnamed) is None
        named = RuntimeError(SPARK.format(code=__file__, file=f": '{disk.folder}/changes-1.parquet'"))
        assert file_of(named) == disk.folder / "changes-1.parquet"
        journal = Journal(Directory(tmp_path).journal("r"), "r")
        unknown = Disk([tmp_path, disk.folder], journal)
        unknown.failed("log", unnamed)
        assert unknown.reason == "disk full (log: OSError: [Errno 28] No space left on device; which disk is not known)"
        disk.fill()
        waits = Disk([tmp_path, disk.folder], journal)
        waits.failed("log", unnamed)
        assert f"; {disk.folder}; {disk.folder} has 0 B of 2.1 MB free)" in waits.reason
        assert waits.outage is not None
        assert waits.outage.hint == f"Free space on the disk of {disk.folder}, or raise the quota."


def test_a_read_only_file_system_is_waited_for(tmp_path: Path) -> None:
    """It is named, and work continues once it can be written."""
    with mounted(tmp_path / "lake", 2 * MB) as disk:
        waits = Disk([tmp_path, disk.folder], Journal(Directory(tmp_path).journal("r"), "r"))
        disk.make_read_only()
        with pytest.raises(OSError, match="Read-only file system") as refused:
            write_atomically(disk.folder / "state.json", "x")
        assert waits.takes(refused.value)
        waits.failed("ledger", refused.value)
        assert waits.reason.startswith("file system read-only (ledger: [Errno 30] Read-only file system: ")
        assert waits.outage is not None
        assert str(disk.folder) in waits.outage.hint
        waits.probe_now()
        assert waits.blocks_work()
        disk.make_writable()
        waits.probe_now()
        assert not waits.blocks_work()
        waits.succeeded("ledger")
        assert waits.outage is None


def test_a_lost_permission_is_waited_for_only_on_the_runs_folders(tmp_path: Path) -> None:
    """Another file that may not be read is an error like any other."""
    waits = Disk([tmp_path], Journal(Directory(tmp_path).journal("r"), "r"))
    error = PermissionError(13, "Permission denied", "/etc/shadow")
    assert not waits.takes(error)
    forbidden = Disk(
        [Path("/sys")], Journal(Directory(tmp_path).journal("s"), "s")
    )  # nobody may write there, not even root
    assert forbidden.takes(error)
    forbidden.failed("log", error)
    assert forbidden.reason.startswith("no permission to write (log: ")


def test_a_permission_that_is_back_was_missing_all_the_same(tmp_path: Path) -> None:
    """A file below one of the folders is named, in the text of Arrow; nothing shows that any more but the error.

    The remedy names the folder that is there, not the file that never was.
    """
    table = tmp_path / "lake" / "t"
    table.mkdir(parents=True)
    waits = Disk([tmp_path / "lake"], Journal(Directory(tmp_path).journal("r"), "r"))
    for number in (13, 1):
        error = PermissionError(number, f"Failed to open local file '{table}/merge-1.parquet'")
        assert waits.takes(error)
        waits.failed("log", error)
        assert waits.outage is not None
        assert waits.outage.hint == f"Let the runner's user write to {table}."
    assert not waits.takes(PermissionError(13, f"Failed to open local file '{tmp_path}/code.py'"))


def test_the_remedy_names_the_folder_that_is_still_at_fault(tmp_path: Path) -> None:
    """Several are: once the first can be written, the next try meets the second."""
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
    waits = Disk([tmp_path], Journal(Directory(tmp_path).journal("r"), "r"))
    for folder in (first, second):
        waits.failed("log", PermissionError(1, "Operation not permitted", str(folder / "new.parquet")))
        assert waits.outage is not None
        assert waits.outage.hint == f"Let the runner's user write to {folder}."
        waits.probe_now()
        assert not waits.blocks_work(), "the folder of the run can be written, so that the work is tried again"


def test_sparks_scratch_is_a_candidate_on_this_host_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark chooses it: the environment, the setting, the system's folder for temporary files."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert scratch_folders("spark://m:7077", {}) == []
    assert scratch_folders("local[*]", {"spark.local.dir": f"{tmp_path}/a, {tmp_path}/b"})[:2] == [
        tmp_path / "a",
        tmp_path / "b",
    ]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/c")
    assert scratch_folders("local[2]", {"spark.local.dir": "/elsewhere"})[0] == tmp_path / "c"


@pytest.mark.parametrize(
    ("error", "state", "remedy"),
    [
        (StoreAwayError("The store does not answer: s3://lake/t: timed out"), "away", "reaches it"),
        (StoreAccessError("The store refuses the credentials: s3://lake/t: 403"), "refused", "Renew the credentials"),
        (
            StoreUnreachableError("A task could not write (The store does not answer: s3://lake/t)."),
            "away",
            "reaches it",
        ),
    ],
)
def test_a_store_that_cannot_be_used_is_waited_for(error: Exception, state: str, remedy: str) -> None:
    """Under its own name, also when a worker's error arrives as text."""
    assert is_unwritable(error)
    assert is_unwritable(_caused(error))
    assert state in fault_of(error).state
    assert remedy in fault_of(error).remedy


def _caused(error: Exception) -> Exception:
    """Another error, with this one as its cause."""
    other = RuntimeError("a helper failed")
    other.__cause__ = error
    return other
