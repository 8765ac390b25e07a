"""Writes a Delta table's log: commits that appear whole, survive a power cut, and name their writer.

A commit is one JSON file, `_delta_log/<version>.json`. The deltalake library, which we use for reading, writes commits
too, but does not sync them: after a power cut, its newest commit may be an empty file, which readers take for a commit
without actions. So we write commits ourselves:

1. check every data file to be added: a cleaner may have removed it since it was written;
2. create the version's file with the actions (`store.folder`): by a hard link, or by a conditional put. That is the
   commit: it exists whole or not at all, is durable, and only one writer can create it, whatever tool it uses. Only
   then may the ledger forget the epochs in it.

Only a writer that knows version V creates version V + 1. So a commit based on `transactions` at V never ignores another
writer's commit: the creation fails, everything is looked up again, and the commit is retried or abandoned.

A checkpoint is written once the commits since the last one are as large as it is, so that all checkpoints together cost
no more than the commits. Expired commits are deleted at most once an hour, because that lists the log.

Source: Delta transaction log protocol, "Delta Log Entries" (github.com/delta-io/delta, PROTOCOL.md).
`destination.delta.log.delta_actions` has the content of commits.
"""

import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.base import clock
from engine.base.durable import UnknownOutcomeError
from engine.base.errors import DestinationError
from engine.base.parallel import map_parallel
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.delta.log.deletion_vectors import Descriptor
from engine.destination.delta.log.delta_actions import (
    Actions,
    StoredFile,
    as_number,
    lines_of,
)
from engine.destination.delta.log.log_files import (
    CHECKPOINT_POINTER,
    checkpoint_files,
    checkpoint_version,
    commit_name,
    commit_version,
    log_of,
)
from engine.destination.delta.log.lost_commits import SeenVersion, check_follows, lost_commit
from engine.destination.delta.log.missing_files import check_vectors
from engine.destination.delta.log.table_features import check_protocol, unsupported
from engine.destination.delta.log.table_opening import is_table, library_text, open_table
from engine.destination.delta.log.vector_log import VectorLog, has_vectors, superseded_files
from engine.store.folder import FileEntry, Folder
from engine.store.folder_state import sync
from engine.store.lookup import find_all

_CHECKPOINT_EVERY = 20
"""The fewest commits between checkpoints. Who opens the table needs a quarter of a millisecond for each
commit since."""
_MOST_COMMITS = 2000
"""The most commits between checkpoints: who opens the table reads each of them."""
_CLEANED_S, _RETRY_S = 3600.0, 60.0
_MAGIC = b"PAR1"


class StaleVersionError(Exception):
    """Another writer has made this version, so the basis of the commit must be looked up again."""


