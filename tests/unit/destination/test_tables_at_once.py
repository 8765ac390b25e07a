"""Tables wait for their store at the same time, not one after the other."""

import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.destination.delta.table import DeltaDestinationTable
from engine.destination.publisher import Publisher
from engine.destination.table_progress import Target
from engine.journal import Journal
from engine.ledger.store import Ledger
from engine.spec.sink_settings import MirrorMode
from tests.support.delta import rows_at
from tests.support.parquet import log_table
from tests.support.patience import PATIENCE_S
from tests.unit.destination.support import BARE, OLD, PLAN, World


def test_an_epoch_is_committed_to_its_tables_at_the_same_time(
    tmp_path: Path, mode: MirrorMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When they join, change, are merged and are opened later: at each step they wait for each other."""
    tables = [replace(OLD, name=f"t{n}") for n in range(4)]
    world, barrier = World(tmp_path, mode), threading.Barrier(len(tables), timeout=PATIENCE_S)
    joins = {one.full_name: {"planned": {"table": one.as_dict(), "plan": PLAN.as_dict()}} for one in tables}
    changes = {one.full_name: {"changes": world.changes(one, [("+I", 1, 1)])} for one in tables}
    world.tables_epoch(joins)
    world.tables_epoch(changes)
    met = Counter[str]()

    def meet(owner: Any, name: str) -> None:
        step = getattr(owner, name)

        def waiting(*arguments: Any, **options: Any) -> Any:
            met[name] += 1
            barrier.wait()
            return step(*arguments, **options)

        monkeypatch.setattr(owner, name, waiting)

    meet(DeltaDestinationTable, "open")
    meet(DeltaDestinationTable, "append")
    meet(Target, "merge")
    ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "j.jsonl", "r")
    for rounds in (1, 2):
        publisher = Publisher(world.sink(1000.0), world.destination(), ledger, journal)
        if rounds == 1:
            ledger.commit(world.records[0])
        assert ledger.state is not None
        publisher.tables.open_all(ledger.state)
        publisher.recover()
        if rounds == 1:
            ledger.commit(world.records[1])
            publisher.submit(world.records[1])
        publisher.finish()
    journal.close()
    assert all(met[step] and met[step] % len(tables) == 0 for step in ("open", "append", "merge")), met
    for one in tables:
        assert rows_at(tmp_path / "lake/d" / one.name)["id"].to_pylist() == [1]


def test_tables_that_are_opened_at_the_same_time_share_one_manifest(tmp_path: Path) -> None:
    """What each got is in it, whichever was first: the threads change places as often as they can."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(3):
            folder = tmp_path / str(number)
            world, tables = World(folder, kind="parquet"), [replace(BARE, name=f"t{n}") for n in range(16)]
            plan = PLAN.as_dict()
            world.tables_epoch({one.full_name: {"planned": {"table": one.as_dict(), "plan": plan}} for one in tables})
            world.tables_epoch({one.full_name: {"changes": world.changes(one, [("+I", 1, 1)])} for one in tables})
            ledger, journal = Ledger(folder / "ledger"), Journal(folder / "j.jsonl", "r")
            publisher = Publisher(world.sink(1000.0), world.destination(), ledger, journal)
            ledger.commit(world.records[0])
            assert ledger.state is not None
            publisher.tables.open_all(ledger.state)
            publisher.recover()
            ledger.commit(world.records[1])
            publisher.submit(world.records[1])
            publisher.finish()
            journal.close()
            rows = [log_table(folder / "lake", one.full_name, "changes").num_rows for one in tables]
            assert rows == [1] * len(tables)
    finally:
        sys.setswitchinterval(switch_s)
