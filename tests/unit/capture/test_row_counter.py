"""The rows read so far of a chunk are shown after a second, and then once per second."""

from pathlib import Path

from engine.capture.row_counter import RowCounter, RowsRead, rows_read


def test_a_chunk_that_takes_long_shows_its_rows(tmp_path: Path) -> None:
    """A short one writes no file."""
    now, path = [10.0], tmp_path / "there/g.json"
    counter = RowCounter(path, "d.t", 3, lambda: now[0])
    counter.add(100)
    now[0] = 10.9
    counter.add(100)
    assert rows_read(path) is None
    now[0] = 11.0
    counter.add(50)
    assert rows_read(path) == RowsRead("d.t", 3, 250)
    now[0] = 11.5
    counter.add(1)
    assert rows_read(path) == RowsRead("d.t", 3, 250)
    assert [file.name for file in path.parent.iterdir()] == ["g.json"]


def test_a_file_that_cannot_be_written_or_read_is_no_error(tmp_path: Path) -> None:
    """The chunk is read all the same."""
    (tmp_path / "file").write_text("{")
    now = [0.0]
    counter = RowCounter(tmp_path / "file/g.json", "d.t", 3, lambda: now[0])
    now[0] = 2.0
    counter.add(1)
    RowCounter(None).add(1)
    assert rows_read(tmp_path / "file") is None
