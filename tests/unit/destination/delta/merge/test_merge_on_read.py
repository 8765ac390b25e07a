"""Merge on read: deletion vectors, and what readers see of them."""

import json
import random
import uuid
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyroaring import BitMap

from engine.base.errors import DestinationError, MissingFilesError
from engine.destination.delta.landing import DeltaLanding
from engine.destination.delta.log.deletion_vectors import Descriptor, positions, read_vector, write_vectors
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.log.delta_log import DeltaLog
from engine.destination.delta.log.vector_log import VectorLog
from engine.destination.delta.maintenance import optimize
from engine.destination.delta.merge import mirror_files, newest_images
from engine.destination.delta.read.file_rows import rows_of
from engine.destination.delta.read.mirror import Mirror as MirrorRows
from engine.spec.sink_settings import MirrorMode
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.support.depth import depth
from tests.unit.destination.lake import INT, TEXT, Lake

ROWS = 2000


@pytest.mark.parametrize("count", [1, 7, 5000, 70_000])
def test_vectors_are_read_as_written(tmp_path: Path, count: int) -> None:
    """Several in one file, sparse, dense and long runs."""
    chance = np.random.default_rng(count)
    vectors = [BitMap(chance.integers(0, limit, count)) for limit in (count + 1, 2**20, 2**32 - 1)]
    descriptors = write_vectors(LocalFolder(tmp_path), [*vectors, BitMap(range(count))])
    for vector, descriptor in zip([*vectors, BitMap(range(count))], descriptors, strict=True):
        again = Descriptor.from_json(json.loads(json.dumps(descriptor.to_json())))
        assert read_vector(LocalFolder(tmp_path), again) == vector
        assert list(positions(vector)) == sorted(vector)


def test_a_damaged_vector_is_an_error(tmp_path: Path) -> None:
    """Its rows would reappear: a changed byte, a short file, a missing file."""
    (descriptor,) = write_vectors(LocalFolder(tmp_path), [BitMap([1, 5, 9])])
    path = tmp_path / str(descriptor.file)
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    with pytest.raises(DestinationError, match="checksum"):
        read_vector(LocalFolder(tmp_path), descriptor)
    path.write_bytes(content[:-5])
    with pytest.raises(DestinationError, match="checksum"):
        read_vector(LocalFolder(tmp_path), descriptor)
    path.unlink()
    with pytest.raises(DestinationError, match="cannot be read"):
        read_vector(LocalFolder(tmp_path), descriptor)


