"""A backup holds the ledger and the versions of the tables.

A restore brings both back, and the pipeline continues from there.
"""

import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.backup.backup import _is_complete, restore, write_backup
from engine.base.errors import DestinationError, SpecError
from engine.destination.delta.destination import DeltaDestination
from engine.ledger.state import Owner
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.run.lifecycle.takeover import Takeover
from engine.spec.settings import Spec, parse
from engine.store.local_folder import LocalFolder
from tests.unit.destination.support import (
    BARE,
    OLD,
    PLAN,
    SPEC,
    WHOLE_SPLIT,
    World,
    log,
    mirror,
    publish_story,
    story,
    switch,
)


def at_epoch(folder: Path, epoch: int) -> tuple[World, Spec, Directory]:
    """The story up to an epoch, published."""
    story(world := World(folder))
    whole, world.records = world.records, world.records[: epoch + 1]
    publish_story(world, folder, [])
    world.records = whole
    return world, parse(SPEC, folder / "shop.toml"), Directory(folder)


def test_a_backup_is_put_back_whole(tmp_path: Path) -> None:
    """Ledger, mirror, change log and the destination's records; new changes can be applied to them."""
    world, spec, directory = at_epoch(tmp_path, 2)
    made = write_backup(spec, directory, tmp_path / "b.zip")
    assert (made.epoch, made.tables) == (2, 1)
    before = mirror(tmp_path), log(tmp_path)
    publish_story(world, tmp_path, [], since=3)
    assert (mirror(tmp_path), log(tmp_path)) != before
    restore(spec, directory, tmp_path / "b.zip")
    assert (mirror(tmp_path), log(tmp_path)) == before
    state = Ledger(directory.ledger).state
    assert state is not None
    assert (state.epoch, state.term) == (3, 1), "an epoch more, which holds the term of the restore"
    Takeover(DeltaDestination(spec.sink, tmp_path / "notes"), "next").take(
        Ledger(directory.ledger), [], everything=False
    )
    world.records = [Ledger(directory.ledger).epoch(n) for n in range(5)]
    world.epoch(changes=world.changes(OLD, [("-D", 2, 2)]))
    publish_story(world, tmp_path, [], since=5)
    assert mirror(tmp_path) == [(1, 1), (3, 3)]
    assert log(tmp_path) == [("+I", 3, 3, None), ("-D", 2, 2, None)]
    restore(spec, directory, tmp_path / "b.zip")
    assert (mirror(tmp_path), log(tmp_path)) == before, "as often as one likes"


def test_a_lake_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup leaves a note there, without which what it needs may go; as the hint says, it is made after that."""
    _, spec, directory = at_epoch(tmp_path, 2)
    with monkeypatch.context() as patch:

        def refused(*_: object) -> str:
            raise PermissionError(13, "Permission denied", "note")

        patch.setattr(LocalFolder, "create", refused)
        with pytest.raises(SpecError, match=r"cannot be noted in .*Permission denied") as raised:
            write_backup(spec, directory, tmp_path / "b.zip")
    assert "Let this user write there" in raised.value.hint
    assert not (tmp_path / "b.zip").exists()
    write_backup(spec, directory, tmp_path / "b.zip")
    (note,) = (tmp_path / "lake/_tidemark").rglob("backup-*.json")
    assert set(json.loads(note.read_text())["versions"]["d.t"]) == {"t", "t__changes"}


def test_a_backup_whose_files_are_vacuumed_is_refused(tmp_path: Path) -> None:
    """By name; the current ledger stays."""
    world, spec, directory = at_epoch(tmp_path, 2)
    write_backup(spec, directory, tmp_path / "b.zip")
    publish_story(world, tmp_path, [], since=3)
    held = {path.name for path in (tmp_path / "lake/d/t").glob("*.parquet")}
    for name in held:
        if name.startswith("chunk"):
            (tmp_path / "lake/d/t" / name).unlink()
    with pytest.raises(DestinationError, match="gone or damaged"):
        restore(spec, directory, tmp_path / "b.zip")
    state = Ledger(directory.ledger).state
    assert state is not None
    assert state.epoch == 3


@pytest.mark.parametrize("replaced", ["t", "t__changes"])
@pytest.mark.parametrize("known", [True, False], ids=["identifiers", "earlier format"])
def test_another_table_is_not_rolled_back(tmp_path: Path, replaced: str, *, known: bool) -> None:
    """The folder was moved away and the table snapshotted again: its version of that number has other rows."""
    world, spec, directory = at_epoch(tmp_path, 2)
    write_backup(spec, directory, tmp_path / "b.zip")
    if not known:
        _without_identities(tmp_path / "b.zip")
    (tmp_path / "lake/d" / replaced).rename(tmp_path / "moved")
    world.records = world.records[:3]
    world.epoch(resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(8, 8)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 9, 9)]))
    publish_story(world, tmp_path, [], since=3)
    before = mirror(tmp_path), log(tmp_path)
    with pytest.raises(DestinationError, match="is another one than the backup has"):
        restore(spec, directory, tmp_path / "b.zip")
    assert (mirror(tmp_path), log(tmp_path)) == before, "nothing was changed"
    state = Ledger(directory.ledger).state
    assert state is not None
    assert state.epoch == 5
    (tmp_path / "lake/d" / replaced).rename(tmp_path / "other")
    (tmp_path / "moved").rename(tmp_path / "lake/d" / replaced)
    restore(spec, directory, tmp_path / "b.zip")
    assert (mirror(tmp_path), log(tmp_path)) == ([(1, 1), (2, 2), (3, 3)], [("+I", 3, 3, None)])


@pytest.mark.parametrize("lost", ["t", "t__changes"])
def test_a_table_that_is_lost_in_part_is_restored_as_the_hint_says(tmp_path: Path, lost: str) -> None:
    """The other folder has later epochs than the backup: new ones of the same numbers would be taken for applied."""
    world, spec, directory = at_epoch(tmp_path, 2)
    write_backup(spec, directory, tmp_path / "b.zip")
    world.records = world.records[:3]
    for n in range(10, 16):
        world.epoch(changes=world.changes(OLD, [("+I", n, n)]))
    publish_story(world, tmp_path, [], since=3)
    (tmp_path / "lake/d" / lost).rename(tmp_path / lost)
    with pytest.raises(DestinationError, match=f"d/{lost} is gone, but the other one of d.t is there") as raised:
        restore(spec, directory, tmp_path / "b.zip")
    assert "move all folders of the table away (the mirror and the change log), restore" in raised.value.hint
    (other,) = {"t", "t__changes"} - {lost}
    (tmp_path / "lake/d" / other).rename(tmp_path / other)
    restore(spec, directory, tmp_path / "b.zip")
    Takeover(DeltaDestination(spec.sink, tmp_path / "notes"), "next").take(
        Ledger(directory.ledger), ["d.t"], everything=False
    )
    world.records = [Ledger(directory.ledger).epoch(n) for n in range(5)]
    world.epoch(resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(8, 8)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 9, 9)]))
    publish_story(world, tmp_path, [], since=5)
    assert mirror(tmp_path) == [(8, 8), (9, 9)]
    assert log(tmp_path) == [("+I", 9, 9, None)]


def _without_identities(file: Path) -> None:
    """A backup as an earlier version wrote it."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(parts["backup.json"])
    del manifest["identities"]
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (parts | {"backup.json": json.dumps(manifest).encode()}).items():
            archive.writestr(name, content)


