"""Delta tables, read through Arrow."""

import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable
from pyarrow.fs import PyFileSystem

from engine.destination.delta.read.delta_rows import rows_of
from engine.store.local_folder import LocalFolder
from tests.support.delta import path_of
from tests.unit.destination.lake import Lake

FILES, ROWS = 25, 500
LEAVE = """
import sys
from pathlib import Path
from deltalake import DeltaTable
from engine.destination.delta.read.delta_rows import rows_of
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
