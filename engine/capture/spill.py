"""Rows that wait: in memory up to a limit, and beyond it in a temporary file of this machine."""

import tempfile
import weakref
from collections.abc import Iterator
from typing import IO, Self

import pyarrow as pa

WAITING_BYTES = 32 << 20
"""Bytes of rows that wait in memory."""


class Spill:
    """Rows in the order in which they were added. Add all of them, then iterate, any number of times but one at a time.

    schema: of the rows. limit: bytes of rows that wait in memory. Close it, or use it as a context manager. Its file
    has no name, so none is left behind, however the process ends. Raises OSError if the disk is full.
    """

    def __init__(self, schema: pa.Schema, limit: int = WAITING_BYTES) -> None:
        self._schema = schema
        self._limit = limit
        self._held_tables: list[pa.Table] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        self._held_tables.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            self._write()

    @property
    def spilled(self) -> bool:
        """Whether rows are in the file."""
        return self._file is not None

    def close(self) -> None:
        """Forget the rows."""
        self._held_tables = []
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._file is not None:
            self._file.close()

    def __iter__(self) -> Iterator[pa.Table]:
        if self._file is not None:
            if self._held_tables:
                self._write()
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            self._file.seek(0)
            with pa.ipc.open_stream(pa.PythonFile(self._file, mode="r")) as batches:
                for batch in batches:
                    yield pa.Table.from_batches([batch])
        yield from self._held_tables

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self) -> None:
        if self._file is None:
            # It lives as long as this object.
            self._file = tempfile.TemporaryFile(prefix="tidemark-spill-")  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        if self._writer is None:
            assert not self._file.tell(), "rows were added after they were read"
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, mode="w"), self._schema)
        for rows in self._held_tables:
            self._writer.write_table(rows)
        self._held_tables = []
        self._bytes = 0
