"""Assigning chunks: what fails together counts once, what was dropped stays dropped."""

import time
from pathlib import Path
from typing import Any

import pytest

from engine.capture.tasks import ChunkGroup, Report
from engine.decode.schema import Column, Table
from engine.errors import TransientError
from engine.events import Journal
from engine.plan.chunks import Plan
from engine.run.snapshot import Snapshot
from engine.source.connect import Endpoint
from engine.source.positions import Position
from engine.source.watermarks import Candidate

TABLE = Table("d", "t", (Column("id", "int"),), ("id",))
PLAN = Plan("d.t", 160, ("id",), "0", "160", 1.0, "even", "", tuple(range(10, 160, 10)))
ENDPOINT = Endpoint("127.0.0.1", 1, "u", "p")
GROUP = ChunkGroup(ENDPOINT, 1, "gtid", 1.0, Candidate(Position("b.000001", 4, ""), 0.0), ())


def _failing(group: ChunkGroup, _: str) -> list[Report]:
    """A reader that has lost its connection."""
    return [{"chunk": group.requests[0].number, "host": "h", "pid": 1, "failure": TransientError("lost").as_dict()}]


@pytest.fixture
def snapshot(tmp_path: Path) -> Any:
    """Sixteen chunks and eight readers that fail."""
    journal = Journal(tmp_path / "j.jsonl", "r")
    made = Snapshot(8, 1 << 20, journal, _failing)
    made.add(TABLE, PLAN, tmp_path, range(16))
    yield made
    made.close()
    journal.close()


def _settle(snapshot: Snapshot) -> None:
    deadline = time.monotonic() + 5
    while snapshot.under_way and time.monotonic() < deadline:
        snapshot.collect()
        time.sleep(0.005)


def test_readers_that_fail_together_are_one_failure(snapshot: Snapshot) -> None:
    """Nine groups lose the server at once: that is one attempt of eight, not the end of the run."""
    snapshot.assign(GROUP)
    assert snapshot.under_way
    _settle(snapshot)
    copying = snapshot._tables["d.t"]
    assert copying.failures == 1
    assert sorted(copying.waiting) == list(range(16))
    snapshot.assign(GROUP)
    assert not snapshot.under_way  # not before the pause is over


def test_a_dropped_table_is_not_queued_again(snapshot: Snapshot) -> None:
    """What was under way when the table stopped is forgotten when it comes back."""
    snapshot.assign(GROUP)
    snapshot.drop("d.t")
    _settle(snapshot)
    assert snapshot.idle
