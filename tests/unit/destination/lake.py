"""A table's mirror and change log, written directly, beside a dictionary of the rows that the mirror must have."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.delta.log.deletion_vectors import Descriptor
from engine.destination.delta.log.delta_actions import StoredFile
from engine.destination.delta.log.delta_log import files_of
from engine.destination.delta.log.table_opening import open_table
from engine.destination.delta.maintenance.steps import PairMaintenance
from engine.destination.delta.table import DeltaDestinationTable, DeltaMirror
from engine.destination.delta.table_pair import TablePair
from engine.destination.destination_protocol import Content, MirrorStep
from engine.journal.destination_events import SinkApplied
from engine.ledger.state import Owner
from engine.spec.sink_settings import MirrorMode, Sink
from engine.store.folder import Folder
from engine.store.local_folder import LocalFolder
from tests.support.delta import rows_at

INT = Table("d", "t", (Column("id", "int", nullable=False), Column("v", "int")), ("id",))
TEXT = Table("d", "t", (Column("id", "char", nullable=False, length=36, charset="ascii"), Column("v", "int")), ("id",))
START = datetime(2026, 1, 1, tzinfo=UTC)
MAX_VERSIONS = 4000


def delta_table(root: Path, owner: Owner, table: Table, *, on_read: bool = False) -> DeltaDestinationTable:
    """The two Delta tables of a captured table."""
    return DeltaDestinationTable(Sink(path=root), TablePair(LocalFolder(root), owner, table, on_read=on_read))


def merge(delta: DeltaDestinationTable, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
    """Merge changes into a mirror, which then has everything through an epoch."""
    return DeltaMirror(delta.pair).apply(Content([MirrorStep(changes=files)], merge=epoch))


@dataclass
class Lake:
    """`rows` is what the mirror must have, `log` what the change log must have."""

    folder: Path
    mode: MirrorMode
    table: Table = INT
    key: str = "id"
    """The key column; the column `v` is the value, or the first one if there is none."""
    rows: dict[Any, int] = field(default_factory=dict)
    log: list[tuple[int, str, Any]] = field(default_factory=list)
    epoch: int = 0
    now: datetime = START
    root: Folder | None = None
    """Where the tables are, if not in the folder."""

    def __post_init__(self) -> None:
        self.reopen()
        if not self.pair.is_complete:
            self.pair.create(must_exist=False)

    def reopen(self) -> None:
        """Open the tables as another process would, and continue with those."""
        self.pair = self.opened()
        self.delta = DeltaDestinationTable(Sink(path=self.folder), self.pair)
        self.maintenance = PairMaintenance(self.pair, self.notes, MAX_VERSIONS)

    @property
    def notes(self) -> Path:
        """The file for what the vacuum notes."""
        return self.folder / "notes.json"

    def opened(self) -> TablePair:
        """The tables as another process would open them."""
        return TablePair(
            self.root or LocalFolder(self.folder), Owner("l"), self.table, on_read=self.mode == "merge_on_read"
        )

    def copy(self, rows: Mapping[Any, int]) -> None:
        """Add a chunk."""
        self.epoch += 1
        schema = arrow_schema(self.table)
        with FileWriter(self.pair.mirror.folder, "chunk", schema, self.table.key) as writer:
            writer.write(
                pa.Table.from_pylist(
                    [{self.key: key, self._value: value} for key, value in rows.items()], schema=schema
                )
            )
            self.delta.append("chunks", self.epoch, writer.close())
        self.rows |= rows

    def change(self, changes: Iterable[tuple[Any, int | None]], after: timedelta = timedelta(seconds=1)) -> None:
        """Append and merge changes: key and new value, or None for a deletion."""
        self.merge(self.append(changes, after))

    def append(
        self, changes: Iterable[tuple[Any, int | None]], after: timedelta = timedelta(seconds=1)
    ) -> list[DataFile]:
        """Append changes to the change log alone. Returns the files."""
        files = self.write(changes, after)
        self.delta.append("changes", self.epoch, files)
        return files

    def write(
        self, changes: Iterable[tuple[Any, int | None]], after: timedelta = timedelta(seconds=1)
    ) -> list[DataFile]:
        """Write an epoch's changes. Returns the files, which no commit has yet."""
        self.epoch += 1
        self.now += after
        schema, lines = log_schema(arrow_schema(self.table)), []
        for key, value in changes:
            kind = "-D" if value is None else ("+U" if key in self.rows else "+I")
            seq = len(self.log) + 1
            lines.append(
                {
                    self.key: key,
                    self._value: self.rows.get(key) if value is None else value,
                    "_tm_kind": kind,
                    "_tm_seq": seq,
                    "_tm_ts": self.now,
                }
            )
            self.log.append((seq, kind, key))
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        with FileWriter(self.pair.changes.folder, "changes", schema, (*self.table.key, "_tm_seq")) as writer:
            writer.write(pa.Table.from_pylist(lines, schema=schema))
            return writer.close()

    def merge(self, files: list[DataFile]) -> None:
        """Merge appended changes."""
        merge(self.delta, self.epoch, files)

    def empty(self, epoch: int, *, merged: bool = False) -> None:
        """Replace the mirror's rows by none. merged: whether it has the changes of the epoch, too."""
        DeltaMirror(self.pair).apply(Content([], chunks=epoch, merge=epoch if merged else None, replaces=True))

    def random_changes(self, chance: random.Random, count: int, keys: list[Any]) -> list[tuple[Any, int | None]]:
        """Changes of keys among `keys`; a fifth are deletions."""
        chosen = chance.choices(keys, k=count)
        return [(key, None if key in self.rows and chance.random() < 0.2 else chance.randrange(9**6)) for key in chosen]

    @property
    def _value(self) -> str:
        names = [column.name for column in self.table.columns if column.name != self.key]
        return "v" if "v" in names else names[0]

    def mirror(self, version: int | None = None) -> dict[Any, int]:
        """The mirror's rows, as another reader sees them. Fails for a key that it has twice."""
        found = [(row[self.key], row[self._value]) for row in rows_at(self.pair.mirror.folder, version).to_pylist()]
        assert len(found) == len(dict(found)), "a key is there twice"
        return dict(found)

    def kept(self) -> dict[str, tuple[int, int, Descriptor | None]]:
        """The mirror's files as the writer keeps them in memory."""
        log = self.pair.mirror.lake.log
        return _described(log.files(log.load()))

    def stored(self) -> dict[str, tuple[int, int, Descriptor | None]]:
        """The mirror's files by its log."""
        return _described(files_of(open_table(self.pair.mirror.folder), self.pair.mirror.folder))

    def check(self) -> None:
        """The mirror and the change log are what they must be; the log's files keep the order."""
        assert self.mirror() == self.rows
        assert self.kept() == self.stored()
        lines = rows_at(self.pair.changes.folder).sort_by("_tm_seq").to_pylist()
        assert [(line["_tm_seq"], line["_tm_kind"], line[self.key]) for line in lines] == self.log


def _described(files: Iterable[StoredFile]) -> dict[str, tuple[int, int, Descriptor | None]]:
    return {file.name: (file.rows, file.bytes, file.vector) for file in files}
