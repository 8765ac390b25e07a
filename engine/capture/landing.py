"""Where readers put their files, and how tables are read back.

A destination decides both (`destination.destination_protocol`). What only some landings can do is a protocol of its
own; one that cannot lacks the method:

    ReadsBack       the tables can be read back: their rows, or their changes in order
    ReadsFormats    the tables can be read back as other readers of another format see them
    StagesFiles     the files become part of no table, so those that every destination has applied are deleted

Readers are sent to Spark tasks, so they can be pickled.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from engine.base.errors import DestinationError, is_disk_full
from engine.capture.files import DataFile
from engine.decode.schema import TM_POSITION, TM_SEQ, TM_TS, Table
from engine.plan.row_conditions import RowCondition
from engine.spec.sink_settings import TableFormat
from engine.store.folder import Folder

if TYPE_CHECKING:  # importing it imports pandas, which takes a runner half a second to start
    from pyarrow.dataset import Dataset

PLACES = (TM_SEQ, TM_POSITION, TM_TS)
"""Which change a row is, where in the binlog and when. Of other columns, fewer values are read at once."""
_READS = 3
"""Reads of a mirror before it counts as unreadable: a vacuum may have deleted the files of a version meanwhile."""
T = TypeVar("T")


@dataclass(frozen=True)
class Commit:
    """A commit to a mirror."""

    version: int
    operation: str
    """In the destination's terms, for Delta: WRITE, DELETE, …"""
    author: str
    """The user, if the commit names one; else the program."""
    at_s: float
    """Seconds since 1970, as the commit says; else the time of its file."""
    foreign: bool
    """Whether another program changed rows with it."""
    replaces: bool
    """Whether Tidemark replaced all rows with it."""
    is_torn: bool = False
    """Whether it is not whole: it is being written, or a power cut tore it."""


@dataclass(frozen=True)
class VersionFiles:
    """The Parquet files of a version, for an engine that reads them by itself."""

    folder: Folder
    deleted_rows: Mapping[str, pa.Array | None]
    """The files by name, and the numbers of those of their rows that are deleted; None for none."""


class TableVersion(Protocol):
    """One version of a mirror or a change log, whatever is committed meanwhile."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def created_at(self) -> datetime:
        """When the table was created."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""

    @property
    def keeps_others_out(self) -> bool:
        """Whether nobody can write to the table before it is released."""

    def release(self) -> None:
        """Give up what it holds. Its rows are not read any more after that."""

    def at(self, version: int) -> "TableVersion | None":
        """An earlier version; None if it is gone."""

    def foreign_commits(self, max_commits: int) -> Sequence[Commit]:
        """The newest commits by which others than Tidemark changed rows, newest first, as far as they are known."""

    def transaction(self, application: str) -> int:
        """The last transaction that an application has committed, up to this version; -1 for none."""

    def batches(self, columns: Sequence[str], condition: RowCondition | None = None) -> Iterator[pa.Table]:
        """Batches of the rows that match the condition; columns that it lacks are left out."""

    def count(self, condition: RowCondition) -> int:
        """The number of rows that match the condition."""

    def size(self) -> tuple[int, int]:
        """Its number of rows and the bytes of its files."""

    def scan(self) -> "Dataset | VersionFiles":
        """Where a query engine reads its rows."""


class OrderedChanges(Protocol):
    """One version of a change log in the order of `_tm_seq`, whatever is committed meanwhile.

    Its positions are one number each (`capture.position_order`).
    """

    @property
    def version(self) -> int:
        """Its number."""

    def first(self) -> tuple[int, int] | None:
        """The position and the `_tm_seq` of its first change; None for an empty log."""

    def row_bytes(self) -> int:
        """The average bytes of a row in memory where they are widest."""

    def since(self, order: int, columns: Sequence[str], seq: int = 0) -> Generator[pa.Table, None, None]:
        """Yield parts of the rows, from the changes after a position on, in bounded memory. Some earlier ones may come.

        seq: the least `_tm_seq` that is wanted. Positions before it may be those of another server.
        """


class IncompleteMirrorError(DestinationError):
    """A new copy of the table is being written; its rows cannot be read back before it is complete."""

    why = "its mirror does not have the last copy yet"
    """What is missing, as a clause."""


class FormatBehindError(IncompleteMirrorError):
    """Another format of the table does not have yet what the table has."""

    why = "the other format of its mirror does not have the last versions yet"


