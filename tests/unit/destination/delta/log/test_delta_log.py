"""A Delta log: atomic commits, one writer per version, existing files only, and commits torn by a power cut."""

import errno
import json
import os
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from engine.base.errors import DestinationError, MissingFilesError
from engine.capture.files import DataFile, FileWriter
from engine.destination.delta.log import delta_log
from engine.destination.delta.log.delta_actions import Actions, metadata_of
from engine.destination.delta.log.delta_log import _CHECKPOINT_EVERY, DeltaLog, StaleVersionError, files_of
from engine.destination.delta.log.table_creation import create
from engine.destination.delta.log.table_opening import is_table
from engine.store import local_folder
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of

SCHEMA = pa.schema([pa.field("a", pa.int64())])


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """An empty table."""
    folder = LocalFolder(tmp_path / "lake" / "d" / "t")
    create(folder, SCHEMA, "mine", {})
    found = DeltaLog(folder)
    found.load(["app"])
    return found


def written(log: DeltaLog, *values: int) -> list[DataFile]:
    """A data file in the table's folder."""
    with FileWriter(log.folder, "chunk", SCHEMA, ["a"]) as writer:
        writer.write(pa.table({"a": pa.array(values, pa.int64())}))
        return writer.close()


def rows(log: DeltaLog) -> list[int]:
    """The table's rows, read by the library."""
    return sorted(DeltaTable(log.folder.url).to_pyarrow_table()["a"].to_pylist())


def test_a_commit_adds_removes_and_identifies(log: DeltaLog) -> None:
    """In one version, which every Delta reader understands; commits of other writers may come in between."""
    first = written(log, 1, 2)
    assert log.commit(Actions("WRITE", {"app": 7}, add=first)) == 1
    write_deltalake(log.folder.url, pa.table({"a": [3]}), mode="append")
    log.load()
    assert log.transactions == {"app": 7}
    log.commit(Actions("MERGE", {"app": 8}, add=written(log, 4), remove=first))
    assert rows(log) == [3, 4]
    assert DeltaTable(log.folder.url).transaction_version("app") == 8
    assert DeltaTable(log.folder.url, version=1).to_pyarrow_table().num_rows == 2
    assert sorted(file.rows for file in files_of(DeltaTable(log.folder.url), log.folder)) == [1, 1]


def test_two_writers_never_make_one_version(log: DeltaLog) -> None:
    """The second one learns that its state is stale, also if the first was the library's own writer."""
    other = DeltaLog(log.folder)
    other.load(["app"])
    log.commit(Actions("WRITE", {"app": 1}, add=written(log, 1)))
    with pytest.raises(StaleVersionError):
        other.commit(Actions("WRITE", {"app": 2}, add=written(log, 2)))
    other.load()
    assert other.transactions == {"app": 1}
    write_deltalake(log.folder.url, pa.table({"a": [2]}), mode="append")
    with pytest.raises(StaleVersionError):
        log.commit(Actions("WRITE", {"app": 3}))


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_file_that_is_not_whole_is_never_added(log: DeltaLog, damage: str) -> None:
    """A VACUUM removed it between write and commit: nothing is committed."""
    (file,) = written(log, 1, 2, 3)
    path = path_of(log.folder) / file.name
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MissingFilesError, match=file.name):
        log.commit(Actions("WRITE", {"app": 1}, add=[file]))
    assert log.load().version() == 0


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b'{"commitInfo":{}}\n{"add":{"pa'])
def test_a_torn_commit_at_the_end_is_set_aside(log: DeltaLog, content: bytes) -> None:
    """A power cut leaves it; no commit builds on it, and the ledger has its content."""
    log.commit(Actions("WRITE", {"app": 1}, add=written(log, 1)))
    torn = path_of(log.path) / f"{2:020d}.json"
    torn.write_bytes(content)
    assert log.torn_files() == ([torn.name], [])
    assert log.repair() == [torn.name]
    log.load()
    assert (log.version, rows(log)) == (1, [1])
    assert log.commit(Actions("WRITE", {"app": 2}, add=written(log, 2))) == 2
    assert log.repair() == []


@pytest.mark.parametrize("gone", [False, True], ids=["empty", "gone"])
def test_a_torn_commit_that_others_rest_on_is_named(log: DeltaLog, *, gone: bool) -> None:
    """A copy of the file repairs it. Or a resnapshot accepts a commit without actions; then it is no fault any more."""
    log.commit(Actions("WRITE", {"app": 1}, add=written(log, 1)))
    log.commit(Actions("WRITE", {"app": 2}, add=written(log, 2)))
    torn = path_of(log.path) / f"{1:020d}.json"
    copy = torn.read_bytes()
    for restored in (True, False):
        torn.unlink() if gone else torn.write_bytes(b"")
        with pytest.raises(DestinationError, match=torn.name) as raised:
            log.repair()
        assert raised.value.hint.startswith("Restore that file from a copy, or resnapshot the table")
        if restored:
            torn.write_bytes(copy)
            assert log.repair() == []
            assert rows(log) == [1, 2]
    assert log.repair(accepts_loss=True) == [f"{1:020d}.json"]
    assert log.repair() == []
    assert rows(log) == [2]


