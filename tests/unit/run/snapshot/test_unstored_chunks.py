"""A store that fails for one chunk of a group."""

from pathlib import Path

from engine.base.errors import StoreUnreachableError
from engine.capture.reports import ReaderReport
from engine.capture.tasks import ChunkGroup
from tests.unit.run.snapshot.copies import copies, failure, pending_table, report


def test_a_store_that_is_away_for_one_file_voids_one_chunk(tmp_path: Path) -> None:
    """The chunk that was read meanwhile is stored and counts; the others of the group are read again."""

    def answer(group: ChunkGroup) -> list[ReaderReport]:
        away, meanwhile, *_ = group.requests
        return [report(meanwhile), failure(away, StoreUnreachableError("away"))]

    table = pending_table("t", 40)
    with copies(tmp_path, table, readers=1, answer=answer) as run:
        groups = [group["t"] for group in run.assign()]
        stored = {group[1] for group in groups}
        assert {finished.report.chunk for finished in run.settle().finished} == stored
        assert {chunk.number for chunk in table.waiting} == set(range(40)) - stored
        assert {table.states[number] for number in stored} == {"finished"}