@pytest.mark.parametrize("seed", range(depth(2, 20)))
def test_random_merges_and_maintenance_keep_every_version_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: MirrorMode, seed: int
) -> None:
    """Integer and UUID keys. After each commit the newest version has the rows, and later ones do not change it."""
    chance = random.Random(seed)
    monkeypatch.setattr(newest_images, "MOST_KEYS", 40)  # large changes are merged in parts
    lake = Lake(tmp_path, mode, TEXT if seed % 2 else INT)
    keys = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(ROWS)] if seed % 2 else list(range(ROWS))
    for begin in range(0, ROWS // 2, 500):
        lake.copy(dict.fromkeys(keys[begin : begin + 500], 0))
    seen = {}
    for turn in range(depth(15, 60)):
        local = keys[200:400] if turn % 3 else keys
        lake.change(lake.random_changes(chance, chance.choice([1, 20, 300]), local))
        if turn % 5 == 4:
            while lake.maintenance.optimize():
                assert lake.mirror() == lake.rows
        assert lake.kept() == lake.stored()
        seen[DeltaTable(lake.pair.mirror.folder.url).version()] = dict(lake.rows)
    for version, rows in seen.items():
        assert lake.mirror(version) == rows
    lake.check()


def test_a_merge_on_read_writes_what_its_changes_need(tmp_path: Path) -> None:
    """Rows of the touched files are not written again, and the file with the last row of a key is removed."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(200_000), 1))
    lake.copy(dict.fromkeys(range(200_000, 200_010), 1))
    before = {path.name for path in path_of(lake.pair.mirror.folder).glob("*.parquet")}
    lake.change([(7, 70), (100_000, None), *((key, None) for key in range(200_000, 200_010))])
    written = [path for path in path_of(lake.pair.mirror.folder).glob("*.parquet") if path.name not in before]
    assert sum(path.stat().st_size for path in written) < 3000
    files = {
        file.rows: file.deleted_rows
        for file in DeltaLog(lake.pair.mirror.folder).files(DeltaTable(lake.pair.mirror.folder.url))
    }
    assert files == {200_000: 2, 1: 0}
    lake.check()


def test_local_updates_touch_few_files_on_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files stay in key order through random updates and maintenance, so updates of nearby keys rewrite few of them."""
    monkeypatch.setattr(mirror_files, "_MIN_ROWS", 1000)
    for room in (mirror_files, optimize):
        monkeypatch.setattr(room, "MOST_BYTES", 64 << 10)
        monkeypatch.setattr(room, "SMALL_BYTES", 4 << 10)
    monkeypatch.setattr(mirror_files, "_ROW_BYTES", 8)
    lake, chance = Lake(tmp_path, "copy_on_write"), random.Random(1)
    for begin in range(0, 100_000, 2000):
        lake.copy({key: chance.randrange(9**6) for key in range(begin, begin + 2000)})
    for _ in range(5):
        lake.change(lake.random_changes(chance, 40, list(range(100_000))))
        while lake.maintenance.optimize():
            pass
    before = lake.stored()
    local = [(key, 1) for key in range(40_000, 40_500)]
    lake.change(local)
    rewritten = before.keys() - lake.stored().keys()
    assert len(before) > 20
    assert sum(before[name][1] for name in rewritten) < 0.2 * sum(size for _, size, _ in before.values())
    lake.check()


def test_readers_agree(tmp_path: Path) -> None:
    """Tidemark's own readers see what deltalake's query engine sees; its count does not."""
    lake, chance = Lake(tmp_path, "merge_on_read"), random.Random(1)
    lake.copy(dict.fromkeys(range(ROWS), 1))
    lake.change(lake.random_changes(chance, 500, list(range(ROWS))))
    delta = DeltaTable(lake.pair.mirror.folder.url)
    rows = rows_of(delta, lake.pair.mirror.folder)
    assert rows.dataset is None
    assert {row["id"]: row["v"] for row in rows.table(["id", "v"]).to_pylist()} == lake.rows
    low = pc.field("id") < 100
    assert rows.count(low) == sum(key < 100 for key in lake.rows)
    assert sorted(rows.table(["id"], low)["id"].to_pylist()) == sorted(key for key in lake.rows if key < 100)
    assert MirrorRows(lake.pair.mirror.folder).size()[0] == len(lake.rows)
    assert delta.count() != len(lake.rows), "if deltalake counts right one day, the documentation can say so"


def test_vectors_survive_checkpoints_and_missing_commits(tmp_path: Path) -> None:
    """The log is read from a checkpoint and the commits after it; a gap is an error."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(100), 1))
    kept = VectorLog(lake.pair.mirror.folder)
    for key in range(10):
        lake.change([(key, None)])
        kept.at(DeltaTable(lake.pair.mirror.folder.url).version())
    DeltaLog(lake.pair.mirror.folder).checkpoint()
    for key in range(10, 15):
        lake.change([(key, None)])
    version = DeltaTable(lake.pair.mirror.folder.url).version()
    found = kept.at(version)
    log = path_of(lake.pair.mirror.folder) / "_delta_log"
    for commit in sorted(log.glob("*.json"))[:11]:
        commit.unlink()
    assert VectorLog(lake.pair.mirror.folder).at(version) == found
    assert [vector.cardinality for vector in found.values()] == [15]
    lake.check()
    lost = log / f"{version - 1:020d}.json"
    copy = lost.read_bytes()
    lost.unlink()
    with pytest.raises(DestinationError, match="incomplete") as raised:
        VectorLog(lake.pair.mirror.folder).at(version)
    assert "Or restore the commits from a copy" in raised.value.hint
    lost.write_bytes(copy)
    assert VectorLog(lake.pair.mirror.folder).at(version) == found


def test_the_mode_changes_with_a_resnapshot_alone(tmp_path: Path) -> None:
    """A merge keeps the mirror's mode; a replacement sets it, in the same commit."""
    lake = Lake(tmp_path, "copy_on_write")
    lake.copy(dict.fromkeys(range(100), 1))
    lake.pair.mirror.on_read = True
    lake.change([(1, None)])
    assert not DeltaTable(lake.pair.mirror.folder.url).metadata().configuration.get("delta.enableDeletionVectors")
    files = lake.append([(2, 5)])
    lake.empty(lake.epoch, merged=True)
    lake.rows = {}
    assert lake.mirror() == {}
    lake.copy(dict.fromkeys(range(50), 2))
    lake.change([(3, None)])
    delta = DeltaTable(lake.pair.mirror.folder.url)
    assert delta.metadata().configuration["delta.enableDeletionVectors"] == "true"
    assert "deletionVectors" in (delta.protocol().reader_features or ())
    assert any(file.deleted_rows for file in DeltaLog(lake.pair.mirror.folder).files(delta))
    assert lake.mirror() == lake.rows
    assert files


def test_another_tool_deletes_and_compacts(tmp_path: Path, mode: MirrorMode) -> None:
    """Deltalake's DELETE and OPTIMIZE between merges: deleted rows stay deleted."""
    lake, chance = Lake(tmp_path, mode), random.Random(3)
    lake.copy(dict.fromkeys(range(ROWS), 1))
    for turn in range(6):
        lake.change(lake.random_changes(chance, 100, list(range(ROWS))))
        other = DeltaTable(lake.pair.mirror.folder.url)
        if turn % 2:
            other.optimize.compact()
        else:
            other.delete(f"id = {turn}")
            lake.rows.pop(turn, None)
        assert lake.mirror() == lake.rows
    lake.check()


def test_another_tool_replaces_files_during_a_merge(
    tmp_path: Path, mode: MirrorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And removes the old ones at once: the merge begins again on top of that."""
    lake, listed = Lake(tmp_path, mode), DeltaLog.files
    for begin in range(0, ROWS, 100):
        lake.copy(dict.fromkeys(range(begin, begin + 100), 1))

    def overtaken(log: DeltaLog, delta: DeltaTable) -> list[StoredFile]:
        monkeypatch.setattr(DeltaLog, "files", listed)
        files, other = log.files(delta), DeltaTable(log.folder.url)
        assert other.optimize.compact()["numFilesRemoved"] > 1
        _compact_at_once(path_of(log.folder))
        return files

    monkeypatch.setattr(DeltaLog, "files", overtaken)
    lake.change([(1, 5), (2, None), (ROWS + 1, 3)])
    lake.check()


def test_another_tool_moves_changes_before_they_are_merged(tmp_path: Path, mode: MirrorMode) -> None:
    """It compacts the change log and removes the old files at once: the merge finds the changes in the new ones."""
    lake, chance = Lake(tmp_path, mode), random.Random(9)
    lake.copy(dict.fromkeys(range(ROWS), 1))
    for _ in range(3):
        waiting = [file for _ in range(3) for file in lake.append(lake.random_changes(chance, 100, list(range(ROWS))))]
        _compact_at_once(path_of(lake.pair.changes.folder))
        assert not any((path_of(lake.pair.changes.folder) / file.name).exists() for file in waiting)
        lake.merge(waiting)
        lake.check()
    waiting = lake.append([(1, 8), (2, 9)])
    gone = DeltaTable(lake.pair.changes.folder.url)
    gone.delete(f"_tm_seq = {len(lake.log)}")
    _compact_at_once(path_of(lake.pair.changes.folder))
    with pytest.raises(MissingFilesError):
        lake.merge(waiting)


def _compact_at_once(folder: Path) -> None:
    DeltaTable(str(folder)).optimize.compact()
    DeltaTable(str(folder)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_duckdb_reads_vectors_by_itself(tmp_path: Path) -> None:
    """As the Explore page does, with every file of the version and nothing else."""
    from engine.explore.queries import answer

    lake, chance = Lake(tmp_path, "merge_on_read"), random.Random(4)
    lake.copy(dict.fromkeys(range(ROWS), 1))
    lake.change(lake.random_changes(chance, 400, list(range(ROWS))))
    found = answer(
        DeltaLanding(LocalFolder(tmp_path)), [lake.table], "SELECT count(*) AS n, sum(v) AS s FROM d.t WHERE id >= 10"
    ).rows.to_pylist()
    expected = [value for key, value in lake.rows.items() if key >= 10]
    assert found == [{"n": len(expected), "s": sum(expected)}]
    with pytest.raises(Exception, match="cannot be called here"):
        answer(
            DeltaLanding(LocalFolder(tmp_path)),
            [lake.table],
            f"SELECT * FROM read_text('{tmp_path}/d/t/_delta_log/*') , d.t",
        )


@pytest.mark.parametrize("lost", [2, 3, 4])
def test_a_resnapshot_replaces_a_file_whose_lost_commit_gave_it_another_vector(tmp_path: Path, lost: int) -> None:
    """Delta identifies a file by its path and its vector, so without that commit readers see it twice."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(1000), 1))
    for key in range(4):
        lake.change([(key, 2)])
    folder = path_of(lake.pair.mirror.folder)
    (folder / "_delta_log" / f"{lost:020d}.json").write_bytes(b"")
    assert lake.opened().repair(accepts_loss=True) == [f"{folder.name}/{lost:020d}.json"]
    files = DeltaLog(LocalFolder(folder)).files(DeltaTable(str(folder)))
    assert len(files) == len({file.name for file in files})
    (chunk,) = (file for file in files if file.name.startswith("chunk"))
    assert chunk.deleted_rows == 4
