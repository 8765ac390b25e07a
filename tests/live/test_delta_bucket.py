"""Delta tables in a bucket: what unit tests prove of those in a folder holds there, through bad weather too."""

import random
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError

from engine.base.errors import MissingFilesError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.decode.schema import Column, Table
from engine.destination.capabilities import DifferenceRow
from engine.destination.delta.generations import kept_generations
from engine.destination.delta.landing import DeltaLanding
from engine.destination.delta.layout import changes_folder, mirror_folder
from engine.destination.delta.log.delta_log import DeltaLog
from engine.destination.delta.log.known_tables import KnownTables
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.maintenance.steps import PairMaintenance
from engine.destination.delta.pair_versions import PairVersions
from engine.destination.delta.read.change_log import ChangeLog
from engine.destination.delta.read.differences import FOLDER as DIFFERENCES
from engine.destination.delta.read.differences import append_differences
from engine.explore.queries import answer
from engine.explore.reading import reading_of
from engine.spec.sink_settings import MirrorMode
from engine.store.bucket_folder import BucketFolder
from tests.servers.bucket import BucketServer
from tests.support.delta import rows_at
from tests.support.store_faults import Fault, StoreFaults, through
from tests.unit.destination.lake import INT, Lake

KEYS = list(range(300))


@pytest.fixture
def root(bucket: BucketServer) -> BucketFolder:
    """A lake without tables."""
    return bucket.root / uuid.uuid4().hex


def lived(tmp_path: Path, root: BucketFolder, mode: MirrorMode, rounds: int = 12) -> Lake:
    """A table that was copied and changed."""
    lake, chance = Lake(tmp_path, mode, root=root), random.Random(7)
    lake.copy(dict.fromkeys(KEYS[:200], 1))
    for _ in range(rounds):
        lake.change(lake.random_changes(chance, 20, KEYS), timedelta(hours=2))
    return lake


@pytest.mark.parametrize("mode", ["copy_on_write", "merge_on_read"])
def test_a_table_lives_in_a_bucket(tmp_path: Path, root: BucketFolder, mode: MirrorMode) -> None:
    """It is copied, merged, maintained, read in every way, forgotten by a process and remembered, and dropped."""
    lake = lived(tmp_path, root, mode)
    lake.check()
    assert (lake.maintenance.optimize() is not None) == (mode == "merge_on_read")
    assert lake.maintenance.compact(lake.now + timedelta(days=90)) is not None
    lake.pair.changes.lake.log.checkpoint()
    lake.check()
    lake.reopen()
    lake.change([(1, 5), (2, None)])
    lake.check()
    assert lake.maintenance.vacuum(set(), timedelta()) is not None
    lake.check()
    assert not lake.pair.missing_files()
    assert not lake.pair.fault()
    sizes = lake.maintenance.sizes()
    assert (sizes.mirror_files > 0, sizes.changes_files > 0) == (True, True)
    sql = "SELECT count(*) AS n, sum(v) AS s FROM d.t"
    assert answer(DeltaLanding(root), [INT], sql).rows.to_pylist() == [
        {"n": len(lake.rows), "s": sum(lake.rows.values())}
    ]
    assert reading_of(DeltaLanding(root), [INT], "d.t__changes").table().num_rows == len(lake.log)
    reader = DeltaLanding(root).reader(INT)
    mirror = reader.mirror()
    assert mirror is not None
    assert {row["id"]: row["v"] for part in mirror.batches(["id", "v"]) for row in part.to_pylist()} == lake.rows
    assert reader.defect() == ""
    assert not [commit for commit in reader.commits_after(-1) if commit.foreign]
    log = ChangeLog(lake.pair.changes.folder)
    parts = (part for segment in log._segments for part in log._read_files(segment, ["_tm_seq"]))
    numbers = [seq for part in parts for seq in part["_tm_seq"].to_pylist()]
    assert log.row_bytes() > 0
    assert numbers == list(range(1, len(lake.log) + 1))
    lake.pair.drop()
    assert not root.is_there


