"""A change log that cannot get a table's new columns begins again, wherever the publisher is killed.

The old one is kept.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from engine.decode.schema import Column, Table
from engine.destination.delta.generations import kept_generations
from engine.ledger.state import Owner
from engine.spec.sink_settings import MirrorMode
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of, rows_at
from tests.unit.destination.lake import delta_table
from tests.unit.destination.support import ID, OLD, PLAN, WHOLE_SPLIT, World, publish_story, switch

UNTIL = "2026-11-26T09:30:00.123456Z"
TEXT = replace(OLD, columns=(ID, Column("v", "varchar", charset="utf8mb4", length=20)))
CASED = replace(OLD, columns=(ID, Column("V", "int")))
WIDER_TEXT = replace(TEXT, columns=(*TEXT.columns, Column("w", "int")))


def began_again(world: World, after: Table, rows: Any) -> None:
    """A copy, changes, and a resnapshot with other columns, followed by changes."""
    world.epoch(planned={"table": TEXT.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(TEXT, [(1, "a")])], copied=True)
    world.epoch(changes=world.changes(TEXT, [("+I", 2, "b")]))
    world.epoch(changes=world.changes(TEXT, [("+I", 3, "c")]), altered=switch(TEXT, WIDER_TEXT))
    world.epoch(changes=world.changes(WIDER_TEXT, [("+I", 4, "d", 4)]), resnapshot=switch(WIDER_TEXT, after))
    world.records[-1] = replace(world.records[-1], ts=UNTIL)
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(after, rows[:1])], copied=True)
    world.epoch(changes=world.changes(after, [("+I", *row) for row in rows[1:]]))


def log_of(folder: Path) -> list[tuple[Any, ...]]:
    """A change log: key and value."""
    rows = rows_at(folder).to_pylist()
    return sorted((row["id"], row.get("v", row.get("V"))) for row in rows)


@pytest.mark.parametrize("killed", [(), *((n,) for n in range(1, 7)), range(7)])
def test_a_type_that_the_change_log_cannot_take(tmp_path: Path, killed: Sequence[int], mode: MirrorMode) -> None:
    """The new log has the new changes in their type, the old one all before; the mirror is the new copy."""
    began_again(world := World(tmp_path, mode), OLD, [(7, 70), (8, 80)])
    publish_story(world, tmp_path, killed)
    changes = tmp_path / "lake/d/t__changes"
    (kept,) = kept_generations(LocalFolder(changes))
    assert kept.name == "t__changes__until_20261126T093000Z"
    assert log_of(path_of(kept)) == [(2, "b"), (3, "c"), (4, "d")]
    assert log_of(changes) == [(8, 80)]
    assert [(row["id"], row["v"]) for row in rows_at(tmp_path / "lake/d/t").sort_by("id").to_pylist()] == [
        (7, 70),
        (8, 80),
    ]
    kinds = [json.loads(line)["event"] for line in (tmp_path / "j.jsonl").read_text().splitlines()]
    assert kinds.count("changelog.kept") == 1


@pytest.mark.parametrize("killed", [(), range(7)])
def test_a_rename_in_case_only(tmp_path: Path, killed: Sequence[int], mode: MirrorMode) -> None:
    """Delta cannot have both spellings: neither log nor mirror has the old one."""
    world = World(tmp_path, mode)
    world.epoch(planned={"table": OLD.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(1, 1)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 2, 2)]), resnapshot=switch(OLD, CASED))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(CASED, [(1, 1), (2, 2)])], copied=True)
    world.epoch(changes=world.changes(CASED, [("+I", 3, 3)]))
    publish_story(world, tmp_path, killed)
    for folder in ("t", "t__changes"):
        names = rows_at(tmp_path / "lake/d" / folder).column_names
        assert [name for name in names if not name.startswith("_tm_")] == ["id", "V"]
    assert log_of(tmp_path / "lake/d/t__changes") == [(3, 3)]


@pytest.mark.parametrize("moved", ["t", "t__changes", "both"])
def test_folders_that_were_moved_away_begin_with_the_new_columns(tmp_path: Path, moved: str, mode: MirrorMode) -> None:
    """The resnapshot that follows repairs the table, also after a restart, which finds the old epochs in the ledger."""
    world = World(tmp_path, mode)
    world.epoch(planned={"table": TEXT.as_dict(), "plan": PLAN.as_dict()})
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(TEXT, [(1, "a")])], copied=True)
    world.epoch(changes=world.changes(TEXT, [("+I", 2, "b")]))
    publish_story(world, tmp_path, ())
    for name in ("t", "t__changes") if moved == "both" else (moved,):
        shutil.move(tmp_path / "lake/d" / name, tmp_path / name)
    world.epoch(resnapshot=switch(TEXT, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(7, 70)])], copied=True)
    publish_story(world, tmp_path, (3, 4), since=3)
    world.epoch(changes=world.changes(OLD, [("+I", 8, 80)]))
    publish_story(world, tmp_path, (5,), since=5)
    assert log_of(tmp_path / "lake/d/t__changes") == [(8, 80)]
    assert sorted(row["id"] for row in rows_at(tmp_path / "lake/d/t").to_pylist()) == [7, 8]


def test_what_is_kept_is_dropped_with_the_table(tmp_path: Path) -> None:
    """It is published data of the table too."""
    began_again(world := World(tmp_path, "copy_on_write"), OLD, [(7, 70), (8, 80)])
    publish_story(world, tmp_path, ())
    delta = delta_table(tmp_path / "lake", Owner("L"), OLD)
    assert DeltaTable(kept_generations(delta.pair.changes.folder)[0].url).version() == 0
    delta_table(tmp_path / "lake", Owner("another"), OLD).pair.drop()
    assert kept_generations(delta.pair.changes.folder)
    delta.pair.drop()
    assert not kept_generations(delta.pair.changes.folder)
