"""Where readers put their files, and how they read a mirror back.

A destination decides both (`destination.destination_protocol`). What only some landings can do is a protocol of its
own; one that cannot lacks the method:

    ReadsBack       the tables can be read back
    StagesFiles     the files become part of no table, so those that every destination has applied are deleted

Readers are sent to Spark tasks, so they can be pickled.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import DestinationError, is_disk_full
from engine.capture.files import DataFile
from engine.decode.schema import Table
from engine.store.folder import Folder

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


class TableVersion(Protocol):
    """One version of a mirror or a change log, whatever is committed meanwhile."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""

    def at(self, version: int) -> "TableVersion | None":
        """An earlier version; None if it is gone."""

    def foreign_commits(self, max_commits: int) -> Sequence[Commit]:
        """The newest commits by which others than Tidemark changed rows, newest first, as far as they are known."""

    def transaction(self, application: str) -> int:
        """The last transaction that an application has committed, up to this version; -1 for none."""

    def batches(self, columns: Sequence[str], condition: pc.Expression | None = None) -> Iterator[pa.Table]:
        """Batches of the rows that match the condition; columns that it lacks are left out."""

    def count(self, condition: pc.Expression) -> int:
        """The number of rows that match the condition."""

    def size(self) -> tuple[int, int]:
        """Its number of rows and the bytes of its files."""


class MirrorReader(Protocol):
    """Reads one table of a destination back."""

    @property
    def place(self) -> str:
        """Where the mirror is, for messages."""

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """What a read raises when the mirror or its files are gone or damaged."""

    def mirror(self) -> TableVersion | None:
        """The newest version of the mirror; None before its first commit. Raises DestinationError."""

    def log(self) -> TableVersion | None:
        """The newest version of the change log; None before its first commit. Raises DestinationError."""

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
    """A landing of a destination whose tables can be read back: for verification, redumps and sinks that join."""

    def reader(self, table: Table) -> MirrorReader:
        """Reads a table back."""


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

    def mirror(self) -> TableVersion | None:
        """There is none."""
        return None

    def log(self) -> TableVersion | None:
        """It is not read back."""
        return None

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
                    hint="Make sure that its disk is mounted and its folder can be read. If files are gone or damaged, "
                    "redump the whole table: that resnapshots it.",
                ) from error
    raise AssertionError
