"""Which commits of a mirror count as another program's change."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from engine.capture.landing import Commit
from engine.destination.delta.log.foreign_commits import commits_after, commits_up_to, read_commit
from engine.destination.delta.read.mirror import Mirror
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.unit.destination.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A mirror with ten rows."""
    lake = Lake(tmp_path, "copy_on_write")
    lake.copy({n: n for n in range(10)})
    return lake


def foreign(lake: Lake) -> list[tuple[int, str]]:
    """The commits by which others changed rows: version and operation."""
    return [(one.version, one.operation) for one in commits_after(lake.pair.mirror.folder, -1) if one.foreign]


def row(key: int) -> pa.Table:
    """A row of the mirror."""
    return pa.table({"id": pa.array([key], pa.int32()), "v": pa.array([1], pa.int32())})


def test_every_operation_of_another_program_that_changes_rows_counts(lake: Lake) -> None:
    """Those that only move rows, delete old files or set properties do not; nor do those without an effect."""
    folder = path_of(lake.pair.mirror.folder)

    def mirror() -> DeltaTable:
        return DeltaTable(str(folder))

    created = mirror().version()
    mirror().update(updates={"v": "100"}, predicate="id = 3")
    mirror().delete("id = 4")
    write_deltalake(str(folder), row(77), mode="append", schema_mode="merge")
    mirror().optimize.compact()
    mirror().delete("id = 4000")
    mirror().update(updates={"v": "1"}, predicate="id = 4000")
    mirror().restore(created)
    mirror().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    mirror().alter.set_table_properties({"delta.logRetentionDuration": "interval 7 days"})
    mirror().create_write_transaction([], mode="append", schema=mirror().schema())
    mirror().create_checkpoint()
    write_deltalake(str(folder), row(78), mode="overwrite", schema_mode="merge")
    found = [operation for _, operation in foreign(lake)]
    assert found == ["UPDATE", "DELETE", "WRITE", "RESTORE", "WRITE"]
    operations = [one.operation for one in commits_after(LocalFolder(folder), created)]
    assert {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES"} < set(operations)
    seen = Mirror(LocalFolder(folder)).foreign_commits(3)
    assert [one.operation for one in seen] == ["WRITE", "RESTORE", "WRITE"]
    assert {one.author.partition(":")[0] for one in seen} == {"delta-rs"}


@pytest.mark.parametrize("mode", ["copy_on_write", "merge_on_read"])
def test_what_tidemark_commits_does_not_count(tmp_path: Path, mode: str) -> None:
    """Its chunks, merges, maintenance and resnapshots; only the last replaces all rows."""
    lake = Lake(tmp_path, mode)  # type: ignore[arg-type]
    lake.copy({n: n for n in range(300)})
    for n in range(12):
        lake.change([(n, n + 1000)])
    lake.maintenance.optimize()
    assert not foreign(lake)
    assert not any(one.replaces for one in commits_after(lake.pair.mirror.folder, -1))
    lake.empty(lake.epoch + 1)
    (*_, last) = commits_after(lake.pair.mirror.folder, -1)
    assert (last.foreign, last.replaces) == (False, True)
    assert next(commits_up_to(lake.pair.mirror.folder, last.version)) == last


def test_the_author_is_named_as_far_as_the_commit_says(lake: Lake) -> None:
    """The user, else the program; a commit need not say anything, and its lines may have any order."""
    folder = path_of(lake.pair.mirror.folder)
    named = CommitProperties(custom_metadata={"userName": "alice"})
    DeltaTable(str(folder)).delete("id = 1", commit_properties=named)
    version = DeltaTable(str(folder)).version()
    path = folder / "_delta_log" / f"{version:020d}.json"
    found = read_commit(LocalFolder(folder), version)
    assert found is not None
    assert (found.author, found.operation, found.foreign) == ("alice", "DELETE", True)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(reversed(lines)))
    assert read_commit(LocalFolder(folder), version) == found
    path.write_text("\n".join(line for line in lines if "commitInfo" not in line))
    unnamed = read_commit(LocalFolder(folder), version)
    assert unnamed is not None
    assert unnamed.at_s == pytest.approx(path.stat().st_mtime, abs=1e-3)  # nanoseconds do not fit into a float
    expected = Commit(version, "?", "an unknown program", unnamed.at_s, foreign=True, replaces=False)
    assert unnamed == expected


def test_a_commit_that_is_not_whole_is_read_when_it_is(lake: Lake) -> None:
    """Another program may be writing it, or a power cut tore it and it will be set aside.

    Not if later ones rest on it.
    """
    folder = path_of(lake.pair.mirror.folder)
    DeltaTable(str(folder)).delete("id = 1")
    version = DeltaTable(str(folder)).version()
    path = folder / "_delta_log" / f"{version:020d}.json"
    whole = sorted(path.read_text().splitlines(keepends=True), key=lambda line: "commitInfo" not in line)
    for text in ("", whole[0][:-20], whole[0] + whole[1][:20]):
        path.write_text(text)
        assert not list(commits_after(LocalFolder(folder), version - 1))
        torn = read_commit(LocalFolder(folder), version)
        assert torn is not None
        assert (torn.is_torn, torn.foreign) == (True, False)
    (path.parent / f"{version + 1:020d}.json").write_text("".join(whole))
    assert [(one.version, one.foreign) for one in commits_after(LocalFolder(folder), version - 1)] == [
        (version, False),
        (version + 1, True),
    ]


def test_what_a_commit_says_fits_into_an_event(tmp_path: Path) -> None:
    """Its texts may be long, or none; its lines may have any depth."""
    (tmp_path / "_delta_log").mkdir()
    info = json.dumps({"commitInfo": {"userName": "\ud800" + 1000 * "x", "operation": None}})
    add = json.dumps({"add": {"dataChange": True}})
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text("\n".join([100_000 * "[", add, info]))
    (found,) = commits_after(LocalFolder(tmp_path), -1)
    assert (found.foreign, found.author, found.operation) == (True, "?" + 199 * "x", "None")


def test_only_new_commits_are_read(tmp_path: Path) -> None:
    """Also after cleaned up ones. Of a log that was not read before, or is another one now, the newest are read."""
    log = tmp_path / "_delta_log"
    log.mkdir()

    def versions(after: int) -> list[int]:
        return [one.version for one in commits_after(LocalFolder(tmp_path), after)]

    assert versions(-1) == versions(3) == []
    for version in range(250):
        (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": {}}))
    assert versions(249) == []
    assert versions(247) == [248, 249]
    assert versions(-1) == versions(300) == list(range(150, 250))
    for version in range(245):
        (log / f"{version:020d}.json").unlink()
    assert versions(-1) == versions(300) == versions(7) == list(range(245, 250))
    assert versions(246) == [247, 248, 249]
    (log / f"{249:020d}.json").unlink()
    assert versions(249) == list(range(245, 249)), "a copy of the folder was put back"
