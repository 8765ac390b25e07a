"""The table of differences."""

from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable

from engine.base import clock
from engine.destination.capabilities import DifferenceRow
from engine.destination.delta.read.differences import FOLDER, MOST_FILES, append_differences
from engine.store.local_folder import LocalFolder

ROW = DifferenceRow(clock.utc_now(), "a.b", "missing", '["0"]', [], "", '{"id": 0}', None, "binlog.000001:4", 3)


def test_many_appends_leave_few_files_and_all_rows(tmp_path: Path) -> None:
    """Each verification that finds something appends a file."""
    count = MOST_FILES + 3
    for number in range(count):
        append_differences(LocalFolder(tmp_path), [replace(ROW, key=f'["{number}"]')])
    table = DeltaTable(tmp_path / FOLDER)
    assert len(table.file_uris()) < 5
    assert set(table.to_pyarrow_table(columns=["key"])["key"].to_pylist()) == {
        f'["{number}"]' for number in range(count)
    }


def test_nothing_found_makes_no_table(tmp_path: Path) -> None:
    """A destination without differences has no such table."""
    append_differences(LocalFolder(tmp_path), [])
    assert not (tmp_path / FOLDER).exists()
