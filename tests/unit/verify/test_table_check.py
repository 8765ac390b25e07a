"""Which parts of a table are compared exactly."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from engine.decode.schema import Column, Table
from engine.plan.chunks import WHOLE
from engine.source.positions import Position
from engine.store.local_folder import LocalFolder
from engine.verify import partitions, table_check
from engine.verify.comparison import RowComparison, compare
from engine.verify.settling import Settled
from engine.verify.table_check import NumberedRange, TableCheck, TableFindings


def rows(values: dict[float, int]) -> pa.Table:
    """Rows of a table whose key is a DOUBLE."""
    return pa.table({"k": pa.array(values, pa.float64()), "v": pa.array(values.values(), pa.int32())})


class Settling:
    """Settles a range like `settling.Settling`, of two tables that do not change."""

    def __init__(self, source: pa.Table, mirror: pa.Table) -> None:
        self.source, self.rows, self.settled = source, mirror, 0

    def mirror(self) -> Any:
        """A version."""
        return SimpleNamespace(mirror=SimpleNamespace(release=lambda: None, keeps_others_out=False))

    def batches(self, _: Any) -> list[pa.Table]:
        """All rows of the mirror."""
        return [self.rows]

    def compare(self, source: pa.Table, mirror: pa.Table) -> RowComparison:
        """As it does."""
        return compare(source, mirror, ["k"])

    def range(self, limits: Any) -> list[Settled]:
        """One part."""
        self.settled += 1
        return [Settled(compare(self.source, self.rows, ["k"]), Position("b.1", 4), limits, 1, self.source.num_rows, 0)]


def test_keys_that_cannot_be_named_are_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If many of them differ, in many partitions, the table is compared exactly once.

    Each difference is counted once.
    """
    monkeypatch.setattr(partitions, "_HELD_BYTES", 0)
    monkeypatch.setattr(table_check, "_MOST_KEYS", 4)
    source, mirror = rows({n / 7: n for n in range(100)}), rows({n / 7: n + n % 2 for n in range(100)})
    columns = (Column("k", "double"), Column("v", "int"))
    table = Table("d", "t", columns, ("k",))
    request = SimpleNamespace(table=table, key=None, folder=LocalFolder(tmp_path))
    both = Settling(source, mirror)
    reader = SimpleNamespace(request=request, schema=source.schema, quick=lambda limits: [(limits, source)])
    check = TableCheck(reader, both)  # type: ignore[arg-type]
    check.ranges([NumberedRange(0, WHOLE)])
    assert (check.findings.total, check.findings.parts[0].differences, check.findings.rows) == (50, 50, 100)
    assert both.settled == 2  # and once again


def test_rows_that_nobody_lists_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of a large table may differ: they are counted, and their keys are held while a repair can name them."""
    monkeypatch.setattr(table_check, "MOST_LISTED", 10)
    monkeypatch.setattr(table_check, "MOST_NAMED", 250)
    found = TableFindings()
    for n in range(4):
        keys = range(n * 100, n * 100 + 100)
        found.add(n, compare(rows({float(k): k for k in keys}), rows({float(k): k + 1 for k in keys}), ["k"]), ["k"])
    assert (found.total, dict(found.counts)["different"]) == (400, 400)
    assert [(part, len(one.source)) for part, one in found.differences] == [(0, 10)]
    assert sum(map(len, found.keys)) == 200