def test_a_table_without_its_first_commit_cannot_be_repaired(log: DeltaLog) -> None:
    """Nothing else describes the table: the folder must be moved away."""
    log.commit(Actions("WRITE", {"app": 1}, add=written(log, 1)))
    log.path.delete([f"{0:020d}.json"])
    with pytest.raises(DestinationError, match="cannot be read") as raised:
        log.repair(accepts_loss=True)
    assert "move it away" in raised.value.hint


def test_a_torn_checkpoint_is_set_aside(log: DeltaLog) -> None:
    """The commits before it are still there."""
    for n in range(1, 22):
        log.commit(Actions("WRITE", {"app": n}, add=written(log, n) if n in (1, 10, 21) else []))
    checkpoint = path_of(log.path) / f"{20:020d}.checkpoint.parquet"
    assert checkpoint.exists(), "the first one is written after twenty versions"
    assert log.torn_files() == ([], [])
    checkpoint.write_bytes(b"PAR1")
    assert set(log.repair()) == {checkpoint.name, "_last_checkpoint"}
    log.load()
    assert (log.version, rows(log), log.transactions) == (21, [1, 10, 21], {"app": 21})


def test_checkpoints_cost_no_more_than_the_commits(log: DeltaLog) -> None:
    """One is written when twenty commits or more are as large as the last one.

    Another process counts them by their files.
    """
    log.commit(Actions("WRITE", {str(uuid.uuid4()): 1 for _ in range(3000)}))
    log.checkpoint()
    checkpoint = (f"{1:020d}.checkpoint.parquet", "_last_checkpoint")
    large = sum((path_of(log.path) / name).stat().st_size for name in checkpoint)
    sizes = list[int]()
    while len(list(path_of(log.path).glob("*.checkpoint.parquet"))) == 1:
        assert sum(sizes) < large or len(sizes) < 20
        if len(sizes) == 70:
            log = DeltaLog(log.folder)
            log.load()
        version = log.commit(Actions("WRITE", {"x" * 300: len(sizes)}))
        sizes.append((path_of(log.path) / f"{version:020d}.json").stat().st_size)
    assert len(sizes) > 150
    assert sum(sizes[:-1]) < large <= sum(sizes)


def test_a_kept_version_follows_other_writers(log: DeltaLog) -> None:
    """Our commits are applied in memory; another writer's commit, or new columns, cause the log to be read again."""
    kept = DeltaLog(log.folder, keeps=True)
    first = kept.load()
    kept.files(first)
    kept.commit(Actions("WRITE", {}, add=written(log, 1)))
    assert kept.load() is first
    assert [file.rows for file in kept.files(first)] == [1]
    log.load()
    log.commit(Actions("WRITE", {}, add=written(log, 2)))
    second = kept.load()
    assert second is not first
    assert len(kept.files(second)) == 2
    kept.commit(Actions("WRITE", {}, add=written(log, 3)))
    kept.commit(Actions("WRITE", {}, metadata=metadata_of(second, pa.schema([*SCHEMA, pa.field("b", pa.string())]))))
    third = kept.load()
    assert [field.name for field in third.schema().fields] == ["a", "b"]
    assert len(kept.files(third)) == 3


def test_columns_come_with_a_commit(log: DeltaLog) -> None:
    """Existing rows have NULL in them."""
    log.commit(Actions("WRITE", {}, add=written(log, 1)))
    delta = log.load()
    wider = pa.schema([*SCHEMA, pa.field("b", pa.string())])
    log.commit(Actions("ADD COLUMN", {}, metadata=metadata_of(delta, wider)))
    assert DeltaTable(log.folder.url).to_pyarrow_table().to_pylist() == [{"a": 1, "b": None}]
    assert DeltaTable(log.folder.url).metadata().description == "mine"


def test_what_another_tool_added_is_refused_by_name(log: DeltaLog) -> None:
    """A Delta feature that changes what a commit must contain."""
    delta = log.load()
    action = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["rowTracking"]}
    content = json.dumps({"protocol": action}) + "\n"
    log.path.write(f"{delta.version() + 1:020d}.json", content.encode())
    with pytest.raises(DestinationError, match="rowTracking"):
        log.load()


