"""Rows that wait come back in order, from memory or from the file."""

import pyarrow as pa
import pytest

from engine.capture.spill import Spill

SCHEMA = pa.schema([("n", pa.int64()), ("v", pa.string())])


def rows(first: int) -> pa.Table:
    """Three rows."""
    return pa.table({"n": range(first, first + 3), "v": [None, "", "x" * first]}, schema=SCHEMA)


@pytest.mark.parametrize("limit", [0, 100, 1 << 20])
def test_rows_come_back_in_order_any_number_of_times(limit: int) -> None:
    """Whether all, some or none of them are in the file; also after a reader that stopped early."""
    with Spill(SCHEMA, limit) as waiting:
        assert list(waiting) == []
        for first in range(0, 30, 3):
            waiting.add(rows(first))
        assert waiting.spilled == (limit < 1 << 20)
        next(iter(waiting))
        for _ in range(2):
            assert pa.concat_tables(waiting).equals(pa.concat_tables(rows(n) for n in range(0, 30, 3)))


def test_memory_holds_no_more_than_the_limit() -> None:
    """Rows beyond it are in the file."""
    before = pa.total_allocated_bytes()
    with Spill(pa.schema([("v", pa.string())]), 1 << 20) as waiting:
        for _ in range(64):
            waiting.add(pa.table({"v": ["x" * (1 << 18)]}))
        assert pa.total_allocated_bytes() - before < 4 << 20
        assert sum(len(batch) for batch in waiting) == 64
