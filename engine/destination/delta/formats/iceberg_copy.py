"""Keeps the Iceberg metadata of a Delta table in step with it: each version of the one is a snapshot of the other.

`<table>__iceberg/metadata` stands beside the table, because a VACUUM of another tool deletes what it finds in it. It is
made from the Delta log alone, so a runner that was killed between the two commits, or that could not write for an hour,
catches up from there, in order; and of two runners that do so at once, one commits each snapshot.

A version is published by what its commit changes. It is compared with what the newest snapshot has if that is not
possible: for the first snapshot, after commits of other programs to either table, where the Delta log has lost or
changed a commit, and where files of a version in between are gone.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from engine.base import clock
from engine.base.errors import DestinationError, SpecError
from engine.base.parallel import map_parallel
from engine.destination.delta.folder_removal import drop
from engine.destination.delta.formats.version_changes import (
    COMMIT,
    DeltaCommit,
    change_of,
    commit_content,
    commit_of,
    digest_of,
    whole_change,
)
from engine.destination.delta.log.log_files import commit_name, log_of, newest_version
from engine.destination.delta.log.table_opening import is_table, open_table
from engine.destination.destination_protocol import Guard, no_guard
from engine.destination.iceberg.catalogs.catalog_protocol import PublishedMetadata
from engine.destination.iceberg.manifest_files import Format
from engine.destination.iceberg.manifest_set import MetadataGoneError, OutOfStepError
from engine.destination.iceberg.metadata import LEDGER, TABLE
from engine.destination.iceberg.schemas import has_ids_of_files
from engine.destination.iceberg.table import IcebergTable, OtherWriterError, TableOrigin
from engine.destination.iceberg.unneeded_files import UnneededFiles
from engine.spec.folder_names import ICEBERG
from engine.store.folder import Folder

_VERSIONS_AT_ONCE = 50
"""The most snapshots in a commit, whose files wait in memory."""
_ATTEMPTS = 5
_MOST_MISSING = 100


def iceberg_folder(delta_folder: Folder) -> Folder:
    """Where the Iceberg metadata of the Delta table in a folder is."""
    return delta_folder.parent / f"{delta_folder.name}{ICEBERG}"


class IcebergCopy:
    """The Iceberg metadata of the Delta table in a folder.

    ledger: its identifier. sort_columns: of the data files. guard: called before files are deleted. on_commit: called
    after each commit to the Iceberg table, with the newest version of the Delta table in it. spared_file: a metadata
    file that a catalog names; "" for none.
    """

    def __init__(
        self,
        delta_folder: Folder,
        ledger: str,
        format_version: Format,
        sort_columns: Sequence[str],
        guard: Guard = no_guard,
        on_commit: Callable[[int], None] = lambda _: None,
        spared_file: Callable[[], str] = lambda: "",
    ) -> None:
        self.folder = iceberg_folder(delta_folder)
        self._delta_folder = delta_folder
        self._ledger = ledger
        self._format = format_version
        self._sort_columns = sort_columns
        self._guard = guard
        self._on_commit = on_commit
        self._spared_file = spared_file
        self._compares = False
        """Whether the next version is compared with what the newest snapshot has."""
        self._begins_again = False
        """Whether the snapshots are to be forgotten."""
        self.is_dropped = False
        self._lock = threading.RLock()
        self._table: IcebergTable | None = None
        self._unneeded = UnneededFiles(self.folder / "metadata")
        """Outlives `_table`, which is dropped from memory when nothing changes: it counts hours."""
        self._foreign_commits: list[str] = []
        self._position: tuple[int, str] | None = None
        """The version that was looked at last, and the digest of its commit; it has no snapshot if nothing changed."""

    @property
    def place(self) -> str:
        """Its folder."""
        return self.folder.url

    @property
    def published_version(self) -> int:
        """The version that readers of Iceberg see, as of the last look; -1 for none."""
        version = None if self._table is None else self._table.version
        return -1 if version is None else version

    @property
    def looked_version(self) -> int:
        """The version up to which the Delta log is published; -1 for none."""
        return -1 if self._position is None else self._position[0]

    def take_foreign_commits(self) -> list[str]:
        """The commits of other programs to the Iceberg table that were met since the last call."""
        with self._lock:
            commits, self._foreign_commits = self._foreign_commits, []
            return commits

    def catch_up(self, at_least: int = -1) -> int:
        """Publish the versions that have no snapshot yet, in order. Returns how many.

        at_least: a version that the Delta log has. Raises DestinationError, SpecError or an error of the store.
        """
        with self._lock:
            if self.is_dropped:
                return 0
            try:
                count = self._caught_up(at_least)
            except BaseException:
                self._forget()  # nobody knows what was done
                raise
            if count:
                self._on_commit(self.published_version)
            return count

    def _caught_up(self, at_least: int) -> int:
        count = 0
        for _ in range(_ATTEMPTS):
            try:
                while published := self._publish_some(at_least):
                    count += published
                    if published < _VERSIONS_AT_ONCE and self.looked_version >= at_least:
                        break
            except OtherWriterError:
                self._forget()
            except OutOfStepError:
                self._forget()
                self._compares = True
            except MetadataGoneError:
                self._forget()
                self._begins_again = True
            else:
                return count
        raise DestinationError(
            f"Another writer keeps committing to the Iceberg table {self.folder.url}.",
            detail="The Delta table beside it is right. The Iceberg table stays as that writer left it.",
            hint="Find out who writes there: the summaries of its snapshots name the program. Stop that writer; then "
            "the next commit publishes the table again.",
        )

    def rest(self) -> None:
        """Drop from memory what the next call can read again."""
        with self._lock:
            self._forget()

    def read_published(self) -> tuple[int | None, int, str]:
        """The version that readers see, how many later ones it lacks that change something, and the metadata file.

        None and "" if there is none, or another program wrote to the table. Writes nothing. Raises DestinationError.
        """
        table = self.open_again()
        position, missing = table.version, 0
        version = -1 if position is None else position
        while missing < _MOST_MISSING and (content := commit_content(self._delta_folder, version + 1)) is not None:
            version += 1
            with suppress(ValueError):  # a torn commit is not there
                missing += not commit_of(version, content).changes_nothing
        return position, missing, "" if position is None else table.metadata_uri

    def published(self) -> PublishedMetadata | None:
        """What readers of the folder see; None if nothing is published, or another program has committed there."""
        with self._lock:
            table = self._table
            if table is None:
                table = self.open_again()
            metadata = table.metadata
            if metadata is None or table.version is None or metadata.properties.get(LEDGER) != self._ledger:
                return None
            return PublishedMetadata(metadata, table.metadata_uri, self.folder)

    def open_again(self) -> IcebergTable:
        """The Iceberg table as another process finds it. Writes nothing. Raises DestinationError."""
        table = IcebergTable(self.folder, self._format, TableOrigin({}))
        table.load()
        return table

    def expire(self, retention: timedelta, oldest_version: int) -> int:
        """Expire the snapshots whose files a VACUUM may delete. Raises what `catch_up` raises. Returns how many.

        retention: of files that the newest version does not name. oldest_version: which the Delta log still has.
        """
        with self._lock:
            self.catch_up()
            if self._table is None:
                return 0  # there is no Delta table
            before_ms = round((clock.utc_now() - retention).timestamp() * 1000)
            try:
                expired = self._table.expire(before_ms, oldest_version)
                if expired:
                    self._on_commit(self.published_version)
                self._table.delete_unneeded(self._unneeded, self._guard)
            except OtherWriterError:
                self._forget()
                return 0  # the next time
            except FileNotFoundError:
                self._forget()
                self._begins_again = True
                return self.catch_up()
            return expired

    def drop(self) -> None:
        """Delete the Iceberg metadata, if it belongs to the ledger, and publish nothing more."""
        with self._lock:
            self.is_dropped = True
            self._forget()
            if not (self.folder / "metadata").is_there or is_table(self.folder):
                return
            table = IcebergTable(self.folder, self._format, TableOrigin({}))
            with suppress(DestinationError):  # nobody can read it, and the table that it is of goes
                table.load()
            if table.metadata is None or table.metadata.properties.get(LEDGER) == self._ledger:
                drop(self.folder)

    def _forget(self) -> None:
        self._table = None
        self._position = None

    def _publish_some(self, at_least: int) -> int:
        """Publish the next versions, at most some. Returns how many there were."""
        table = self._opened()
        if table is None:
            return 0
        table.write_pointer()
        if self._position is None and not self._compares:
            self._position = self._last_position(table)
            at_least = max(at_least, newest_version(self._delta_folder))
        commits = self._next_commits()
        if commits is not None and (commits or self.looked_version >= at_least) and self._publish(table, commits):
            return len(commits)
        newest = _newest_commit(self._delta_folder)
        if newest is None or (not self._compares and self._position == (newest.version, newest.digest)):
            return 0
        table.commit([whole_change(self._delta_folder, newest, self._ledger)])
        self._compares = False
        self._position = newest.version, newest.digest
        return 1

    def _publish(self, table: IcebergTable, commits: Sequence[DeltaCommit]) -> bool:
        """Publish these versions. Returns False if that is not possible, because files of them are gone."""
        try:
            changes = [
                (change_of if commit.is_ours else whole_change)(self._delta_folder, commit, self._ledger)
                for commit in commits
                if not commit.changes_nothing
            ]
            if changes:
                table.commit(changes)
        except (DestinationError, FileNotFoundError):
            return False
        if commits:
            self._position = commits[-1].version, commits[-1].digest
        return True

    def _opened(self) -> IcebergTable | None:
        """The Iceberg table, without the snapshots of an earlier Delta table; None if there is no Delta table."""
        if self._table is not None:
            return self._table
        if not is_table(self._delta_folder):
            return None
        if is_table(self.folder):
            raise _not_ours(self.folder)
        identity = str(open_table(self._delta_folder).metadata().id)
        place = TableOrigin({LEDGER: self._ledger, TABLE: identity}, self._sort_columns)
        table = IcebergTable(self.folder, self._format, place, self._spared_file)
        table.load()
        metadata = table.metadata
        if metadata is not None:
            if metadata.properties.get(LEDGER) != self._ledger:
                raise _not_ours(self.folder)
            is_same = metadata.properties.get(TABLE) == identity and metadata.format == self._format
            if table.foreign_commit:
                self._foreign_commits.append(table.foreign_commit)
            is_same = is_same and all(map(has_ids_of_files, metadata.schemas))  # else an earlier Tidemark made it
            if self._begins_again or table.foreign_commit or not is_same or metadata.location != self.folder.url:
                table.begin_again()  # what another program has done to the history may not be what readers accept
        self._begins_again = False
        self._table = table
        return table

    @staticmethod
    def _last_position(table: IcebergTable) -> tuple[int, str] | None:
        newest = None if table.metadata is None else table.metadata.newest
        if newest is None or newest.version is None:
            return None
        return newest.version, newest.summary.get(COMMIT, "")

    def _next_commits(self) -> list[DeltaCommit] | None:
        """The commits after the last one that was looked at; None if they do not follow it."""
        if self._position is None:
            return None
        version, digest = self._position
        last, following = map_parallel(
            partial(commit_content, self._delta_folder), [version, version + 1], self._delta_folder.at_once
        )
        if last is None or digest_of(last) != digest:
            return None
        commits = list[DeltaCommit]()
        while following is not None and len(commits) < _VERSIONS_AT_ONCE:
            version += 1
            try:
                commits.append(commit_of(version, following))
            except ValueError:
                break  # a power cut tore it; the runner repairs the log
            following = commit_content(self._delta_folder, version + 1)
        return commits


def _newest_commit(delta_folder: Folder) -> DeltaCommit | None:
    """That of the newest version; None if there is no table, or its last commit is torn."""
    version = newest_version(delta_folder)
    if version < 0:
        return None
    try:
        return commit_of(version, log_of(delta_folder).read(commit_name(version)))
    except (FileNotFoundError, ValueError):
        return None


def _not_ours(folder: Folder) -> SpecError:
    return SpecError(
        f"The Iceberg table {folder.url} cannot be published: that folder does not belong to this pipeline's ledger.",
        detail="Nothing was written to it. The Delta table beside it is published.",
        hint='Move that folder away, or take "iceberg" out of sink.formats.',
    )
