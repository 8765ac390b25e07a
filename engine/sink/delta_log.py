"""Writes a Delta table's log: commits that appear whole, survive a power cut, and name their writer.

A commit is one JSON file, `_delta_log/<version>.json`. The deltalake library, which we use for reading, writes commits too, but
does not sync them: after a power cut, its newest commit may be an empty file, which readers take for a commit without actions. So
we write commits ourselves:

1. check every data file to be added: a cleaner may have removed it since it was written;
2. write the actions under another name, sync them, and link them to the version's name. The link is the commit: it exists whole or
   not at all, and only one writer can create it, whatever tool it uses;
3. sync the folder. Only then may the ledger forget the epochs in the commit.

Only a writer that knows version V creates version V + 1. So a commit based on `transactions` at V never ignores another writer's
commit: the link fails, everything is looked up again, and the commit is retried or abandoned.

Source: Delta transaction log protocol, "Delta Log Entries" and "Actions" (github.com/delta-io/delta, PROTOCOL.md).
"""

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from engine import __version__, clock
from engine.capture.files import DataFile
from engine.durable import sync_file, sync_folder
from engine.errors import DestinationError, MissingFilesError

_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint.*\.parquet$")
_CHECKPOINT_EVERY = 100
_MAGIC = b"PAR1"
# Known features that change the content of data files or commits; a table by another tool may have others.
_READABLE = {"timestampNtz", "variantType", "variantType-preview"}
_WRITABLE = {*_READABLE, "appendOnly", "invariants"}
_WRITER_VERSIONS = (1, 2, 7)


class StaleVersionError(Exception):
    """Another writer has made this version, so the basis of the commit must be looked up again."""


@dataclass(frozen=True)
class Actions:
    """The content of a commit."""

    operation: str
    """The operation in the table's history, in Delta's terms ("WRITE", "MERGE", …)."""
    transactions: Mapping[str, int]
    """Application identifiers and their new versions."""
    add: Sequence[DataFile] = ()
    """Files that are already in the table's folder."""
    remove: Sequence[DataFile] = ()
    """Files of the previous version."""
    metadata: Mapping[str, Any] | None = None
    """The new `metaData` action if the columns change."""
    mode: str = "Append"
    """Also for the table's history: "Append", or "Overwrite" if the commit removes all earlier rows."""


