"""A table with very many versions keeps the newest ones and those of backups, for an hour at least."""

import random
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.base import clock
from engine.base.errors import DestinationError
from engine.destination.capabilities import Versions
from engine.destination.delta.log import log_start as log_start_module
from engine.destination.delta.log.delta_actions import Actions
from engine.destination.delta.log.kept_versions import OldVersion
from engine.destination.delta.log.log_start import LEAST_RETENTION
from engine.destination.delta.maintenance.steps import PairMaintenance
from engine.destination.delta.pair_versions import PairVersions
from engine.destination.delta.read.mirror import Mirror
from engine.spec.sink_settings import MirrorMode
from tests.support.delta import rows_at
from tests.support.depth import depth, in_soak
from tests.unit.destination.lake import Lake

WEEK = timedelta(days=7)
MOST = 30
MODES = pytest.mark.parametrize("mode", ["copy_on_write", "merge_on_read"])


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Moves the clock."""
    shift = [timedelta()]
    monkeypatch.setattr(clock, "utc_now", lambda: datetime.now(UTC) + shift[0])
    monkeypatch.setattr(clock, "unix_s", lambda: clock.utc_now().timestamp())

    def move(by: timedelta) -> None:
        shift[0] += by

    return move


def busy(lake: Lake, commits: int, seed: int = 1) -> None:
    """Change the table so many times."""
    chance = random.Random(seed)
    for _ in range(commits):
        lake.change(lake.random_changes(chance, 3, list(range(60))))


def vacuum(lake: Lake, most: int = MOST) -> None:
    """Look at the folders, as the runner does."""
    PairMaintenance(lake.opened(), lake.notes, most).vacuum(set(), WEEK)


def stored(lake: Lake) -> int:
    """The files of both Delta tables that the newest versions do not need."""
    files = sum(path.is_file() for of in lake.pair.lakes for path in Path(of.folder.url).rglob("*"))
    return files - sum(len(of.files()) for of in lake.pair.lakes)


def readable(lake: Lake, versions: Iterable[int]) -> None:
    """Read the rows of these versions of the mirror."""
    for version in versions:
        earlier = Mirror(lake.pair.mirror.folder).at(version)
        assert earlier is not None, version
        assert sum(batch.num_rows for batch in earlier.batches(["id"])) > 0


def noted(lake: Lake) -> Versions:
    """The newest versions, which a backup names."""
    versions = PairVersions(lake.opened()).newest()
    numbers = {folder: number for folder, (number, _) in versions.items()}
    lake.opened().kept_versions.note({lake.table.full_name: numbers}, clock.utc_now() - WEEK)
    return versions


@pytest.mark.parametrize("mode", ["copy_on_write", in_soak("merge_on_read")])
def test_a_busy_table_keeps_a_bounded_number_of_files(
    tmp_path: Path, mode: MirrorMode, moved: Callable[[timedelta], None]
) -> None:
    """Its rows, and the versions that are left, stay readable; an hour's versions stay, however many there are."""
    lake = Lake(tmp_path, mode)
    lake.copy(dict.fromkeys(range(50), 0))
    sizes = list[int]()
    for turn in range(depth(3, 6)):
        first = lake.pair.mirror.lake.log.version
        busy(lake, 60, turn)
        vacuum(lake)
        readable(lake, range(first, first + 61))  # none of them is an hour old
        moved(LEAST_RETENTION)
        vacuum(lake)
        sizes.append(stored(lake))
        lake.check()
    unbounded = Lake(tmp_path / "unbounded", mode)
    unbounded.copy(dict.fromkeys(range(50), 0))
    busy(unbounded, 120)
    assert max(sizes) < stored(unbounded), (sizes, "of more versions, fewer files than of 120")
    delta = DeltaTable(str(lake.pair.mirror.folder.url))
    oldest = min(
        version
        for version in range(delta.version() + 1)
        if (Path(lake.pair.mirror.folder.url) / "_delta_log" / f"{version:020d}.json").exists()
    )
    assert 0 < oldest <= delta.version() - MOST
    readable(lake, range(oldest, delta.version() + 1))


