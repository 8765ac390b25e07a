"""Reading a change log in order, from a position on."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from engine.capture.position_order import pack
from engine.destination.delta.read import change_log
from engine.destination.delta.read.change_log import ChangeLog
from engine.store.local_folder import LocalFolder

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def file(folder: Path, numbers: Sequence[int], *, redumped: bool = False) -> None:
    """One more file, with changes whose offsets are their numbers."""
    columns = {
        "_tm_seq": pa.array(numbers, pa.int64()),
        "_tm_position": [f"b.000001:{number}" for number in numbers],
        "_tm_ts": pa.array([None if redumped else NOW] * len(numbers), pa.timestamp("us", "UTC")),
    }
    write_deltalake(str(folder), pa.table(columns), mode="append")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChangeLog:
    """A log of small files, of a large one that is not sorted, of redumped rows, and of files that overlap."""
    monkeypatch.setattr(change_log, "BATCH_ROWS", 10)
    file(tmp_path, [3, 1, 2])
    file(tmp_path, [*range(50, 90), *range(4, 50)])
    file(tmp_path, range(90, 120), redumped=True)
    file(tmp_path, range(120, 140, 2))
    file(tmp_path, range(121, 140, 2))
    file(tmp_path, range(1000, 1003))
    return ChangeLog(LocalFolder(tmp_path))


NUMBERS = [*range(1, 140), 1000, 1001, 1002]


def test_all_changes_in_order(log: ChangeLog) -> None:
    """Whatever the files' order; in several parts."""
    parts = [part["_tm_seq"].to_pylist() for part in log.since(0, ["_tm_seq"])]
    assert [number for part in parts for number in part] == NUMBERS
    assert len(parts) > 5


@pytest.mark.parametrize("start", [*range(0, 140, 7), 1000, 1002, 2000])
def test_changes_after_a_position(log: ChangeLog, start: int) -> None:
    """None is left out; files before it are not read."""
    found = [n for part in log.since(pack(1, start), ["_tm_seq"]) for n in part["_tm_seq"].to_pylist()]
    assert found == sorted(found)
    assert {n for n in NUMBERS if n > start and not 90 <= n < 120} <= set(found)
    assert sum(n <= start for n in found) < 90


def test_changes_of_another_server_do_not_count(tmp_path: Path) -> None:
    """Its files are numbered otherwise: only `_tm_seq` tells. Its changes are not read."""
    for seq, position in ((1, 70), (2, 80), (3, 10), (4, 20), (5, 30)):
        rows = {"_tm_seq": [seq], "_tm_position": [f"b.000001:{position}"], "_tm_ts": [NOW]}
        write_deltalake(str(tmp_path), pa.table(rows), mode="append")
    found = [
        part["_tm_seq"].to_pylist() for part in ChangeLog(LocalFolder(tmp_path)).since(pack(1, 15), ["_tm_seq"], 3)
    ]
    assert found == [[4], [5]]


def test_the_first_change(log: ChangeLog, tmp_path: Path) -> None:
    """Its position and number; None for a log without any."""
    assert log.first() == (pack(1, 1), 1)
    file(tmp_path / "empty", [])
    assert ChangeLog(LocalFolder(tmp_path / "empty")).first() is None
    assert not list(ChangeLog(LocalFolder(tmp_path / "empty")).since(0, ["_tm_seq"]))
