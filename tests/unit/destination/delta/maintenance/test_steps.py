"""Maintenance changes no row: what it merges, what it deletes, and what it leaves."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from engine.base import clock
from engine.destination.capabilities import MaintenanceStep
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.log.delta_log import DeltaLog
from engine.destination.delta.maintenance.optimize import next_rewrite
from engine.destination.delta.maintenance.steps import PairMaintenance
from engine.destination.delta.merge import newest_images
from engine.destination.destination_protocol import KINDS
from engine.destination.maintenance_schedule import Maintenance, MaintenanceRequest
from engine.destination.table_progress import Target
from engine.journal.events import ErrorReported
from engine.spec.sink_settings import MirrorMode, Sink
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.unit.destination.lake import INT, MAX_VERSIONS, Lake

NO_TIME = timedelta()


class Events:
    """A journal that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[object] = []

    def write(self, event: object) -> None:
        self.written.append(event)


def files(folder: Path) -> list[StoredFile]:
    """The data files of the newest version."""
    return DeltaLog(LocalFolder(folder)).files(DeltaTable(str(folder)))


@contextmanager
def rewritten(limit: int) -> Iterator[None]:
    """Fail a loop that does not end."""
    left = [limit]
    with pytest.MonkeyPatch.context() as patch:

        def counted(*args: object, **options: object) -> object:
            left[0] -= 1
            assert left[0], "optimize does not end"
            return next_rewrite(*args, **options)  # type: ignore[arg-type]

        patch.setattr("engine.destination.delta.maintenance.steps.next_rewrite", counted)
        yield


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["merge_on_read"])  # without deletion vectors, there is no garbage
def test_optimize_ends_and_leaves_little_garbage(
    tmp_path: Path, mode: MirrorMode, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that overlap, with deleted rows.

    Small limits, so that ranges are moved in part and files rewritten alone.
    """
    monkeypatch.setattr("engine.destination.delta.maintenance.optimize.SMALL_BYTES", 4000)
    monkeypatch.setattr("engine.destination.delta.maintenance.optimize.MOST_BYTES", [2000, 8000, 20_000, 10**9][seed])
    chance, lake = random.Random(seed), Lake(tmp_path, mode)
    for begin in range(0, 4000, 800):
        lake.copy({key * 2: 0 for key in range(begin, begin + 800)})
    for turn in range(9):
        center = chance.randrange(8000)
        keys = list(range(8000)) if turn % 4 == 0 else list(range(center, center + 600))
        lake.change(lake.random_changes(chance, 250, keys))
        if turn % 3 == 2:
            with rewritten(60):
                while lake.maintenance.optimize():
                    pass
            assert all(file.deleted_rows < 0.2 * file.rows for file in files(path_of(lake.pair.mirror.folder)))
            assert lake.mirror() == lake.rows
    lake.check()


def test_overlapping_files_do_not_take_rows_from_each_other_for_ever(tmp_path: Path) -> None:
    """Two large files share two fifths of their range; each has garbage. (It once did not end.)"""
    lake = Lake(tmp_path, "merge_on_read")
    lake.copy(dict.fromkeys(range(0, 100000, 2), 1))
    lake.copy(dict.fromkeys(range(60001, 160000, 2), 1))
    lake.change([(key, None) for key in range(0, 60_000, 4)])
    lake.change([(key, None) for key in range(110_001, 160_000, 4)])
    with rewritten(12):
        while lake.maintenance.optimize():
            pass
    lake.check()


def test_a_change_log_is_compacted_by_closed_periods_in_its_order(tmp_path: Path, mode: MirrorMode) -> None:
    """The current hour stays; then hours, days and months become one file each, and no row changes its place."""
    chance, lake = random.Random(5), Lake(tmp_path, mode)
    lake.copy(dict.fromkeys(range(50), 0))
    for _ in range(24):
        lake.append(lake.random_changes(chance, 5, list(range(60))), timedelta(minutes=20))
    assert len(files(path_of(lake.pair.changes.folder))) == 24
    while lake.maintenance.compact(lake.now):
        pass
    first = sorted(file.rows for file in files(path_of(lake.pair.changes.folder)))
    assert sum(first) == len(lake.log)
    assert 8 <= len(first) <= 11, "8 hours, and the last one"
    assert log_of(lake) == lake.log
    while lake.maintenance.compact(lake.now + timedelta(days=1)):
        pass
    assert log_of(lake) == lake.log
    assert len(files(path_of(lake.pair.changes.folder))) == 1
    (only,) = files(path_of(lake.pair.changes.folder))
    assert (only.low["_tm_seq"], only.high["_tm_seq"]) == (1, len(lake.log))


def log_of(lake: Lake) -> list[tuple[int, str, int]]:
    """The change log in the order of its files."""
    ordered = sorted(files(path_of(lake.pair.changes.folder)), key=lambda file: file.low["_tm_seq"])
    rows = [row for file in ordered for row in pq.read_table(path_of(lake.pair.changes.folder) / file.name).to_pylist()]
    return [(row["_tm_seq"], row["_tm_kind"], row["id"]) for row in rows]


def test_another_tool_that_a_step_overtakes_gives_way(tmp_path: Path, mode: MirrorMode) -> None:
    """Its OPTIMIZE began before ours and ends after it: without a conflict, the rows of both would be in the table."""
    chance, lake = random.Random(8), Lake(tmp_path, mode)
    for begin in range(0, 2000, 200):
        lake.copy(dict.fromkeys(range(begin, begin + 200), 0))
    for _ in range(3):
        lake.change(lake.random_changes(chance, 20, list(range(200))))
    mirror, changes = (
        DeltaTable(str(folder)) for folder in (path_of(lake.pair.mirror.folder), path_of(lake.pair.changes.folder))
    )
    assert lake.maintenance.optimize()
    assert lake.maintenance.compact(lake.now + timedelta(days=1))
    assert lake.kept() == lake.stored()
    for other in (mirror, changes):
        with pytest.raises(CommitFailedError):
            other.optimize.compact()
    lake.check()


def test_changes_expire_when_the_mirror_has_them(tmp_path: Path, mode: MirrorMode) -> None:
    """Old changes go, newer ones and unmerged ones stay; without a mirror, none goes."""
    lake = Lake(tmp_path, mode)
    lake.copy({1: 1})
    lake.change([(1, 2)])
    lake.change([(1, 3)], timedelta(days=5))
    unmerged = lake.append([(1, 4)])
    assert lake.maintenance.expire(lake.now - timedelta(days=1)) is not None
    assert [line[0] for line in lake.log[1:]] == sorted(
        seq for file in files(path_of(lake.pair.changes.folder)) for seq in [file.low["_tm_seq"]]
    )
    assert lake.maintenance.expire(lake.now + timedelta(days=1)) is not None
    assert [file.low["_tm_seq"] for file in files(path_of(lake.pair.changes.folder))] == [3], "it is not merged"
    lake.merge(unmerged)
    assert lake.mirror() == lake.rows == {1: 4}
    keyless = Lake(tmp_path / "k", mode, replace(INT, key=()))
    keyless.append([(1, 2)])
    assert keyless.maintenance.expire(keyless.now + timedelta(days=9)) is None


def test_a_vacuum_respects_its_retention_and_the_ledger(
    tmp_path: Path, mode: MirrorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins when a file is first found unnamed, and survives a restart; vectors go too; needed files stay."""
    lake = Lake(tmp_path, mode)
    lake.copy(dict.fromkeys(range(100), 0))
    lake.change([(1, 1)])
    old = {path for path in path_of(lake.pair.mirror.folder).rglob("*") if path.suffix in (".parquet", ".bin")}
    lake.change([(2, 1), (1, None)])
    spared = path_of(lake.pair.mirror.folder) / "chunk-0-needed.parquet"
    spared.write_bytes(b"x")
    young = path_of(lake.pair.mirror.folder) / "chunk-1-uncommitted.parquet"
    young.write_bytes(b"x")
    assert lake.maintenance.vacuum({spared.name}, timedelta(days=7)) is None, "nothing was noted before"
    week = clock_after(monkeypatch, timedelta(days=6))
    assert PairMaintenance(lake.opened(), lake.notes, MAX_VERSIONS).vacuum({spared.name}, timedelta(days=7)) is None
    week(timedelta(days=7, minutes=1))
    done = PairMaintenance(lake.opened(), lake.notes, MAX_VERSIONS).vacuum({spared.name}, timedelta(days=7))
    assert done is not None
    named = {path for path in path_of(lake.pair.mirror.folder).rglob("*") if path.suffix in (".parquet", ".bin")}
    assert spared in named
    assert young not in named
    assert old - named, "old versions are gone"
    assert done.removed_files >= len(old - named)
    lake.check()
    later = path_of(lake.pair.mirror.folder) / "changes-2-uncommitted.parquet"
    later.write_bytes(b"x")
    lake.maintenance.vacuum({spared.name}, NO_TIME)
    lake.maintenance.vacuum({spared.name}, NO_TIME)
    assert later.exists(), "a reader may have written it a moment ago"


def clock_after(monkeypatch: pytest.MonkeyPatch, first: timedelta) -> Callable[[timedelta], None]:
    """Set the clock to now plus a time; the result sets it again."""
    start, real = clock.utc_now(), clock.utc_text

    def put(after: timedelta) -> None:
        monkeypatch.setattr("engine.base.clock.utc_now", lambda: start + after)
        monkeypatch.setattr("engine.base.clock.utc_text", lambda at=None: real(at or start + after))

    put(first)
    return put


def test_maintenance_is_due_after_merges_and_answers_requests(tmp_path: Path, mode: MirrorMode) -> None:
    """A table is looked at after ten merges; a request runs everything.

    A failure is journaled and the others continue.
    """
    lake, events, chance = Lake(tmp_path, mode), Events(), random.Random(6)
    lake.copy(dict.fromkeys(range(1000), 0))
    sink = Sink(path=tmp_path, files_retention="0s")
    maintenance = Maintenance(sink, events, dict)  # type: ignore[arg-type]
    targets = {
        "d.t": Target(
            lake.delta,
            lake.maintenance,
            mutable_key=False,
            applied_epochs=dict.fromkeys(KINDS, 0),
            on_commit=lambda _: None,
        )
    }
    for _ in range(9):
        lake.change(lake.random_changes(chance, 40, list(range(1000))))
        maintenance.count_commit("d.t", is_merge=True)
    assert not maintenance.run_one(targets)
    lake.change(lake.random_changes(chance, 40, list(range(1000))))
    maintenance.count_commit("d.t", is_merge=True)
    while maintenance.run_one(targets):
        pass
    steps = [event.step for event in events.written]  # type: ignore[attr-defined]
    assert steps == (["optimize"] if mode == "merge_on_read" else [])
    maintenance.request(MaintenanceRequest("one", ("d.t",)))
    while maintenance.run_one(targets):
        pass
    answer = maintenance.take_totals()["one"]
    assert not answer.failed_tables
    assert maintenance.take_totals() == {}
    lake.check()
    for path in path_of(lake.pair.changes.folder).rglob("*.json"):
        path.write_text("{")
    maintenance.request(MaintenanceRequest("two", ()))
    while maintenance.run_one(targets):
        pass
    assert set(maintenance.take_totals()["two"].failed_tables) == {"d.t"}
    failed = events.written[-1]
    assert isinstance(failed, ErrorReported)
    assert failed.table == "d.t"


class Noted(Maintenance):
    """Notes which steps are looked at; none has anything to do."""

    def _run(self, name: str, step: MaintenanceStep, _target: Target, _failed: list[str]) -> None:
        self.looked.append((name, step))

    def looks(self, targets: dict[str, Target]) -> list[tuple[str, MaintenanceStep]]:
        """Those that are due now."""
        self.looked: list[tuple[str, MaintenanceStep]] = []
        while self.run_one(targets):
            pass
        return self.looked


def test_tables_without_changes_are_looked_at_once_a_day_and_tables_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that changes is looked at every hour, and so is one that changed within two hours."""
    now_s = [0.0]
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now_s[0])
    lake = Lake(tmp_path, "copy_on_write")
    names = ("d.a", "d.b", "d.c")
    targets = {
        name: Target(lake.delta, lake.maintenance, mutable_key=False, applied_epochs={}, on_commit=lambda _: None)
        for name in names
    }
    noted = Noted(Sink(path=tmp_path), Events(), dict)  # type: ignore[arg-type]
    assert noted.looks(targets) == []
    counts = dict.fromkeys(names, 0)
    for minute in range(1, 26 * 60):
        now_s[0] = 60.0 * minute
        if minute % 7 == 0:
            noted.count_commit("d.b", is_merge=False)
        for name, step in noted.looks(targets):
            counts[name] += step == "vacuum"
    assert counts["d.b"] in (25, 26)
    assert counts["d.a"] == counts["d.c"] == 3, "ten minutes after the start, an hour later, and a day later"
    noted.count_commit("d.a", is_merge=False)
    now_s[0] += 3600
    assert {name for name, _ in noted.looks(targets)} == {"d.a", "d.b"}
    for name in names:
        for _ in range(50):
            noted.count_commit(name, is_merge=False)
    assert noted.run_one(targets)
    assert noted.run_one(targets)
    assert noted.looked[-1][0] != noted.looked[-2][0]


def test_another_tool_that_vacuums_without_retention_cannot_outrun_a_merge(
    tmp_path: Path, mode: MirrorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves the changes to other files and removes the old ones, each time that the merge is about to read one."""
    lake = Lake(tmp_path, mode)
    lake.copy({1: 1, 2: 2})
    files = [file for value in range(3, 6) for file in lake.append([(1, value), (value, value)])]
    gone = list[str]()

    def opened(folder: Folder, name: str) -> AbstractContextManager[pq.ParquetFile]:
        other = DeltaTable(lake.pair.changes.folder.url)
        other.optimize.compact()
        other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        if folder.find(name) is None:
            gone.append(name)
        return real(folder, name)

    real = newest_images.open_parquet
    monkeypatch.setattr(newest_images, "open_parquet", opened)
    lake.merge(files)
    assert gone
    assert lake.mirror() == lake.rows
    assert not [path.name for path in path_of(lake.pair.changes.folder).glob(".*.parquet")]
