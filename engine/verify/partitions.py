"""Partitions the rows of two tables by their keys, in temporary files, so that each partition fits into memory.

The rows of one key are in the same partition of both tables. The digest need not be good: it only spreads the keys.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_PARTITIONS = 64
_HELD_BYTES = 64 << 20
"""Bytes of rows that are in memory before anything is written."""
_PAIR_BYTES = 64 << 20
"""A larger partition is read several times, a part of its keys at a time."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Side:
    """One table's rows, by partition."""

    def __init__(self, folder: Path, schema: pa.Schema, key: Sequence[str]) -> None:
        self._folder = folder
        self._schema = schema
        self._key = key
        self._batches: list[pa.Table] = []
        self._bytes = 0
        self._writers: dict[int, pa.RecordBatchFileWriter] = {}
        self._sizes = Counter[int]()

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        self._batches.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > _HELD_BYTES:
            self.spill()

    @property
    def spilled(self) -> bool:
        """Whether any rows are in files."""
        return bool(self._writers)

    def spill(self) -> None:
        """Write the rows that are in memory to the partitions' files."""
        if not self._batches:
            return
        rows = pa.concat_tables(self._batches)
        self._batches = []
        self._bytes = 0
        at = digests(rows.select(self._key)) >> np.uint64(58)
        order = np.argsort(at, kind="stable")
        ends = np.searchsorted(at[order], np.arange(_PARTITIONS + 1, dtype=np.uint64))
        for n in range(_PARTITIONS):
            if ends[n] < ends[n + 1]:
                chosen = rows.take(pa.array(order[ends[n] : ends[n + 1]]))
                self._writer(n).write_table(chosen)
                self._sizes[n] += chosen.nbytes

    def _writer(self, number: int) -> pa.RecordBatchFileWriter:
        if number not in self._writers:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._writers[number] = pa.ipc.new_file(self._folder / f"{number}.arrow", self._schema, options=options)
        return self._writers[number]

    def bytes(self, number: int) -> int:
        """The bytes of a partition's rows in memory."""
        return self._sizes[number] if self.spilled else sum(rows.nbytes for rows in self._batches)

    def rows(self, number: int, part: int, parts: int) -> pa.Table:
        """The rows of one of the parts of a partition; of all, if nothing was written."""
        if not self.spilled:
            return pa.concat_tables([self._schema.empty_table(), *self._batches])
        return pa.concat_tables([self._schema.empty_table(), *self._part(number, part, parts)])

    def _part(self, number: int, part: int, parts: int) -> Iterator[pa.Table]:
        if number not in self._writers:
            return
        self._writers[number].close()
        with pa.OSFile(str(self._folder / f"{number}.arrow")) as source, pa.ipc.open_file(source) as file:
            for n in range(file.num_record_batches):
                rows = pa.Table.from_batches([file.get_batch(n)])
                here = digests(rows.select(self._key)) >> np.uint64(40) & np.uint64(0xFFFF)
                yield rows if parts == 1 else rows.filter(pa.array(here % np.uint64(parts) == part))


class Partitions:
    """Both tables. Use it as a context manager: its files are deleted at the end."""

    def __init__(self, folder: Path, schema: pa.Schema, key: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tidemark-verify-", dir=folder)
        self.source, self.mirror = (Side(self._made(name), schema, key) for name in ("source", "mirror"))

    def _made(self, name: str) -> Path:
        folder = Path(self._folder.name) / name
        folder.mkdir()
        return folder

    def pairs(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield the rows of both tables, partition by partition."""
        sides = self.source, self.mirror
        if any(side.spilled for side in sides):
            for side in sides:
                side.spill()
        spilled = any(side.spilled for side in sides)
        for number in range(_PARTITIONS if spilled else 1):
            parts = max(side.bytes(number) for side in sides) // _PAIR_BYTES + 1 if spilled else 1
            for part in range(parts):
                yield self.source.rows(number, part, parts), self.mirror.rows(number, part, parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def digests(keys: pa.Table) -> npt.NDArray[np.uint64]:
    """A number per key, by the ends of its values; its upper bits are spread."""
    digest = np.zeros(keys.num_rows, np.uint64)
    for column in keys.columns:
        digest = (digest ^ _numbers(column)) * _ODD
        digest ^= digest >> np.uint64(29)
    return digest * _ODD


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """A number per value: of texts and binaries, their last bytes and their length."""
    values = column.combine_chunks()
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    elif not pa.types.is_binary(values.type):
        values = values.cast(pa.string()).cast(pa.binary())
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    numbers, ends = np.diff(offsets).astype(np.uint64), offsets[1:].astype(np.int64)
    for n in range(1, 17):
        there = ends - n >= offsets[:-1]
        byte = np.zeros(len(values), np.uint64)
        byte[there] = data[ends[there] - n]
        numbers = numbers * np.uint64(257) + byte
    return numbers
