"""Ledger and destination of different ages: each combination is recognised before anything is written."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from engine.base.errors import MismatchError, PipelineHeldError
from engine.destination.agreement import Comparison, compare
from engine.destination.destination_protocol import StoredState
from engine.destination.fence import Fence, Term
from engine.ledger.records import Due, TableChange
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.run.lifecycle.takeover import Takeover
from engine.store.local_folder import LocalFolder
from tests.unit.destination.support import (
    OLD,
    PLAN,
    WHOLE_SPLIT,
    World,
    lake_destination,
    log,
    mirror,
    publish_story,
    story,
    switch,
)

NAMES = frozenset[str]()


def run(folder: Path, *, until: int | None = None) -> World:
    """A pipeline that has published the story, and the ledger's record of the destination."""
    story(world := World(folder))
    publish_story(world, folder, [])
    ledger = Ledger(folder / "ledger")
    assert ledger.state is not None
    ledger.commit(replace(following(ledger.state, "r", {}), applied={"d.t": {"chunks": 1, "changes": 3, "merge": 3}}))
    return world


def take(
    folder: Path, name: str, *, asked: frozenset[str] = NAMES, everything: bool = False
) -> tuple[Takeover, int | None]:
    """Another run takes over the pipeline."""
    takeover = Takeover(lake_destination(folder), name)
    return takeover, takeover.take(Ledger(folder / "ledger"), asked, everything=everything)


def test_what_belongs_together_is_taken_again_and_again(tmp_path: Path) -> None:
    """By runs that ended properly and by killed ones: each has its own term."""
    run(tmp_path)
    first, _ = take(tmp_path, "a")
    first.destination.terms.release()
    second, _ = take(tmp_path, "b")
    assert second.destination.terms.check() == 2
    third, _ = take(tmp_path, "c")
    assert third.destination.terms.check() == 3
    for overtaken in (first, second):
        with pytest.raises(PipelineHeldError, match="taken over by run c"):
            overtaken.destination.terms.check()
    state = Ledger(tmp_path / "ledger").state
    assert state is not None
    assert state.terms == ((1, "a"), (2, "b"), (3, "c"))


@pytest.mark.parametrize("gone", ["", "t", "t__changes"])
def test_a_ledger_that_was_restored_is_refused(tmp_path: Path, gone: str) -> None:
    """The destination has epochs that it does not know.

    New ones would count as applied, though a folder is gone as well.
    """
    story(world := World(tmp_path))
    whole, world.records = world.records, world.records[:2]
    publish_story(world, tmp_path, [])
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    world.records = whole
    publish_story(world, tmp_path, [], since=2)
    shutil.rmtree(tmp_path / "ledger")
    (tmp_path / "copy").rename(tmp_path / "ledger")
    if gone:
        shutil.rmtree(tmp_path / "lake/d" / gone)
    with pytest.raises(MismatchError, match=r"older than its destination: d\.t has epoch 3, the ledger ends at 1"):
        take(tmp_path, "a", asked=frozenset({"d.t"}))
    assert not (tmp_path / "lake/_tidemark").exists(), "nothing was written"
    _, next_seq = take(tmp_path, "b", everything=True)
    assert next_seq == (1 if gone == "t__changes" else 3), "behind the two changes that the log holds"


def test_a_copy_whose_original_went_on_is_refused(tmp_path: Path) -> None:
    """Even if no table has newer epochs: another runner has written since."""
    run(tmp_path)
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy" / "ledger")
    take(tmp_path, "original")
    ledger = Ledger(tmp_path / "copy" / "ledger")
    with pytest.raises(MismatchError, match=r"run original on .* has written to d\.t"):
        Takeover(lake_destination(tmp_path), "copy").take(ledger, NAMES, everything=False)


def test_the_first_of_two_copies_to_start_wins(tmp_path: Path) -> None:
    """The older runner writes nothing more, wherever its ledger is."""
    run(tmp_path)
    original, _ = take(tmp_path, "original")
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy" / "ledger")
    copy = Takeover(lake_destination(tmp_path), "copy")
    copy.take(Ledger(tmp_path / "copy" / "ledger"), NAMES, everything=False)
    with pytest.raises(PipelineHeldError, match="taken over by run copy"):
        original.destination.terms.check()
    with pytest.raises(MismatchError):
        take(tmp_path, "original again")


def test_two_that_start_at_once_do_not_both_hold_it(tmp_path: Path) -> None:
    """Only one can create the file of a term."""
    one, other = Fence(LocalFolder(tmp_path), "L"), Fence(LocalFolder(tmp_path), "L")
    one.take(Term(1, "one", "h", 1, "now"))
    with pytest.raises(PipelineHeldError, match="run one"):
        other.take(Term(1, "other", "h", 2, "now"))
    other.take(Term(2, "other", "h", 2, "now"))
    with pytest.raises(PipelineHeldError):
        one.check()
    for number in range(3, 60):
        other.take(Term(number, "other", "h", 2, "now"))
    assert other.check() == 59
    with pytest.raises(PipelineHeldError):
        one.check()
    assert len(list((tmp_path / "_tidemark/L").iterdir())) <= 20


