"""Fast-forwards a finished chunk to a later position.

This is for tables with a mutable key, whose rows can move between chunks.

A chunk key outside the identity can change while the row stays the same. A delete emitted for the chunk that the row
left then has the same identity as the row in the file of the chunk that it entered, and a merge could confuse the two.
So for such tables (`has_mutable_key`), a chunk is published only with an epoch that begins where the chunk is exact:

    A(c) = P(k)  for every chunk c that is published with epoch k

and everything emitted before epoch k is merged first. At P(k) each row is in at most one chunk, and all of epoch k
follows it in the log's order. A chunk whose high watermark is after P(k) waits for the next epoch. A chunk whose high
watermark is before P(k) is fast-forwarded by a second backfill of its file.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from engine.base.errors import TidemarkError
from engine.capture.batches import batches, parquet_file
from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.chunk.backfill import NetChanges, Within, reduce_changes, without
from engine.capture.chunk.chunk_reader import ChunkRequest, changes_of, chunk_writer
from engine.capture.files import DataFile
from engine.capture.reports import FailureReport, FastForwardReport, ReaderProcess, ReaderReport
from engine.capture.write_faults import writing
from engine.decode.arrow_schema import image_schema
from engine.decode.schema import Table
from engine.plan.keys import ChunkKey
from engine.plan.ordering import ServerOrder
from engine.source.connect import Endpoint
from engine.source.positions import Position
from engine.source.xa_places import KnownPlaces


def has_mutable_key(table: Table, key: ChunkKey | None) -> bool:
    """Whether a row can move between chunks without changing its identity."""
    return key is not None and not set(key.names) <= set(table.key)


@dataclass(frozen=True)
class FastForward:
    """A task: fast-forward one chunk, whose rows are in `files` and exact at `start`, to `end`."""

    endpoint: Endpoint
    first_server_id: int
    mariadb: bool
    request: ChunkRequest
    files: tuple[DataFile, ...]
    start: Position
    end: Position
    xa_places: KnownPlaces = field(default_factory=KnownPlaces)
    """Where XA transactions were prepared; `net_changes` notes what it finds."""

    def run(self) -> Iterator[ReaderReport]:
        """Yield one report with the chunk's new files."""
        try:
            with writing("Bringing a chunk forward", [self.request.folder]):
                report = self._fast_forward()
            yield report
        except TidemarkError as error:
            name, number = self.request.table.full_name, self.request.number
            yield FailureReport(reader=ReaderProcess.here(), error=error, table=name, chunk=number)

    def net_changes(self, within: Within | None) -> tuple[NetChanges, Counter[str]]:
        """Reduce the changes from `start` to `end` to their effect on the rows `within`.

        Also returns dates that became NULL.
        """
        projection = self.request.projection
        table = projection.tolerant(self.request.table)
        before, tables = self.xa_places.near(self.start), {(table.database, table.name): table}
        binlog_range = BinlogRange(tables, self.start, self.end, mariadb=self.mariadb, places=before)
        changes = changes_of(self.endpoint, self.first_server_id, table, binlog_range)
        reduced = reduce_changes(changes, image_schema(table), table.key, within)
        reduced = replace(reduced, one_phase=binlog_range.one_phase.found)
        if binlog_range.places is not None:
            self.xa_places.note(before.after(*binlog_range.places))
        return reduced, projection.published_counts(binlog_range.nulled_dates[table.full_name])

    def _fast_forward(self) -> FastForwardReport:
        request, projection, schema = self.request, self.request.projection, self.request.schema
        with closing(ServerOrder(self.endpoint)) as order:
            changes, nulled_dates = self.net_changes(request.within(order))
        report = partial(
            FastForwardReport,
            reader=ReaderProcess.here(),
            table=request.table.full_name,
            chunk=request.number,
            nulled_dates=nulled_dates,
        )
        if not changes.changes:
            return report(files=self.files)
        with chunk_writer(request, schema) as writer:
            for file in self.files:
                data = parquet_file(request.folder.open(file.name))
                for _, batch in batches(data):
                    writer.write(without(batch.cast(schema), changes.touched_keys))
            for rows in changes.upserts:
                writer.write(projection.apply(rows).cast(schema))
            files = writer.close()
        return report(files=tuple(files))
