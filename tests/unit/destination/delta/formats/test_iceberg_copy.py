"""An Iceberg table over the files of a Delta table: each snapshot is a version, whatever happens in between."""

import json
import random
import shutil
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.table.metadata import TableMetadataV3

from engine.base.errors import DestinationError, SpecError
from engine.capture.files import FileWriter
from engine.destination.delta.formats.iceberg_comparison import compare
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.lake_table import LakeTable
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.iceberg import snapshot_history, unneeded_files
from engine.destination.iceberg import table as iceberg_table
from engine.destination.iceberg.manifest_files import Format
from engine.spec.sink_settings import MirrorMode
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of, rows_at
from tests.support.depth import depth
from tests.support.iceberg import all_rows, opened, read_by_us, snapshots
from tests.unit.destination.lake import Lake

KEYS = list(range(500))


@pytest.fixture(params=[2, 3])
def iceberg(request: pytest.FixtureRequest) -> Format:
    """The version of Iceberg's spec."""
    version: Format = request.param
    return version


def copies_of(lake: Lake, iceberg: Format) -> list[tuple[LakeTable, IcebergCopy, str]]:
    """The Delta tables, their copies as a process opens them, and a column that orders their rows."""
    mirror, changes = lake.pair.mirror.lake, lake.pair.changes.lake
    return [
        (mirror, IcebergCopy(mirror.folder, "l", iceberg, ("id",)), "id"),
        (changes, IcebergCopy(changes.folder, "l", iceberg, ()), "_tm_seq"),
    ]


def lived(tmp_path: Path, mode: MirrorMode, rounds: int = 6) -> Lake:
    """A table that was copied and changed."""
    lake, chance = Lake(tmp_path, mode), random.Random(5)
    lake.copy({key: key for key in KEYS[:200]})
    for _ in range(rounds):
        lake.change(lake.random_changes(chance, 10, KEYS))
    return lake


def assert_equal(lake: Lake, iceberg: Format) -> int:
    """All snapshots are their versions, and the newest one is the newest version. Returns how many there are."""
    count = 0
    for one, copy, key in copies_of(lake, iceberg):
        copy.catch_up()
        one.refresh()
        assert copy.looked_version == one.log.version
        newest = read_by_us(one.folder)
        for version, rows in snapshots(opened(copy.folder)):
            expected = rows_at(one.folder, version).sort_by(key).to_pylist()
            assert rows.sort_by(key).to_pylist() == expected, version
            own = newest.at(version)
            assert own is not None
            assert all_rows(own).sort_by(key).to_pylist() == expected, version
            assert own.size()[0] == len(expected)
            count += 1
        assert rows.num_rows == rows_at(one.folder).num_rows
        agreement = compare(copy.open_again(), one.folder)
        assert agreement[:1] + agreement[2:] == (copy.published_version, rows.num_rows, [])
    return count


def metadata_files(copy: IcebergCopy) -> set[str]:
    """The names of the metadata files of a table."""
    return {path.name for path in (path_of(copy.folder) / "metadata").iterdir()}


@pytest.mark.parametrize("seed", range(depth(1, 6)))
def test_each_version_is_a_snapshot(tmp_path: Path, mode: MirrorMode, iceberg: Format, seed: int) -> None:
    """Copied, changed and maintained, published by processes that come and go, one or many versions at once."""
    lake, chance = Lake(tmp_path, mode), random.Random(seed)
    copies = copies_of(lake, iceberg)
    for first in (0, 100):
        lake.copy({key: key for key in KEYS[first : first + 100]})
    for _ in range(30):
        step = chance.random()
        if step < 0.7:
            lake.change(lake.random_changes(chance, 10, KEYS))
        elif step < 0.8:
            lake.maintenance.optimize()
        elif step < 0.9:
            lake.maintenance.compact(lake.now + timedelta(days=90))
        else:
            copies = copies_of(lake, iceberg)
        if chance.random() < 0.5:
            for _, copy, _ in copies:
                copy.catch_up()
    lake.check()
    assert assert_equal(lake, iceberg) > 30


