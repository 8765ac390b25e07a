"""Writes a Delta table's log: commits that appear whole, survive a power cut, and name their writer.

A commit is one JSON file, `_delta_log/<version>.json`. The deltalake library, which we use for reading, writes commits
too, but does not sync them: after a power cut, its newest commit may be an empty file, which readers take for a commit
without actions. So we write commits ourselves:

1. check every data file to be added: a cleaner may have removed it since it was written;
2. write the actions under another name, sync them, and link them to the version's name. The link is the commit: it
   exists whole or not at all, and only one writer can create it, whatever tool it uses;
3. sync the folder. Only then may the ledger forget the epochs in the commit.

Only a writer that knows version V creates version V + 1. So a commit based on `transactions` at V never ignores another
writer's commit: the link fails, everything is looked up again, and the commit is retried or abandoned.

A checkpoint is written once the commits since the last one are as large as it is, so that all checkpoints together cost
no more than the commits. Expired commits are deleted at most once an hour, because that lists the log.

Source: Delta transaction log protocol, "Delta Log Entries" (github.com/delta-io/delta, PROTOCOL.md).
`destination.delta.log.delta_actions` has the content of commits.
"""

import json
import math
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.base import clock
from engine.base.durable import link, sync_file, sync_folder
from engine.base.errors import DestinationError
from engine.capture.files import DataFile, check_files, missing_files
from engine.destination.delta.log.deletion_vectors import Descriptor
from engine.destination.delta.log.delta_actions import (
    LEGACY_WRITER,
    VECTORS_ENABLED,
    Actions,
    StoredFile,
    as_number,
    lines_of,
    protocol_of,
    vector_of,
)
from engine.destination.delta.log.log_files import (
    checkpoint_files,
    checkpoint_pointer,
    checkpoint_version,
    commit_file,
    commit_version,
    log_of,
)
from engine.destination.delta.log.vector_log import FEATURE, VectorLog, has_vectors, superseded_files
from engine.store.local_folder import LocalFolder

_CHECKPOINT_EVERY = 20
"""The fewest commits between checkpoints. Who opens the table needs a quarter of a millisecond for each
commit since."""
_MOST_COMMITS = 2000
"""The most commits between checkpoints: who opens the table reads each of them."""
_CLEANED_S, _RETRY_S = 3600.0, 60.0
_MAGIC = b"PAR1"
# Known features that change the content of data files or commits; a table by another tool may have others.
_READABLE = {"timestampNtz", "variantType", "variantType-preview", FEATURE}
_WRITABLE = {*_READABLE, "appendOnly", "invariants"}
_WRITER_VERSIONS = (1, LEGACY_WRITER, 7)


class StaleVersionError(Exception):
    """Another writer has made this version, so the basis of the commit must be looked up again."""


