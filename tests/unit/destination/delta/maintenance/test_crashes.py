"""Maintenance that is killed before any of its writes.

The rows stay, later work continues, and a vacuum removes what is left.

Writes are what changes a disk: a file that is opened for writing, linked, renamed, removed. Each step is run once to
count them, then killed before each. A step without a test here fails `test_every_step_is_killed`.
"""

import builtins
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.destination.capabilities import STEPS
from engine.destination.delta.maintenance.steps import PairMaintenance
from engine.spec.sink_settings import MirrorMode
from tests.unit.destination.lake import MAX_VERSIONS, Lake

CASES: list[tuple[str, MirrorMode]] = [
    ("optimize", "copy_on_write"),
    ("optimize", "merge_on_read"),
    ("vacuum", "copy_on_write"),
    ("vacuum", "merge_on_read"),
    ("compact", "merge_on_read"),  # change logs do not depend on the mirror
    ("expire", "copy_on_write"),
]


class Killed(BaseException):
    """No handler of the engine catches it."""


@contextmanager
def killed_before(number: int) -> Iterator[list[int]]:
    """Raise Killed before the write of this number, and at every later one: a dead process writes nothing."""
    count = [0]

    def counted(real: Callable[..., Any], writes: Callable[..., bool]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if writes(*args, **options):
                count[0] += 1
                if count[0] > number:
                    raise Killed
            return real(*args, **options)

        return call

    def always(*_: Any, **__: Any) -> bool:
        return True

    def opens(_path: Any, mode: str = "r", *_: Any, **__: Any) -> bool:
        return any(letter in mode for letter in "wax+")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", counted(os.link, always))
        patch.setattr(Path, "unlink", counted(Path.unlink, always))
        patch.setattr(Path, "replace", counted(Path.replace, always))
        patch.setattr(Path, "rename", counted(Path.rename, always))
        patch.setattr(Path, "open", counted(Path.open, opens))
        patch.setattr(builtins, "open", counted(builtins.open, opens))
        patch.setattr(pq, "ParquetWriter", counted(pq.ParquetWriter, always))
        yield count


def _prepared(folder: Path, mode: MirrorMode) -> Lake:
    """A lake in which every step has something to do."""
    lake, chance = Lake(folder, mode), random.Random(7)
    lake.copy(dict.fromkeys(range(400), 0))
    for _ in range(5):
        lake.change(lake.random_changes(chance, 60, list(range(500))), timedelta(hours=2))
    if mode == "copy_on_write":  # its merges leave nothing small
        for begin in range(1000, 1800, 100):
            lake.copy(dict.fromkeys(range(begin, begin + 100), 1))
    lake.maintenance.vacuum(set(), timedelta(days=9))
    return lake


def _run(step: str, maintenance: PairMaintenance, lake: Lake) -> object:
    if step == "optimize":
        return maintenance.optimize()
    if step == "compact":
        return maintenance.compact(lake.now + timedelta(days=40))
    if step == "expire":
        return maintenance.expire(lake.now - timedelta(hours=5))
    return maintenance.vacuum(set(), timedelta())


@pytest.mark.parametrize(("step", "mode"), CASES)
def test_every_step_is_killed(tmp_path: Path, mode: MirrorMode, step: str) -> None:
    """Before each of its writes."""
    assert {step for step, _ in CASES} == set(STEPS)
    first, number, ended = _prepared(tmp_path / "first", mode), 0, False
    while not ended:
        folder = tmp_path / str(number)
        shutil.copytree(first.folder, folder)
        lake = replace(first, folder=folder, rows=dict(first.rows), log=list(first.log))
        with killed_before(number) as count:
            try:
                assert _run(step, PairMaintenance(lake.opened(), lake.notes, MAX_VERSIONS), lake) is not None, (
                    "the step had nothing to do"
                )
            except Killed:
                pass
            else:
                ended = True
        assert ended == (count[0] <= number)
        _continues(lake, step)
        number += 1
    assert number > (1 if step == "vacuum" and mode == "merge_on_read" else 0)


def _continues(lake: Lake, step: str) -> None:
    """After a crash: the rows are right, the step and merges can be done, and nothing is left in the end."""
    assert lake.mirror() == lake.rows
    lake.reopen()
    for name in lake.pair.repair():
        raise AssertionError(f"{name} was torn")
    while _run(step, lake.maintenance, lake) is not None:
        pass
    lake.change([(3, 33), (4, None), (9999, 1)])
    assert lake.mirror() == lake.rows
    if step != "expire":
        lake.check()
    for _ in range(2):
        lake.maintenance.vacuum(set(), timedelta())
    named = lake.maintenance._named_files()
    for folder, names in named.items():
        there = {entry.name for entry in folder.below() if entry.name.endswith((".parquet", ".bin"))}
        there = {name for name in there if not name.startswith("_delta_log/")}
        assert names <= there
        assert not {name for name in there - names if not name.startswith(("chunk-", "changes-"))}
    assert lake.mirror() == lake.rows
