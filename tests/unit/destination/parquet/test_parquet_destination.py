"""A Parquet destination loses and doubles nothing: on a full disk, with a restored ledger, in a killed deletion."""

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import is_disk_full
from engine.capture.files import DataFile
from engine.destination.destination_protocol import CHANGES, CHUNKS, EpochEnd
from engine.destination.parquet import manifests
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.state import Owner
from engine.ledger.store import Ledger
from engine.store import local_folder as written_files
from engine.store.local_folder import LocalFolder
from tests.support.parquet import files_of, generation_of, log_rows, replayed
from tests.unit.destination.support import OLD, PLAN, WHOLE_SPLIT, World, publish_story, story, switch

LEFT = {2: 2, 3: 3}
"""The table after the story."""


class Killed(BaseException):
    """A kill: no code of the engine catches it."""


def rows_of(folder: Path, table: str = "d.t") -> dict[Any, Any]:
    """The table's values by key, as the documentation replays them."""
    return {key: row["v"] for key, row in replayed(folder / "lake", table, "id").items()}


def there(folder: Path) -> set[str]:
    """The Parquet files that are in the table's folder, relative to the destination."""
    lake = folder / "lake"
    return {path.relative_to(lake).as_posix() for path in (lake / "d/t").rglob("*.parquet")}


def named(folder: Path) -> set[str]:
    """Those that manifests name."""
    return {file["path"] for file in files_of(folder / "lake", "d.t")}


def failing(original: Callable[..., Any], failures: Sequence[int], *, late: bool = False) -> Callable[..., Any]:
    """The function, whose calls with these numbers meet a full disk. late: only once they are carried out."""
    calls = iter(range(1000))

    def limited(*arguments: Any) -> Any:
        fails = next(calls) in failures
        result = None if fails and not late else original(*arguments)
        if fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return result

    return limited


def wait(step: Callable[[], None]) -> None:
    """Run a step until no disk is full."""
    while True:
        try:
            return step()
        except OSError as error:
            if not is_disk_full(error):
                raise


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (LocalFolder, "_temporary"),
        (written_files, "link"),
        (written_files, "sync_folder"),
        (written_files, "sync_file"),
    ],
    ids=["write", "link", "sync", "file"],
)
def test_a_full_disk_delays_an_epoch_and_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *, late: bool
) -> None:
    """The publisher waits and tries again, as often as it takes; what the attempts wrote is gone, or published once."""
    story(world := World(tmp_path, kind="parquet"))
    ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "j.jsonl", "r")
    ledger.commit(world.records[0])
    assert ledger.state is not None
    publisher = Publisher(world.sink(0.0), world.destination(), ledger, journal, wait)
    publisher.tables.open_all(ledger.state)
    publisher.recover()
    for record in world.records[1:]:
        ledger.commit(record)
    monkeypatch.setattr(module, name, failing(getattr(module, name), (0, 1, 3), late=late))
    for record in world.records[1:]:
        publisher.submit(record)
        publisher.drain()
    publisher.finish()
    journal.close()
    assert publisher.tables.failed_tables() == {}
    assert rows_of(tmp_path) == LEFT
    log = [(row["_tm_kind"], row["id"]) for row in log_rows(tmp_path / "lake", "d.t")]
    assert sorted(log) == [("+I", 1), ("+I", 2), ("+I", 3), ("-D", 1)], log
    assert there(tmp_path) == named(tmp_path)


def test_a_start_that_is_tried_again_publishes_what_the_first_attempt_wrote(tmp_path: Path) -> None:
    """Its files are no orphans: the same destination still knows them, and they are not written again."""
    story(world := World(tmp_path, kind="parquet"))
    publish_story(world, tmp_path, ())
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    table.open(must_exist=True)
    part = world.changes(OLD, [("+I", 9, 9)])["files"]
    files = [DataFile(**file) for file in part]
    assert table.append(CHANGES, 4, files)
    again = destination.table(Owner("L"), OLD, PLAN)
    assert again.open(must_exist=True).applied_epochs[CHANGES] == 4
    destination.delete_orphans([again], {file.name for file in files}, 0)
    assert again.append(CHANGES, 4, files) is None
    destination.publish(EpochEnd(4, "b:1", ""))
    assert rows_of(tmp_path) == {**LEFT, 9: 9}
    assert there(tmp_path) == named(tmp_path)