@dataclass
class DeltaLog:
    """The log of the table in a folder. `version` and `transactions` are from the last load or commit."""

    folder: Path
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
    _stamp: tuple[int, int, int] | None = None
    """Of the commit of `version`."""

    @property
    def path(self) -> Path:
        return log_of(self.folder)

    @property
    def stamp(self) -> tuple[int, int, int] | None:
        """Identifies the commit of `version`."""
        return self._stamp

    @property
    def exists(self) -> bool:
        """Whether a table exists."""
        return DeltaTable.is_deltatable(str(self.folder))

    def forget(self) -> None:
        """Drop the newest version from memory."""
        self._delta = self._files = None

    def load(self, apps: Iterable[str] = ()) -> DeltaTable:
        """The newest version.

        One that is kept and still the newest is not read again, and may have an older version number.

        apps: application identifiers to look up now and at each later load. Raises DestinationError when the log cannot
        be read, or needs features that this version does not write.
        """
        if self._delta is not None and self._is_newest(apps):
            return self._delta
        known, self._apps = self._apps, self._apps | set(apps)
        try:
            delta = DeltaTable(str(self.folder))
        except (DeltaError, OSError) as error:
            raise _unreadable(self.folder, str(error)) from error
        _check_protocol(delta, self.folder)
        version = delta.version()
        stamp = self._stamp_of(version)
        if (version, stamp, self._apps) != (self.version, self._stamp, known):  # the search takes as long as the load
            if version < self.version or self.version < 0:
                self._checkpointed = None
            self.version = version
            self._stamp = stamp
            found = {app: delta.transaction_version(app) for app in self._apps}
            self.transactions = {app: int(version) for app, version in found.items() if version is not None}
        self._delta = delta if self.keeps else None
        self._files = None
        return delta

    def refresh(self, apps: Iterable[str] = ()) -> None:
        """Bring `version` and `transactions` up to date; loads the table only if there was a commit since."""
        if not self._is_newest(apps):
            self.load(apps)

    def _is_newest(self, apps: Iterable[str]) -> bool:
        """Whether `version` is still the newest, and these identifiers have been looked up."""
        same = self.version >= 0 and self._stamp is not None and self._stamp == self._stamp_of(self.version)
        return same and self._apps.issuperset(apps) and not (commit_file(self.path, self.version + 1)).exists()

    def _stamp_of(self, version: int) -> tuple[int, int, int] | None:
        """Identifies a commit's file; None if it does not exist."""
        with suppress(FileNotFoundError):
            found = commit_file(self.path, version).stat()
            return found.st_ino, found.st_mtime_ns, found.st_size
        return None

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
        stamp, checkpointed = description["stamp"], description["checkpointed"]
        self.version = description["version"]
        self._stamp = tuple(stamp) if stamp else None
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
        found = files_of(delta, self.folder, self._vectors)
        if delta is self._delta:
            self._files = {file.name: file for file in found}
            self._vectors = None
        return found

    def commit(self, actions: Actions) -> int:
        """Write the next version and return its number. Raises StaleVersionError when another writer was first.

        Raises MissingFilesError when a file to be added is missing or incomplete.
        """
        check_vectors(self.folder, actions.add)
        version = self.version + 1
        if version > 0:  # the previous commit may be another tool's, unsynced
            with suppress(FileNotFoundError):
                sync_file(commit_file(self.path, version - 1))
        content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines_of(actions))
        self.place(version, content)
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
            self._delta = self._files = None
            return
        for file in actions.remove:
            self._files.pop(file.name, None)
        for file in actions.add:
            self._files[file.name] = file if isinstance(file, StoredFile) else StoredFile(**file.as_dict())

    def _checkpoint_due(self, commit_bytes: int) -> bool:
        """Count a commit. Returns whether the commits since the last checkpoint are many, and as large as it is."""
        if self._checkpointed is None:
            newest, size = _newest_checkpoint(self.path)
            commits = (commit_file(self.path, version) for version in range(newest + 1, self.version))
            self._checkpointed = newest, size, sum(_size(commit) for commit in commits)
        newest, size, since = self._checkpointed
        self._checkpointed = newest, size, since + commit_bytes
        count = self.version - max(newest, 0)
        return count >= _CHECKPOINT_EVERY and (since + commit_bytes >= size or count >= _MOST_COMMITS)

    def place(self, version: int, content: str) -> None:
        """Create a version's file, whole and durable.

        Raises StaleVersionError when another writer was first, UnknownOutcomeError when the version may be there
        nevertheless.
        """
        temporary = self.path / f".tidemark-{uuid.uuid4().hex}.json"
        with temporary.open("x", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            if not link(temporary, commit_file(self.path, version)):
                raise StaleVersionError
        finally:
            with suppress(OSError):
                temporary.unlink()
        if version <= self.version:
            self._checkpointed = None
        self._stamp = self._stamp_of(version)
        self.version = version
        try:
            sync_folder(self.path)
        except OSError as error:  # readers see the commit: its files must not be deleted
            self.failure = f"the folder of commit {version} could not be synced: {error}"

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version; once an hour, delete commits beyond the table's retention."""
        delta = DeltaTable(str(self.folder))
        delta.create_checkpoint()
        for path in _checkpoint_files(self.path, delta.version()):
            sync_file(path)
        sync_folder(self.path)
        self._checkpointed = *_newest_checkpoint(self.path), 0
        if clock.monotonic_s() - self._cleaned_s >= _CLEANED_S:
            self._cleaned_s = clock.monotonic_s()
            delta.cleanup_metadata()

    def _remove_superseded(self) -> None:
        """Remove the files that a lost commit should have removed, because it gave them other deletion vectors."""
        self.version = int(DeltaTable(str(self.folder)).version())
        self._delta = self._files = None
        found = superseded_files(self.folder, self.version)
        if found:
            removed = [StoredFile(old.name, -1, old.bytes, vector=old.vector) for old in found]
            self.commit(Actions("FSCK", {}, remove=removed))

    def torn_files(self) -> tuple[list[Path], list[Path]]:
        """Files torn by a power cut.

        First those at the end, on which nothing rests, then all others, with commits that are gone.

        A commit is torn if it is empty or its last line is not JSON; a checkpoint, if it does not end like a Parquet
        file.
        """
        log = self.path
        names = sorted(entry.name for entry in os.scandir(log)) if log.is_dir() else []
        whole = [n for name in names if (n := _whole_checkpoint(log, name)) is not None]
        floor = max(whole, default=-1)
        commits = {n: log / name for name in names if (n := commit_version(name)) is not None and n > floor}
        gaps = (commit_file(log, n) for n in range(floor + 1, max(commits, default=-1)) if n not in commits)
        gone = {int(path.stem): path for path in gaps if not path.exists()}  # the listing may lack a new commit
        broken = {n for n, path in commits.items() if _is_torn(path)} | gone.keys()
        commits |= gone
        newest_whole = max((n for n in commits if n not in broken), default=-1)
        end = [commits[n] for n in sorted(broken) if n > newest_whole]
        checkpoints = [
            log / name for name in names if (n := checkpoint_version(name)) is not None and n not in whole and n > floor
        ]
        pointer = checkpoint_pointer(log)
        if pointer.exists() and (checkpoints or _is_torn(pointer)):
            checkpoints.append(pointer)
        return [*end, *checkpoints], [commits[n] for n in sorted(broken) if commits[n] not in end]

    def repair(self, *, accepts_loss: bool = False) -> list[str]:
        """Set aside the torn files at the end of the log. Returns their names.

        The ledger has the actions of a torn commit, because it prunes an epoch only after its commits are synced.
        Raises DestinationError for a torn commit that later ones rest on. accepts_loss: give up its actions instead; a
        checkpoint of what readers see without them replaces it.
        """
        end, earlier = self.torn_files()
        if earlier and not accepts_loss:
            raise DestinationError(
                f"The Delta commit {earlier[0].name} in {self.path} is empty, torn or gone, "
                "and later commits rest on it.",
                detail="Readers lack its actions, so rows are missing or duplicated; nothing was written.",
                hint="Restore that file from a copy, or resnapshot the table: tidemark redump SPEC --table …",
            )
        for path in end:
            path.rename(path.with_name(f".torn-{path.name}-{uuid.uuid4().hex[:8]}"))
        if end:
            sync_folder(self.path)
            self.version = -1
        for path in earlier:
            path.touch()  # readers refuse a table that lacks a commit, and take an empty one for one without actions
        if earlier:
            try:
                self._remove_superseded()
            except DeltaError as error:  # one of them described the table
                raise _unreadable(self.folder, str(error)) from error
            self.checkpoint()
        return [path.name for path in (*end, *earlier)]


def create(
    folder: Path, schema: pa.Schema, description: str, properties: Mapping[str, str], *, vectors: bool = False
) -> None:
    """Create an empty table in a folder without one.

    It exists whole or not at all. vectors: it may get deletion vectors.

    Raises StaleVersionError when another writer created one there.
    """
    nullable = pa.schema([column.with_nullable(True) for column in schema])
    log = DeltaLog(folder)
    log.path.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="tidemark-table-") as elsewhere:
        DeltaTable.create(elsewhere, nullable, mode="error", description=description, configuration=dict(properties))
        content = (commit_file(log_of(Path(elsewhere)), 0)).read_text(encoding="utf-8")
        if (
            vectors
        ):  # by hand: for the property, deltalake would add the feature variantType, which not every reader has
            actions = [json.loads(line) for line in content.splitlines()]
            for action in actions:
                if "metaData" in action:
                    action["metaData"]["configuration"][VECTORS_ENABLED] = "true"
                if "protocol" in action:
                    action["protocol"] = protocol_of(DeltaTable(elsewhere), [FEATURE])
            content = "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions)
        log.place(0, content)
    for path in (folder, folder.parent, folder.parent.parent):
        sync_folder(path)


