"""A table that is altered or resnapshotted arrives complete at its destination, wherever the publisher is killed."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from engine.base.errors import DestinationError, MissingFilesError, SpecError
from engine.capture.files import DataFile
from engine.decode.schema import Column
from engine.destination import change_log_looks
from engine.destination.delta import folder_removal
from engine.destination.delta.table_pair import TablePair
from engine.destination.merge_schedule import MergeSchedule
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.record_json import change_to_json
from engine.ledger.records import Removal
from engine.ledger.state import Owner
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan
from engine.run.lifecycle.final_checks import require_published
from engine.run.tables.membership import drop_removed
from engine.spec.sink_settings import MirrorMode
from engine.store.local_folder import LocalFolder
from tests.support.delta import rows_at as delta_rows_at
from tests.unit.destination.lake import delta_table
from tests.unit.destination.support import (
    ID,
    OLD,
    OTHER,
    PLAN,
    RANKED,
    WHOLE_SPLIT,
    WIDER,
    W,
    World,
    log,
    mirror,
    publish_story,
    resnapshotted,
    story,
    switch,
    wait_for,
)


@pytest.mark.parametrize("killed", [(), *((n,) for n in range(1, 6)), range(6)])
@pytest.mark.parametrize("plan", [PLAN, RANKED], ids=["still", "moving"])
def test_a_table_that_is_resnapshotted(tmp_path: Path, killed: Sequence[int], plan: Plan, mode: MirrorMode) -> None:
    """At the end no row of the old copy is left; the change log has every change, in the wider type."""
    resnapshotted(world := World(tmp_path, mode), plan=plan)
    publish_story(world, tmp_path, killed)
    assert mirror(tmp_path) == [(4, 2**40), (5, 50), (6, 60)]
    rows = [("+I", 4, 4), ("-D", 1, 1), ("+I", 5, 50), ("-D", 2, 20), ("+I", 6, 60)]
    assert log(tmp_path) == [(*row, None) for row in rows]


def test_the_mirror_stays_until_the_new_copy_is_whole(tmp_path: Path, mode: MirrorMode) -> None:
    """As it was at the alteration, however long the copy takes."""
    resnapshotted(world := World(tmp_path, mode))
    del world.records[4:]
    publish_story(world, tmp_path, (3,))
    assert mirror(tmp_path) == [(2, 2), (3, 3), (4, 4)]


def test_a_copy_that_is_begun_again_before_it_was_whole(tmp_path: Path, mode: MirrorMode) -> None:
    """The rows of the first attempt are not published."""
    world = World(tmp_path, mode)
    resnapshotted(world)
    last = world.records[3:]
    del world.records[3:]
    world.epoch(split=WHOLE_SPLIT, changes=world.changes(OTHER, [("+I", 9, 9)]), resnapshot=switch(OTHER, OTHER))
    for record in last:
        world.epoch(**change_to_json(record.tables["d.t"]))
    publish_story(world, tmp_path, (3, 4, 5))
    assert mirror(tmp_path) == [(4, 2**40), (5, 50), (6, 60)]


@pytest.mark.parametrize("killed", [(), (2,), (3,), (4,), range(5)])
def test_a_table_that_gets_a_column(tmp_path: Path, killed: Sequence[int], mode: MirrorMode) -> None:
    """Existing rows have NULL in it; a column that the source drops stays, with NULL from then on."""
    world = World(tmp_path, mode)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 3, 3)]), altered=switch(OLD, WIDER))
    narrow = replace(OLD, columns=(ID, W))
    world.epoch(
        changes=world.changes(WIDER, [("+I", 4, 4, 40), ("-U", 1, 1, None), ("+U", 1, 1, 10)]),
        altered=switch(WIDER, narrow),
    )
    world.epoch(changes=world.changes(narrow, [("-U", 4, 40), ("+U", 4, 41)]))
    publish_story(world, tmp_path, killed)
    assert mirror(tmp_path) == [(1, 1, 10), (2, 2, None), (3, 3, None), (4, None, 41)]
    assert log(tmp_path)[-3:] == [("+U", 1, 1, 10), ("-U", 4, None, 40), ("+U", 4, None, 41)]


def test_a_table_that_is_emptied_and_not_copied(tmp_path: Path, mode: MirrorMode) -> None:
    """A pipeline that only streams has no rows to read again."""
    world = World(tmp_path, mode)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(
        split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [])], changes=world.changes(OLD, [("+I", 3, 3)]), copied=True
    )
    world.epoch(resnapshot=switch(OLD, OLD, since={"file": "b.000001", "offset": 9, "gtids": None}))
    world.epoch(changes=world.changes(OLD, [("+I", 5, 5)]))
    publish_story(world, tmp_path, (3,))
    assert mirror(tmp_path) == [(5, 5)]


def test_a_column_of_a_kind_that_the_table_had_none_of(tmp_path: Path, mode: MirrorMode) -> None:
    """A time without zone needs a Delta feature that a table without such a column lacks."""
    dated = replace(OLD, columns=(*OLD.columns, Column("at", "datetime")))
    world = World(tmp_path, mode)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    world.epoch(altered=switch(OLD, dated))
    world.epoch(resnapshot=switch(dated, dated))
    moment = datetime.fromisoformat("2024-02-29T12:00:00")
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(dated, [(1, 1, moment)])], copied=True)
    publish_story(world, tmp_path, ())
    assert mirror(tmp_path) == [(1, 1, moment)]


@pytest.mark.parametrize("killed", [(), *((n,) for n in range(1, 6)), range(6)])
def test_a_table_that_leaves_and_is_kept_joins_again(tmp_path: Path, killed: Sequence[int], mode: MirrorMode) -> None:
    """It keeps the state in which it left, with everything committed; then a new copy replaces it."""
    world = World(tmp_path, mode)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("-D", 1, 1), ("+I", 3, 3)]))
    world.epoch(removed={"by": "c1", "drop": False})
    publish_story(world, tmp_path, killed)
    assert mirror(tmp_path) == [(2, 2), (3, 3)]
    world.epoch(resnapshot=switch(OLD, OTHER, by="c2"))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OTHER, [(7, 7)])], copied=True)
    publish_story(world, tmp_path, killed, since=4)
    assert mirror(tmp_path) == [(7, 7)]
    assert log(tmp_path) == [("-D", 1, 1, None), ("+I", 3, 3, None)]


@pytest.mark.parametrize("killed", [(), (2,), (4, 5)])
@pytest.mark.parametrize("broken_off", [False, True])
def test_a_table_that_leaves_and_is_dropped_joins_again(
    tmp_path: Path, killed: Sequence[int], broken_off: bool, mode: MirrorMode
) -> None:
    """No row of its first life remains; an interrupted deletion is completed, and journalled once."""
    world = World(tmp_path, mode)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(
        split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], changes=world.changes(OLD, [("+I", 2, 2)]), copied=True
    )
    world.epoch(removed={"by": "c1", "drop": True})
    publish_story(world, tmp_path, killed)
    folders = [tmp_path / "lake" / "d" / name for name in ("t", "t__changes")]
    if broken_off:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(folder_removal, "_delete", _killed)
            with pytest.raises(OSError, match="killed"):
                drop_removed(world.destination(), Ledger(tmp_path / "ledger"), "r")
        assert not folders[0].exists()
    drop_removed(world.destination(), Ledger(tmp_path / "ledger"), "r")
    drop_removed(world.destination(), ledger := Ledger(tmp_path / "ledger"), "r")
    assert ledger.state is not None
    table = ledger.state.removed["d.t"]
    assert (ledger.state.epoch, table.removed, table.dropped) == (3, Removal("c1", drop=True), True)
    assert list((tmp_path / "lake" / "d").iterdir()) == []
    world.records.append(ledger.epoch(3))
    world.epoch(planned={"table": OTHER.as_dict(), "plan": PLAN.as_dict(), "by": "c2"})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OTHER, [(9, 9)])], copied=True)
    publish_story(world, tmp_path, killed, since=4)
    assert mirror(tmp_path) == [(9, 9)]
    assert log(tmp_path) == []


def _killed(folder: Path) -> None:
    if folder.exists():
        raise OSError("killed")


def test_a_folder_that_is_there_already_is_not_begun(tmp_path: Path) -> None:
    """Unless it belongs to this ledger and nothing was ever written to it."""
    mine, other = (TablePair(LocalFolder(tmp_path), Owner(ledger), OLD) for ledger in ("L", "other"))
    for _ in range(2):
        mine.check_free()
        mine.drop()
        mine.create(must_exist=False)
    assert mine.is_complete
    assert not other.is_complete
    with pytest.raises(SpecError, match="exists already"):
        other.check_free()
    other.drop()
    assert mine.is_complete, "it is not the other's to delete"
    mine.changes.evolve(WIDER, 0)
    with pytest.raises(SpecError, match="exists already"):
        mine.check_free()


def published_story(
    folder: Path, mode: MirrorMode, merge_interval_s: float
) -> tuple[World, Ledger, Journal, Publisher]:
    """The story up to epoch 2, submitted to a running publisher."""
    story(world := World(folder, mode))
    ledger, journal = Ledger(folder / "ledger"), Journal(folder / "j.jsonl", "r")
    publisher = Publisher(world.sink(merge_interval_s), world.destination(), ledger, journal)
    ledger.commit(world.records[0])
    assert ledger.state is not None
    publisher.tables.open_all(ledger.state)
    publisher.recover()
    for record in world.records[1:3]:
        ledger.commit(record)
        publisher.submit(record)
    return world, ledger, journal, publisher


def test_merges_that_are_not_worth_their_cost_are_put_off(
    tmp_path: Path, mode: MirrorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The age of the mirror says so, the ledger keeps the epoch, and the end of the run merges anyway."""
    monkeypatch.setattr(MergeSchedule, "is_due", lambda *_: False)
    world, ledger, journal, publisher = published_story(tmp_path, mode, 0.0)
    for record in world.records[3:]:
        ledger.commit(record)
        publisher.submit(record)
    wait_for(lambda: publisher.oldest_mirror()[1])
    age_s, oldest = publisher.oldest_mirror()
    assert (0 <= age_s < 60, oldest) == (True, "d.t")
    wait_for(lambda: publisher.facts[0] == len(world.records) - 1)
    publisher.record_through(len(world.records) - 1)
    before = mirror(tmp_path)
    publisher.finish()
    journal.close()
    assert publisher.oldest_mirror() == (0.0, None)
    assert mirror(tmp_path) != before