def test_few_versions_with_very_many_files_go_too(tmp_path: Path, moved: Callable[[timedelta], None]) -> None:
    """A commit may take several epochs, each with files of its own. What is left stays readable."""
    lake, most = Lake(tmp_path, "merge_on_read"), 60
    lake.copy(dict.fromkeys(range(50), 0))
    changes = lake.pair.changes.lake
    for turn in range(25):
        files = [file for key in range(12) for file in lake.write([(key, turn)])]
        lake.delta.append("changes", lake.epoch, files)
        lake.merge(files)
    assert lake.maintenance.expire(clock.utc_now()) is not None
    vacuum(lake, most)
    crowded = stored(lake)
    assert crowded > 4 * most
    busy(lake, 25)
    vacuum(lake, most)
    assert stored(lake) > crowded, "no version is an hour old"
    moved(LEAST_RETENTION)
    vacuum(lake, most)
    assert changes.log.version < most
    assert stored(lake) < crowded - 12 * 25 + 4 * 25
    oldest = min(int(path.stem) for path in (Path(changes.folder.url) / "_delta_log").glob("*[0-9].json"))
    for version in range(oldest, changes.log.version + 1):
        assert rows_at(changes.folder, version).num_rows > 0
    assert lake.mirror() == lake.rows


@MODES
def test_what_a_backup_names_can_be_restored(
    tmp_path: Path, mode: MirrorMode, moved: Callable[[timedelta], None]
) -> None:
    """For as long as files are kept, although its version has left the log; no longer than that."""
    lake = Lake(tmp_path, mode)
    lake.copy(dict.fromkeys(range(50), 0))
    busy(lake, 25)
    versions, rows = noted(lake), dict(lake.rows)
    for turn in range(4):
        busy(lake, 60, 10 + turn)
        moved(LEAST_RETENTION)
        vacuum(lake)
    with pytest.raises((DeltaError, OSError)):
        DeltaTable(str(lake.pair.mirror.folder.url), version=versions[lake.pair.mirror.folder.name][0])
    assert list((tmp_path / "_tidemark").rglob("versions/*/*/*.json"))
    pair = lake.opened()
    PairVersions(pair).check_roll_back(versions, PairVersions(pair).identities())
    PairVersions(pair).roll_back(versions)
    lake.reopen()
    assert lake.mirror() == rows
    moved(WEEK)
    busy(lake, 60, 30)
    moved(LEAST_RETENTION)
    vacuum(lake)
    assert not list((tmp_path / "_tidemark").rglob("versions/*/*/*.json")), "the note is too old"
    with pytest.raises(DestinationError, match="is missing"):
        PairVersions(lake.opened()).check_roll_back(versions, {})


def test_a_kill_while_commits_are_deleted_leaves_the_newest_versions(
    tmp_path: Path, moved: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next look deletes the rest."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(50), 0))
    busy(lake, 90)
    moved(LEAST_RETENTION)
    monkeypatch.setattr(log_start_module, "_BATCH", 5)
    start = log_start_module.log_start(
        lake.pair.mirror.folder, lake.pair.mirror.lake.log.version, MOST, clock.utc_now()
    )
    assert start is not None
    log = lake.pair.mirror.folder / "_delta_log"
    log.delete(start.earlier_names[:5])
    lake.reopen()
    lake.check()
    assert Mirror(lake.pair.mirror.folder).at(start.version) is not None
    vacuum(lake)
    assert not {entry.name for entry in log.entries()} & set(start.earlier_names)
    busy(lake, 3)
    lake.check()


def test_a_time_before_the_oldest_version_is_refused(tmp_path: Path, moved: Callable[[timedelta], None]) -> None:
    """It says when the oldest one was committed, and never gives a later one."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(50), 0))
    busy(lake, 5)
    early = datetime.now(UTC)
    busy(lake, 90)
    moved(LEAST_RETENTION)
    vacuum(lake)
    with pytest.raises(DeltaError, match=r"its oldest version was committed at .* earlier ones were deleted"):
        Mirror.if_there(lake.pair.mirror.folder, early)
    assert Mirror.if_there(lake.pair.mirror.folder, datetime.now(UTC)) is not None


def test_a_version_that_cannot_be_kept_stays_in_the_log(
    tmp_path: Path, moved: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup can still be restored; the next look tries again."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(50), 0))
    busy(lake, 25)
    versions = noted(lake)
    busy(lake, 90)
    moved(LEAST_RETENTION)
    with monkeypatch.context() as patch:

        def refused(*_: object) -> OldVersion:
            raise PermissionError(13, "Permission denied")

        patch.setattr(OldVersion, "from_log", refused)
        with pytest.raises(PermissionError):
            vacuum(lake)
    PairVersions(lake.opened()).check_roll_back(versions, {})
    vacuum(lake)
    PairVersions(lake.opened()).check_roll_back(versions, {})


def test_a_checkpoint_of_which_a_part_is_missing_is_passed_over(
    tmp_path: Path, moved: Callable[[timedelta], None]
) -> None:
    """Another tool is writing it, or was killed. The log does not begin there, and no vector is lost with it."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(50), 0))
    busy(lake, 90)
    moved(LEAST_RETENTION)
    vacuum(lake)
    mirror = lake.pair.mirror
    log = mirror.folder / "_delta_log"
    version = mirror.lake.log.version
    (checkpoint, *_) = sorted(entry.name for entry in log.entries() if ".checkpoint.parquet" in entry.name)
    for number in (version - 1, version - MOST - 1):
        log.write(f"{number:020d}.checkpoint.{1:010d}.{2:010d}.parquet", log.read(checkpoint))
    log.write(f"{version - MOST:020d}.checkpoint.parquet", b"")
    lake.reopen()
    busy(lake, 2)
    lake.check()
    moved(LEAST_RETENTION)
    vacuum(lake)
    lake.reopen()
    busy(lake, 2)
    lake.check()


def test_what_others_write_waits_for_the_whole_retention(tmp_path: Path, moved: Callable[[timedelta], None]) -> None:
    """They may commit it later. A chunk that a slow reader writes waits for a day."""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(50), 0))
    folder = lake.pair.mirror.folder
    theirs, chunk = "part-00000-5f.snappy.parquet", f"chunk-{7:032x}.parquet"
    folder.write(theirs, b"theirs")
    folder.write(chunk, b"a chunk")
    for turn in range(3):
        busy(lake, 60, turn)
        vacuum(lake)
        moved(LEAST_RETENTION)
    assert folder.find(theirs) is not None
    assert folder.find(chunk) is not None
    moved(timedelta(days=1))
    vacuum(lake)
    assert folder.find(theirs) is not None
    assert folder.find(chunk) is None
    moved(WEEK)
    vacuum(lake)
    assert folder.find(theirs) is None