def test_a_mirror_of_a_table_that_had_no_key_then_is_deleted(tmp_path: Path) -> None:
    """It has later numbers than the restored ledger: later changes would be taken for applied."""
    world = World(tmp_path)
    world.epoch(planned={"table": BARE.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(BARE, [(1, 1)])], copied=True)
    whole = list(world.records)
    publish_story(world, tmp_path, [])
    spec, directory = parse(SPEC, tmp_path / "shop.toml"), Directory(tmp_path)
    write_backup(spec, directory, tmp_path / "b.zip")
    world.epoch(resnapshot=switch(BARE, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    publish_story(world, tmp_path, [], since=len(whole))
    assert mirror(tmp_path) == [(1, 1), (2, 2)]
    restore(spec, directory, tmp_path / "b.zip")
    assert not (tmp_path / "lake/d/t").exists()
    assert (tmp_path / "lake/d/t__changes").exists()


def test_a_table_that_was_dropped_and_added_again_is_another_one(tmp_path: Path) -> None:
    """The message says so, whatever versions it has."""
    world, spec, directory = at_epoch(tmp_path, 3)
    write_backup(spec, directory, tmp_path / "b.zip")
    shutil.rmtree(tmp_path / "lake/d")
    again = World(tmp_path / "again")
    again._folder = tmp_path
    destination = again.destination()
    destination.table(Owner("L"), OLD, PLAN).open(must_exist=False)
    with pytest.raises(DestinationError, match="is another one than the backup has") as refused:
        restore(spec, directory, tmp_path / "b.zip")
    assert "removing the table and adding it again" in refused.value.detail
    assert "move all folders of the table away" in refused.value.hint
    shutil.rmtree(tmp_path / "lake/d")
    restore(spec, directory, tmp_path / "b.zip")
    assert world.records


def test_what_is_no_backup_of_this_pipeline_is_refused(tmp_path: Path) -> None:
    """Before anything is changed."""
    _, spec, directory = at_epoch(tmp_path, 1)
    (tmp_path / "no.zip").write_text("nothing")
    with pytest.raises(SpecError, match="cannot be read"):
        restore(spec, directory, tmp_path / "no.zip")
    write_backup(spec, directory, tmp_path / "b.zip")
    with pytest.raises(SpecError, match="not of 'other'"):
        restore(spec.model_copy(update={"name": "other"}), directory, tmp_path / "b.zip")
    with pytest.raises(SpecError, match="no ledger yet"):
        write_backup(spec, Directory(tmp_path / "empty"), tmp_path / "c.zip")


def test_chunks_of_a_time_without_a_key_are_no_lack() -> None:
    """They stand in the change log for ever, and the newer ones in the mirror. What both lack must be in the backup."""
    state: Any = SimpleNamespace(tables={"d.t": SimpleNamespace(applied={"chunks": 9, "changes": 12})})
    files = {"epoch-00000012.json": b""}

    def tables(chunks: int) -> dict[str, Any]:
        changes = {"tidemark-l-chunks": 1, "tidemark-l-changes": 12}
        return {"d.t": {"t": (5, {"tidemark-l-chunks": chunks}), "t__changes": (7, changes)}}

    assert _is_complete(files, tables(9), state)
    assert not _is_complete(files, tables(8), state)
    assert _is_complete({**files, "epoch-00000009.json": b""}, tables(8), state)
