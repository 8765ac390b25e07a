"""A deferred merge keeps its epochs in the ledger, beside epochs of other tables that are long applied."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.decode.schema import Column, Table
from engine.destination import table_progress
from engine.destination.agreement import compare
from engine.destination.delta.table import DeltaMirror
from engine.destination.destination_protocol import Content, StoredState
from engine.destination.publisher import Publisher
from engine.destination.table_progress import Target
from engine.journal import Journal
from engine.ledger.record_json import change_from_json
from engine.ledger.records import EpochRecord
from engine.ledger.store import Ledger
from engine.spec.sink_settings import Sink
from tests.support.delta import rows_at
from tests.unit.destination.support import ID, OLD, PLAN, WHOLE_SPLIT, V, W, World, resnapshotted, switch

OTHER = replace(OLD, name="u")
WIDER = replace(OTHER, columns=(ID, V, W))
WIDEST = replace(WIDER, columns=(ID, V, W, Column("x", "int")))
OTHERS_PLAN = replace(PLAN, table="d.u")
KEPT = 4
"""The epoch with a change of `d.t` whose merge is deferred, and with a switch of `d.u`."""


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger writes a full state with every eighth epoch."""
    monkeypatch.setattr("engine.ledger.store.FULL_STATE_EVERY", 8)


class Run:
    """The steps of a publisher's thread, in its order, one epoch at a time."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder, self._world = folder, world
        self.ledger = Ledger(folder / "ledger")
        self.publisher: Publisher | None = None
        if self.ledger.state is not None:
            self._start()

    def _start(self) -> None:
        journal = Journal(self._folder / "j.jsonl", "r")
        self.publisher = Publisher(self._world.sink(1000.0), self._world.destination(), self.ledger, journal)
        assert self.ledger.state is not None
        self.publisher.tables.open_all(self.ledger.state)
        self.publisher._replay.apply_kept(self.ledger.state)

    def take(self, record: EpochRecord) -> None:
        """Commit and publish an epoch; the ledger records what the publisher has applied."""
        if self.publisher is None:
            self.ledger.commit(record)
            self._start()
            return
        through, facts = self.publisher.facts
        self.ledger.commit(replace(record, applied={name: dict(found) for name, found in facts.items()}))
        self.publisher.record_through(through)
        self.publisher._replay.append([record])
        self.publisher._replay.merge_all(only_due=True)


def _story(world: World, kind: str) -> tuple[Table, tuple[Any, ...]]:
    """Both tables are copied; in one epoch, `d.t` changes and `d.u` is switched, which later epochs complete.

    Returns the last columns of `d.u`, and a row for them.
    """

    def epoch(one: Any = None, other: Any = None) -> None:
        world.epoch()
        parts = {"d.t": one, "d.u": other}
        tables = {name: change_from_json(part) for name, part in parts.items() if part is not None}
        world.records[-1] = replace(world.records[-1], tables=tables)

    joins = {"table": OTHER.as_dict(), "plan": OTHERS_PLAN.as_dict()}
    epoch({"planned": {"table": OLD.as_dict(), "plan": PLAN.as_dict()}}, {"planned": joins})
    copied = ({"split": WHOLE_SPLIT, "chunks": [world.chunk(t, [(1, 1)])], "copied": True} for t in (OLD, OTHER))
    epoch(*copied)
    epoch({"changes": world.changes(OLD, [("+I", 2, 2)])})
    epoch()
    change = {"changes": world.changes(OLD, [("+I", 3, 3)])}
    again: list[dict[str, Any]] = [
        {"split": WHOLE_SPLIT},
        {"chunks": [world.chunk(OTHER, [(1, 1), (7, 7)])], "copied": True},
    ]
    if kind == "altered":
        epoch(change, {"altered": switch(OTHER, WIDER, OTHERS_PLAN)})
        epoch(None, {"altered": switch(WIDER, WIDEST, OTHERS_PLAN)})
        epoch(None, {"changes": world.changes(WIDEST, [("+I", 7, 7, 70, 700)])})
    elif kind == "resnapshotted":
        epoch(change, {"resnapshot": switch(OTHER, OTHER, OTHERS_PLAN)})
        epoch(None, again[0])
        epoch(None, again[1])
    else:
        epoch(change, {"removed": {"drop": False, "by": "c"}})
        epoch(None, {"planned": {**joins, "by": "c"}})
        epoch(None, again[0] | {"chunks": [world.chunk(OTHER, [(7, 7)])], "copied": True})
    for _ in range(3):
        epoch()
    last, row = (WIDEST, (8, 8, 80, 800)) if kind == "altered" else (OTHER, (8, 8))
    epoch(None, {"changes": world.changes(last, [("+I", *row)])})
    return last, row


@pytest.mark.parametrize("kind", ["altered", "resnapshotted", "removed and added"])
def test_no_other_table_is_switched_back(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner is killed: the kept epoch is applied again to the table whose merge was deferred, and to no other."""
    world = World(tmp_path)
    last, row = _story(world, kind)
    run = Run(tmp_path, world)

    def due(one: Target, _sink: Sink) -> bool:
        return one.destination.table.name != "t" or (run.ledger.state is not None and run.ledger.state.epoch < KEPT)

    monkeypatch.setattr(Target, "merge_due", due)
    for record in world.records[:-1]:
        run.take(record)
    kept = list(run.ledger.kept_epochs())
    assert [record.epoch for record in kept] == [KEPT, 9]
    assert tuple(kept[0].tables) == kept[0].only == ("d.t",)
    run = Run(tmp_path, world)
    assert run.publisher is not None
    table_progress = run.publisher.tables.targets["d.u"]
    assert (table_progress.destination.table, table_progress.resnapshot) == (last, None)
    run.take(world.records[-1])
    run.publisher._replay.merge_all()
    assert not run.publisher.tables.failed_tables()
    rows = rows_at(tmp_path / "lake/d/u").drop_columns("_tm_seq").to_pylist()
    assert row in [tuple(found.values()) for found in rows]
    assert {found["id"] for found in rows} >= {7, 8}
    assert len(rows_at(tmp_path / "lake/d/t")) == 3