@pytest.mark.parametrize("kept", [True, False])
def test_a_lake_that_was_restored_is_repaired_or_refused(tmp_path: Path, kept: bool) -> None:
    """Repaired if ledger and files have what it lacks; otherwise that would be lost."""
    story(world := World(tmp_path))
    whole, world.records = world.records, world.records[:3]
    publish_story(world, tmp_path, [])
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    world.records = whole
    publish_story(world, tmp_path, [], since=3)
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.state is not None
    ledger.commit(replace(following(ledger.state, "r", {}), applied={"d.t": {"chunks": 1, "changes": 3, "merge": 3}}))
    if not kept:  # as in a copy that is older than they are
        for file in whole[3].tables["d.t"].change_files:
            (tmp_path / "copy/d/t__changes" / file["name"]).unlink()
    shutil.rmtree(tmp_path / "lake")
    (tmp_path / "copy").rename(tmp_path / "lake")
    if not kept:
        with pytest.raises(MismatchError, match=r"d\.t: it has changes through epoch 2, the ledger knows of 3"):
            take(tmp_path, "a")
        takeover, _ = take(tmp_path, "a", asked=frozenset({"d.t"}))
        assert takeover.at_fault == {"d.t"}
        return
    take(tmp_path, "a")
    world.records.append(Ledger(tmp_path / "ledger").epoch(4))
    world.records.append(Ledger(tmp_path / "ledger").epoch(5))
    world.epoch()
    publish_story(world, tmp_path, [], since=6)
    assert mirror(tmp_path) == [(2, 2), (3, 3)]
    assert log(tmp_path) == [("+I", 3, 3, None), ("-D", 1, 1, None)]


@pytest.mark.parametrize("damage", ["gone", "foreign", "torn", "a file of the mirror", "a file of the log"])
def test_a_destination_that_is_gone_or_damaged_is_refused(tmp_path: Path, damage: str) -> None:
    """By name, with the remedy; requesting the table's resnapshot is another one."""
    run(tmp_path)
    folder = tmp_path / "lake/d/t"
    if damage == "gone":
        shutil.rmtree(folder)
    elif damage.startswith("a file"):
        damaged = folder if "mirror" in damage else tmp_path / "lake/d/t__changes"
        Path(DeltaTable(str(damaged)).file_uris()[0]).unlink()
    elif damage == "torn":
        (folder / "_delta_log" / f"{1:020d}.json").write_bytes(b"")
    else:
        commit = folder / "_delta_log" / f"{0:020d}.json"
        commit.write_text(commit.read_text().replace("Tidemark ledger L", "Tidemark ledger M"))
    with pytest.raises(MismatchError, match=r"d\.t") as raised:
        take(tmp_path, "a")
    assert raised.value.exit_code == 7
    assert "redump SPEC --table d.t" in raised.value.hint
    takeover, _ = take(tmp_path, "b", asked=frozenset({"d.t"}))
    assert takeover.at_fault == {"d.t"}


def test_a_table_that_lacks_files_is_repaired_alone(tmp_path: Path) -> None:
    """While others are as they should be: otherwise the destination is damaged as a whole, and an operator decides."""
    run(tmp_path)
    state = Ledger(tmp_path / "ledger").state
    assert state is not None
    table = state.tables["d.t"]
    state = replace(state, tables={"d.t": table, "d.u": table})
    right = StoredState(dict(table.applied))
    lacking = replace(right, missing_files="1 data file is gone")
    destination = lake_destination(tmp_path)

    def found(first: StoredState, second: StoredState) -> Comparison:
        return compare(destination, state, None, [], {"d.t": first, "d.u": second})

    assert found(right, lacking) == Comparison(missing_files={"d.u": "1 data file is gone"})
    assert found(lacking, lacking).tables == dict.fromkeys(("d.t", "d.u"), "1 data file is gone")
    assert found(StoredState(fault="it is gone"), lacking).tables == {"d.t": "it is gone", "d.u": "1 data file is gone"}


def test_a_resnapshot_that_is_due_replaces_what_is_damaged(tmp_path: Path) -> None:
    """Also after a restart: it was decided because of the damage."""
    run(tmp_path)
    (tmp_path / "lake/d/t").rename(tmp_path / "away")
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.state is not None
    ledger.commit(following(ledger.state, "r", {"d.t": TableChange(due=Due("2026-01-01T00:00:00.000000Z"))}))
    assert take(tmp_path, "a")[0].at_fault == set()


@pytest.mark.parametrize("stops", [False, True])
def test_a_restored_ledger_is_refused_although_its_table_is_replaced(tmp_path: Path, *, stops: bool) -> None:
    """The resnapshot would get epochs that the destination has, and be taken for applied."""
    story(world := World(tmp_path))
    publish_story(world, tmp_path, [])
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.state is not None
    due = TableChange(due=Due("2026-01-01T00:00:00.000000Z"))
    change = TableChange(stopped=MismatchError("gone").to_record()) if stops else due
    decided = following(ledger.state, "r", {"d.t": change})
    ledger.commit(decided)
    world.records.append(decided)
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    since = len(world.records)
    world.epoch(resnapshot=switch(OLD, OLD, PLAN))
    world.epoch(split=WHOLE_SPLIT)
    world.epoch(chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 9, 9)]))
    publish_story(world, tmp_path, [], since=since)
    assert (9, 9) in mirror(tmp_path)
    shutil.rmtree(tmp_path / "ledger")
    (tmp_path / "copy").rename(tmp_path / "ledger")
    with pytest.raises(MismatchError, match="older than its destination"):
        take(tmp_path, "a")
