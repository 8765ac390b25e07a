"""Reads the rows of a mirror."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from engine.base import clock
from engine.base.errors import DestinationError
from engine.base.wording import are_gone, utc_time
from engine.capture.landing import Commit, VersionFiles
from engine.destination.delta.log.foreign_commits import commits_up_to, read_commit
from engine.destination.delta.log.log_files import commit_name, log_of
from engine.destination.delta.log.table_opening import library_text, open_table
from engine.destination.delta.read.file_rows import rows_of
from engine.plan.row_conditions import RowCondition, expression_of
from engine.store.folder import Folder
from engine.store.lookup import find_all

if TYPE_CHECKING:  # importing it imports pandas, which takes a runner half a second to start
    from pyarrow.dataset import Dataset

UNREADABLE = (OSError, DeltaError, pa.ArrowException)
"""What reading a mirror raises when its log or its files are gone or damaged: a vacuum deletes those of
older versions."""


def defect_of(folder: Folder) -> str:
    """Why the newest version of a mirror cannot be read, as a clause.

    "" if its log can be, and all data files have their sizes.

    Reads no data file, so damage within one is found only by a read of its rows.
    """
    return _clause(folder, lambda: _damage(folder))


def missing_of(folder: Folder) -> str:
    """Which files of the newest version of a Delta table are gone, as a clause; or why its log cannot be read.

    "" if all exist. Lists the folder once, however many files there are.
    """
    return _clause(folder, lambda: _missing(folder))


def _clause(folder: Folder, look: Callable[[], str]) -> str:
    try:
        return look()
    except OSError as error:
        return f"{error.filename or folder.url}: {error.strerror or error}"
    except DestinationError as error:
        return error.message.rstrip(".")
    except (DeltaError, pa.ArrowException) as error:
        return library_text(error)


def _missing(folder: Folder) -> str:
    names = list[str]()
    for _ in range(2):  # another writer may have replaced files and removed them meanwhile
        files = pa.table(open_table(folder).get_add_actions()).column("path").to_pylist()
        stored = {entry.name for entry in folder.entries()}
        names = [name for file in files if (name := unquote(file)) not in stored and folder.find(name) is None]
        if not names:
            return ""
    return f"{are_gone(len(names), 'data file', folder.url)}: {', '.join(names[:3])}"


def _damage(folder: Folder) -> str:
    delta = open_table(folder)
    files = pa.table(delta.get_add_actions())
    names = [unquote(name) for name in files["path"].to_pylist()]
    entries = find_all([(folder, name) for name in names])
    for name, size, entry in zip(names, files["size_bytes"].to_pylist(), entries, strict=True):
        path = f"{folder.url}/{name}"
        if entry is None:
            return f"{path}: {os.strerror(errno.ENOENT)}"
        if entry.size != size:
            return f"{path} is damaged: it has {entry.size:,} of {size:,} bytes"
    for deletes in filter(None, rows_of(delta, folder).deletes.values()):
        deletes.positions()
    return ""


def load_as_of(delta: DeltaTable, folder: Folder, as_of: datetime) -> bool:
    """Load the version of a time; False for a time before the table was created.

    deltalake goes by the times of the commits' files, which buckets round down to seconds: a commit that calls itself
    later is not taken. Raises DeltaError for a time before the oldest version that the log still has.
    """
    if as_of < _created_at(delta):  # deltalake would load the first version
        return False
    delta.load_as_version(as_of)
    while (commit := read_commit(folder, delta.version())) is not None and commit.at_s > as_of.timestamp():
        if commit.version == 0:
            break
        if log_of(folder).find(commit_name(commit.version - 1)) is None:
            oldest = clock.utc_text(datetime.fromtimestamp(commit.at_s, UTC))
            raise DeltaError(f"its oldest version was committed at {utc_time(oldest)}; earlier ones were deleted")
        delta.load_as_version(commit.version - 1)
    return True


def _created_at(delta: DeltaTable) -> datetime:
    return datetime.fromtimestamp(delta.metadata().created_time / 1000, UTC)


class Mirror:
    """One version of a mirror, whatever is committed meanwhile."""

    def __init__(self, folder: Folder, delta: DeltaTable | None = None) -> None:
        """delta: None for the newest version. Raises DestinationError if its deletion vectors cannot be read."""
        self._folder = folder
        self._delta = delta or open_table(folder)
        self._rows = rows_of(self._delta, folder)

    @classmethod
    def if_there(cls, folder: Folder, as_of: datetime | None = None) -> Self | None:
        """The mirror, or None before its first commit. as_of: the version that readers saw at that time."""
        with suppress(TableNotFoundError):
            delta = open_table(folder)
            if as_of is None or load_as_of(delta, folder, as_of):
                return cls(folder, delta)
        return None

    @property
    def version(self) -> int:
        """The version that is read."""
        return int(self._delta.version())

    def foreign_commits(self, most: int) -> list[Commit]:
        """The newest commits by which others than Tidemark changed rows, newest first, as far as the log has them."""
        commits = (commit for commit in commits_up_to(self._folder, self.version) if commit.foreign)
        return list(islice(commits, most))

    @property
    def keeps_others_out(self) -> bool:
        """No: a version is files."""
        return False

    def release(self) -> None:
        """It holds nothing."""

    def at(self, version: int) -> Self | None:
        """An earlier version; None if its log or its files are gone."""
        with suppress(DeltaError, OSError, DestinationError):
            return type(self)(self._folder, open_table(self._folder, version))
        return None

    @property
    def created_at(self) -> datetime:
        """As the table's metadata say."""
        return _created_at(self._delta)

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._rows.schema

    def transaction(self, application: str) -> int:
        """The last transaction that an application has committed, up to this version; -1 for none."""
        version = self._delta.transaction_version(application)
        return -1 if version is None else int(version)

    def batches(self, columns: Sequence[str], condition: RowCondition | None = None) -> Iterator[pa.Table]:
        """Batches of the rows that match the condition; columns that the mirror lacks are left out."""
        names = [name for name in columns if name in self._rows.schema.names]
        return self._rows.batches(names, None if condition is None else expression_of(condition))

    def scan(self) -> "Dataset | VersionFiles":
        """A dataset, unless deletion vectors delete rows, another program has written some, or they are in a bucket."""
        if self._rows.dataset is not None:
            return self._rows.dataset
        return VersionFiles(self._folder, self._rows.deleted_rows())

    def size(self) -> tuple[int, int]:
        """Its number of rows and the bytes of its files."""
        files = pa.table(self._delta.get_add_actions(flatten=True))
        counted = "num_records" in files.column_names and not files["num_records"].null_count
        deleted = sum(deletes.rows for deletes in self._rows.deletes.values() if deletes is not None)
        rows = (pc.sum(files["num_records"]).as_py() or 0) - deleted if counted else self._rows.count(None)
        return int(rows), int(pc.sum(files["size_bytes"]).as_py() or 0)

    def count(self, condition: RowCondition) -> int:
        """The number of rows that match the condition."""
        return self._rows.count(expression_of(condition))
