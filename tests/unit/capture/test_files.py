"""Parquet files of readers: they contain what was written, empty ones are not created, failed ones are removed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.capture.files import DataFile, FileWriter, file_errors
from engine.store.local_folder import LocalFolder, LocalUpload
from tests.support.mounts import mounted

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string()), ("a.b", pa.decimal128(20, 0))])


def rows(*ids: int) -> pa.Table:
    """Rows of the schema."""
    return pa.table(
        [pa.array(ids, pa.int32()), ["x"] * len(ids), pa.nulls(len(ids), pa.decimal128(20, 0))], schema=SCHEMA
    )


def test_a_file_holds_what_was_written_and_its_bounds(tmp_path: Path) -> None:
    """Rows in order, their number, the size, and minimum and maximum of integer columns."""
    with FileWriter(LocalFolder(tmp_path / "t"), "chunk-000001", SCHEMA, ["id", "a.b"]) as writer:
        writer.write(rows(5, -3))
        writer.write(rows())
        writer.write(rows(9))
        (file,) = writer.close()
    assert pq.read_table(tmp_path / "t" / file.name)["id"].to_pylist() == [5, -3, 9]
    assert (file.rows, file.low, file.high) == (3, {"id": -3}, {"id": 9})
    assert file.bytes == (tmp_path / "t" / file.name).stat().st_size
    assert DataFile(**file.as_dict()) == file
    assert file.name.startswith("chunk-000001-")


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    """An empty chunk is published without a file."""
    with FileWriter(LocalFolder(tmp_path / "t"), "chunk", SCHEMA, ["id"]) as writer:
        writer.write(rows())
        assert writer.close() == []
    assert not (tmp_path / "t").exists()


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    """A failed task removes its file, even one with many row groups."""
    writer = FileWriter(LocalFolder(tmp_path), "chunk", SCHEMA, ["id"])
    writer.write(rows(*range(140_000)))
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(RuntimeError, match="worst moment"), writer:
        raise RuntimeError("at the worst moment")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_before_the_first_byte_keeps_no_file(tmp_path: Path) -> None:
    """And the error names the file."""
    with mounted(tmp_path / "small", 64 << 10) as disk:
        disk.fill()
        writer = FileWriter(LocalFolder(disk.folder), "chunk", SCHEMA, ["id"])
        writer.write(rows(1))
        with pytest.raises(OSError, match="chunk-"), writer:
            writer.close()
        assert [path.name for path in disk.folder.iterdir()] == ["ballast"]


def test_a_file_is_there_once_it_is_stored(tmp_path: Path) -> None:
    """A file that was stored, and one that could not be, are removed by a discard."""
    writer = FileWriter(LocalFolder(tmp_path), "chunk", SCHEMA, ["id"])
    writer.write(rows(1, 2, 3))
    (file,) = writer.finish()
    writer.store()
    writer.store()
    assert pq.read_table(tmp_path / file.name).num_rows == file.rows == 3
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_stored_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else discards it: another thread stores it."""

    def fail(_: LocalUpload) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalUpload, "close", fail)
    writer = FileWriter(LocalFolder(tmp_path), "chunk", SCHEMA, ["id"])
    writer.write(rows(1, 2, 3))
    writer.finish()
    with pytest.raises(OSError, match="No space left"):
        writer.store()
    assert list(tmp_path.iterdir()) == []


def test_two_attempts_write_two_files(tmp_path: Path) -> None:
    """A task that runs twice never overwrites its first file."""
    for _ in range(2):
        with FileWriter(LocalFolder(tmp_path), "chunk-000001", SCHEMA, ["id"]) as writer:
            writer.write(rows(1))
            writer.close()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_change_log_has_statistics_of_what_it_is_searched_by(tmp_path: Path) -> None:
    """For key, number and time; a chunk's file has them for all columns."""
    log = pa.table({"id": [1, 2], "name": ["a", "b"], "_tm_ts": [3, 4], "_tm_seq": [5, 6]})
    for table, bounded, expected in (
        (log, ["id", "_tm_seq"], ["id", "_tm_ts", "_tm_seq"]),
        (log.select(["id", "name"]), ["id"], ["id", "name"]),
    ):
        with FileWriter(LocalFolder(tmp_path), "any", table.schema, bounded) as writer:
            writer.write(table)
            (file,) = writer.close()
        group = pq.ParquetFile(tmp_path / file.name).metadata.row_group(0)
        columns = [group.column(n) for n in range(group.num_columns)]
        assert [column.path_in_schema for column in columns if column.is_stats_set] == expected


def test_each_list_of_files_has_its_own_error(tmp_path: Path) -> None:
    """A missing file and a short one are named with their folder; other lists are as they were written."""
    folders = [LocalFolder(tmp_path / name) for name in "abc"]
    lists = []
    for folder in folders:
        with (
            FileWriter(folder, "chunk", SCHEMA, ["id"]) as first,
            FileWriter(folder, "chunk", SCHEMA, ["id"]) as second,
        ):
            first.write(rows(1))
            second.write(rows(2))
            lists.append((folder, [*first.close(), *second.close()]))
    missing, short = lists[0][1][1], lists[2][1][0]
    (tmp_path / "a" / missing.name).unlink()
    (tmp_path / "c" / short.name).write_bytes(b"x")
    in_a, in_b, in_c = file_errors(lists)
    assert in_b is None
    assert in_a is not None
    assert in_c is not None
    assert in_a.message == f"1 data file of {tmp_path / 'a'} is gone or damaged: {missing.name}."
    assert f"{short.name} (1 of {short.bytes} bytes)" in in_c.message
    assert file_errors([]) == []