def test_a_table_is_created_once(tmp_path: Path) -> None:
    """By a hard link, like every commit; also in a folder with an empty log. No temporary file is left."""
    folder = tmp_path / "t"
    (folder / "_delta_log").mkdir(parents=True)
    create(LocalFolder(folder), SCHEMA, "mine", {})
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["00000000000000000000.json"]
    with pytest.raises(StaleVersionError):
        create(LocalFolder(folder), SCHEMA, "another's", {})
    assert DeltaTable(str(folder)).metadata().description == "mine"


def test_a_checkpoint_that_fails_undoes_no_commit(log: DeltaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is there for all readers: it must not look failed, or its files would be deleted.

    It is tried again later.
    """
    tried = list[int]()

    def full(self: DeltaLog) -> None:
        tried.append(self.version)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = DeltaLog.checkpoint
    monkeypatch.setattr(delta_log, "_CHECKPOINT_EVERY", 0)
    monkeypatch.setattr(DeltaLog, "checkpoint", full)
    first = log.version + 1
    for n in range(3):
        assert log.commit(Actions("WRITE", {"a": n})) == first + n
    assert tried == [first], "again in a minute"
    assert "No space left" in log.failure
    monkeypatch.setattr(DeltaLog, "checkpoint", real)
    monkeypatch.setattr(log, "_retry_s", 0.0)
    log.commit(Actions("WRITE", {"a": 3}))
    assert list(path_of(log.path).glob("*.checkpoint*"))


def test_a_log_that_is_gone_gets_no_commit(log: DeltaLog) -> None:
    """Someone moved the folder away: a commit without those before it would be a table that nobody can read."""
    folder = path_of(log.folder)
    folder.rename(folder.with_name("away"))
    with pytest.raises(FileNotFoundError):
        log.commit(Actions("WRITE", {"app": 1}))
    assert not is_table(log.folder)


def test_a_folder_that_cannot_be_synced_undoes_no_commit(log: DeltaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see it as soon as its file has its name."""

    def broken(_folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(local_folder, "sync_folder", broken)
    version = log.commit(Actions("WRITE", {"a": 1}))
    assert DeltaTable(log.folder.url).version() == version
    assert "could not be synced" in log.failure


def test_checkpoints_of_a_table_that_was_dropped_do_not_count(log: DeltaLog) -> None:
    """A new table in the same folder gets its own."""
    log._checkpointed = (1000, 10**9, 0)
    log.version = -1
    log.load()
    for n in range(_CHECKPOINT_EVERY + 1):
        log.commit(Actions("WRITE", {"a": n}))
    assert list(path_of(log.path).glob("*.checkpoint*"))


def test_what_loses_no_commit_is_no_error(log: DeltaLog) -> None:
    """A backup of hard links, another tool's commits, and a clean-up that deletes the commit which a checkpoint has."""
    log.commit(Actions("WRITE", {"app": 1}, add=written(log, 1)))
    path = path_of(log.path)
    (path / "kept").hardlink_to(path / f"{1:020d}.json")
    log.commit(Actions("WRITE", {"app": 2}, add=written(log, 2)))
    other = DeltaLog(log.folder)
    other.load(["app"])
    (path / "kept too").hardlink_to(path / f"{2:020d}.json")
    with pytest.raises(StaleVersionError):  # it is not its own commit, so the caller looks again
        other.commit(Actions("WRITE", {"app": 9}))
    write_deltalake(log.folder.url, pa.table({"a": [3]}), mode="append")
    DeltaTable(log.folder.url).restore(2)
    log.load()
    log.commit(Actions("WRITE", {"app": 3}, add=written(log, 4)))
    log.checkpoint()
    (path / f"{log.version:020d}.json").unlink()
    log.load()
    log.commit(Actions("WRITE", {"app": 4}, add=written(log, 5)))
    assert rows(log) == [1, 2, 4, 5]


def test_a_commit_that_is_gone_is_missed_until_its_loss_is_accepted(log: DeltaLog) -> None:
    """By each load and each commit, so that no other thread overlooks it."""
    log.commit(Actions("WRITE", {"app": 1}, add=written(log, 1)))
    log.commit(Actions("WRITE", {"app": 2}, add=written(log, 2)))
    (path_of(log.path) / f"{2:020d}.json").unlink()
    for _ in range(2):
        with pytest.raises(MissingFilesError, match="newest version was 2"):
            log.commit(Actions("WRITE", {"app": 3}, add=written(log, 3)))
        with pytest.raises(MissingFilesError, match="newest version was 2"):
            log.load()
    log.begin_again()
    log.load()
    log.commit(Actions("WRITE", {"app": 3}, add=written(log, 3)))
    assert (log.version, rows(log)) == (2, [1, 3])
