"""The Delta destination: `<path>/<database>/<table>`, the mirror, and `<table>__changes`, the change log.

Readers have written the Parquet files in place; a commit adds them, so nothing is copied twice. Every commit carries a
transaction identifier (one for chunks, one for changes, one for merges; the version is the epoch), written in the same Delta
commit as the files. An epoch that is applied again finds its identifier there and does nothing: exactly once, whenever the
runner was killed.

Merges. Changes reach the mirror from time to time, those of the epochs since the last merge at once: the newest image of
each key replaces or deletes the row. A merge that covers the epochs up to k comes after the chunks of all epochs up to
k were added. Chunks that were added later than some of its epochs do it no harm: none of those epochs holds a change of
theirs (the rule of emission). So the mirror after it is the source at the end of epoch k, for all finished chunks. Rows whose keys
lie beyond all that the mirror holds, which is where applications insert, are appended: there is nothing to find first.

A table without identity has no mirror: its chunk is part of the log, as inserts.

A table that is copied anew keeps its mirror as it was until the last chunk is there; one commit then replaces all of it
(`replace`). Columns that the source drops stay in the destination, NULL in what is written from then on.

The transaction identifiers name the ledger, so a destination that another ledger has filled is recognised and refused.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from engine import clock
from engine.capture.changes import log_schema
from engine.capture.files import DataFile
from engine.decode.schema import Table, arrow_schema, conformed
from engine.errors import SpecError
from engine.layout import changes_folder, make_readable, mirror_folder
from engine.sink.dropping import drop
from engine.sink.evolution import (
    add_columns,
    check_evolution,
    mirror_schema,
    prepared,
    rewrite,
    schema_of,
    united,
)
from engine.sink.merging import beyond, key_ranges, largest_key, newest_per_key

# Measured: with the writer's own row groups of a million rows, merges into 10 M rows take more than 1 GiB. (A limit on the
# merge's memory, `max_spill_size`, is no help: it doubles its time, and a small one makes it hang.)
_MERGE_WRITER = WriterProperties(max_row_group_size=64 << 10, write_batch_size=8 << 10)
_MERGE_BATCH = 64 << 10
_ATTEMPTS, _RETRY_S = 6, 0.1
_PROPERTIES = {"delta.enableChangeDataFeed": "false", "delta.dataSkippingNumIndexedCols": "8"}


@dataclass(frozen=True)
class Applied:
    """What one commit did, for the journal."""

    table: str
    kind: str
    through_epoch: int
    rows: int
    files: int
    duration_s: float


class DeltaTables:
    """The two Delta tables of one captured table."""

    def __init__(self, root: Path, ledger: str, table: Table) -> None:
        self.table, self._ledger = table, ledger
        self.mirror = mirror_folder(root, table.database, table.name)
        self.changes = changes_folder(root, table.database, table.name)

    def create(self, *, expected: bool) -> None:
        """Create both where they do not exist.

        expected: the ledger has published rows to them. Raises SpecError when they exist and belong to another ledger,
        or are expected and do not exist.
        """
        for folder, schema in self._folders():
            if folder.is_symlink() or folder.parent.is_symlink():
                raise SpecError(
                    f"The destination {folder} is a link, which is how another table's folder is read.",
                    detail="Two tables would be mixed; nothing was written.",
                    hint="Exclude one of the two tables, or give it a pipeline and a sink.path of its own.",
                )
            if not DeltaTable.is_deltatable(str(folder)):
                if expected:
                    raise SpecError(
                        f"The destination {folder} is gone, but the ledger has published rows to it.",
                        detail="Going on would leave a table that lacks them; nothing was written.",
                        hint="Restore the folder, or remove the pipeline's ledger folder to copy everything anew.",
                    )
                make_readable(folder)
                nullable = pa.schema([field.with_nullable(True) for field in schema])
                description = f"Tidemark ledger {self._ledger}"
                DeltaTable.create(
                    str(folder), nullable, mode="error", description=description, configuration=_PROPERTIES
                )
            elif not self._ours(folder):
                raise SpecError(
                    f"The destination {folder} exists already and does not belong to this pipeline's ledger.",
                    detail="Adding to it would mix the rows of two pipelines; nothing was written.",
                    hint="Choose another sink.path, or move that folder away.",
                )
            elif folder == self.changes:
                add_columns(DeltaTable(str(folder)), schema)  # those of an earlier version lack `_tm_refresh`

    def _ours(self, folder: Path) -> bool:
        return self._ledger in (DeltaTable(str(folder)).metadata().description or "")

    @property
    def there(self) -> bool:
        """Whether the tables exist and belong to the ledger: one of them alone is none of them."""
        folders = [str(folder) for folder, _ in self._folders()]
        return all(DeltaTable.is_deltatable(folder) and self._ours(Path(folder)) for folder in folders)

    def check_free(self) -> None:
        """Raises SpecError when there is one already, whosever it is, so that a table cannot join.

        But for those that were created and never written to: a runner was killed before it committed that the table joins.
        """
        for folder in (self.mirror, self.changes):
            if DeltaTable.is_deltatable(str(folder)) and not (
                self._ours(folder) and DeltaTable(str(folder)).version() == 0
            ):
                raise SpecError(
                    f"The destination {folder} exists already.",
                    detail="Its rows would be mixed with those of the table; nothing was written.",
                    hint="Move that folder away, then add the table again.",
                )

    def begin(self) -> None:
        """Create both for a table that joins; `check_free` was asked. Raises SpecError when that cannot be done."""
        self.drop()
        self.create(expected=False)

    def drop(self) -> None:
        """Delete both, as far as they are there and belong to the ledger; an attempt that was broken off is completed."""
        for folder in (self.mirror, self.changes):
            if not folder.exists() or (DeltaTable.is_deltatable(str(folder)) and self._ours(folder)):
                drop(folder)

    def _folders(self) -> list[tuple[Path, pa.Schema]]:
        """The folders of the tables that there are, with their schemas."""
        log = (self.changes, log_schema(arrow_schema(self.table)))
        return [(self.mirror, mirror_schema(self.table)), log] if self.table.key else [log]

    def _folder(self, kind: str) -> Path:
        return self.mirror if self.table.key and kind != "changes" else self.changes

    def file_names(self) -> set[str]:
        """The names of the files that the tables consist of now."""
        tables = (DeltaTable(str(folder)) for folder, _ in self._folders())
        return {uri.rpartition("/")[2] for table in tables for uri in table.file_uris()}

    def applied(self, kind: str) -> int:
        """The last epoch whose "chunks", "changes" or "merge" is in the destination; -1 for none."""
        version = DeltaTable(str(self._folder(kind))).transaction_version(self._app(kind))
        return -1 if version is None else int(version)

    def merged_seq(self) -> int:
        """The `_tm_seq` through which the log is merged into the mirror. A stand-in: 0 has all of the log count as unmerged."""
        return 0

    def _app(self, kind: str) -> str:
        return f"tidemark-{self._ledger}-{kind}"

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> Applied | None:
        """Add the files of an epoch to the mirror ("chunks") or to the log ("changes"); None when they are there already."""
        began = time.monotonic()
        delta = DeltaTable(str(self._folder(kind)))
        version = delta.transaction_version(self._app(kind))
        if not files or (version is not None and version >= epoch):
            return None
        delta.create_write_transaction(
            [_add(file) for file in files],
            mode="append",
            schema=delta.schema().to_arrow(),
            partition_by=[],
            commit_properties=CommitProperties(app_transactions=[Transaction(self._app(kind), epoch)]),
        )
        rows = sum(file.rows for file in files)
        return Applied(self.table.full_name, "append", epoch, rows, len(files), round(time.monotonic() - began, 6))

    def check(self, before: Table, after: Table) -> None:
        """Raises TableStoppedError when the log, which has or will have the columns of `before`, cannot get those of `after`."""
        held = united(schema_of(DeltaTable(str(self.changes))), log_schema(arrow_schema(before)))
        check_evolution(after.full_name, held, log_schema(arrow_schema(after)))

    def evolve(self, table: Table) -> None:
        """From here on the table has these columns: the log gets those that it lacks, and wider types."""
        self.table = table
        log = DeltaTable(str(self.changes))
        held = schema_of(log)
        both = united(
            held, log_schema(arrow_schema(table))
        )  # never narrower: an epoch may be applied again after later ones
        if any(both.field(name).type != held.field(name).type for name in held.names):
            rewrite(log, self.changes, both)
        else:
            add_columns(log, both)

    def widen_mirror(self) -> None:
        """Give the mirror the table's columns that it lacks; their types are those that it has of the others."""
        if self.table.key:
            add_columns(DeltaTable(str(self.mirror)), mirror_schema(self.table))

    def replace(self, epoch: int, files: Sequence[DataFile]) -> Applied | None:
        """Put these chunk files in the place of everything that the mirror holds; None when it has this epoch already.

        The mirror is then what the chunks are, without the changes of the log since they were read. Raises TableStoppedError when
        there is no mirror.
        """
        return _retried(lambda: self._replace(epoch, files))

    def _replace(self, epoch: int, files: Sequence[DataFile]) -> Applied | None:
        began = time.monotonic()
        delta = DeltaTable(str(self.mirror))
        if self.applied("chunks") >= epoch:
            return None
        wanted = mirror_schema(self.table)
        names = {name.casefold() for name in wanted.names}
        kept = [field for field in schema_of(delta) if field.name.casefold() not in names]
        delta = prepared(delta, wanted)
        delta.create_write_transaction(
            [_add(file) for file in files],
            mode="overwrite",
            schema=pa.schema([*wanted, *kept]),
            partition_by=[],
            commit_properties=CommitProperties(app_transactions=[Transaction(self._app("chunks"), epoch)]),
        )
        rows = sum(file.rows for file in files)
        return Applied(self.table.full_name, "replace", epoch, rows, len(files), round(time.monotonic() - began, 6))

    def merge(self, epoch: int, files: Sequence[DataFile]) -> Applied | None:
        """Bring the changes in `files`, in their order, into the mirror; afterwards it is the source at the end of `epoch`.

        More keys than memory should hold are merged in several commits, of which the last carries the identifier. When it is
        missing all are merged again, which changes nothing: images are full, and the newest of a key comes last. None when the
        mirror has this epoch already: a runner that was overtaken must not turn it back.
        """
        return _retried(lambda: self._merge(epoch, files))

    def _merge(self, epoch: int, files: Sequence[DataFile]) -> Applied | None:
        began = time.monotonic()
        if self.applied("merge") >= epoch:
            return None
        paths = [self.changes / file.name for file in files]
        keys, waiting = 0, None
        for part in (p for limits in key_ranges(files, self.table) for p in newest_per_key(paths, self.table, limits)):
            if waiting is not None:
                self._merge_part(waiting, CommitProperties())
            keys, waiting = keys + part.num_rows, part
        if waiting is None:
            return None
        self._merge_part(waiting, CommitProperties(app_transactions=[Transaction(self._app("merge"), epoch)]))
        return Applied(self.table.full_name, "merge", epoch, keys, len(paths), round(time.monotonic() - began, 6))

    def _merge_part(self, newest: pa.Table, commit: CommitProperties) -> None:
        pa.default_memory_pool().release_unused()  # what the reduction took and the merge, which has its own, could not use
        delta = DeltaTable(str(self.mirror))
        new, others = beyond(newest, self.table, largest_key(delta, self.table))
        if new.num_rows:
            alone = None if others.num_rows else commit
            rows = conformed(new, schema_of(delta)).to_reader(_MERGE_BATCH)
            write_deltalake(delta, rows, mode="append", writer_properties=_MERGE_WRITER, commit_properties=alone)
            if alone is not None:
                return
            delta.update_incremental()
        values = {_quoted("t", name): _quoted("s", name) for name in mirror_schema(self.table).names}
        # Columns that the source has dropped are NULL from then on.
        values |= {_quoted("t", f.name): "NULL" for f in schema_of(delta) if _quoted("t", f.name) not in values}
        same_key = " AND ".join(f"{_quoted('t', key)} = {_quoted('s', key)}" for key in self.table.key)
        (
            delta.merge(
                others,
                same_key + _bounds(others, self.table),
                source_alias="s",
                target_alias="t",
                writer_properties=_MERGE_WRITER,
                commit_properties=commit,
            )
            .when_matched_delete(predicate="s._tm_gone")
            .when_matched_update(updates=values, predicate="NOT s._tm_gone")
            .when_not_matched_insert(updates=values, predicate="NOT s._tm_gone")
            .execute()
        )


def _retried(commit: Callable[[], Applied | None]) -> Applied | None:
    """A commit that another writer's (a repair by hand, an OPTIMIZE) came before is made again, by all that is there then."""
    for attempt in range(_ATTEMPTS):
        try:
            return commit()
        except CommitFailedError:
            clock.sleep(_RETRY_S * 2**attempt)
    return commit()


def _quoted(alias: str, name: str) -> str:
    return f'{alias}."' + name.replace('"', '""') + '"'


def _bounds(newest: pa.Table, table: Table) -> str:
    """A literal range of the key, by which the merge passes over files that cannot match."""
    key = table.key[0]
    if not pa.types.is_integer(newest[key].type):
        return ""
    ends = pc.min_max(newest[key]).as_py()
    return f" AND {_quoted('t', key)} BETWEEN {ends['min']} AND {ends['max']}"


def _add(file: DataFile) -> AddAction:
    statistics: dict[str, Any] = {"numRecords": file.rows, "minValues": file.low, "maxValues": file.high}
    statistics["nullCount"] = dict.fromkeys(file.low, 0)
    return AddAction(file.name, file.bytes, {}, int(time.time() * 1000), True, json.dumps(statistics))