@pytest.mark.parametrize("rounds", [60])
def test_a_long_history_becomes_sparse_and_stays_readable(
    tmp_path: Path, iceberg: Format, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """The files of missing snapshots go, but for those that a later one needs."""
    monkeypatch.setattr(snapshot_history, "SPARSE", ((5, 1), (20, 4), (1 << 62, 16)))
    monkeypatch.setattr(unneeded_files, "RETENTION_S", 0.0)
    lake, chance = lived(tmp_path, "merge_on_read", 1), random.Random(8)
    copy = IcebergCopy(lake.pair.mirror.folder, "l", iceberg, ("id",))
    seen = set[str]()
    for number in range(rounds):
        lake.change(lake.random_changes(chance, 3, KEYS))
        copy.catch_up()
        seen |= metadata_files(copy)
        if number % 7 == 0:
            copy.expire(timedelta(days=7), 0)
    assert len(seen - metadata_files(copy)) > 50
    assert_equal(lake, iceberg)
    sequences = [snapshot.sequence_number or 0 for snapshot in opened(copy.folder).snapshots()]
    assert 8 < len(sequences) < 24
    assert sequences[-6:] == [*range(sequences[-1] - 5, sequences[-1] + 1)]
    copy.expire(timedelta(days=7), 0)
    assert_equal(lake, iceberg)


class KilledError(Exception):
    """The process was killed."""


class DyingFolder(LocalFolder):
    """A folder whose process dies before or after one of its writes. left: how many there are until then."""

    left: int
    after: bool

    def create(self, name: str, content: bytes) -> str:
        """As the folder's own."""
        return str(self._or_die(lambda: LocalFolder.create(self, name, content)))

    def write(self, name: str, content: bytes) -> None:
        """As the folder's own."""
        self._or_die(lambda: LocalFolder.write(self, name, content))

    def delete(self, names: Any) -> None:
        """As the folder's own."""
        self._or_die(lambda: LocalFolder.delete(self, names))

    @classmethod
    def _or_die(cls, step: Any) -> Any:
        cls.left -= 1
        if cls.left < 0 and not cls.after:
            raise KilledError
        result = step()
        if cls.left < 0:
            raise KilledError
        return result

    def __truediv__(self, name: str) -> "DyingFolder":
        return type(self)(self.path / name)


@pytest.mark.parametrize(
    ("iceberg", "after"), depth([(2, True), (3, False)], list(product([2, 3], [False, True]))), indirect=["iceberg"]
)
def test_a_kill_at_any_write_leaves_both_formats_equal(
    tmp_path: Path, iceberg: Format, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    """Before and after each write and deletion of a round that publishes, expires and deletes."""
    monkeypatch.setattr(snapshot_history, "SPARSE", ((1, 1), (1 << 62, 2)))
    monkeypatch.setattr(snapshot_history, "MOST", 3)
    monkeypatch.setattr(iceberg_table, "_DELETED_AT_ONCE", 1)
    monkeypatch.setattr(unneeded_files, "RETENTION_S", 0.0)
    DyingFolder.after = after
    kills = 0
    for left in range(60):
        lake = lived(tmp_path / str(left), "merge_on_read", 4)
        mirror = lake.pair.mirror.lake
        IcebergCopy(mirror.folder, "l", iceberg, ("id",)).catch_up()
        chance = random.Random(left)
        for _ in range(3):
            lake.change(lake.random_changes(chance, 10, KEYS))
        dying = IcebergCopy(mirror.folder, "l", iceberg, ("id",))
        monkeypatch.setattr(dying, "folder", DyingFolder(path_of(dying.folder)))
        DyingFolder.left = left
        try:
            dying.catch_up()
            dying.expire(timedelta(), 0)
        except KilledError:
            kills += 1
        DyingFolder.left = 10**9
        lake.change(lake.random_changes(chance, 10, KEYS))
        assert_equal(lake, iceberg)
        if kills <= left:
            break
    assert 8 < kills < 60


def test_a_comparison_names_what_differs(tmp_path: Path, iceberg: Format) -> None:
    """Files, deleted rows and counts; what is not published; metadata that is gone."""
    lake, chance = lived(tmp_path, "merge_on_read"), random.Random(1)
    folder = lake.pair.mirror.folder
    copy = IcebergCopy(folder, "l", iceberg, ())
    assert compare(copy.open_again(), folder)[3] == ["it is not published, or another program has written to it"]
    copy.catch_up()
    (path_of(copy.folder) / "metadata" / "kept").write_text("")
    shutil.copytree(path_of(copy.folder), tmp_path / "earlier")
    lake.change(lake.random_changes(chance, 30, KEYS))
    copy.catch_up()
    metadata = path_of(copy.folder) / "metadata"
    newest = (metadata / "version-hint.text").read_text()
    earlier = json.loads((tmp_path / "earlier" / "metadata" / "v1.metadata.json").read_text())
    earlier["properties"]["tidemark.metadata"] = newest
    earlier["snapshots"][-1]["summary"]["tidemark.version"] = str(copy.published_version)
    (metadata / f"v{newest}.metadata.json").write_text(json.dumps(earlier))
    differences = compare(copy.open_again(), folder)[3]
    assert [text.partition(" merge-")[0].partition(" chunk-")[0] for text in differences] == [
        "it lacks",
        "it has other deleted rows in",
    ]
    for path in metadata.glob("*.avro"):
        path.unlink()
    (difference,) = compare(copy.open_again(), folder)[3]
    assert difference.startswith("a metadata file is gone")


def test_two_runners_at_once_commit_each_snapshot_once(tmp_path: Path, mode: MirrorMode, iceberg: Format) -> None:
    """A runner that is fenced may still publish: what it publishes is the Delta table."""
    lake, chance = lived(tmp_path, mode), random.Random(1)
    folder = lake.pair.mirror.folder
    first, second = (IcebergCopy(folder, "l", iceberg, ()) for _ in range(2))
    for _ in range(8):
        for copy in chance.sample([first, second], 2):
            copy.catch_up()
            lake.change(lake.random_changes(chance, 10, KEYS))
    assert_equal(lake, iceberg)
    versions = [version for version, _ in snapshots(opened(first.folder))]
    assert versions == sorted(set(versions))


def test_what_other_tools_do_to_the_delta_table_is_published(tmp_path: Path, iceberg: Format) -> None:
    """OPTIMIZE, DELETE, RESTORE and added files without statistics."""
    lake, chance = lived(tmp_path, "copy_on_write"), random.Random(1)
    mirror, copy, _ = copies_of(lake, iceberg)[0]
    copy.catch_up()
    delta = DeltaTable(mirror.folder.url)
    delta.optimize.compact()
    copy.catch_up()
    DeltaTable(mirror.folder.url).delete("id % 7 = 0")
    copy.catch_up()
    DeltaTable(mirror.folder.url).restore(2)
    lake.change(lake.random_changes(chance, 10, KEYS))
    assert_equal(lake, iceberg)


def test_a_log_that_lost_a_commit_is_compared(tmp_path: Path, iceberg: Format) -> None:
    """Another commit has taken its number: what the lost one added is not in the table."""
    lake = lived(tmp_path, "copy_on_write")
    mirror, copy, _ = copies_of(lake, iceberg)[0]
    copy.catch_up()
    (path_of(log_of(mirror.folder)) / commit_name(mirror.log.version)).unlink()
    DeltaTable(mirror.folder.url).delete("id = 3")
    assert DeltaTable(mirror.folder.url).version() == mirror.log.version
    copy.catch_up()
    rows = dict(snapshots(opened(copy.folder)))[mirror.log.version]
    assert rows.sort_by("id").to_pylist() == rows_at(mirror.folder).sort_by("id").to_pylist()


def test_an_iceberg_table_that_another_tool_wrote_to_gets_the_table_again(tmp_path: Path) -> None:
    """A snapshot of another program counts for nothing."""
    lake, chance = lived(tmp_path, "merge_on_read"), random.Random(1)
    _, copy, _ = copies_of(lake, 2)[0]
    copy.catch_up()
    metadata = path_of(copy.folder) / "metadata"
    number = int((metadata / "version-hint.text").read_text())
    content = json.loads((metadata / f"v{number}.metadata.json").read_bytes())
    snapshot = {**content["snapshots"][-1], "snapshot-id": 5, "summary": {"operation": "replace", "engine": "other"}}
    content["snapshots"].append(snapshot)
    content["snapshot-log"].append({"snapshot-id": 5, "timestamp-ms": snapshot["timestamp-ms"]})
    content["current-snapshot-id"] = 5
    content["refs"]["main"]["snapshot-id"] = 5
    (metadata / f"v{number + 1}.metadata.json").write_text(json.dumps(content))
    lake.change(lake.random_changes(chance, 10, KEYS))
    copy.catch_up()
    table = opened(copy.folder)
    newest = table.current_snapshot()
    assert newest is not None
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == rows_at(lake.pair.mirror.folder).sort_by("id").to_pylist()


def test_columns_are_added_widened_and_given_another_type(tmp_path: Path, iceberg: Format) -> None:
    """Earlier snapshots can be read as long as a name means the same column; then they are gone, and never wrong."""
    folder = LocalFolder(tmp_path / "t")
    lake = LakeTable(folder, _owner(), "d.t", ("chunks",), _guards(), keeps=True)
    copy = IcebergCopy(folder, "l", iceberg, ())
    types = [
        [("id", pa.int32())],
        [("id", pa.int32()), ("v", pa.int32())],
        [("id", pa.int64()), ("v", pa.int32())],
        [("id", pa.int64())],
        [("id", pa.int64()), ("v", pa.int32())],
        [("id", pa.int64()), ("v", pa.string())],
    ]
    counts = []
    for number, columns in enumerate(types):
        schema = pa.schema(columns)
        _replace(lake, folder, schema, number)
        copy.catch_up()
        read = list(snapshots(opened(copy.folder)))
        for version, rows in read:
            expected = rows_at(folder, version)
            assert rows.to_pylist() == expected.to_pylist()
        counts.append(len(read))
    assert counts == [1, 2, 3, 4, 5, 1]


def _owner() -> Any:
    from engine.ledger.state import Owner

    return Owner("l")


def _guards() -> Any:
    from engine.destination.delta.lake_table import NO_GUARDS

    return NO_GUARDS


def _replace(lake: LakeTable, folder: LocalFolder, schema: pa.Schema, number: int) -> None:
    """Replace all rows, and the columns."""
    from engine.destination.delta.log.delta_actions import Actions, metadata_of

    lake.create(schema, {}, must_exist=False, vectors=False, all_columns=False)
    with FileWriter(folder, "chunk", schema, ()) as writer:
        rows = [{name: str(n) if name == "v" and number == 5 else n for name in schema.names} for n in range(3)]
        writer.write(pa.Table.from_pylist(rows, schema=schema))
        files = writer.close()

    def actions() -> Actions:
        delta = lake.load()
        return Actions("WRITE", {}, files, lake.log.files(delta), metadata_of(delta, schema), mode="Overwrite")

    lake.commit(actions)


def test_snapshots_expire_before_a_vacuum_takes_their_files(
    tmp_path: Path, mode: MirrorMode, iceberg: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All snapshots that are left can be read, and nothing is left of the others."""
    monkeypatch.setattr(unneeded_files, "RETENTION_S", 0.0)
    lake, chance = lived(tmp_path, mode, 0), random.Random(2)
    pairs = copies_of(lake, iceberg)
    for _ in range(30):
        for _, copy, _ in pairs:
            copy.catch_up()
        lake.change(lake.random_changes(chance, 10, KEYS))
    before = [len(metadata_files(copy)) for _, copy, _ in pairs]
    for _ in range(3):
        lake.change(lake.random_changes(chance, 10, KEYS))
        lake.maintenance.optimize()
    assert all(copy.expire(timedelta(), 0) > 25 for _, copy, _ in pairs)
    lake.maintenance.vacuum(set(), timedelta())
    for one, copy, key in pairs:
        ((version, rows),) = snapshots(opened(copy.folder))
        assert rows.sort_by(key).to_pylist() == rows_at(one.folder, version).sort_by(key).to_pylist()
    after = [len(metadata_files(copy)) for _, copy, _ in pairs]
    assert all(late < early / 2 for late, early in zip(after, before, strict=True)), (before, after)


def test_what_killed_commits_leave_is_deleted(tmp_path: Path, iceberg: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is old, and nothing else."""
    lake, chance = lived(tmp_path, "merge_on_read"), random.Random(2)
    _, copy, _ = copies_of(lake, iceberg)[0]
    for _ in range(5):
        copy.catch_up()
        lake.change(lake.random_changes(chance, 10, KEYS))
    copy.catch_up()
    metadata = path_of(copy.folder) / "metadata"
    there = metadata_files(copy)
    sequence = max(int(name[:20]) for name in there if name[:20].isdecimal())
    for number in (1, sequence, sequence + 1):
        for name in ("m0.avro", "d0.avro", "snap.avro", "dv.puffin"):
            (metadata / f"{number:020d}-aaaaaaaaaaaa-{name}").write_bytes(b"left")
    copy.expire(timedelta(days=7), 0)
    assert len(metadata_files(copy)) == len(there) + 12
    monkeypatch.setattr(unneeded_files, "RETENTION_S", 0.0)
    copy.expire(timedelta(days=7), 0)
    assert len(metadata_files(copy)) == len(there) + 4, "files of later commits are left alone"
    lake.change(lake.random_changes(chance, 10, KEYS))
    assert_equal(lake, iceberg)


def test_a_folder_of_somebody_else_is_never_written_to(tmp_path: Path, iceberg: Format) -> None:
    """Another ledger's Iceberg table, or a Delta table of that name."""
    lake = lived(tmp_path, "merge_on_read", 1)
    _, copy, _ = copies_of(lake, iceberg)[0]
    copy.catch_up()
    there = metadata_files(copy)
    other = IcebergCopy(lake.pair.mirror.folder, "another", iceberg, ())
    with pytest.raises(SpecError, match="does not belong"):
        other.catch_up()
    other.drop()
    assert metadata_files(copy) == there
    shutil.rmtree(path_of(copy.folder))
    shutil.copytree(path_of(lake.pair.mirror.folder), path_of(copy.folder))
    with pytest.raises(SpecError, match="does not belong"):
        IcebergCopy(lake.pair.mirror.folder, "l", iceberg, ()).catch_up()
    assert not (path_of(copy.folder) / "metadata").exists()


def test_damaged_metadata_is_published_again_as_the_hint_says(tmp_path: Path, iceberg: Format) -> None:
    """Whatever is damaged, the folder can be deleted."""
    lake = lived(tmp_path, "merge_on_read")
    _, copy, _ = copies_of(lake, iceberg)[0]
    copy.catch_up()
    metadata = path_of(copy.folder) / "metadata"
    (metadata / "v1.metadata.json").write_text("{}")
    _, again, _ = copies_of(lake, iceberg)[0]
    with pytest.raises(DestinationError, match="cannot be read") as error:
        again.catch_up()
    assert f"Delete the folder {copy.folder.url}" in error.value.hint
    shutil.rmtree(path_of(copy.folder))
    assert_equal(lake, iceberg)


def test_a_table_that_was_created_again_or_moved_begins_again(tmp_path: Path, iceberg: Format) -> None:
    """Its metadata names files by their full path."""
    lake = lived(tmp_path / "a", "merge_on_read")
    for _, copy, _ in copies_of(lake, iceberg):
        copy.catch_up()
    shutil.move(tmp_path / "a", tmp_path / "b")
    moved = Lake(tmp_path / "b", "merge_on_read", rows=lake.rows, log=lake.log, epoch=lake.epoch, now=lake.now)
    moved.change([(1, 5)])
    assert_equal(moved, iceberg)
    _, copy, _ = copies_of(moved, iceberg)[0]
    assert all("/b/d/t/" in task.file.file_path for task in opened(copy.folder).scan().plan_files())
    moved.pair.drop()
    assert not path_of(copy.folder).exists(), "also by a spec without Iceberg"
    again = Lake(tmp_path / "b", "merge_on_read")
    again.copy({1: 1})
    assert_equal(again, iceberg)


def test_the_version_of_the_spec_can_change(tmp_path: Path) -> None:
    """The table begins again in the other one."""
    lake = lived(tmp_path, "merge_on_read")
    for version in (2, 3, 2):
        lake.change([(1, version)])
        assert_equal(lake, version)
        _, copy, _ = copies_of(lake, version)[0]
        assert opened(copy.folder).metadata.format_version == version


def test_row_identifiers_are_unique_and_stay(tmp_path: Path, mode: MirrorMode) -> None:
    """Version 3: each row has an identifier, which no other row ever has."""
    lake, chance = lived(tmp_path, mode, 20), random.Random(3)
    mirror, copy, _ = copies_of(lake, 3)[0]
    first_ids = dict[str, int]()
    for _ in range(25):
        lake.change(lake.random_changes(chance, 10, KEYS))
        copy.catch_up()
        ranges = list[tuple[int, int]]()
        for manifest in opened(copy.folder).current_snapshot().manifests(opened(copy.folder).io):  # type: ignore[union-attr]
            for entry in _entries(copy, manifest):
                assert first_ids.setdefault(entry.file.path, entry.file.first_row_id) == entry.file.first_row_id
                ranges.append((entry.file.first_row_id, entry.file.first_row_id + entry.file.rows))
        ranges.sort()
        assert all(one[1] <= following[0] for one, following in pairwise(ranges))
        metadata = opened(copy.folder).metadata
        assert isinstance(metadata, TableMetadataV3)
        assert ranges[-1][1] <= (metadata.next_row_id or 0)
    assert mirror.log.version > 40


def _entries(copy: IcebergCopy, manifest: Any) -> Iterator[Any]:
    from engine.destination.iceberg.manifest_files import DATA, entries_of, manifests_of

    table = opened(copy.folder)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    metadata = copy.folder / "metadata"
    lists = manifests_of(metadata.read(snapshot.manifest_list.rpartition("/")[2]))
    (own,) = [one for one in lists if one.path == manifest.manifest_path]
    if own.content == DATA:
        yield from entries_of(metadata.read(own.path.rpartition("/")[2]), own)