@dataclass
class DeltaLog:
    """The log of the table in a folder. `version` and `transactions` are from the last load or commit."""

    folder: Path
    version: int = -1
    transactions: dict[str, int] = field(default_factory=dict)
    _apps: set[str] = field(default_factory=set)

    @property
    def path(self) -> Path:
        return self.folder / "_delta_log"

    @property
    def there(self) -> bool:
        """Whether a table exists."""
        return DeltaTable.is_deltatable(str(self.folder))

    def load(self, apps: Iterable[str] = ()) -> DeltaTable:
        """The newest version. apps: application identifiers to look up now and at each later load.

        Raises DestinationError when the log cannot be read, or needs features that this version does not write.
        """
        self._apps.update(apps)
        try:
            delta = DeltaTable(str(self.folder))
        except (DeltaError, OSError) as error:
            raise _unreadable(self.folder, str(error)) from error
        _check_protocol(delta, self.folder)
        self.version = delta.version()
        found = {app: delta.transaction_version(app) for app in self._apps}
        self.transactions = {app: int(version) for app, version in found.items() if version is not None}
        return delta

    def commit(self, actions: Actions) -> int:
        """Write the next version and return its number. Raises StaleVersionError when another writer was first.

        Raises MissingFilesError when a file to be added is missing or incomplete.
        """
        check_files(self.folder, actions.add)
        version = self.version + 1
        if version > 0:  # the previous commit may be another tool's, unsynced
            with suppress(FileNotFoundError):
                sync_file(self.path / _name(version - 1))
        self.place(version, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in _lines(actions)))
        self.transactions.update(actions.transactions)
        if version % _CHECKPOINT_EVERY == 0:
            self.checkpoint()
        return version

    def place(self, version: int, content: str) -> None:
        """Create a version's file, whole and durable. Raises StaleVersionError when another writer was first."""
        temporary = self.path / f".tidemark-{uuid.uuid4().hex}.json"
        with temporary.open("x", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, self.path / _name(version))
        except FileExistsError:
            raise StaleVersionError from None
        finally:
            temporary.unlink()
        sync_folder(self.path)
        self.version = version

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version and delete commits beyond the table's retention."""
        delta = DeltaTable(str(self.folder))
        delta.create_checkpoint()
        self.sync()
        delta.cleanup_metadata()

    def sync(self) -> None:
        """Sync files that the library wrote into the log: checkpoints, and commits that change the columns."""
        for path in self.path.iterdir():
            with suppress(FileNotFoundError):
                if path.is_file():
                    sync_file(path)
        sync_folder(self.path)

    def torn(self) -> tuple[list[Path], list[Path]]:
        """Files torn by a power cut: first those at the end, on which nothing rests, then all others.

        A commit is torn if it is empty or its last line is not JSON; a checkpoint, if it does not end like a Parquet file.
        """
        names = sorted(path.name for path in self.path.iterdir()) if self.path.is_dir() else []
        whole = [n for name in names if (n := _checkpointed(self.path, name)) is not None]
        floor = max(whole, default=-1)
        commits = {int(match[1]): self.path / name for name in names if (match := _COMMIT.match(name))}
        broken = {n for n, path in commits.items() if n > floor and _is_torn(path)}
        end = [commits[n] for n in sorted(broken) if n > max((c for c in commits if c not in broken), default=-1)]
        checkpoints = [
            self.path / name
            for name in names
            if (match := _CHECKPOINT.match(name)) and int(match[1]) not in whole and int(match[1]) > floor
        ]
        pointer = self.path / "_last_checkpoint"
        if pointer.exists() and (checkpoints or _is_torn(pointer)):
            checkpoints.append(pointer)
        return [*end, *checkpoints], [commits[n] for n in sorted(broken) if commits[n] not in end]

    def repair(self, *, accepting: bool = False) -> list[str]:
        """Set aside the torn files at the end of the log. Returns their names.

        The ledger has the actions of a torn commit, because it prunes an epoch only after its commits are synced. Raises
        DestinationError for a torn commit that later ones rest on. accepting: give up its actions instead; a checkpoint of what
        readers see without them replaces it.
        """
        end, earlier = self.torn()
        if earlier and not accepting:
            raise DestinationError(
                f"The Delta commit {earlier[0].name} in {self.path} is empty or torn, and later commits rest on it.",
                detail="Readers take it for a commit without actions, so rows are missing or duplicated; nothing was written.",
                hint="Restore that file from a copy, or resnapshot the table: tidemark redump SPEC --table …",
            )
        for path in end:
            path.rename(path.with_name(f".torn-{path.name}-{uuid.uuid4().hex[:8]}"))
        if end:
            sync_folder(self.path)
        if earlier:
            self.checkpoint()
        return [path.name for path in (*end, *earlier)]


def create(folder: Path, schema: pa.Schema, description: str, properties: Mapping[str, str]) -> None:
    """Create an empty table in a folder without one. It exists whole or not at all.

    Raises StaleVersionError when another writer created one there.
    """
    nullable = pa.schema([column.with_nullable(True) for column in schema])
    log = DeltaLog(folder)
    log.path.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="tidemark-table-") as elsewhere:
        DeltaTable.create(elsewhere, nullable, mode="error", description=description, configuration=dict(properties))
        log.place(0, (Path(elsewhere) / "_delta_log" / _name(0)).read_text(encoding="utf-8"))
    for path in (folder, folder.parent, folder.parent.parent):
        sync_folder(path)


def metadata_of(delta: DeltaTable, schema: pa.Schema) -> dict[str, Any]:
    """The `metaData` action of a table for new columns."""
    known = delta.metadata()
    return {
        "id": known.id,
        "name": known.name,
        "description": known.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(pa.schema([f.with_nullable(True) for f in schema])).to_json(),
        "partitionColumns": [],
        "createdTime": known.created_time,
        "configuration": known.configuration,
    }


