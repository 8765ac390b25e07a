"""Another tool that commits to a table all the time stops the table; the hint finds it, and brings the table back."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from engine.base import clock
from engine.destination.delta.log.delta_log import DeltaLog
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.ledger.store import Ledger
from tests.unit.destination.support import OLD, WHOLE_SPLIT, World, mirror, publish_story, story, switch

TOOL = "a tool of another team"


def test_a_writer_that_is_always_first_is_found_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It commits before each of our attempts. DESCRIBE HISTORY shows it; once it has ended, a resnapshot is right."""
    story(world := World(tmp_path))
    world.records = world.records[:3]
    publish_story(world, tmp_path, [])
    commit = DeltaLog.commit

    def overtaken(log: DeltaLog, actions: Any) -> int:
        action = {"commitInfo": {"operation": "WRITE", "engineInfo": TOOL}}
        log.path.write(f"{log.version + 1:020d}.json", (json.dumps(action) + "\n").encode())
        return commit(log, actions)

    with monkeypatch.context() as patched:
        patched.setattr(DeltaLog, "commit", overtaken)
        patched.setattr(clock, "sleep", lambda _: None)
        world.epoch(changes=world.changes(OLD, [("+I", 7, 7)]))
        ledger, journal = Ledger(tmp_path / "ledger"), Journal(tmp_path / "other.jsonl", "r")
        ledger.commit(world.records[3])
        publisher = Publisher(world.sink(0.0), world.destination(), ledger, journal)
        assert ledger.state is not None
        publisher.tables.open_all(ledger.state)
        publisher.recover()
        publisher.finish()
        journal.close()
    (error,) = publisher.tables.failed_tables().values()
    assert "keeps committing" in error.message
    assert "DESCRIBE HISTORY has the tool of each commit. Stop that writer, then resnapshot the table" in error.hint
    assert TOOL in {one.get("engineInfo") for one in DeltaTable(str(tmp_path / "lake/d/t__changes")).history()}
    world.epoch(resnapshot=switch(OLD, OLD))
    world.epoch(split=WHOLE_SPLIT, chunks=[world.chunk(OLD, [(7, 7)])], copied=True)
    world.epoch(changes=world.changes(OLD, [("+I", 9, 9)]))
    publish_story(world, tmp_path, [], since=4)
    assert mirror(tmp_path) == [(7, 7), (9, 9)]
