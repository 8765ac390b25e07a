"""Reads the source's side of a comparison: quickly, or exactly at a position.

A quick read is a plain SELECT. What it finds equal to the mirror is equal: the mirror has a state of the source that
was seen. What it finds different may have changed meanwhile, so it proves nothing (`settling`).
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.capture.binlog.one_phase_commits import require_two_phases
from engine.capture.chunk.backfill import NetChanges, Within
from engine.capture.chunk.chunk_reader import ChunkRequest, ChunkResult, cut_short, null_keys, read_chunk, read_rows
from engine.capture.chunk.fast_forward import FastForward
from engine.capture.chunk.redump_part import read_named
from engine.capture.reader_session import ReaderSession
from engine.decode.arrow_schema import image_schema
from engine.decode.schema import Column
from engine.decode.types import spatial
from engine.plan.chunks import WHOLE, Range, predicate
from engine.plan.keys import Bound
from engine.plan.ordering import ServerOrder
from engine.source.connect import Endpoint, query, quote
from engine.source.positions import Position
from engine.store.local_folder import LocalFolder
from engine.verify.verdicts import Incomparable

_PART_BYTES = 32 << 20
"""Bytes of a part: what was read of a table shows how wide its rows are. The first part is small if they
may be wide."""
_FIRST_ROWS, _GROWTH = 32, 4
_FIXED_BYTES = 16
_UNBOUNDED = {"json", *spatial.TYPES}
_MOST_BYTES = 1 << 30
"""Bytes of a range that cannot be read in parts."""


@dataclass(frozen=True)
class ExactPart:
    """Rows of the source, exact at a position."""

    rows: pa.Table
    position: Position
    limits: Range
    """The range that was read, if the part is a range."""
    request: ChunkRequest


def scratch(folder: str) -> LocalFolder:
    """The folder of this process that gets what is read."""
    return LocalFolder(Path(folder))


class SourceRows:
    """Reads one table. `request`: of the whole table; its folder is for temporary files."""

    def __init__(self, session: ReaderSession, endpoint: Endpoint, first_server_id: int, request: ChunkRequest) -> None:
        self._session = session
        self._endpoint = endpoint
        self._first = first_server_id
        self.request = request
        self.schema = image_schema(request.projection.published_table(request.table))
        widest = sum(map(_most_bytes, request.projection.needed_columns(request.table)))
        self._fit = max(_PART_BYTES // max(widest, 1), _FIRST_ROWS)

    def quick(self, limits: Range) -> Iterator[tuple[Range, pa.Table]]:
        """Yield the rows of a range, in parts."""
        while True:
            part, rows = self._part(replace(self.request, limits=limits, rows=self._planned()))
            self._learn(rows)
            yield part, rows.cast(self.schema)
            if part.upper == limits.upper:
                return
            limits = Range(part.upper, limits.upper)

    @property
    def fit(self) -> int:
        """How many rows fit into memory at once, by the widths of those that were read."""
        return self._fit

    def _planned(self) -> int:
        """The planned rows of the next part. Twice as many may be read."""
        return max(min(self._fit // 2, self.request.rows), 1)

    def _learn(self, rows: pa.Table) -> None:
        """Choose the rows of the next part by the width of these."""
        if rows.num_rows:
            fit = _PART_BYTES * rows.num_rows // max(rows.nbytes, 1)
            self._fit = max(min(self._fit * _GROWTH, fit), 1)

    def _part(self, request: ChunkRequest) -> tuple[Range, pa.Table]:
        nulls = null_keys(self._session, request)
        most, count, size = request.max_rows(nulls), 0, 0
        parts = [request.schema.empty_table()]
        for batch in read_rows(self._session, request, Counter(), nulls):
            rows = batch
            count += rows.num_rows
            if count == most:
                rows, request = cut_short(request, batch)
            parts.append(request.projection.apply(rows).cast(request.schema))
            size += parts[-1].nbytes
            if size > _MOST_BYTES and most is None:
                raise Incomparable(
                    "unverifiable", "it has a chunk of more than a gigabyte, which cannot be read in parts"
                )
        return request.limits, pa.concat_tables(parts)

    def count(self, limits: Range) -> int:
        """The number of rows of a range, counted by the server."""
        table, key = self.request.table, self.request.key
        source, index = quote(table.database, table.name), f" FORCE INDEX ({quote(key.index)})" if key else ""
        condition = predicate(key, limits) if key else ""
        where = f" WHERE {condition}" if condition else ""
        (row,) = query(self._session.connection, f"SELECT COUNT(*) AS n FROM {source}{index}{where}")
        return int(row["n"])

    def exact(self, limits: Range) -> Iterator[ExactPart]:
        """Yield the rows of a range in parts, each exact at its own position. Raises as `read_chunk`."""
        while True:
            part = self._exact(replace(self.request, limits=limits, rows=self._planned()))
            self._learn(part.rows)
            yield part
            if part.limits.upper == limits.upper:
                return
            limits = Range(part.limits.upper, limits.upper)

    def named(self, keys: tuple[Bound, ...]) -> ExactPart:
        """The rows with these keys, exact at one position. Raises as `read_chunk`."""
        part = self._exact(replace(self.request, limits=WHOLE, keys=keys))
        self._learn(part.rows)
        return part

    def _exact(self, request: ChunkRequest) -> ExactPart:
        with tempfile.TemporaryDirectory(prefix="tidemark-verify-", dir=self.request.folder.url) as folder:
            request = replace(request, folder=scratch(folder))
            read = read_named if request.keys else read_chunk
            result: ChunkResult = read(self._session, self._endpoint, self._first, request)
            parts = [pq.read_table(request.folder.open(file.name), partitioning=None) for file in result.files]
            rows = pa.concat_tables([self.schema.empty_table(), *(part.cast(self.schema) for part in parts)])
        return ExactPart(rows, result.high, result.limits, replace(request, limits=result.limits))

    def changes(self, start: Position, end: Position, request: ChunkRequest, within: Within | None) -> NetChanges:
        """The changes from `start` to `end`, reduced to their effect on the rows `within`.

        Raises as `FastForward.net_changes`; OnePhaseCommitError if the rows that were read may lack one of them.
        """
        mariadb, places = self._session.server.flavor == "mariadb", self._session.xa_places
        forward = FastForward(self._endpoint, self._first, mariadb, request, (), start, end, places)
        reduced, _ = forward.net_changes(within)
        require_two_phases(self._session.watermarks.kind, [reduced])
        published = [request.projection.apply(rows).cast(self.schema) for rows in reduced.upserts]
        return replace(reduced, upserts=published)

    def order(self) -> "closing[ServerOrder]":
        """The server's order of keys, closed at the end of a `with`."""
        return closing(ServerOrder(self._endpoint))


def _most_bytes(column: Column) -> int:
    """The most bytes that a value can have, roughly; those of a JSON document or a geometry are unknown."""
    return column.length or (_PART_BYTES if column.type in _UNBOUNDED else _FIXED_BYTES)
