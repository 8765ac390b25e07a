"""Which small files are merged, and how often a row is written."""

from collections.abc import Iterator

import pytest

from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.maintenance.optimize import MOST_ROWS, next_rewrite
from engine.spec.merge_numbers import LEAST_BYTES, SMALL_BYTES

KB = 1 << 10


def stored(name: str, size: int) -> StoredFile:
    """A file of rows of 100 bytes."""
    return StoredFile(name, size // 100, size, {"id": 1}, {"id": 9})


def merged(files: list[StoredFile], names: Iterator[str]) -> int:
    """Carry out every step. Returns the bytes that it writes."""
    written = 0
    while (step := next_rewrite(files, "id", lambda _: (1, 9), on_read=True, file_rows=1_000_000)) is not None:
        size = sum(file.bytes for file in files if file.name in step.files)
        files[:] = [*(file for file in files if file.name not in step.files), stored(next(names), size)]
        written += size
    return written


@pytest.mark.parametrize("each", [2 * KB, 10 * KB, 230 * KB, 3000 * KB])
def test_a_row_is_written_once_for_each_size_class(each: int) -> None:
    """With a step after each ten merges. Before, all small files were merged: 82 times at 10 KB."""
    names, files, written, added = (f"f{n}" for n in range(10**9)), list[StoredFile](), 0, 0
    most = 0
    for _ in range(1000):
        for _ in range(10):
            files.append(stored(next(names), each))
            added += each
        written += merged(files, names)
        small = sum(file.bytes < SMALL_BYTES for file in files)
        most = max(most, small)
    assert written / added < 5
    assert most <= 35


def test_files_of_other_classes_are_left_alone() -> None:
    """Seven small files and a larger one are no work; the eighth is, without the larger one."""
    files = [stored(f"s{n}", LEAST_BYTES * 2) for n in range(7)] + [stored("l", LEAST_BYTES * 40)]
    assert next_rewrite(files, "id", lambda _: (1, 9), on_read=True, file_rows=1_000_000) is None
    files.append(stored("s7", LEAST_BYTES * 3))
    step = next_rewrite(files, "id", lambda _: (1, 9), on_read=True, file_rows=1_000_000)
    assert step is not None
    assert sorted(step.files) == [f"s{n}" for n in range(8)]


def test_neighbours_by_key_are_merged() -> None:
    """So that the file has a narrow range of keys, wherever its parts were written first."""
    lows = [n * 17 % 60 for n in range(60)]
    files = [StoredFile(f"f{low}", 100, 10_000 + n, {"id": low}, {"id": low}) for n, low in enumerate(lows)]
    step = next_rewrite(files, "id", lambda _: (1, 9), on_read=True, file_rows=1_000_000)
    assert step is not None
    assert step.files == tuple(f"f{low}" for low in range(50))


@pytest.mark.parametrize("rows", [MOST_ROWS, 1_000_000])
def test_it_ends_for_files_of_narrow_rows(rows: int) -> None:
    """They are small, but as many rows as a file may have: merged, they would be split into as many files again."""
    files = [StoredFile(f"n{n}", rows, 2 << 20, {"id": 1}, {"id": 9}) for n in range(20)]
    assert next_rewrite(files, "id", lambda _: (1, 9), on_read=True, file_rows=1_000_000) is None


def test_it_ends_for_narrow_rows_in_a_table_of_wide_ones() -> None:
    """Files are cut by the average row, so merging narrow rows could write as many files again."""
    files = [StoredFile(f"n{n}", 100_000, 300 << 10, {"id": 1}, {"id": 9}) for n in range(20)]
    assert next_rewrite(files, "id", lambda _: (1, 9), on_read=True, file_rows=65_536) is None
    assert next_rewrite(files, "id", lambda _: (1, 9), on_read=True, file_rows=200_000) is not None
