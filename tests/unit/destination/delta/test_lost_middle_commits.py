"""A commit is gone on which later ones rest: it is noticed during a run, and a resnapshot leaves the right rows."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from engine.base.errors import DestinationError, MissingFilesError
from engine.capture.files import FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.destination.delta.formats.iceberg_copy import IcebergCopy
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.delta.table import DeltaMirror
from engine.destination.destination_protocol import Content, MirrorStep
from engine.spec.sink_settings import MirrorMode
from tests.support.delta import path_of
from tests.support.iceberg import opened
from tests.unit.destination.lake import Lake
from tests.unit.destination.support import PLAN

KEYS = list(range(300))


def replace_rows(lake: Lake) -> None:
    """The new copy of a resnapshot."""
    lake.epoch += 1
    schema = arrow_schema(lake.table)
    with FileWriter(lake.pair.mirror.folder, "chunk", schema, lake.table.key) as writer:
        rows = [{"id": key, "v": value} for key, value in lake.rows.items()]
        writer.write(pa.Table.from_pylist(rows, schema=schema))
        files = writer.close()
    content = Content([MirrorStep(chunks=files)], chunks=lake.epoch, merge=lake.epoch, replaces=True)
    assert DeltaMirror(lake.pair).apply(content) is not None


def resnapshot(lake: Lake) -> list[str]:
    """Beside changes. Returns what the change log lacks."""
    start = lake.delta.begin_copy(lake.table, PLAN, lake.epoch, "2026-01-01T00:00:00Z")
    lake.change([(1, 5), (2, None)])
    replace_rows(lake)
    return list(start.missing_files)


@pytest.mark.parametrize("which", ["mirror", "changes"])
@pytest.mark.parametrize("empties", [False, True])
def test_it_is_noticed_and_a_resnapshot_repairs_it(
    tmp_path: Path, mode: MirrorMode, which: str, *, empties: bool
) -> None:
    """The kept version hides it from the writer, whose later commits name deletion vectors that no reader knows."""
    lake, chance = Lake(tmp_path, mode), random.Random(1)
    lake.copy({key: key for key in range(200)})
    for _ in range(6):
        lake.change(lake.random_changes(chance, 10, KEYS))
    lake.delta.inspect(all_changes=True)
    table = getattr(lake.pair, which).lake
    iceberg = IcebergCopy(lake.pair.mirror.folder, "l", 3, ())
    iceberg.catch_up()
    name = commit_name(table.log.version - 1)
    commit = path_of(log_of(table.folder)) / name
    if empties:
        commit.write_bytes(b"")
    else:
        commit.unlink()
    if which == "mirror" and mode == "merge_on_read":
        for _ in range(3):
            lake.change(lake.random_changes(chance, 10, KEYS))
    with pytest.raises(MissingFilesError, match="is gone"):
        lake.delta.inspect(all_changes=True)
    missing = resnapshot(lake)
    assert missing == ([f"_delta_log/{name}"] if which == "changes" else [])
    lake.delta.inspect(all_changes=True)
    assert lake.mirror() == lake.rows
    for _ in range(2):
        lake.change(lake.random_changes(chance, 10, KEYS))
        assert lake.mirror() == lake.rows
    lake.reopen()
    lake.delta.open(must_exist=True)
    assert lake.mirror() == lake.rows
    iceberg.catch_up(lake.pair.mirror.lake.log.version)
    assert {row["id"]: row["v"] for row in opened(iceberg.folder).scan().to_arrow().to_pylist()} == lake.rows


@pytest.mark.parametrize("empties", [False, True])
def test_a_mirror_that_was_replaced_over_a_gap_is_repaired_by_the_next_resnapshot(
    tmp_path: Path, *, empties: bool
) -> None:
    """An earlier version replaced what it knew, and left the files under the vectors that readers know."""
    lake, chance = Lake(tmp_path, "merge_on_read"), random.Random(1)
    lake.copy({key: key for key in range(200)})
    for _ in range(6):
        lake.change(lake.random_changes(chance, 10, KEYS))
    log = lake.pair.mirror.lake.log
    commit = path_of(log.path) / commit_name(log.version - 1)
    commit.write_bytes(b"")
    if not empties:
        commit.unlink()
    lake.change(lake.random_changes(chance, 10, KEYS))
    replace_rows(lake)
    resnapshot(lake)
    assert lake.mirror() == lake.rows


def test_a_gap_is_told_in_a_few_words(tmp_path: Path) -> None:
    """The library prints its own records of the commits beside it."""
    lake = Lake(tmp_path, "copy_on_write")
    for number in range(4):
        lake.copy({number: 0})
    (path_of(lake.pair.mirror.lake.log.path) / commit_name(2)).unlink()
    lake.reopen()
    with pytest.raises(DestinationError) as error:
        lake.pair.mirror.lake.load()
    assert error.value.message.endswith("cannot be read: the commits between version 1 and version 3 are gone")