@dataclass
class DeltaLog:
    """The log of the table in a folder. `version` and `transactions` are from the last load or commit."""

    folder: Folder
    keeps: bool = False
    """Whether the newest version stays in memory, and our own commits are applied to it: for tables of few files."""
    version: int = -1
    transactions: dict[str, int] = field(default_factory=dict)
    _delta: DeltaTable | None = None
    """If kept: a version with the columns, properties and features of the newest one."""
    _files: dict[str, StoredFile] | None = None
    """If kept: the newest version's files."""
    _checkpointed: tuple[int, int, int] | None = None
    """The version and bytes of the newest checkpoint, and the bytes of the commits since."""
    _cleaned_s: float = -math.inf
    _retry_s: float = -math.inf
    """When a checkpoint that failed may be tried again."""
    failure: str = ""
    """What failed after a commit; empty if nothing did since it was last read."""
    _apps: set[str] = field(default_factory=set)
    _vectors: VectorLog | None = None
    _stamp: str | None = None
    """Of the commit of `version`."""
    _digest: bytes = b""
    """Of its content, if we have made it."""

    @property
    def path(self) -> Folder:
        return log_of(self.folder)

    @property
    def stamp(self) -> str | None:
        """Identifies the commit of `version`."""
        return self._stamp

    def forget(self) -> None:
        """Drop the newest version from memory."""
        self._delta = None
        self._files = None

    def begin_again(self) -> None:
        """Forget which version the log had: it may have another table, or lack commits whose loss is known."""
        self.forget()
        self.version = -1
        self.transactions = {}
        self._stamp = None
        self._digest = b""
        self._checkpointed = None

    def load(self, apps: Iterable[str] = ()) -> DeltaTable:
        """The newest version.

        One that is kept and still the newest is not read again, and may have an older version number.

        apps: application identifiers to look up now and at each later load. Raises DestinationError when the log cannot
        be read, or needs features that this version does not write, MissingFilesError when commits are gone.
        """
        if self._delta is not None and self._is_newest(apps):
            return self._delta
        before, self._apps = self._apps, self._apps | set(apps)
        try:
            delta = open_table(self.folder)
        except (StoreAwayError, StoreAccessError):
            raise
        except (DeltaError, OSError) as error:
            raise _unreadable(self.folder, library_text(error)) from error
        check_protocol(delta, self.folder)
        version = delta.version()
        stamp = self._stamp_of(version)
        if (version, stamp, self._apps) != (self.version, self._stamp, before):  # the search takes as long as the load
            versions = {app: delta.transaction_version(app) for app in self._apps}
            transactions = {app: int(version) for app, version in versions.items() if version is not None}
            seen = {app: epoch for app, epoch in self.transactions.items() if app in self._apps}
            check_follows(self.folder, SeenVersion(self.version, self._stamp, seen), version, transactions)
            if self.version < 0:
                self._checkpointed = None
            if (version, stamp) != (self.version, self._stamp):
                self._digest = b""
            self.version = version
            self._stamp = stamp
            self.transactions = transactions
        self._delta = delta if self.keeps else None
        self._files = None
        return delta

    def refresh(self, apps: Iterable[str] = ()) -> None:
        """Bring `version` and `transactions` up to date; loads the table only if there was a commit since."""
        if not self._is_newest(apps):
            self.load(apps)

    def _is_newest(self, apps: Iterable[str]) -> bool:
        """Whether `version` is still the newest, and these identifiers have been looked up."""
        if self.version < 0 or self._stamp is None or not self._apps.issuperset(apps):
            return False
        newest, later = find_all([(self.path, commit_name(version)) for version in (self.version, self.version + 1)])
        return newest is not None and newest.tag == self._stamp and later is None

    def _stamp_of(self, version: int) -> str | None:
        """Identifies a commit's file; None if it does not exist."""
        return None if (entry := self.path.find(commit_name(version))) is None else entry.tag

    def description(self) -> dict[str, Any]:
        """The newest version and what was looked up in it, for `recall`."""
        return {
            "version": self.version,
            "stamp": self._stamp,
            "apps": sorted(self._apps),
            "transactions": self.transactions,
            "checkpointed": self._checkpointed,
        }

    def recall(self, description: Mapping[str, Any]) -> bool:
        """Take what an earlier process remembered, without reading the log, if its version is still the newest."""
        checkpointed = description["checkpointed"]
        self.version = description["version"]
        self._stamp = description["stamp"]
        self._apps = set(description["apps"])
        self.transactions = dict(description["transactions"])
        self._checkpointed = tuple(checkpointed) if checkpointed else None
        if self._is_newest(()):
            return True
        self.version = -1
        return False

    def files(self, delta: DeltaTable) -> list[StoredFile]:
        """The data files of a version that was just loaded. Raises DestinationError for files outside the folder."""
        if delta is self._delta and self._files is not None:
            return list(self._files.values())
        if self._vectors is None:
            self._vectors = VectorLog(self.folder)
        files = files_of(delta, self.folder, self._vectors)
        if delta is self._delta:
            self._files = {file.name: file for file in files}
            self._vectors = None
        return files

    def commit(self, actions: Actions) -> int:
        """Write the next version and return its number. Raises StaleVersionError when another writer was first.

        Raises MissingFilesError when a file to be added is missing or incomplete, or the commit before is gone,
        FileNotFoundError when the log is gone: alone, the commit would be a table that nobody can read.
        """
        version = self.version + 1
        steps: list[Callable[[], str | None]] = [
            partial(_sync_commit, self.folder, self.version, self._stamp, self._digest),
            partial(check_vectors, self.folder, actions.add),
        ]
        self._stamp = map_parallel(lambda step: step(), steps, self.path.at_once)[0]
        content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines_of(actions)).encode()
        self.place(version, content)
        self._digest = sha256(content).digest()
        self.transactions.update(actions.transactions)
        self._keep(actions)
        self._maintain_log(len(content))
        return version

    def _maintain_log(self, commit_bytes: int) -> None:
        """Write a checkpoint if one is due.

        A failure must not look like that of the commit, whose files would be deleted.
        """
        try:
            if self._checkpoint_due(commit_bytes) and clock.monotonic_s() >= self._retry_s:
                self.checkpoint()
        except Exception as error:  # noqa: BLE001 - the commit is done, whatever this is
            self._retry_s = clock.monotonic_s() + _RETRY_S
            self.failure = f"no checkpoint could be written: {type(error).__name__}: {error}"

    def _keep(self, actions: Actions) -> None:
        """Apply a commit to the kept version; forget it if that takes more than files."""
        altered = actions.protocol is not None or (actions.metadata is not None and actions.data_change)
        if self._files is None or altered:
            self.forget()
            return
        for file in actions.remove:
            self._files.pop(file.name, None)
        for file in actions.add:
            self._files[file.name] = file if isinstance(file, StoredFile) else StoredFile(**file.as_dict())

    def _checkpoint_due(self, commit_bytes: int) -> bool:
        """Count a commit. Returns whether the commits since the last checkpoint are many, and as large as it is."""
        if self._checkpointed is None:
            newest, size = _newest_checkpoint(self.path)
            self._checkpointed = newest, size, _commit_bytes(self.path, newest, self.version)
        newest, size, since = self._checkpointed
        self._checkpointed = newest, size, since + commit_bytes
        count = self.version - max(newest, 0)
        return count >= _CHECKPOINT_EVERY and (since + commit_bytes >= size or count >= _MOST_COMMITS)

    def place(self, version: int, content: bytes) -> None:
        """Create a version's file, whole and durable.

        Raises StaleVersionError when another writer was first, UnknownOutcomeError when the version may be there
        nevertheless.
        """
        name = commit_name(version)
        try:
            stamp: str | None = self.path.create(name, content)
            if not stamp:
                raise StaleVersionError
        except UnknownOutcomeError as error:
            if _content(self.path, name) != content:
                raise
            self.failure = f"commit {version} was made, with an error: {error}"  # its files must not be deleted
            stamp = None
        if version <= self.version:
            self._checkpointed = None
        self._stamp = stamp
        self.version = version

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version; once an hour, delete commits beyond the table's retention."""
        delta = open_table(self.folder)
        delta.create_checkpoint()
        sync(self.path, *(entry.name for entry in checkpoint_files(self.path, delta.version())), CHECKPOINT_POINTER)
        sync(self.path)
        self._checkpointed = *_newest_checkpoint(self.path), 0
        if clock.monotonic_s() - self._cleaned_s >= _CLEANED_S:
            self._cleaned_s = clock.monotonic_s()
            delta.cleanup_metadata()

    def remove_superseded(self) -> None:
        """Remove the files that a lost commit should have removed, because it gave them other deletion vectors.

        Raises DestinationError if the table cannot be read: the commit may have described it.
        """
        try:
            self.version = int(open_table(self.folder).version())
        except DeltaError as error:
            raise _unreadable(self.folder, library_text(error)) from error
        self._stamp = self._stamp_of(self.version)
        self.forget()
        superseded = superseded_files(self.folder, self.version)
        if superseded:
            removed = [StoredFile(old.name, -1, old.bytes, vector=old.vector) for old in superseded]
            self.commit(Actions("FSCK", {}, remove=removed))

    def torn_files(self) -> tuple[list[str], list[str]]:
        """The names of files torn by a power cut.

        First those at the end, on which nothing rests, then all others, with commits that are gone.

        A commit is torn if it is empty or its last line is not JSON; a checkpoint, if it does not end like a Parquet
        file.
        """
        log = self.path
        entries = list(log.entries())
        checkpoints = {entry.name: n for entry in entries if (n := checkpoint_version(entry.name)) is not None}
        whole = [checkpoints[entry.name] for entry in entries if entry.name in checkpoints and _is_whole(log, entry)]
        floor = max(whole, default=-1)
        commits = {n for entry in entries if (n := _number(entry.name, commit_version)) > floor}
        gaps = set(range(floor + 1, max(commits, default=-1))) - commits
        gone = {n for n in gaps if log.find(commit_name(n)) is None}  # the listing may lack a new commit
        torn_commits = map_parallel(lambda n: _is_torn(log, commit_name(n)), commits, log.at_once)
        broken = {n for n, is_torn in zip(commits, torn_commits, strict=True) if is_torn} | gone
        newest_whole = max((commits | gaps) - broken, default=-1)
        end = [commit_name(n) for n in sorted(broken) if n > newest_whole]
        torn = [name for name, n in checkpoints.items() if n not in whole and n > floor]
        if (torn and log.find(CHECKPOINT_POINTER) is not None) or _is_torn(log, CHECKPOINT_POINTER):
            torn.append(CHECKPOINT_POINTER)
        return [*end, *torn], [commit_name(n) for n in sorted(broken) if n <= newest_whole]

    def repair(self, *, accepts_loss: bool = False) -> list[str]:
        """Set aside the torn files at the end of the log. Returns their names.

        The ledger has the actions of a torn commit, because it prunes an epoch only after its commits are synced.
        Raises DestinationError for a torn commit that later ones rest on. accepts_loss: give up its actions instead; a
        checkpoint of what readers see without them replaces it.
        """
        end, earlier = self.torn_files()
        if earlier and not accepts_loss:
            raise DestinationError(
                f"The Delta commit {earlier[0]} in {self.path.url} is empty, torn or gone, "
                "and later commits rest on it.",
                detail="Readers lack its actions, so rows are missing or duplicated; nothing was written.",
                hint="Restore that file from a copy, or resnapshot the table: tidemark redump SPEC --table …",
            )
        for name in end:
            if self.path.find(name) is not None:
                self.path.write(f".torn-{name}-{uuid.uuid4().hex[:8]}", self.path.read(name))
        if end:
            self.path.delete(end)
            sync(self.path)
            self.begin_again()
        for name in earlier:
            if self.path.find(name) is None:
                self.path.write(name, b"")  # readers refuse a table without a commit; an empty one has no actions
        if earlier:
            self.remove_superseded()
            self.checkpoint()
            self.begin_again()
        return [*end, *earlier]