def test_epochs_of_tables_without_a_key_are_settled(tmp_path: Path) -> None:
    """They have no mirror to merge; the ledger may prune them all the same."""
    world, bare = World(tmp_path), replace(OLD, key=())
    world.epoch(planned={"table": bare.as_dict(), "plan": PLAN.as_dict()})
    for _ in range(3):
        world.epoch(changes=world.changes(bare, [("+I", 1, 1)]))
    ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "j.jsonl", "r")
    publisher = Publisher(world.sink(0.0), world.destination(), ledger, journal)
    ledger.commit(world.records[0])
    assert ledger.state is not None
    publisher.tables.open_all(ledger.state)
    publisher.recover()
    for record in world.records[1:]:
        ledger.commit(record)
        publisher.submit(record)
    assert wait_for(lambda: publisher.facts[0] == 3)
    publisher.finish()
    journal.close()


def test_an_error_of_a_destination_is_its_tables_alone(tmp_path: Path, mode: MirrorMode) -> None:
    """The publisher continues, names the failed table, and a resnapshot repairs change log and mirror."""
    world, ledger, journal, publisher = published_story(tmp_path, mode, 0.0)
    (lost,) = world.records[3].tables["d.t"].change_files
    path = tmp_path / "lake/d/t__changes" / lost["name"]
    content = path.read_bytes()
    path.unlink()
    ledger.commit(world.records[3])
    publisher.submit(world.records[3])
    assert (error := wait_for(publisher.unrepaired_tables)) is not None
    assert type(error["d.t"]).__name__ == "MissingFilesError"
    assert lost["name"] in str(error["d.t"])
    publisher.check()
    path.write_bytes(content)
    world.epoch(resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(2, 2), (3, 3), (9, 9)])], copied=True)
    for record in world.records[4:]:
        ledger.commit(record)
        publisher.submit(record)
    publisher.finish()
    journal.close()
    assert mirror(tmp_path) == [(2, 2), (3, 3), (9, 9)]
    assert log(tmp_path) == [("+I", 3, 3, None), ("-D", 1, 1, None)], "the file came back: nothing is missing"