@pytest.mark.soak
def test_a_busy_table_keeps_few_objects_and_what_a_backup_names(
    tmp_path: Path, root: BucketFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest commits leave the log, and the files of their versions the bucket; the backup can be restored."""
    monkeypatch.setattr("engine.destination.delta.log.log_start.LEAST_RETENTION", timedelta())
    lake = lived(tmp_path, root, "merge_on_read", 10)
    newest, rows = PairVersions(lake.opened()).newest(), dict(lake.rows)
    numbers = {folder: version for folder, (version, _) in newest.items()}
    lake.opened().kept_versions.note({"d.t": numbers}, datetime.now(UTC) - timedelta(days=7))
    objects = list[int]()
    for seed in range(3):
        chance = random.Random(seed)
        for _ in range(50):
            lake.change(lake.random_changes(chance, 5, KEYS))
        for lake_table in lake.pair.lakes:
            lake_table.log.checkpoint()
        PairMaintenance(lake.opened(), lake.notes, 5).vacuum(set(), timedelta(days=7))
        objects.append(sum(1 for _ in root.below()) - sum(len(one.files()) for one in lake.pair.lakes))
    lake.check()
    assert objects[2] < 250 < 3 * 3 * 50, f"beside the newest version's files: {objects}"
    with pytest.raises(DeltaError):
        open_table(lake.pair.mirror.folder, numbers["t"])
    PairVersions(lake.opened()).roll_back(newest)
    assert lake.mirror() == rows


def test_what_is_known_of_a_table_is_believed_until_it_changes(
    tmp_path: Path, root: BucketFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the names and tags of all its files."""
    monkeypatch.setattr("engine.destination.delta.log.known_tables._SETTLED_S", -5.0)
    lake = lived(tmp_path, root, "merge_on_read", 3)
    known = KnownTables(lake.pair.remember())
    assert lake.opened().recall(known)
    (first, *_) = lake.pair.changes.lake.files()
    content = lake.pair.changes.folder.read(first.name)
    lake.pair.changes.folder.delete([first.name])
    assert not lake.opened().recall(known)
    assert first.name in lake.opened().missing_files()
    lake.pair.changes.folder.write(first.name, content)
    lake.change([(1, 1)])
    assert not lake.opened().recall(known)


def test_names_of_all_kinds_are_tables(tmp_path: Path, root: BucketFolder) -> None:
    """No two of them have one place."""
    for number, name in enumerate(("a b", "a%20b", "größe", "a~20b", "x+y")):
        table = Table("my shop", name, (Column("id", "int", nullable=False), Column("v", "int")), ("id",))
        lake = Lake(tmp_path / str(number), "merge_on_read", table, root=root)
        lake.copy({number: number})
        lake.change([(number, 9), (100, 1)])
        lake.pair.mirror.lake.log.checkpoint()
        lake.reopen()
        lake.check()
        assert mirror_folder(root, "my shop", name).name + "__changes" == changes_folder(root, "my shop", name).name


def test_a_change_log_begins_again_beside_what_is_kept(tmp_path: Path, root: BucketFolder) -> None:
    """The kept one has all changes, and is dropped with the table."""
    lake = lived(tmp_path, root, "copy_on_write", 3)
    other = replace(INT, columns=(INT.columns[0], Column("v", "date")))
    kept = lake.pair.changes.begin_generation(other, lake.epoch, "2026-11-26T09:30:00Z")
    assert kept is not None
    assert lake.pair.changes.begin_generation(other, lake.epoch, "2026-11-26T09:30:00Z") is None
    assert rows_at(kept).num_rows == len(lake.log)
    assert rows_at(lake.pair.changes.folder).num_rows == 0
    assert kept_generations(lake.pair.changes.folder) == [kept]
    lake.pair.drop()
    assert not root.is_there


def test_a_table_is_rolled_back(tmp_path: Path, root: BucketFolder) -> None:
    """To a version that is known by its number."""
    lake = lived(tmp_path, root, "merge_on_read", 2)
    before, rows = PairVersions(lake.pair).newest(), dict(lake.rows)
    lake.change([(1, 77), (400, 1)])
    versions = PairVersions(lake.opened())
    versions.check_roll_back(before, versions.identities())
    versions.roll_back(before)
    assert {row["id"]: row["v"] for row in rows_at(lake.pair.mirror.folder).to_pylist()} == rows


def test_a_deletion_that_was_interrupted_is_completed(
    tmp_path: Path, root: BucketFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of the table is no table, whatever of its log is there."""
    lake = lived(tmp_path, root, "merge_on_read", 2)
    real = BucketFolder.delete

    def half(folder: BucketFolder, names: list[str]) -> None:
        real(folder, list(names)[::2])
        raise StoreAwayError("away")

    with monkeypatch.context() as patch:
        patch.setattr(BucketFolder, "delete", half)
        with pytest.raises(StoreAwayError):
            lake.pair.drop()
    assert not lake.opened().all_exist
    again = Lake(tmp_path, "copy_on_write", root=root)
    again.copy({1: 1})
    assert again.mirror() == again.rows
    again.pair.drop()
    assert not root.is_there


def test_differences_are_appended(root: BucketFolder) -> None:
    """The table is created with the first ones."""
    row = DifferenceRow(None, "d.t", "extra", "1", [], "", "", "", "", 1)  # type: ignore[arg-type]
    for _ in range(2):
        append_differences(root, [row])
    assert rows_at(root / DIFFERENCES).num_rows == 2


@pytest.mark.soak
def test_bad_weather_changes_no_row(tmp_path: Path, root: BucketFolder, faults: StoreFaults) -> None:
    """One request in twenty is refused, one put in ten loses its answer; the client tries each up to five times."""
    dice, failures = random.Random(3), Counter[str]()

    def weather(method: str, path: str) -> Fault:
        chance = dice.random() if failures[path] < 4 else 1.0
        fault: Fault = "503" if chance < 0.05 else "lost" if chance < 0.15 and method == "PUT" else ""
        failures[path] = failures[path] + 1 if fault else 0
        return fault

    faults.fault = weather
    lake = lived(tmp_path, through(faults, root), "merge_on_read", 25)
    lake.check()
    assert lake.pair.mirror.lake.log.version == 26, "each epoch is one commit"
    assert faults.met["lost"]
    assert faults.met["503"]


def test_a_store_that_cannot_be_used_is_no_error_of_a_table(
    tmp_path: Path, root: BucketFolder, faults: StoreFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away, or with wrong credentials: no table is called damaged, no file is called missing."""
    lake = lived(tmp_path, root, "merge_on_read", 1)
    beyond = Lake(tmp_path, "merge_on_read", root=through(faults, root))
    beyond.rows, beyond.log, beyond.epoch = dict(lake.rows), list(lake.log), lake.epoch
    files = beyond.append([(1, 2)])
    faults.fault = lambda _method, _path: "503"
    for use in (
        DeltaLog(beyond.pair.mirror.folder).load,
        lambda: beyond.merge(files),
        beyond.opened().missing_files,
        DeltaLanding(through(faults, root)).reader(INT).mirror,
    ):
        with pytest.raises(StoreAwayError):
            use()
    faults.fault = lambda _method, _path: ""
    beyond.merge(files)
    beyond.check()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    endpoint = f"http://localhost:{root.settings.endpoint.rpartition(':')[2] if root.settings.endpoint else ''}"
    refused = replace(root, settings=replace(root.settings, endpoint=endpoint))
    with pytest.raises(StoreAccessError):
        DeltaLog(mirror_folder(refused, "d", "t")).load()


def test_an_epoch_takes_four_requests_of_a_table(tmp_path: Path, root: BucketFolder, faults: StoreFaults) -> None:
    """Its file, a look at that and at the commit before at the same time, and the commit.

    What the table has is not asked for.
    """
    lake = lived(tmp_path, through(faults, root), "merge_on_read", rounds=2)
    requests: list[str] = []

    def count(method: str, path: str) -> Fault:
        requests.append(f"{method} {'commit' if path.endswith('.json') else 'file'}")
        return ""

    faults.fault = count
    for key in range(3):
        lake.append([(key, 5)])
    faults.fault = lambda _method, _path: ""
    epochs = [requests[first : first + 4] for first in range(0, len(requests), 4)]
    assert [[put, *sorted(looks), commit] for put, *looks, commit in epochs] == [
        ["PUT file", "HEAD commit", "HEAD file", "PUT commit"]
    ] * 3


@pytest.mark.parametrize(("mode", "most"), [("copy_on_write", 12), ("merge_on_read", 13)])
def test_a_merge_of_a_small_file_takes_a_dozen_requests(
    tmp_path: Path, root: BucketFolder, faults: StoreFaults, mode: MirrorMode, most: int
) -> None:
    """Each is a wait of some 50 ms, and money. What it wrote itself is not asked for, and nothing is deleted."""
    lake = lived(tmp_path, through(faults, root), mode, rounds=4)
    lake.merge(lake.append([(7, 5)]))
    files, requests = lake.append([(7, 6)]), list[str]()

    def count(method: str, path: str) -> Fault:
        requests.append(f"{method} {path}")
        return ""

    faults.fault = count
    lake.merge(files)
    faults.fault = lambda _method, _path: ""
    assert len(requests) <= most, requests
    assert not any("delete" in request for request in requests)


def test_a_file_that_is_gone_is_named(tmp_path: Path, root: BucketFolder) -> None:
    """It is never added."""
    lake = Lake(tmp_path, "merge_on_read", root=root)
    files = lake.append([(1, 1)])
    lake.pair.changes.folder.delete([files[0].name])
    with pytest.raises(MissingFilesError, match=files[0].name):
        lake.merge(files)


def test_credentials_that_expire_in_a_commit_delete_none_of_its_files(
    tmp_path: Path, root: BucketFolder, faults: StoreFaults
) -> None:
    """The commit is made. Its answer is lost, and the client's repetition refused."""
    lake = Lake(tmp_path, "copy_on_write", root=through(faults, root))
    lake.copy({1: 1, 2: 2, 3: 3})
    files = lake.append([(2, 20), (1, None)])
    commit = f"{lake.pair.mirror.lake.log.version + 1:020d}.json"
    losses = iter([True])

    def expires(_method: str, path: str) -> Fault:
        if commit not in path:
            return ""
        return "lost" if next(losses, False) else "403" if faults.met["lost"] else ""

    faults.fault = expires
    with suppress(StoreAccessError):
        lake.merge(files)
    assert faults.met["403"]
    faults.fault = lambda _method, _path: ""
    lake.reopen()
    assert not lake.pair.missing_files()
    lake.merge(files)
    lake.check()


def test_a_mark_of_an_earlier_table_counts_for_nothing(tmp_path: Path, root: BucketFolder) -> None:
    """The request that made it arrived when that table was dropped and another one had joined."""
    lake = lived(tmp_path, root, "copy_on_write", rounds=2)
    lake.pair.mirror.folder.write("_dropped", b"another table's identifier")
    lake.reopen()
    assert lake.pair.all_exist
    lake.check()