def files_of(delta: DeltaTable, folder: Folder, vectors: VectorLog | None = None) -> list[StoredFile]:
    """The data files of a version. Raises DestinationError for files outside the folder.

    vectors: the table's, from an earlier call, so that only newer commits are read.
    """
    descriptors = (vectors or VectorLog(folder)).at(delta.version()) if has_vectors(delta) else {}
    return list(_stored_files(pa.table(delta.get_add_actions(flatten=True)), folder, descriptors))


def _stored_files(added: pa.Table, folder: Folder, vectors: Mapping[str, Descriptor]) -> Iterator[StoredFile]:
    for row in added.to_pylist():
        path = unquote(row["path"])
        if path.startswith("/") or "://" in path:
            raise unsupported(folder, "data files outside of its folder")
        rows = row.get("num_records")
        low = {k[4:]: n for k, v in row.items() if k.startswith("min.") and (n := as_number(v)) is not None}
        high = {k[4:]: n for k, v in row.items() if k.startswith("max.") and (n := as_number(v)) is not None}
        yield StoredFile(path, -1 if rows is None else int(rows), int(row["size_bytes"]), low, high, vectors.get(path))


def _sync_commit(folder: Folder, version: int, stamp: str | None, digest: bytes) -> str | None:
    """Sync a commit, which may be another tool's. version: -1 for none. Returns its stamp.

    A backup of hard links, or new permissions, change the stamp and not the content. Raises StaleVersionError when the
    commit is another one, and another error when it is gone.
    """
    if version < 0:
        return stamp
    log, name = log_of(folder), commit_name(version)
    entry = log.find(name)
    if entry is not None:
        if entry.tag != stamp and sha256(log.read(name)).digest() != digest:
            raise StaleVersionError
        sync(log, name)
        return entry.tag
    if not is_table(folder):
        raise FileNotFoundError(f"The Delta commit {log.url}/{name} is gone")
    if not any(checkpoint_files(log, version)):  # a clean-up may have deleted what a checkpoint has
        raise lost_commit(folder, version)
    return None


