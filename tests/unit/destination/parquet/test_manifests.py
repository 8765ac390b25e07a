"""Manifests are merged, reserved and forgotten without a moment at which readers see something else."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import PipelineHeldError
from engine.destination.destination_protocol import CHANGES, EpochEnd
from engine.destination.parquet import manifests as module
from engine.destination.parquet.manifests import Manifests, PublishedFile
from engine.ledger.state import Owner
from engine.store.local_folder import LocalFolder
from tests.support.parquet import files_of

TABLE, QUIET = "d.t", "d.quiet"


class Killed(BaseException):
    """A kill: no code of the engine catches it."""


@pytest.fixture(autouse=True)
def _merged_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANIFESTS_PER_MERGE", 3)


def opened(root: Path, guard: Callable[[], int] = lambda: 1) -> Manifests:
    """The manifests, as a process opens them."""
    return Manifests(LocalFolder(root), Owner("L"), guard)


def publish(manifests: Manifests, epoch: int, table: str = TABLE) -> None:
    """One file of one table."""
    file = PublishedFile(table, 0, CHANGES, epoch, f"{table}/{epoch}.parquet", 1, 1)
    progress = manifests.progress(table).with_files(CHANGES, epoch, 10 * epoch)
    manifests.publish(EpochEnd(epoch, "b:1", ""), {table: progress}, [file])


def seen(root: Path, table: str = TABLE) -> list[int]:
    """The epochs that a reader sees, in order: a file that is named twice counts once."""
    found = [json.loads(path.read_text()) for path in (root / "_manifests").glob("*.json")]
    files = {file["path"]: file["epoch"] for one in found for file in one["files"] if file["table"] == table}
    return sorted(files.values())


def names(root: Path) -> set[str]:
    """The manifests' names without `.json`."""
    return {path.stem for path in (root / "_manifests").glob("[0-9]*.json")}


def listed(root: Path) -> list[str]:
    """The paths in all manifests, as often as they are there."""
    found = [json.loads(path.read_text()) for path in (root / "_manifests").glob("*.json")]
    return sorted(file["path"] for one in found for file in one["files"])


def test_readers_see_the_same_before_during_and_after_a_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each write and each deletion, all published epochs are there, once."""
    publish(manifests := opened(tmp_path), 0)
    views = list[list[int]]()
    unlink, write = Path.unlink, LocalFolder.write

    def written(folder: LocalFolder, name: str, content: bytes) -> None:
        write(folder, name, content)
        views.append(seen(tmp_path))

    def unlinked(path: Path, *, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        views.append(seen(tmp_path))

    monkeypatch.setattr(LocalFolder, "write", written)
    monkeypatch.setattr(Path, "unlink", unlinked)
    for epoch in range(1, 14):
        publish(manifests, epoch)
        views.append(seen(tmp_path))
    assert all(view == list(range(len(view))) for view in views)
    assert [len(view) for view in views] == sorted(len(view) for view in views), "nothing disappears"
    assert names(tmp_path) == {"2", "5", "8", "9", "10", "11", "12", "13"}
    assert sorted(file["epoch"] for file in files_of(tmp_path, TABLE)) == list(range(14)), "as the documentation reads"
    merged = json.loads((tmp_path / "_manifests/5.json").read_text())
    assert (merged["from_epoch"], merged["epoch"]) == (3, 5)


def test_a_start_reads_the_newest_merged_manifest_and_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is enough, for a table too that got nothing for long."""
    manifests = opened(tmp_path)
    publish(manifests, 0, QUIET)
    for epoch in range(1, 14):
        publish(manifests, epoch)
    read = list[str]()
    load = Manifests._load

    def loaded(self: Manifests, name: str) -> Any:
        read.append(name)
        return load(self, name)

    monkeypatch.setattr(Manifests, "_load", loaded)
    again = opened(tmp_path)
    progress = again.progress(TABLE)
    assert (progress.changes, progress.largest_seq, again.progress(QUIET).changes) == (13, 130, 0)
    assert sorted(read) == sorted(f"{epoch}.json" for epoch in range(8, 14))
    assert again.recent()[1] == {f"{TABLE}/{epoch}.parquet" for epoch in range(9, 14)}


@pytest.mark.parametrize("left", [0, 1])
def test_a_kill_after_the_merged_manifest_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The others are still there, or some of them: the next run merges on, and readers see each file once."""
    manifests = opened(tmp_path)
    publish(manifests, 0, QUIET)
    for epoch in range(1, 5):
        publish(manifests, epoch)
    unlink, deleted = Path.unlink, [0]

    def killed(path: Path, *, missing_ok: bool = False) -> None:
        if path.suffix == ".json":
            deleted[0] += 1
            if deleted[0] > left:
                raise Killed
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(Killed):
        publish(manifests, 5)
    monkeypatch.undo()
    monkeypatch.setattr(module, "MANIFESTS_PER_MERGE", 3)
    assert "from_epoch" in json.loads((tmp_path / "_manifests/2.json").read_text())
    assert (tmp_path / "_manifests/1.json").exists()
    again = opened(tmp_path)
    assert (again.progress(TABLE).changes, again.progress(QUIET).changes) == (5, 0)
    assert seen(tmp_path) == [1, 2, 3, 4, 5]
    for epoch in range(6, 14):
        publish(again, epoch)
        assert seen(tmp_path) == list(range(1, epoch + 1))
    assert seen(tmp_path, QUIET) == [0]
    last = opened(tmp_path)
    assert (last.progress(TABLE).changes, last.progress(QUIET).changes) == (13, 0)


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_disk_that_is_full_in_the_merge_publishes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    """The epoch is published already; the merge is done with a later one. written: the merged manifest got its name."""
    manifests = opened(tmp_path)
    full, write = [True], LocalFolder.write

    def limited(folder: LocalFolder, name: str, content: bytes) -> None:
        if full[0]:
            if written:
                write(folder, name, content)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(folder, name, content)

    monkeypatch.setattr(LocalFolder, "write", limited)
    for epoch in range(8):
        publish(manifests, epoch)
    assert names(tmp_path) == {str(epoch) for epoch in range(8)}
    assert seen(tmp_path) == list(range(8))
    full[0] = False
    publish(manifests, 8)
    assert listed(tmp_path) == sorted(f"{TABLE}/{epoch}.parquet" for epoch in range(9))
    assert opened(tmp_path).progress(TABLE).changes == 8


def test_a_runner_that_sleeps_through_the_merges_of_a_later_one_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge deletes manifests, but never a placeholder: the earlier runner's name stays taken."""
    held, create = [False], LocalFolder.create

    def guard() -> int:
        if held[0]:
            raise PipelineHeldError("taken over")
        return 1

    earlier = opened(tmp_path, guard)
    publish(earlier, 0)
    publish(earlier, 1)

    def late(folder: LocalFolder, name: str, content: bytes) -> str:
        monkeypatch.setattr(LocalFolder, "create", create)
        held[0] = True
        later = opened(tmp_path, lambda: 2)
        later.take_names([1, 2])
        for epoch in range(2, 12):
            publish(later, epoch)
        return create(folder, name, content)

    monkeypatch.setattr(LocalFolder, "create", late)
    with pytest.raises(PipelineHeldError):
        publish(earlier, 2)
    assert held[0]
    assert seen(tmp_path) == list(range(12))
    assert listed(tmp_path) == sorted(f"{TABLE}/{epoch}.parquet" for epoch in range(12))
    assert opened(tmp_path).progress(TABLE).changes == 11
