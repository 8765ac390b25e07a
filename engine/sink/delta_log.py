"""A Delta table's log as Tidemark writes it: commits that appear whole, outlive a power cut, and say who made them.

A commit is one JSON file, `_delta_log/<version>.json`. The library that we read Delta tables with writes commits too, but it syncs
nothing: after a power cut its newest commit may be an empty file, which readers take for a commit without actions. So we write
commits ourselves:

1. look at every data file that is to be added: a cleaner may have removed it since it was written;
2. write the actions under another name, sync them, and link them to the version's name. The link is the commit: it exists whole or
   not at all, and only one writer can create it, whatever tool it uses;
3. sync the folder. Only then does anybody forget what the commit was made from.

The file of version V + 1 is created only by a writer that knows version V. So a commit that rests on what `transactions` said at V
is never made behind another writer's back: the link fails, everything is looked up again, and the commit is retried or given up.

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
# Features that change what a data file or a commit must hold; a table of another tool's making may have others.
_READABLE = {"timestampNtz", "variantType", "variantType-preview"}
_WRITABLE = {*_READABLE, "appendOnly", "invariants"}
_WRITER_VERSIONS = (1, 2, 7)


class StaleVersionError(Exception):
    """Another writer has made the version that was to be made; what the commit rested on must be looked up again."""


@dataclass(frozen=True)
class Actions:
    """What a commit does."""

    operation: str
    """The operation in the table's history, as Delta names it ("WRITE", "MERGE", …)."""
    transactions: Mapping[str, int]
    """Application identifiers and their new versions."""
    add: Sequence[DataFile] = ()
    """Files that readers or merges have written into the table's folder."""
    remove: Sequence[DataFile] = ()
    """Files of the version before."""
    metadata: Mapping[str, Any] | None = None
    """The new `metaData` action, where the columns change."""
    mode: str = "Append"
    """For the table's history too: "Append", or "Overwrite" where all that was there goes."""


@dataclass
class DeltaLog:
    """The log of the table in a folder. `version` and `transactions` are those that were looked up or committed last."""

    folder: Path
    version: int = -1
    transactions: dict[str, int] = field(default_factory=dict)
    _apps: set[str] = field(default_factory=set)

    @property
    def path(self) -> Path:
        return self.folder / "_delta_log"

    @property
    def there(self) -> bool:
        """Whether there is a table."""
        return DeltaTable.is_deltatable(str(self.folder))

    def load(self, apps: Iterable[str] = ()) -> DeltaTable:
        """The newest version. apps: application identifiers to look up, now and whenever the table is loaded.

        Raises DestinationError when the log cannot be read, or needs what this version does not write.
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
        """Make the next version; returns its number. Raises StaleVersionError when somebody else has made it.

        Raises MissingFilesError when a file that is to be added is not there, or not whole.
        """
        check_files(self.folder, actions.add)
        version = self.version + 1
        if version > 0:  # the one that this rests on may be another tool's, which did not sync it
            with suppress(FileNotFoundError):
                sync_file(self.path / _name(version - 1))
        self.place(version, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in _lines(actions)))
        self.transactions.update(actions.transactions)
        if version % _CHECKPOINT_EVERY == 0:
            self.checkpoint()
        return version

    def place(self, version: int, content: str) -> None:
        """Let a version be this file, whole and durable. Raises StaleVersionError when somebody else has made it."""
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
        """Write a checkpoint of the newest version and forget commits that the table's retention has passed."""
        delta = DeltaTable(str(self.folder))
        delta.create_checkpoint()
        self.sync()
        delta.cleanup_metadata()

    def sync(self) -> None:
        """Make durable what the library has written into the log: checkpoints, and commits that change the columns."""
        for path in self.path.iterdir():
            with suppress(FileNotFoundError):
                if path.is_file():
                    sync_file(path)
        sync_folder(self.path)

    def torn(self) -> tuple[list[Path], list[Path]]:
        """Files of the log that a power cut may leave: those at its end, which nothing rests on, and all others.

        A commit is torn when it is empty or its last line is no JSON, a checkpoint when it does not end as Parquet files do.
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
        """Set aside what a power cut tore at the end of the log; returns the names of the files.

        What a torn commit should have done is in the ledger, which forgets an epoch only after its commits are synced.
        Raises DestinationError for a torn commit that later ones rest on. accepting: its actions are given up instead: a checkpoint
        takes its place, which holds what readers see without them.
        """
        end, amid = self.torn()
        if amid and not accepting:
            raise DestinationError(
                f"The Delta commit {amid[0].name} in {self.path} is empty or torn, and later commits rest on it.",
                detail="Readers take it for a commit without actions, so rows are missing or stand twice; nothing was written.",
                hint="Restore that file from a copy, or resnapshot the table: tidemark redump SPEC --table …",
            )
        for path in end:
            path.rename(path.with_name(f".torn-{path.name}-{uuid.uuid4().hex[:8]}"))
        if end:
            sync_folder(self.path)
        if amid:
            self.checkpoint()
        return [path.name for path in (*end, *amid)]


def create(folder: Path, schema: pa.Schema, description: str, properties: Mapping[str, str]) -> None:
    """Create a table without rows in a folder that has none. It exists whole or not at all.

    Raises StaleVersionError when somebody else has created one there.
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
    """The `metaData` action of a table with other columns."""
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
    """The files that a version consists of. Raises DestinationError for files elsewhere, or with deletion vectors."""
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
    """Raises MissingFilesError when a file is not there, or has another size than it was written with."""
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
            detail="They were written and not yet part of the table; a VACUUM or a cleaner may have removed them. What the table "
            "holds is right; it does not get a file that is not there.",
            hint="Keep cleaners away from files that are younger than a day. The table is resnapshotted.",
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
    """The version of a checkpoint file that is whole."""
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
    strange = (readers - {*_READABLE, "deletionVectors"}) | (writers - {*_WRITABLE, "deletionVectors"})
    if strange or protocol.min_writer_version not in _WRITER_VERSIONS:
        raise _unsupported(folder, ", ".join(sorted(strange)) or f"writer version {protocol.min_writer_version}")


def _unsupported(folder: Path, what: str) -> DestinationError:
    return DestinationError(
        f"The Delta table in {folder} has {what}, which Tidemark does not write.",
        detail="Another tool has added it. What the table holds stays; nothing more is written to it.",
        hint="Move the folder away, then resnapshot the table: tidemark redump SPEC --table …",
    )


def _unreadable(folder: Path, why: str) -> DestinationError:
    return DestinationError(
        f"The Delta table in {folder} cannot be read: {why}",
        detail="What it holds is not known; nothing was written to it.",
        hint="Restore the folder from a copy, or move it away; then resnapshot the table: tidemark redump SPEC --table …",
    )
