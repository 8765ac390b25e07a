"""Iceberg metadata through rollbacks, failing requests, wrong clocks, other programs and long sleeps."""

import json
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from engine.base import clock
from engine.base.errors import DestinationError, PipelineHeldError
from engine.destination.delta import folder_removal
from engine.destination.delta.formats import iceberg_copy
from engine.destination.delta.formats.format_publisher import FormatPublisher
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.formats.table_formats import TableFormats
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.delta.table_pair import TablePair
from engine.destination.iceberg import snapshot_history, unneeded_files
from engine.destination.iceberg import table as iceberg_table
from engine.destination.iceberg.manifest_files import Format
from engine.destination.iceberg.table import POINTER, OtherWriterError
from engine.ledger.state import Owner
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of, rows_at
from tests.support.iceberg import opened, snapshots
from tests.unit.destination.delta.formats.test_iceberg_copy import iceberg
from tests.unit.destination.lake import Lake

__all__ = ["iceberg"]


def copied(tmp_path: Path, rows: int = 200) -> Lake:
    """A mirror that is merged on read."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy({key: key for key in range(rows)})
    return lake


def copy_of(lake: Lake, version: Format) -> IcebergCopy:
    """The mirror's, as a process opens it."""
    return IcebergCopy(lake.pair.mirror.folder, "l", version, ("id",))


def assert_equal(lake: Lake, copy: IcebergCopy) -> None:
    """Readers of both formats see the same rows, by the newest metadata and by the folder."""
    expected = rows_at(lake.pair.mirror.folder).sort_by("id").to_pylist()
    assert opened(copy.folder).scan().to_arrow().sort_by("id").to_pylist() == expected
    assert StaticTable.from_metadata(copy.folder.url).scan().to_arrow().num_rows == len(expected)


class FailingFolder(LocalFolder):
    """A folder whose next call of a method fails, if it is about a name that is wanted."""

    method = ""
    wanted = ""

    @classmethod
    def fail(cls, method: str, wanted: str = "") -> None:
        """The next one."""
        cls.method, cls.wanted = method, wanted

    @classmethod
    def _check(cls, method: str, name: str) -> None:
        if cls.method == method and name.startswith(cls.wanted):
            cls.method = ""
            raise OSError("503 Slow Down")

    def write(self, name: str, content: bytes) -> None:
        """As the folder's own."""
        self._check("write", name)
        super().write(name, content)

    def delete(self, names: Any) -> None:
        """As the folder's own."""
        self._check("delete", "")
        super().delete(names)

    def __truediv__(self, name: str) -> "FailingFolder":
        return FailingFolder(self.path / name)


def test_a_rollback_brings_rows_back(tmp_path: Path, iceberg: Format) -> None:
    """Although files of deletes still name them, which a later merge of deletes reads."""
    lake = copied(tmp_path)
    copy = copy_of(lake, iceberg)
    copy.catch_up()
    lake.change([(1, -1), (2, -2)])
    copy.catch_up()
    before = dict(lake.rows)
    saved = lake.delta.versions().newest()
    lake.change([(key, None) for key in range(3, 150)])
    copy.catch_up()
    while lake.maintenance.optimize() is not None:
        copy.catch_up()
    lake.delta.versions().roll_back(saved)
    lake.rows = before
    copy.catch_up()
    assert_equal(lake, copy)
    lake.reopen()
    lake.epoch = 100
    for number in range(25):
        lake.change([(150 + number, -7)])
        copy.catch_up()
    assert_equal(lake, copy)
    assert opened(copy.folder).scan().to_arrow().num_rows == 200