class MirrorReader(Protocol):
    """Reads one table of a destination back."""

    @property
    def place(self) -> str:
        """Where the mirror is, for messages."""

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """What a read raises when the mirror or its files are gone or damaged."""

    @property
    def rewritten_json(self) -> Collection[str]:
        """Columns whose JSON the destination writes in its own form: they are compared by what they mean."""

    def mirror(self, as_of: datetime | None = None) -> TableVersion | None:
        """The newest version of the mirror; with `as_of`, the version that readers saw at that time.

        None before its first commit, and of a time before that. Raises DestinationError, or what `unreadable` names.
        """

    def log(self, as_of: datetime | None = None) -> TableVersion | None:
        """A version of the change log, as `mirror`."""

    def ordered_changes(self) -> OrderedChanges:
        """The newest version of the change log. Raises DestinationError, or what `unreadable` names."""

    def defect(self) -> str:
        """Why the newest version of the mirror cannot be read, as a clause.

        "" if nothing is known to be wrong with it.
        """

    def log_defect(self) -> str:
        """Why the newest version of the change log cannot be read, as a clause.

        "" if nothing is known to be wrong with it. Its files are only listed.
        """

    def commits_after(self, version: int) -> Iterator[Commit]:
        """The mirror's commits after a version, oldest first. version: -1 if none was read before. Raises OSError."""


class Landing(Protocol):
    """Where readers put the files of a table."""

    def chunks(self, table: Table) -> Folder:
        """The folder for files of chunks."""

    def changes(self, table: Table) -> Folder:
        """The folder for files of changes."""


@runtime_checkable
class ReadsBack(Protocol):
    """A landing of a destination whose tables can be read back.

    For verification, audits, redumps, queries, and sinks that join.
    """

    def reader(self, table: Table) -> MirrorReader:
        """Reads a table back."""


@runtime_checkable
class ReadsFormats(Protocol):
    """A landing of a destination whose tables can be read in another format."""

    def in_format(self, table_format: TableFormat, *, in_step: bool = False) -> "Landing":
        """The landing whose readers read that format.

        in_step: whether the newest version is read only once it has what the table has now.
        """


@runtime_checkable
class StagesFiles(Protocol):
    """A landing whose files become part of no table. Without it, they are those of the tables, and stay."""

    def collect(self, table: Table, files: Sequence[DataFile]) -> None:
        """Delete files that every destination has applied."""


@dataclass(frozen=True)
class NoMirror:
    """Stands for the reader of a table that cannot be read back. place: where its files are, for messages."""

    place: str

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """Nothing is read."""
        return ()

    @property
    def rewritten_json(self) -> Collection[str]:
        """None."""
        return ()

    def mirror(self, as_of: datetime | None = None) -> TableVersion | None:
        """There is none."""
        return None

    def log(self, as_of: datetime | None = None) -> TableVersion | None:
        """It is not read back."""
        return None

    def ordered_changes(self) -> OrderedChanges:
        """It is not read back."""
        raise DestinationError(f"The change log in {self.place} cannot be read back.")

    def defect(self) -> str:
        """That there is no mirror."""
        return "the destination keeps no mirrors"

    def log_defect(self) -> str:
        """It is not read back."""
        return ""

    def commits_after(self, version: int) -> Iterator[Commit]:
        """There is none."""
        return iter(())


def reader_of(landing: Landing, table: Table) -> MirrorReader:
    """Reads a table back; `NoMirror` if the landing's destination cannot."""
    return landing.reader(table) if isinstance(landing, ReadsBack) else NoMirror(landing.chunks(table).url)


def read_or_raise(reader: MirrorReader, read: Callable[[], T]) -> T:
    """What a read of the mirror's newest version returns. Raises DestinationError if the mirror stays unreadable."""
    for attempt in range(_READS):
        try:
            return read()
        except reader.unreadable as error:
            if is_disk_full(error):
                raise
            if attempt + 1 == _READS:
                raise DestinationError(
                    f"The mirror in {reader.place} cannot be read: {str(error).strip().partition(chr(10))[0]}",
                    detail="Readers of the mirror fail too.",
                    hint="Make sure that its folder can be read, or its database answers. If files are gone, or "
                    "damaged, redump the whole table: that resnapshots it.",
                ) from error
    raise AssertionError
