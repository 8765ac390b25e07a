"""Independent readers of Delta tables: each returns all rows of the newest version, as Arrow.

deltalake's query engine is installed with Tidemark. The others have environments of their own in the per-user cache,
because they need other versions (DuckDB's Delta extension: none for DuckDB 2.0 yet) or are not needed otherwise. An
environment is made once, with pip's settings of the machine. Spark reads in a soak test alone: a start takes half a
minute.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from tests.servers.cache import cache_folder, locked
from tests.support.delta import rows_at
from tests.support.depth import depth

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
"""Pins what the packages bring along."""
_SCRIPT = Path(__file__).with_name("foreign_readers.py")
_WRITERS = Path(__file__).with_name("foreign_writers.py")
_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Foreign:
    """Readers in an environment of their own: their names in `foreign_readers.py`, and the packages they need."""

    names: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The environment; another one for other packages."""
        identity = (self.packages, sys.version_info[:2], CONSTRAINTS.read_text(encoding="utf-8"))
        return cache_folder() / f"readers-{self.names[0]}-{hashlib.sha256(repr(identity).encode()).hexdigest()[:8]}"

    def python(self) -> Path:
        """The environment's Python; makes the environment at the first call."""
        made, python = self.folder / ".ready", self.folder / "bin" / "python"
        with locked(self.folder.name):
            if not made.exists():
                shutil.rmtree(self.folder, ignore_errors=True)
                _run(sys.executable, "-m", "venv", str(self.folder))
                options = ("--quiet", "--disable-pip-version-check", "--constraint", str(CONSTRAINTS))
                _run(str(python), "-m", "pip", "install", *options, *self.packages)
                made.touch()
        return python

    def read(self, folders: Sequence[str | Path]) -> dict[str, list[pa.Table]]:
        """The rows of the tables in these folders, by reader."""
        python = self.python()
        with tempfile.TemporaryDirectory(prefix="tidemark-readers-") as out:
            _run(str(python), "-I", str(_SCRIPT), str(self.folder), out, ",".join(self.names), *map(str, folders))
            return {
                name: [pq.read_table(f"{out}/{name}-{n}", partitioning=None) for n in range(len(folders))]
                for name in self.names
            }

    def write(self, writer: str, folder: Path) -> None:
        """Change rows of a table with one of the writers of `foreign_writers.py`."""
        _run(str(self.python()), "-I", str(_WRITERS), str(self.folder), writer, str(folder))


FRAMES = Foreign(
    ("duckdb", "polars"),
    (
        "duckdb==1.5.5",
        "duckdb-extension-delta==1.5.5",
        "duckdb-extension-httpfs==1.5.5",
        "polars==2.1.0",
        f"deltalake=={deltalake.__version__}",
    ),
)
SPARK = Foreign(("spark",), ("pyspark==4.2.1",))
"""It fetches Delta Lake's package, from Maven Central, itself."""
ICEBERG_FRAMES = Foreign(
    ("duckdb-iceberg", "polars-iceberg"),
    (
        "duckdb==1.5.5",
        "duckdb-extension-avro==1.5.5",
        "duckdb-extension-httpfs==1.5.5",
        "duckdb-extension-iceberg==1.5.5",
        "polars==2.1.0",
        "pyiceberg==0.12.0",
        f"pyarrow=={pa.__version__}",
    ),
)
ICEBERG_SPARK = Foreign(("spark-iceberg",), ("pyspark==4.1.2",))
"""The newest Spark that Iceberg has a runtime for."""
_ICEBERG = depth((ICEBERG_FRAMES,), (ICEBERG_FRAMES, ICEBERG_SPARK))
_FOREIGN = depth((FRAMES,), (FRAMES, SPARK))


def rows_by_reader(*folders: str | Path) -> dict[str, list[pa.Table]]:
    """The rows of the tables in these folders, in their order, by the name of the reader.

    folders: in a bucket too, by URL; endpoint and credentials are then in the environment.
    """
    tables = {"deltalake": [rows_at(folder) for folder in folders]}
    for foreign in _FOREIGN:
        tables |= foreign.read(folders)
    return tables


def iceberg_rows_by_reader(*folders: str | Path) -> dict[str, list[pa.Table]]:
    """The rows of the Iceberg tables in these folders, in their order, by the name of the reader.

    folders: in a bucket too, by URL, as for `rows_by_reader`; then Spark does not read. Or `rest:URL#NAMESPACE.TABLE`.
    """
    tables: dict[str, list[pa.Table]] = {}
    in_bucket = any("://" in str(folder) and not str(folder).startswith("rest:") for folder in folders)
    for foreign in _ICEBERG[:1] if in_bucket else _ICEBERG:
        tables |= foreign.read(folders)
    return tables


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}"