def test_a_failed_deletion_doubles_no_row(tmp_path: Path, iceberg: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after the commit, which is done; a retry must not add the files again."""
    monkeypatch.setattr(iceberg_table, "_OLD_METADATA", 3)
    monkeypatch.setattr(iceberg_table, "_DELETED_AT_ONCE", 2)
    lake = copied(tmp_path, 20)
    changes = lake.pair.changes.folder
    copy = IcebergCopy(changes, "l", iceberg, ())
    monkeypatch.setattr(copy, "folder", FailingFolder(path_of(copy.folder)))
    for number in range(12):
        lake.append([(number, number)])
        FailingFolder.fail("delete")
        copy.catch_up()
        assert opened(copy.folder).scan().to_arrow().num_rows == rows_at(changes).num_rows


@pytest.mark.parametrize("kills", [False, True])
def test_a_pointer_that_was_not_written_is_written_by_the_next_look(
    tmp_path: Path, iceberg: Format, monkeypatch: pytest.MonkeyPatch, *, kills: bool
) -> None:
    """Also if nothing changes any more: readers would see the version before for ever."""
    lake = copied(tmp_path, 20)
    copy = copy_of(lake, iceberg)
    monkeypatch.setattr(copy, "folder", FailingFolder(path_of(copy.folder)))
    copy.catch_up()
    lake.change([(1, None), (2, None)])
    FailingFolder.fail("write", POINTER)
    copy.catch_up()
    if kills:
        copy = copy_of(lake, iceberg)
    copy.catch_up()
    assert_equal(lake, copy)


@pytest.mark.parametrize(
    "info",
    [
        {"timestamp": 1767225600000, "operation": "DELETE", "engineInfo": None},
        {"timestamp": "2026-01-01T00:00:00Z", "operation": "DELETE"},
        {"timestamp": None, "operation": ["x"], "engineInfo": {"a": 1}},
    ],
)
def test_any_commit_info_is_accepted(tmp_path: Path, info: dict[str, Any]) -> None:
    """It is any JSON."""
    lake = copied(tmp_path)
    copy = copy_of(lake, 3)
    copy.catch_up()
    _commit(lake, info)
    copy.catch_up()
    assert opened(copy.folder).scan().to_arrow().num_rows == 0
    lake.change([(1000, 1)])
    copy.catch_up()
    assert_equal(lake, copy)


def _commit(lake: Lake, info: dict[str, Any]) -> None:
    """Another program's commit that removes all files."""
    mirror = lake.pair.mirror.lake
    mirror.refresh()
    at = {"dataChange": True, "deletionTimestamp": 1767225600000}
    vectors = {
        file.name: {"deletionVector": file.vector.to_json()} for file in mirror.files() if file.vector is not None
    }
    removes = [{"remove": {"path": file.name, **at, **vectors.get(file.name, {})}} for file in mirror.files()]
    text = "".join(f"{json.dumps(line)}\n" for line in [{"commitInfo": info}, *removes])
    (path_of(log_of(mirror.folder)) / commit_name(mirror.log.version + 1)).write_text(text)
    lake.rows = {}
    lake.reopen()


def test_a_gap_in_the_delta_log_is_not_the_end(tmp_path: Path, iceberg: Format) -> None:
    """What the log has behind it is published or reported as unreadable, never taken for published."""
    lake = copied(tmp_path)
    copy = copy_of(lake, iceberg)
    copy.catch_up()
    for number in range(3):
        lake.change([(number, None)])
    lake.pair.mirror.lake.log.checkpoint()
    version = lake.pair.mirror.lake.log.version
    (path_of(log_of(lake.pair.mirror.folder)) / commit_name(version - 2)).unlink()
    copy.catch_up(version)
    assert_equal(lake, copy)
    again = copy_of(lake, iceberg)
    again.catch_up()
    assert_equal(lake, again)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_deleted_folder_is_published_again(tmp_path: Path, iceberg: Format, *, restarts: bool) -> None:
    """As the hint of damaged metadata advises, while a runner runs."""
    lake = copied(tmp_path)
    copy = copy_of(lake, iceberg)
    copy.catch_up()
    lake.change([(1, None)])
    copy.catch_up()
    shutil.rmtree(path_of(copy.folder))
    lake.change([(2, None)])
    if restarts:
        copy = copy_of(lake, iceberg)
    copy.catch_up()
    assert_equal(lake, copy)


def test_manifests_that_are_gone_are_written_again(tmp_path: Path, iceberg: Format) -> None:
    """By the next change, or the next look of the maintenance."""
    for maintains in (False, True):
        lake = copied(tmp_path / str(maintains))
        copy = copy_of(lake, iceberg)
        copy.catch_up()
        for path in (path_of(copy.folder) / "metadata").glob("*.avro"):
            path.unlink()
        copy = copy_of(lake, iceberg)
        if maintains:
            copy.expire(timedelta(days=7), 0)
        else:
            lake.change([(2, None)])
            copy.catch_up()
        assert_equal(lake, copy)


def test_a_runner_that_slept_deletes_nothing_of_a_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped between the expiry of snapshots and the deletion of files; it asks for its term, too."""
    monkeypatch.setattr(unneeded_files, "RETENTION_S", 0.0)
    lake = copied(tmp_path)
    sleeper, later = copy_of(lake, 3), copy_of(lake, 3)
    sleeper.catch_up()
    table = sleeper._table
    assert table is not None
    real = table.expire

    def asleep(before_ms: int, oldest: int) -> int:
        expired = real(before_ms, oldest)
        for number in range(15):
            lake.change([(number, -1), (1000 + number, 0)])
            later.catch_up()
        return expired

    monkeypatch.setattr(table, "expire", asleep)
    sleeper.expire(timedelta(days=7), 0)
    assert_equal(lake, later)
    lake.change([(50, -1)])
    later.catch_up()
    assert_equal(lake, later)

    def held() -> int:
        raise PipelineHeldError("Another runner holds the pipeline.")

    (path_of(later.folder) / "metadata" / f"{1:020d}-aaaaaaaaaaaa-m0.avro").write_bytes(b"left")
    fenced = IcebergCopy(lake.pair.mirror.folder, "l", 3, ("id",), held)
    with pytest.raises(PipelineHeldError):
        fenced.expire(timedelta(days=7), 0)
    assert_equal(lake, later)


def test_a_number_that_is_free_again_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that slept for a hundred commits finds its next metadata file deleted: readers are far ahead."""
    monkeypatch.setattr(iceberg_table, "_OLD_METADATA", 3)
    monkeypatch.setattr(iceberg_table, "_DELETED_AT_ONCE", 1)
    lake = copied(tmp_path)
    sleeper, later = copy_of(lake, 3), copy_of(lake, 3)
    sleeper.catch_up()
    table = sleeper._table
    assert table is not None
    for number in range(10):
        lake.change([(number, -1)])
        later.catch_up()
    with pytest.raises(OtherWriterError):
        table._put(table.metadata, {})  # type: ignore[arg-type]
    sleeper.catch_up()
    assert_equal(lake, later)


def test_a_history_that_another_program_has_changed_begins_again(tmp_path: Path, iceberg: Format) -> None:
    """Spark's rollback_to_snapshot: Iceberg's readers refuse a log of snapshots that goes back in time."""
    lake = copied(tmp_path, 100)
    copy = copy_of(lake, iceberg)
    for number in range(8):
        copy.catch_up()
        lake.change([(number, -1), (1000 + number, 0)])
    copy.catch_up()
    metadata = path_of(copy.folder) / "metadata"
    number = int((metadata / POINTER).read_text())
    content = json.loads((metadata / f"v{number}.metadata.json").read_bytes())
    target = content["snapshots"][2]["snapshot-id"]
    content["current-snapshot-id"] = target
    content["refs"]["main"]["snapshot-id"] = target
    content["snapshot-log"].append({"snapshot-id": target, "timestamp-ms": round(time.time() * 1000)})
    (metadata / f"v{number + 1}.metadata.json").write_text(json.dumps(content))
    (metadata / POINTER).write_text(str(number + 1))
    lake.change([(50, -1)])
    copy.catch_up()
    assert_equal(lake, copy)
    (commit,) = copy.take_foreign_commits()
    assert "by an unknown program" in commit
    times = [snapshot.timestamp_ms for snapshot in opened(copy.folder).snapshots()]
    assert times == sorted(times)
    for version, rows in snapshots(opened(copy.folder)):
        assert rows.num_rows == rows_at(lake.pair.mirror.folder, version).num_rows


def test_a_clock_that_is_ahead_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot is later than the metadata, and none outlives its files."""
    lake = Lake(tmp_path, "copy_on_write")
    lake.copy({key: key for key in range(100)})
    copy = copy_of(lake, 2)
    copy.catch_up()
    ahead_ms = round(time.time() * 1000) + 300_000
    _commit(lake, {"timestamp": ahead_ms, "operation": "DELETE", "engineInfo": "other"})
    lake.change([(1, 1)])
    copy.catch_up()
    assert _latest_ms(copy) <= round(time.time() * 1000)
    with monkeypatch.context() as patch:
        real = clock.unix_s
        patch.setattr(clock, "unix_s", lambda: real() + 300)
        lake.change([(1, 2)])
        copy.catch_up()
    lake.change([(1, 3)])
    copy.catch_up()
    lake.change([(1, 4)])
    copy.catch_up()
    monkeypatch.setattr(unneeded_files, "RETENTION_S", 0.0)
    copy.expire(timedelta(), 0)
    lake.maintenance.vacuum(set(), timedelta())
    for _, rows in snapshots(opened(copy.folder)):
        assert rows.num_rows


def _latest_ms(copy: IcebergCopy) -> int:
    """The newest time in the log of snapshots; the metadata is not older."""
    metadata = opened(copy.folder).metadata
    latest = max(entry.timestamp_ms for entry in metadata.snapshot_log)
    assert latest <= metadata.last_updated_ms
    return latest


def test_files_of_a_plan_stay_for_a_reader_that_has_begun(
    tmp_path: Path, iceberg: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its snapshot has expired, because there are too many."""
    monkeypatch.setattr(snapshot_history, "SPARSE", ((1, 1), (1 << 62, 1 << 60)))
    lake = copied(tmp_path)
    copy = copy_of(lake, iceberg)
    lake.change([(1, None)])
    copy.catch_up()
    scan, rows = opened(copy.folder).scan(), rows_at(lake.pair.mirror.folder).num_rows
    for number in range(2, 12):
        lake.change([(number, None)])
        copy.catch_up()
        copy.expire(timedelta(days=7), 0)
    assert len(opened(copy.folder).snapshots()) == 2
    assert scan.to_arrow().num_rows == rows


def test_versions_whose_files_are_gone_are_passed_over(tmp_path: Path, iceberg: Format) -> None:
    """Iceberg was taken out of the spec for a while, and a VACUUM took vectors of versions in between."""
    lake = copied(tmp_path)
    copy_of(lake, iceberg).catch_up()
    for number in range(2, 8):
        lake.change([(number, None)])
    assert lake.maintenance.vacuum(set(), timedelta()) is not None
    copy = copy_of(lake, iceberg)
    copy.catch_up()
    assert_equal(lake, copy)
    lake.change([(9, None)])
    copy.catch_up()
    assert_equal(lake, copy)


class PublishedLake(Lake):
    """A lake whose pair publishes its formats."""

    publisher: FormatPublisher[IcebergCopy]

    def opened(self) -> TablePair:
        """With formats."""
        formats = TableFormats(self.publisher, self.table, "l", 3, lambda: 1)
        return TablePair(LocalFolder(self.folder), Owner("l"), self.table, on_read=True, formats=formats)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PublishedLake:
    """A table with its formats."""
    monkeypatch.setattr(PublishedLake, "publisher", FormatPublisher[IcebergCopy](lambda: 1), raising=False)
    lake = PublishedLake(tmp_path, "merge_on_read")
    lake.copy({key: key for key in range(50)})
    PublishedLake.publisher.finish()
    return lake


def test_a_drop_beside_a_commit_leaves_nothing(published: PublishedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last commit waits to be published while the table goes, which takes a while in a bucket."""
    real = folder_removal.drop

    def slow(folder: Any) -> bool:
        time.sleep(0.3)
        return real(folder)

    monkeypatch.setattr(iceberg_copy, "drop", slow)
    published.change([(1, None)])
    published.pair.drop()
    time.sleep(1.0)
    assert not list((published.folder / "d").iterdir())


def test_iceberg_that_cannot_be_written_stops_no_vacuum_for_ever(
    published: PublishedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that it names are spared for the retention. The drop of the table skips damage."""
    formats = published.pair.formats
    assert formats is not None
    for number in range(8):
        published.change([(number, None)])
    PublishedLake.publisher.finish()
    metadata = published.folder / "d" / "t__iceberg" / "metadata"
    broken = f"v{(metadata / POINTER).read_text()}.metadata.json"
    (metadata / broken).write_text("{}")
    copy = formats._copies[published.pair.mirror.folder]
    copy.rest()
    vacuum: Callable[[], object] = partial(published.maintenance.vacuum, set(), timedelta(hours=1))
    with pytest.raises(DestinationError, match="cannot be read"):
        vacuum()
    published.change([(9, None)])
    assert vacuum() is None, "it waits for what is not published"
    real = clock.monotonic_s
    monkeypatch.setattr(clock, "monotonic_s", lambda: real() + 7200)
    published.maintenance.vacuum(set(), timedelta(hours=1))
    published.pair.drop()
    assert not list((published.folder / "d").iterdir())


def test_metadata_of_a_quiet_table_is_deleted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is dropped from memory between two looks of the maintenance, and the hour counts on."""
    lake = copied(tmp_path)
    copy = copy_of(lake, 3)
    for number in range(4):
        copy.catch_up()
        lake.change([(number, None)])
    copy.expire(timedelta(), 0)
    metadata = path_of(copy.folder) / "metadata"
    before = len(list(metadata.iterdir()))
    copy.rest()
    real = clock.monotonic_s
    monkeypatch.setattr(clock, "monotonic_s", lambda: real() + 3700)
    copy.expire(timedelta(), 0)
    assert len(list(metadata.iterdir())) < before
    assert_equal(lake, copy)