def _newest_checkpoint(log: Folder) -> tuple[int, int]:
    """The version and bytes of the newest checkpoint; (-1, 0) without one."""
    try:
        pointer = log.read(CHECKPOINT_POINTER)
        version = int(json.loads(pointer)["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1, 0
    return version, len(pointer) + sum(entry.size for entry in checkpoint_files(log, version))


def _commit_bytes(log: Folder, after: int, before: int) -> int:
    """The size of the commits between two versions."""
    commits = log.entries(after=commit_name(after) if after >= 0 else "")
    return sum(one.size for one in commits if after < _number(one.name, commit_version) < before)


def _content(log: Folder, name: str) -> bytes | None:
    """A file's content; None if it cannot be read."""
    with suppress(OSError):
        return log.read(name)
    return None


def _number(name: str, version_of: Callable[[str], int | None]) -> int:
    """The version in a name; -1 for other names."""
    return -1 if (version := version_of(name)) is None else version


def _is_torn(log: Folder, name: str) -> bool:
    try:
        *_, last = log.read(name).rstrip(b"\n").split(b"\n")
        return not isinstance(json.loads(last), dict)
    except FileNotFoundError:  # cleaned up meanwhile
        return False
    except ValueError:
        return True


def _is_whole(log: Folder, checkpoint: FileEntry) -> bool:
    """Whether a checkpoint is complete."""
    size, width = checkpoint.size, len(_MAGIC)
    with suppress(FileNotFoundError):
        if size > 3 * width:
            ends = log.read(checkpoint.name, 0, width), log.read(checkpoint.name, size - width, width)
            return ends == (_MAGIC, _MAGIC)
    return False


def _unreadable(folder: Folder, why: str) -> DestinationError:
    return DestinationError(
        f"The Delta table in {folder.url} cannot be read: {why}",
        detail="Its content is unknown; nothing was written to it.",
        hint="Restore the folder from a copy, or move it away; then resnapshot the table: "
        "tidemark redump SPEC --table …",
    )
