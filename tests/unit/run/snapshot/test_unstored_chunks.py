"""A group of chunks of which one could not be stored."""

from pathlib import Path

from engine.base.errors import StoreUnreachableError
from engine.capture.reports import ReaderReport
from engine.capture.tasks import ChunkGroup
from engine.plan.chunks import Range
from engine.plan.coverage import Coverage
from tests.unit.run.snapshot.copies import copies, failure, report, table_copy


def test_a_store_that_is_away_for_one_file_voids_one_chunk(tmp_path: Path) -> None:
    """The chunk that was read meanwhile is stored and counts; the others of the group are read again."""

    def answer(group: ChunkGroup) -> list[ReaderReport]:
        away, meanwhile, *_ = group.requests
        return [report(meanwhile), failure(away, StoreUnreachableError("away"))]

    pending = {n: Range((str(n),), (str(n + 1),)) for n in range(40)}
    table = table_copy("t", 40, rows=10, coverage=Coverage(pending=pending))
    with copies(tmp_path, table, readers=1, answer=answer) as run:
        groups = [group["t"] for group in run.assign()]
        stored = {group[1] for group in groups}
        assert {finished.report.chunk for finished in run.settle().finished} == stored
        assert {chunk.number for chunk in table.waiting} == set(range(40)) - stored
        assert {table.states[number] for number in stored} == {"finished"}