def restored(world: World, folder: Path, lineage: str, rows: Sequence[tuple[int, int]], killed: Sequence[int]) -> None:
    """Continue with a ledger of the first three epochs, which takes over and resnapshots the table."""
    del world.records[3:]
    ledger = Ledger(folder / "ledger")
    for record in world.records:
        ledger.commit(record)
    world.epoch(resnapshot=switch(OLD, OLD))
    world.records[-1] = replace(world.records[-1], lineage=lineage)
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, rows)], copied=True)
    world.epoch(changes=world.changes(OLD, [("-D", *rows[0])]))
    publish_story(world, folder, killed, since=3)


@pytest.mark.parametrize("killed", [(), (4,), (5,), (4, 5)])
def test_a_restored_ledger_begins_a_lineage_and_a_generation(tmp_path: Path, killed: Sequence[int]) -> None:
    """It counts epochs again that the destination has; no name is used twice, and earlier rows stay."""
    story(world := World(tmp_path, kind="parquet"))
    publish_story(world, tmp_path, ())
    before = log_rows(tmp_path / "lake", "d.t", 0)
    assert world.destination().largest_seq(Owner("L"), [OLD]) == 2
    restored(world, tmp_path / "second", "two", [(5, 5), (6, 6)], killed)
    assert generation_of(tmp_path / "lake", "d.t") == 1
    assert rows_of(tmp_path) == {6: 6}
    restored(world, tmp_path / "third", "three", [(7, 7), (8, 8)], killed)
    assert generation_of(tmp_path / "lake", "d.t") == 2
    assert rows_of(tmp_path) == {8: 8}
    assert log_rows(tmp_path / "lake", "d.t", 0) == before
    names = {path.name for path in (tmp_path / "lake/_manifests").glob("*.json")}
    assert {"3.json", "3.two.json", "3.three.json"} <= names
    table = world.destination().table(Owner("L", "three", 2), OLD, PLAN)
    assert (table.last_epoch(CHUNKS), table.last_epoch(CHANGES)) == (4, 5)
    assert there(tmp_path) == named(tmp_path)


@pytest.mark.parametrize("survives", range(5))
def test_a_deletion_that_is_killed_half_way_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    """Wherever: the next one forgets the table everywhere. Other tables keep their rows. survives: steps before it."""
    story(world := World(tmp_path, kind="parquet"))
    publish_story(world, tmp_path, ())
    shown = manifests.Manifests(LocalFolder(tmp_path / "lake"), Owner("L"), lambda: 1)
    other = manifests.PublishedFile("d.other", 0, CHANGES, 3, "d/other/3.parquet", 1, 1)
    shown.publish(EpochEnd(3, "b:1", ""), {"d.other": shown.progress("d.other").with_files(CHANGES, 3, 1)}, [other])
    left = [survives]

    def killable(original: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return original(*arguments, **more)

        return act

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(LocalFolder, "write", killable(LocalFolder.write))
        patch.setattr(shutil, "rmtree", killable(shutil.rmtree))
        patch.setattr(os, "rmdir", killable(os.rmdir))
        world.destination().table(Owner("L"), OLD, PLAN).drop()
    assert left[0] < 0
    assert named(tmp_path) <= there(tmp_path), "what is named is there until it is forgotten"
    destination = world.destination()
    table = destination.table(Owner("L"), OLD, PLAN)
    table.drop()
    assert named(tmp_path) == there(tmp_path) == set()
    table.check(None, OLD)
    assert table.last_epoch(CHANGES) == -1
    again = manifests.Manifests(LocalFolder(tmp_path / "lake"), Owner("L"), lambda: 1)
    assert again.progress("d.other").changes == 3
    assert [file["path"] for file in files_of(tmp_path / "lake", "d.other")] == [other.path]


def test_a_start_that_is_tried_again_sees_what_another_run_published_meanwhile(tmp_path: Path) -> None:
    """The first attempt read the manifests, and met a full disk before it took the pipeline."""
    story(world := World(tmp_path, kind="parquet"))
    earlier, destination = world.destination(), world.destination()
    publish = earlier.table(Owner("L"), OLD, PLAN)
    destination.recall(None)
    assert destination.table(Owner("L"), OLD, PLAN).last_epoch(CHANGES) == -1
    publish.open(must_exist=False)
    files = [DataFile(**file) for file in world.changes(OLD, [("+I", 9, 9)])["files"]]
    assert publish.append(CHANGES, 4, files)
    earlier.publish(EpochEnd(4, "b:1", ""))
    destination.recall(None)
    assert destination.table(Owner("L"), OLD, PLAN).last_epoch(CHANGES) == 4
