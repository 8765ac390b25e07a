"""Rows of published tables, whatever merges them."""

import io
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
import pytest

from engine.base.errors import DestinationError, SpecError
from engine.base.store_errors import StoreAwayError
from engine.cli.published import write_as
from engine.destination.delta.landing import DeltaLanding
from engine.destination.delta.read.file_rows import FileRows
from engine.explore.reading import VersionRows, reading_of
from engine.spec.sink_settings import MirrorMode
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.unit.destination.lake import Lake


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A table with changed and deleted rows."""
    mode: MirrorMode = request.param
    made = Lake(tmp_path, mode)
    made.copy(dict.fromkeys(range(500), 0))
    made.change([(1, 7), (2, None), (900, 9)])
    return made


def opened(lake: Lake, name: str = "d.t", as_of: datetime | None = None) -> VersionRows:
    """One of its tables."""
    return reading_of(DeltaLanding(LocalFolder(lake.folder)), [lake.table], name, as_of)


def test_a_mirror_has_its_rows_and_a_change_log_its_entries(lake: Lake) -> None:
    """Without deleted rows; a limit is exact."""
    rows = opened(lake).table()
    assert dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == lake.rows
    assert opened(lake).table(limit=3).num_rows == 3
    assert opened(lake, "d.t__changes").table()["_tm_kind"].to_pylist() == [kind for _, kind, _ in lake.log]


def test_a_table_is_read_as_readers_saw_it_then(lake: Lake) -> None:
    """A time without a zone is UTC. Before the first version there was no table."""
    then, before = datetime.now(UTC), dict(lake.rows)
    time.sleep(0.01)
    lake.change([(3, 33), (4, None)])
    for as_of in (then, then.replace(tzinfo=None)):
        rows = opened(lake, as_of=as_of).table()
        assert dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == before
    with pytest.raises(SpecError, match="did not exist at"):
        opened(lake, as_of=then - timedelta(days=1))


def test_what_cannot_be_read_is_said(lake: Lake) -> None:
    """A table that the pipeline does not have, one that is not there yet, and a file that is gone."""
    with pytest.raises(SpecError, match=r"d\.x"):
        opened(lake, "d.x")
    with pytest.raises(SpecError, match="is not in"):
        reading_of(DeltaLanding(LocalFolder(lake.folder / "elsewhere")), [lake.table], "d.t")
    reading = opened(lake)
    for file in path_of(lake.pair.mirror.folder).glob("*.parquet"):
        file.unlink()
    with pytest.raises(DestinationError, match="cannot be read"):
        reading.table()


def test_every_format_has_the_rows(lake: Lake) -> None:
    """Tools can read what is written."""
    reading, expected = opened(lake), opened(lake).table().sort_by("id")
    found = {}
    for form in ("csv", "parquet", "arrow"):
        file = io.BytesIO()
        write_as(form, reading.schema, reading.batches(), file)
        file.seek(0)
        found[form] = file
    assert pq.read_table(found["parquet"]).sort_by("id").equals(expected)
    assert pa.ipc.open_stream(found["arrow"]).read_all().sort_by("id").equals(expected)
    assert (
        pc_csv.read_csv(found["csv"])
        .select(["id", "v"])
        .sort_by("id")
        .cast(expected.select(["id", "v"]).schema)
        .equals(expected.select(["id", "v"]))
    )


def test_csv_has_every_type_and_tells_null_from_an_empty_text() -> None:
    """Binary values are hexadecimal; lists are JSON."""
    rows = pa.table({"b": [b"\x00\xff", None], "l": [[1.5, 2.0], None], "t": ["", None]})
    file = io.BytesIO()
    write_as("csv", rows.schema, [rows], file)
    assert file.getvalue().decode().splitlines() == ['"b","l","t"', '"00ff","[1.5, 2.0]",""', ",,"]


def test_a_commit_of_the_same_second_is_later_than_the_time(tmp_path: Path) -> None:
    """A bucket gives the times of its files in whole seconds, rounded down."""
    lake = Lake(tmp_path / "lake", "copy_on_write")
    lake.copy({1: 1})
    then = datetime.now(UTC)
    time.sleep(0.01)
    for value in (2, 3):
        lake.change([(1, value)])
    log = path_of(lake.pair.mirror.folder) / "_delta_log"
    for commit in log.glob("*.json"):
        os.utime(commit, (then.timestamp() - 1, then.timestamp() - 1))
    assert opened(lake, as_of=then).table()["v"].to_pylist() == [1]
    assert opened(lake, as_of=datetime.now(UTC)).table()["v"].to_pylist() == [3]


def test_a_store_that_is_away_is_not_a_damaged_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told that a version is gone, or sent to verify it."""

    def away(*_: object) -> None:
        raise StoreAwayError("The store does not answer: s3://lake")

    reading = opened(lake)
    monkeypatch.setattr(FileRows, "batches", away)
    with pytest.raises(StoreAwayError):
        reading.table()
    monkeypatch.setattr("engine.destination.delta.read.mirror.open_table", away)
    with pytest.raises(StoreAwayError):
        opened(lake)
