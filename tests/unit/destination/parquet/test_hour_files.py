"""The rows of a change log lie in files by the hour of their commit."""

import errno
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.durable import sync_file
from engine.capture.binlog.row_changes import log_schema
from engine.destination.parquet.hour_files import HourFile, HourWriter
from engine.store import local_folder as written_files
from engine.store.local_folder import LocalFolder

SCHEMA = log_schema(pa.schema([pa.field("id", pa.int32(), nullable=False)]))
PUBLISHED = int(datetime(2026, 3, 1, 7, tzinfo=UTC).timestamp()) // 3600
"""The hour of rows without a commit time."""


def staged(folder: Path, times: Sequence[str | None]) -> Path:
    """A reader's file of changes with these commit times, whose ids and `_tm_seq` count from 1."""
    moments = [None if one is None else datetime.fromisoformat(one) for one in times]
    rows = [
        {"id": n, "_tm_kind": "+I", "_tm_seq": n, "_tm_ts": moment.replace(tzinfo=UTC) if moment else None}
        for n, moment in enumerate(moments, 1)
    ]
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path := folder / "staged.parquet")
    return path


def split(tmp_path: Path, *sources: Path) -> list[HourFile]:
    """The files of one commit."""
    with HourWriter(LocalFolder(tmp_path / "t"), "00000004-changes", PUBLISHED, ("id", "_tm_seq")) as writer:
        for source in sources:
            writer.write(pa.OSFile(str(source)))
        return writer.finish()


def ids(tmp_path: Path, files: Sequence[HourFile]) -> dict[str, list[int]]:
    """The ids by folder."""
    found = dict[str, list[int]]()
    for one in files:
        rows = pq.ParquetFile(tmp_path / "t" / one.folder / one.file.name).read()
        assert (rows.num_rows, rows.schema.names) == (one.file.rows, SCHEMA.names)
        found.setdefault(one.folder, []).extend(rows["id"].to_pylist())
    return found


def test_a_batch_that_spans_hours_and_midnight_is_split(tmp_path: Path) -> None:
    """Each row once, in the order of the log; the last microsecond of an hour belongs to it."""
    source = staged(
        tmp_path / "staged",
        [
            "2026-02-28T22:59:59.999999",
            "2026-02-28T23:00:00",
            "2026-02-28T23:59:59.999999",
            "2026-03-01T00:00:00",
            "2026-02-28T23:30:00",
        ],
    )
    files = split(tmp_path, source)
    assert ids(tmp_path, files) == {
        "date=2026-02-28/hour=22": [1],
        "date=2026-02-28/hour=23": [2, 3, 5],
        "date=2026-03-01/hour=00": [4],
    }
    (last,) = [one.file for one in files if one.folder == "date=2026-02-28/hour=23"]
    assert (last.low["_tm_seq"], last.high["_tm_seq"]) == (2, 5)


def test_rows_without_a_commit_time_are_in_the_hour_of_their_publication(tmp_path: Path) -> None:
    """Such as those of a table without a key, between changes; and the rows of a chunk, which become inserts."""
    source = staged(tmp_path / "staged", ["2026-03-01T06:10:00", None, "2026-03-01T06:20:00"])
    assert ids(tmp_path, split(tmp_path, source)) == {
        "date=2026-03-01/hour=06": [1, 3],
        "date=2026-03-01/hour=07": [2],
    }
    chunk = tmp_path / "chunk.parquet"
    pq.write_table(pa.table({"id": pa.array([8, 9], pa.int32())}), chunk)
    (one,) = split(tmp_path, chunk)
    assert one.folder == "date=2026-03-01/hour=07"
    rows = pq.ParquetFile(tmp_path / "t" / one.folder / one.file.name).read().to_pylist()
    assert [(row["id"], row["_tm_kind"], row["_tm_ts"]) for row in rows] == [(8, "+I", None), (9, "+I", None)]
    assert all(row["_tm_seq"] < 0 for row in rows)


def test_an_hour_that_comes_back_gets_another_file(tmp_path: Path) -> None:
    """The first one is finished as soon as a batch has no row of its hour."""
    first = staged(tmp_path / "a", ["2026-03-01T01:00:00"])
    second = staged(tmp_path / "b", ["2026-03-01T02:00:00"])
    files = split(tmp_path, first, second, first)
    assert sorted(one.folder[-2:] for one in files) == ["01", "01", "02"]
    assert len({one.file.name for one in files}) == 3


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_a_disk_that_is_full_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int) -> None:
    """Each attempt would else leave one, and the disk would stay full. finished: files before it is full."""
    source = staged(tmp_path / "staged", ["2026-03-01T01:00:00", "2026-03-01T02:00:00", "2026-03-01T03:00:00"])
    left = [finished]

    def limited(path: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        sync_file(path)

    monkeypatch.setattr(written_files, "sync_file", limited)
    with pytest.raises(OSError, match="No space"):
        split(tmp_path, source)
    assert list((tmp_path / "t").rglob("*.parquet")) == []
