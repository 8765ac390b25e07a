"""Partitions contain every row once, and both sides of a key in the same one."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.verify import partitions
from engine.verify.partitions import Partitions, digests

KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", "a", "b", "ab", "same end", "other same end", "ü"]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"abc"]),
    (pa.int64(), [-5, 0, 5, 2**62]),
    (pa.decimal128(20, 2), [Decimal("1.10"), Decimal("-3.00")]),
    (pa.timestamp("us"), [datetime.fromisoformat("2026-01-01"), datetime.fromisoformat("1970-01-01")]),
    (pa.bool_(), [True, False]),
]


@pytest.mark.parametrize(("spilled", "in_parts"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize(("type_", "values"), KEYS, ids=[str(type_) for type_, _ in KEYS])
def test_every_row_is_in_one_pair(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    type_: pa.DataType,
    values: list[Any],
    *,
    spilled: bool,
    in_parts: bool,
) -> None:
    """Whether the rows fit into memory or not."""
    if spilled:
        monkeypatch.setattr(partitions, "_HELD_BYTES", 1)
    if in_parts:
        monkeypatch.setattr(partitions, "_PAIR_BYTES", 20)
    schema = pa.schema([("k", type_), ("v", pa.int32())])
    rows = pa.table([pa.array(values * 3, type_), pa.array(range(3 * len(values)), pa.int32())], schema=schema)
    with Partitions(tmp_path, schema, ["k"]) as made:
        made.source.add(rows.slice(0, 2))
        made.source.add(rows.slice(2))
        made.mirror.add(rows)
        pairs = list(made.pairs())
        assert len(pairs) == (64 if spilled else 1) or (in_parts and len(pairs) > 64)
        for source, mirror in pairs:
            assert source.sort_by("v").equals(mirror.sort_by("v"))
        assert pa.concat_tables([source for source, _ in pairs]).sort_by("v").equals(rows)
    assert not list(tmp_path.iterdir())


def test_a_sliced_column_has_the_same_digests() -> None:
    """Whatever lies before it in its buffers."""
    keys = pa.table({"k": [f"key {n}" for n in range(100)]})
    assert digests(keys.slice(40, 20)).tolist() == digests(keys)[40:60].tolist()


def test_digests_spread() -> None:
    """Consecutive keys are in many partitions."""
    for keys in (pa.table({"k": range(10_000)}), pa.table({"k": [f"{n:036x}" for n in range(10_000)]})):
        assert len(set((digests(keys) >> 58).tolist())) == 64