def resnapshot(world: World, ledger: Ledger, publisher: Publisher) -> None:
    """Commit and submit the epochs of a resnapshot, after the four of the story."""
    world.epoch(resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(2, 2), (3, 3)])], copied=True)
    for record in world.records[4:]:
        ledger.commit(record)
        publisher.submit(record)


def test_what_is_removed_after_a_commit_is_found_while_the_run_goes_on(tmp_path: Path, mode: MirrorMode) -> None:
    """A VACUUM had listed the folder before the commit.

    The table fails, and a resnapshot repairs change log and mirror.
    """
    world, ledger, journal, publisher = published_story(tmp_path, mode, 0.5)
    (lost,) = world.records[2].tables["d.t"].change_files
    deadline = time.monotonic() + 20
    while len(log(tmp_path)) < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    (tmp_path / "lake/d/t__changes" / lost["name"]).unlink()
    ledger.commit(world.records[3])
    publisher.submit(world.records[3])
    assert lost["name"] in str(wait_for(publisher.unrepaired_tables)["d.t"])
    resnapshot(world, ledger, publisher)
    publisher.finish()
    journal.close()
    assert mirror(tmp_path) == [(2, 2), (3, 3)]
    assert log(tmp_path) == [("-D", 1, 1, None)], "a gap, and readable"
    assert "lacks the changes of 1 missing file" in (tmp_path / "j.jsonl").read_text()
    assert not publisher.unrepaired_tables()