def files_of(delta: DeltaTable, folder: Path) -> list[DataFile]:
    """The data files of a version. Raises DestinationError for files outside the folder, or with deletion vectors."""
    added = pa.table(delta.get_add_actions(flatten=True))
    if "deletionVectors" in (delta.protocol().reader_features or ()) and pa.table(delta.deletion_vectors()).num_rows:
        raise _unsupported(folder, "deletion vectors")
    return list(_data_files(added, folder))


def _data_files(added: pa.Table, folder: Path) -> Iterator[DataFile]:
    for row in added.to_pylist():
        path = unquote(row["path"])
        if path.startswith("/") or "://" in path:
            raise _unsupported(folder, "data files outside of its folder")
        rows = row.get("num_records")
        low = {k[4:]: v for k, v in row.items() if k.startswith("min.") and type(v) is int}
        high = {k[4:]: v for k, v in row.items() if k.startswith("max.") and type(v) is int}
        yield DataFile(path, -1 if rows is None else int(rows), int(row["size_bytes"]), low, high)


def check_files(folder: Path, files: Sequence[DataFile]) -> None:
    """Raises MissingFilesError when a file is missing or does not have its recorded size."""
    missing = []
    for file in files:
        try:
            size = (folder / file.name).stat().st_size
        except FileNotFoundError:
            missing.append(file.name)
        else:
            if size != file.bytes:
                missing.append(f"{file.name} ({size} of {file.bytes} bytes)")
    if missing:
        raise MissingFilesError(
            f"{len(missing)} data files in {folder} are gone or damaged: {', '.join(missing[:3])}.",
            detail="They were written but not yet part of the table; a VACUUM or a cleaner may have removed them. The table's rows "
            "are right; missing files are never added to it.",
            hint="Do not let cleaners delete files younger than a day. Tidemark resnapshots the table.",
        )


def _lines(actions: Actions) -> Iterator[dict[str, Any]]:
    now_ms = round(clock.unix_s() * 1000)
    info = {"timestamp": now_ms, "operation": actions.operation, "operationParameters": {"mode": actions.mode}}
    yield {"commitInfo": {**info, "engineInfo": f"Tidemark/{__version__}"}}
    for app, version in actions.transactions.items():
        yield {"txn": {"appId": app, "version": version, "lastUpdated": now_ms}}
    if actions.metadata is not None:
        yield {"metaData": dict(actions.metadata)}
    for file in actions.remove:
        size = {"extendedFileMetadata": True, "partitionValues": {}, "size": file.bytes}
        yield {"remove": {"path": quote(file.name), "deletionTimestamp": now_ms, "dataChange": True, **size}}
    for file in actions.add:
        statistics: dict[str, Any] = {"numRecords": file.rows, "minValues": file.low, "maxValues": file.high}
        statistics["nullCount"] = dict.fromkeys(file.low, 0)
        size = {"partitionValues": {}, "size": file.bytes, "modificationTime": now_ms}
        yield {"add": {"path": quote(file.name), **size, "dataChange": True, "stats": json.dumps(statistics)}}


def _name(version: int) -> str:
    return f"{version:020d}.json"


def _is_torn(path: Path) -> bool:
    try:
        *_, last = path.read_bytes().rstrip(b"\n").split(b"\n")
        return not isinstance(json.loads(last), dict)
    except FileNotFoundError:  # cleaned up meanwhile
        return False
    except ValueError:
        return True


def _checkpointed(folder: Path, name: str) -> int | None:
    """The version of a complete checkpoint file; None for others."""
    match = _CHECKPOINT.match(name)
    if match is None:
        return None
    with suppress(OSError), (folder / name).open("rb") as file:
        head = file.read(4)
        file.seek(-4, os.SEEK_END)
        if head == _MAGIC and file.read(4) == _MAGIC and file.tell() > 3 * len(_MAGIC):
            return int(match[1])
    return None


def _check_protocol(delta: DeltaTable, folder: Path) -> None:
    protocol = delta.protocol()
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    unknown = (readers - {*_READABLE, "deletionVectors"}) | (writers - {*_WRITABLE, "deletionVectors"})
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
        hint="Restore the folder from a copy, or move it away; then resnapshot the table: tidemark redump SPEC --table …",
    )