@MODES
def test_a_clock_that_was_ahead_deletes_nothing_too_early(
    tmp_path: Path, mode: MirrorMode, moved: Callable[[timedelta], None]
) -> None:
    """Versions are compared, not times."""
    lake = Lake(tmp_path, mode)
    lake.copy(dict.fromkeys(range(50), 0))
    busy(lake, 30)
    moved(timedelta(days=1))
    busy(lake, 30)
    moved(-timedelta(days=1))
    versions = noted(lake)
    for turn in range(3):
        busy(lake, 40, turn)
        vacuum(lake)
        moved(timedelta(hours=9))
    vacuum(lake)
    PairVersions(lake.opened()).check_roll_back(versions, {})


def test_a_table_that_was_created_again_keeps_its_own_versions(
    tmp_path: Path, moved: Callable[[timedelta], None]
) -> None:
    """The first one had a kept version of the same number."""
    _kept(tmp_path, 1, moved)
    lake = Lake(tmp_path, "merge_on_read")
    lake.opened().drop()
    lake.notes.unlink()
    versions, identities = _kept(tmp_path, 2, moved)
    PairVersions(lake.opened()).check_roll_back(versions, identities)


def _kept(folder: Path, seed: int, moved: Callable[[timedelta], None]) -> tuple[Versions, Mapping[str, str]]:
    """A new table, whose backup names a version that its log has lost since, and its identifiers."""
    lake = Lake(folder, "merge_on_read")
    lake.copy(dict.fromkeys(range(50), seed))
    busy(lake, 11, seed)
    versions, identities = noted(lake), PairVersions(lake.opened()).identities()
    busy(lake, 90, seed)
    moved(LEAST_RETENTION)
    vacuum(lake)
    return versions, identities


@MODES
def test_a_table_that_had_no_key_once_is_rolled_back(tmp_path: Path, mode: MirrorMode) -> None:
    """Its change log then got the chunks. Backups of earlier versions do not name them."""
    lake = Lake(tmp_path, mode)
    lake.copy({1: 1})
    changes = lake.pair.changes.lake
    changes.commit(lambda: Actions("WRITE", {changes.app("chunks"): 3}))
    lake.change([(1, 2)])
    lake.reopen()
    versions, rows = PairVersions(lake.opened()).newest(), dict(lake.rows)
    folder = changes.folder.name
    number, transactions = versions[folder]
    assert transactions[changes.app("chunks")] == 3
    earlier = {**versions, folder: (number, {a: n for a, n in transactions.items() if not a.endswith("-chunks")})}
    lake.change([(1, 3)])
    pair = lake.opened()
    for backup in (versions, earlier):
        PairVersions(pair).check_roll_back(backup, PairVersions(pair).identities())
    PairVersions(pair).roll_back(versions)
    lake.reopen()
    assert lake.mirror() == rows