def files_of(delta: DeltaTable, folder: Path, vectors: VectorLog | None = None) -> list[StoredFile]:
    """The data files of a version. Raises DestinationError for files outside the folder.

    vectors: the table's, from an earlier call, so that only newer commits are read.
    """
    found = (vectors or VectorLog(folder)).at(delta.version()) if has_vectors(delta) else {}
    return list(_stored_files(pa.table(delta.get_add_actions(flatten=True)), folder, found))


def _stored_files(added: pa.Table, folder: Path, vectors: Mapping[str, Descriptor]) -> Iterator[StoredFile]:
    for row in added.to_pylist():
        path = unquote(row["path"])
        if path.startswith("/") or "://" in path:
            raise _unsupported(folder, "data files outside of its folder")
        rows = row.get("num_records")
        low = {k[4:]: n for k, v in row.items() if k.startswith("min.") and (n := as_number(v)) is not None}
        high = {k[4:]: n for k, v in row.items() if k.startswith("max.") and (n := as_number(v)) is not None}
        yield StoredFile(path, -1 if rows is None else int(rows), int(row["size_bytes"]), low, high, vectors.get(path))


def check_vectors(folder: Path, files: Iterable[DataFile]) -> None:
    """Raises MissingFilesError when a file or its deletion vector is missing or damaged."""
    files = list(files)
    check_files(LocalFolder(folder), files)
    named = dict.fromkeys(vector.file for file in files if (vector := vector_of(file)) is not None and vector.file)
    if missing := [
        name for name in named if not (folder / name).exists()
    ]:  # a merge writes all of its vectors to one file
        raise missing_files(LocalFolder(folder), missing)