def test_a_reduced_epoch_is_not_taken_for_one_of_another_table(tmp_path: Path) -> None:
    """A destination that was restored lacks it for good: the table is named, and not continued with a gap."""
    world = World(tmp_path)
    _story(world, "altered")
    run = Run(tmp_path, world)
    for record in world.records:
        run.take(record)
    state = run.ledger.state
    assert state is not None
    found = {name: dict(table.applied) for name, table in state.tables.items()}
    looks = {name: StoredState(dict.fromkeys(applied, 0)) for name, applied in found.items()}
    records = [replace(record, epoch=n) for n, record in enumerate(world.records)]
    assert not compare(world.destination(), state, None, records, looks).tables
    records[KEPT] = replace(records[KEPT], only=("d.t",))
    assert set(compare(world.destination(), state, None, records, looks).tables) == {"d.u"}


def test_the_age_of_a_mirror_that_is_resnapshotted_is_known(tmp_path: Path) -> None:
    """It lacks every change since, until the new copy is complete."""
    resnapshotted(world := World(tmp_path), after=OLD)
    del world.records[4:]
    world.epoch(changes=world.changes(OLD, [("+I", 9, 9)]))
    run = Run(tmp_path, world)
    for record in world.records:
        run.take(record)
    assert run.publisher is not None
    age_s, table = run.publisher.oldest_mirror()
    assert (age_s > 0, table) == (True, "d.t")


def test_merges_stay_bounded_when_a_copy_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of a merge are held in memory, so changes that waited are merged in several commits first."""
    monkeypatch.setattr(table_progress, "_MERGE_ROWS", 2)
    monkeypatch.setattr(Target, "merge_due", lambda *_: False)
    world, merged = World(tmp_path), list[int]()
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT)
    for n in range(6):
        world.epoch(changes=world.changes(OLD, [("+I", 10 + 3 * n + i, 1) for i in range(3)]))
    world.epoch(chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    real = DeltaMirror.apply

    def apply(stored: DeltaMirror, content: Content) -> Any:
        if content.chunks is None:
            merged.append(sum(len(step.changes) for step in content.steps))
        return real(stored, content)

    monkeypatch.setattr(DeltaMirror, "apply", apply)
    run = Run(tmp_path, world)
    for record in world.records:
        run.take(record)
    assert merged == [1] * 6
    assert len(rows_at(tmp_path / "lake/d/t")) == 19