def test_a_deleted_file_of_a_change_log_is_found_without_a_merge(
    tmp_path: Path, mode: MirrorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a look at all change logs in turn; a resnapshot takes it out of the log."""
    monkeypatch.setattr(change_log_looks, "INTERVAL_S", 0.0)
    world, ledger, journal, publisher = published_story(tmp_path, mode, 0.5)
    wait_for(lambda: publisher.can_be_read(["d.t"], 2))
    (lost,) = world.records[2].tables["d.t"].change_files
    assert not publisher.unrepaired_tables()
    (tmp_path / "lake/d/t__changes" / lost["name"]).unlink()
    assert lost["name"] in str(wait_for(publisher.unrepaired_tables)["d.t"])
    del world.records[3:]
    world.epoch(resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(2, 2), (3, 3)])], copied=True)
    for record in world.records[3:]:
        ledger.commit(record)
        publisher.submit(record)
    publisher.finish()
    journal.close()
    assert mirror(tmp_path) == [(2, 2), (3, 3)]
    assert log(tmp_path) == []
    assert "lacks the changes of 1 missing file" in (tmp_path / "j.jsonl").read_text()
    assert not publisher.unrepaired_tables()


@pytest.mark.parametrize("folder", ["t", "t__changes"])
@pytest.mark.parametrize("damage", ["deleted", "replaced", "torn"])
def test_a_commit_that_somebody_deletes_is_missed(tmp_path: Path, mode: MirrorMode, folder: str, damage: str) -> None:
    """Also if another tool commits under its number. The next commit would hide that changes are missing."""
    world, ledger, journal, publisher = published_story(tmp_path, mode, 0.0)
    assert wait_for(lambda: publisher.can_be_read(["d.t"], 2))
    assert wait_for(lambda: len(log(tmp_path)) == 1)
    table = tmp_path / "lake" / "d" / folder
    newest = max((table / "_delta_log").glob("*.json"))
    if damage == "torn":
        newest.write_bytes(b"")
    else:
        newest.unlink()
    if damage == "replaced":
        DeltaTable(str(table)).alter.set_table_properties({"another.tool": "1"}, raise_if_not_exists=False)
        assert newest.exists()
    ledger.commit(world.records[3])
    publisher.submit(world.records[3])
    error = wait_for(publisher.unrepaired_tables)["d.t"]
    if damage != "torn":
        assert isinstance(error, MissingFilesError)
        assert f"A commit of the Delta log in {table} is gone" in str(error)
    resnapshot(world, ledger, publisher)
    publisher.finish()
    journal.close()
    assert mirror(tmp_path) == [(2, 2), (3, 3)]
    assert not publisher.unrepaired_tables()
    gap = f"lacks the changes of 1 missing file: _delta_log/{newest.name}"
    assert (gap in (tmp_path / "j.jsonl").read_text()) == (folder == "t__changes")


def test_an_idle_mirror_misses_its_newest_commit(
    tmp_path: Path, mode: MirrorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the look at all change logs in turn, which looks at the mirrors' logs too."""
    monkeypatch.setattr(change_log_looks, "INTERVAL_S", 0.0)
    _, _, journal, publisher = published_story(tmp_path, mode, 0.0)
    assert wait_for(lambda: publisher.can_be_read(["d.t"], 2))
    assert not publisher.unrepaired_tables()
    max((tmp_path / "lake" / "d" / "t" / "_delta_log").glob("*.json")).unlink()
    assert "is gone" in str(wait_for(publisher.unrepaired_tables)["d.t"])
    publisher.finish()
    journal.close()


def test_when_all_is_settled_what_failed_is_known(tmp_path: Path, mode: MirrorMode) -> None:
    """A run asks before it reports its end, as the last merge may fail. More epochs can be submitted afterwards."""
    world, ledger, journal, publisher = published_story(tmp_path, mode, 1000.0)
    publisher.drain()
    assert not publisher.tables.failed_tables()
    assert mirror(tmp_path) == [(1, 1), (2, 2), (3, 3)]
    (lost,) = world.records[3].tables["d.t"].change_files
    (tmp_path / "lake/d/t__changes" / lost["name"]).unlink()
    ledger.commit(world.records[3])
    publisher.submit(world.records[3])
    publisher.drain()
    assert publisher.unrepaired_tables()
    assert publisher.unrepaired_tables(), "again and again, until the ledger has what to do about it"
    with pytest.raises(DestinationError, match=r"last changes of 1 table are not published: d\.t"):
        require_published(publisher.tables.failed_tables())
    resnapshot(world, ledger, publisher)
    publisher.drain()
    require_published(publisher.tables.failed_tables())
    publisher.finish()
    journal.close()
    assert mirror(tmp_path) == [(2, 2), (3, 3)]


def test_files_that_another_writer_took_over_are_not_missed(tmp_path: Path, mode: MirrorMode) -> None:
    """OPTIMIZE replaced them and VACUUM removed them: the table names others."""
    story(world := World(tmp_path, mode))
    delta = delta_table(tmp_path / "lake", Owner("L"), OLD)
    delta.pair.create(must_exist=False)
    for epoch, record in enumerate(world.records):
        if changed := record.tables["d.t"].change_files:
            delta.append("changes", epoch, [DataFile(**file) for file in changed])
    other = DeltaTable(delta.pair.changes.folder.url)
    other.optimize.compact()
    other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert not delta.inspect()
    assert not delta.pair.missing_files()
    assert not delta.pair.changes.drop_lost()


def test_a_resnapshot_is_one_version(tmp_path: Path, mode: MirrorMode) -> None:
    """Also if rows move between chunks: before it the old copy, after it the new one with all changes since."""
    for n, plan in enumerate((PLAN, RANKED)):
        folder = tmp_path / str(n)
        folder.mkdir()
        resnapshotted(world := World(folder, mode), plan=plan)
        publish_story(world, folder, [])
        versions = [rows_at(folder, v) for v in range(DeltaTable(str(folder / "lake/d/t")).version() + 1)]
        distinct = [rows for m, rows in enumerate(versions) if m == 0 or rows != versions[m - 1]]
        old, middle = [(2, 2), (3, 3), (4, 4)], [(2, 20), (4, 2**40), (5, 50)]
        assert distinct[:3] == [[], [(1, 1), (2, 2), (3, 3)], old]
        assert distinct[3:] in ([middle, [(4, 2**40), (5, 50), (6, 60)]], [[(4, 2**40), (5, 50), (6, 60)]])


def rows_at(folder: Path, version: int) -> list[tuple[Any, ...]]:
    """The mirror's rows in one of its versions."""
    rows = delta_rows_at(folder / "lake/d/t", version).to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def test_the_ledger_forgets_only_what_it_has_recorded_as_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: MirrorMode
) -> None:
    """An applied epoch stays until the ledger has recorded it, because a lake may be restored."""
    monkeypatch.setattr("engine.ledger.store.FULL_STATE_EVERY", 2)
    story(world := World(tmp_path, mode))
    ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "j.jsonl", "r")
    ledger.commit(world.records[0])
    publisher = Publisher(world.sink(0.0), world.destination(), ledger, journal)
    assert ledger.state is not None
    publisher.tables.open_all(ledger.state)
    for record in world.records[1:]:
        ledger.commit(record)
    publisher.recover()
    assert [record.epoch for record in ledger.kept_epochs()] == [0, 1, 2, 3]
    through, facts = publisher.facts
    assert (through, facts["d.t"]) == (3, {"chunks": 1, "changes": 3, "merge": 3})
    publisher.record_through(through)
    publisher.finish()
    journal.close()
    assert [record.epoch for record in ledger.kept_epochs()] == [3]