def _checkpoint_files(log: Path, version: int) -> list[Path]:
    """The files of a version's checkpoint, and the pointer to it."""
    return [*checkpoint_files(log, version), checkpoint_pointer(log)]


def _newest_checkpoint(log: Path) -> tuple[int, int]:
    """The version and bytes of the newest checkpoint; (-1, 0) without one."""
    try:
        version = int(json.loads(checkpoint_pointer(log).read_bytes())["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1, 0
    return version, sum(_size(path) for path in _checkpoint_files(log, version))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_torn(path: Path) -> bool:
    try:
        *_, last = path.read_bytes().rstrip(b"\n").split(b"\n")
        return not isinstance(json.loads(last), dict)
    except FileNotFoundError:  # cleaned up meanwhile
        return False
    except ValueError:
        return True


def _whole_checkpoint(folder: Path, name: str) -> int | None:
    """The version of a complete checkpoint file; None for others."""
    version = checkpoint_version(name)
    if version is None:
        return None
    with suppress(OSError), (folder / name).open("rb") as file:
        head = file.read(4)
        file.seek(-4, os.SEEK_END)
        if head == _MAGIC and file.read(4) == _MAGIC and file.tell() > 3 * len(_MAGIC):
            return version
    return None


def _check_protocol(delta: DeltaTable, folder: Path) -> None:
    protocol = delta.protocol()
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    unknown = (readers - _READABLE) | (writers - _WRITABLE)
    if unknown or protocol.min_writer_version not in _WRITER_VERSIONS:
        raise _unsupported(folder, ", ".join(sorted(unknown)) or f"writer version {protocol.min_writer_version}")


def _unsupported(folder: Path, what: str) -> DestinationError:
    return DestinationError(
        f"The Delta table in {folder} has {what}, which Tidemark does not write.",
        detail="Another tool has added it. The table stays as it is; Tidemark no longer writes to it.",
        hint="Move the folder away, then resnapshot the table: tidemark redump SPEC --table …",
    )


def _unreadable(folder: Path, why: str) -> DestinationError:
    return DestinationError(
        f"The Delta table in {folder} cannot be read: {why}",
        detail="Its content is unknown; nothing was written to it.",
        hint="Restore the folder from a copy, or move it away; then resnapshot the table: "
        "tidemark redump SPEC --table …",
    )
