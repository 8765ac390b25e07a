"""Delta tables, read through Arrow."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow.fs import PyFileSystem

from engine.destination.delta.read.file_rows import rows_of
from engine.destination.delta.read.mirror import UNREADABLE, Mirror
from engine.spec.sink_settings import MirrorMode
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.unit.destination.lake import Lake

FILES, ROWS = 25, 500
LEAVE = """
import sys
from pathlib import Path
from deltalake import DeltaTable
from engine.destination.delta.read.file_rows import rows_of
from tests.support.delta import path_of
from engine.store.local_folder import LocalFolder
folder = LocalFolder(Path(sys.argv[1]))
batches = rows_of(DeltaTable(folder.url), folder).batches()
print(next(batches).num_rows)
"""


def _table(folder: Path) -> Path:
    lake = Lake(folder, "copy_on_write")
    for n in range(FILES):
        lake.copy(dict.fromkeys(range(n * ROWS, (n + 1) * ROWS), 0))
    return path_of(lake.pair.mirror.folder)


def test_a_table_is_read_whole(tmp_path: Path) -> None:
    """All files of its version."""
    folder = _table(tmp_path / "t")
    found = rows_of(DeltaTable(str(folder)), LocalFolder(folder))
    assert found.dataset is not None
    assert not isinstance(found.dataset.filesystem, PyFileSystem)
    rows = found.table()
    assert sorted(rows["id"].to_pylist()) == list(range(FILES * ROWS))


def test_a_process_ends_while_files_are_read(tmp_path: Path) -> None:
    """With deltalake's own file system the process aborted or hung."""
    command = [sys.executable, "-c", LEAVE, str(_table(tmp_path / "t"))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == (f"{ROWS}\n", "", 0)


@pytest.mark.parametrize("mode", ["copy_on_write", "merge_on_read"])
def test_a_byte_that_changed_in_a_file_is_an_error(tmp_path: Path, mode: MirrorMode) -> None:
    """Wherever it is among the values: no reader takes other values for the rows, and no merge copies them."""
    lake = Lake(tmp_path, mode)
    lake.copy({key: key * 7919 for key in range(2000)})
    lake.change([(1, 5)])
    folder = path_of(lake.pair.mirror.folder)
    path = max(folder.glob("*.parquet"), key=lambda one: one.stat().st_size)
    whole = path.read_bytes()
    metadata = pq.read_metadata(path)
    for column in range(2):
        place = metadata.row_group(0).column(column).data_page_offset + 100
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(UNREADABLE, match=f"{path.name} is damaged: .*checksum"):
            list(Mirror(lake.pair.mirror.folder).batches(["id", "v"]))
    files = lake.append([(key, -1) for key in range(0, 2000, 2)])
    if mode == "copy_on_write":
        with pytest.raises(UNREADABLE, match=f"{path.name} is damaged: .*checksum"):
            lake.merge(files)
    path.write_bytes(whole)
    lake.merge(files)
    lake.check()
