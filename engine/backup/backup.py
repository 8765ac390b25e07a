"""Backups of a pipeline: its ledger, and the versions of its Delta tables at that time.

A ledger and a destination are restored together or not at all (`destination.agreement`). A backup contains the ledger's
files and each Delta table's identifier, version and transactions. It contains no rows: the destination keeps those
until someone vacuums them. `restore` puts the ledger back and rolls every table back to its version. The pipeline then
continues from the backup's position, if the source still has it.

Order. A backup may be made while the pipeline runs: it reads the tables' versions first, then the ledger. So the ledger
is never older than the tables, and has every epoch that they lack; that is checked before the file is written. A
restore holds the pipeline as a runner does: by its lock, its lease if the state is in a bucket, and a new term, so that
no other runner writes meanwhile. It unpacks the ledger beside the present one (`new_ledger`), rolls the tables back,
and then switches ledgers. Killed before that, it leaves tables that have the term of a restore which the ledger does
not know: a run refuses them (`destination.agreement`), and the restore can be run again.
"""

import json
import os
import shutil
import socket
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine import __version__
from engine.backup.new_ledger import new_ledger
from engine.base import clock
from engine.base.durable import make_folders, rename, sync_folder, write_atomically
from engine.base.errors import LedgerError, SpecError, TransientError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import table_from_dict
from engine.destination.capabilities import KeepsVersions, TableVersions, Versioned, Versions
from engine.destination.destination_protocol import Destination
from engine.destination.fence import Term
from engine.destination.registry import destination_of
from engine.destination.sink_opening import sinks_after_restore
from engine.ledger.state import State, following
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.operator_copy import committed_ledger
from engine.spec.settings import Spec
from engine.store.folder import Folder

FORMAT = 1
_TRIES = 5
_READS_AT_ONCE = 16
_MANIFEST = "backup.json"


@dataclass(frozen=True)
class Backup:
    """A written or restored backup."""

    file: Path
    epoch: int
    position: str
    """`epoch` and `position` are those of the ledger in the backup."""
    tables: int
    """The number of tables in it."""
    later_tables: tuple[str, ...] = ()
    """Of a restored one: the tables that joined after it was made. They are in the way of their new copies."""

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "file": str(self.file), "later_tables": list(self.later_tables)}


def write_backup(spec: Spec, directory: Directory, out: Path) -> Backup:
    """Write a backup, even while the pipeline runs.

    Raises SpecError without a ledger, for a destination that keeps no versions, or if the file cannot be written;
    TransientError if a bucket cannot be reached.
    """
    spec.sink.require_mirrors("A backup")
    before = _state(directory)
    for _ in range(_TRIES):
        with _reaching_stores():
            versions = _versions(destination_of(spec.sink), before, whole=True)
            tables = {name: one.newest() for name, one in versions.items()}
            identities = {name: one.identities() for name, one in versions.items()}
            files = _ledger_files(committed_ledger(directory))
        state = _state_in(files)
        if state is None:
            continue
        if (state.ledger, _begun(state)) == (before.ledger, _begun(before)) and _is_complete(files, tables, state):
            _keep(spec, state, tables)
            return _written(spec, directory, out, state, {"tables": tables, "identities": identities}, files)
        before = state
    raise LedgerError(
        "The ledger changed faster than it could be copied.",
        detail="No backup was written.",
        hint="Try again, or pause the pipeline meanwhile.",
    )


def restore(spec: Spec, directory: Directory, file: Path) -> Backup:
    """Roll the destination back to a backup, and put its ledger in the place of the pipeline's, which is set aside.

    Raises SpecError for a file that is no backup of this pipeline, PipelineHeldError while a runner lives,
    DestinationError when a table cannot be rolled back, TransientError if a bucket cannot be reached. After a partial
    failure, run the restore again.
    """
    with new_ledger(directory, spec.name) as new, _opened(file) as archive, _reaching_stores():
        manifest = _manifest(archive, file, spec)
        destination = destination_of(spec.sink)
        newest = destination.terms.newest(manifest["ledger"])
        number = max(newest.number if newest else 0, int(manifest["term"])) + 1
        _unpack_ledger(archive, new.folder)
        replaced = _replaced_state(directory)
        state = _rolled_back(spec, new.folder, destination, manifest, number)
        later_tables = _later_tables(destination, replaced, state)
        _unpack_others(archive, new.directory)
        # Verifications are about versions that are not the newest any more.
        shutil.rmtree(new.directory.verifications, ignore_errors=True)
        # Files that had left the tables are back, so their retention begins later.
        shutil.rmtree(new.directory.maintenance, ignore_errors=True)
        new.switch()
    return Backup(file, state.epoch, _position(state), len(manifest["tables"]), later_tables)


def _replaced_state(directory: Directory) -> State | None:
    """The state of the ledger that is set aside; None if there is none, or it is damaged."""
    with suppress(LedgerError, OSError):
        return Ledger(committed_ledger(directory)).state
    return None


def _later_tables(destination: Destination, replaced: State | None, restored: State) -> tuple[str, ...]:
    """The tables whose files are still there, but which joined after the restored state."""
    if replaced is None or replaced.ledger != restored.ledger:
        return ()
    later = {name: table for name, table in replaced.tables.items() if name not in restored.tables}
    return tuple(_versions(destination, replace(replaced, tables=later), whole=True))


def _keep(spec: Spec, state: State, tables: Mapping[str, Versions]) -> None:
    """Have the destination keep what the backup names."""
    destination = destination_of(spec.sink)
    if not isinstance(destination, KeepsVersions):
        return
    try:
        with _reaching_stores():
            destination.keep_versions(state.ledger, tables)
    except OSError as error:
        raise SpecError(
            f"The backup cannot be noted in {spec.sink.path}: {error}.",
            detail="No backup was written. Without the note, files that it needs may be deleted.",
            hint="Let this user write there, then make the backup again.",
        ) from error


@contextmanager
def _reaching_stores() -> Iterator[None]:
    """Raise TransientError for a store that is away or refuses."""
    try:
        yield
    except (StoreAwayError, StoreAccessError) as error:
        raise TransientError(
            str(error),
            detail="What was asked may have been done in part.",
            hint="Make sure that this host reaches the store and that its credentials are valid, then do it again.",
        ) from error


def _rolled_back(
    spec: Spec, folder: Folder, destination: Destination, manifest: Mapping[str, Any], number: int
) -> State:
    ledger, run = Ledger(folder), f"restore-{clock.utc_now():%Y%m%dT%H%M%S}"
    ledger.take_term(run, number)  # of the restored copy, which no runner knows yet
    state = ledger.state
    assert state is not None
    manifest_tables, identities = (
        manifest["tables"],
        manifest.get("identities", {}),
    )  # earlier versions did not have identifiers
    versions = {
        name: one for name, one in _versions(destination, state).items() if name in manifest_tables and one.is_there
    }
    for name, one in versions.items():
        one.check_roll_back(manifest_tables[name], identities.get(name, {}))
    destination.terms.take(state.ledger, Term(number, run, socket.gethostname(), os.getpid(), clock.utc_text()))
    for name, one in versions.items():
        one.roll_back(manifest_tables[name])
    destination.terms.release()
    sinks, places = sinks_after_restore(state, spec.sinks)
    return ledger.commit(replace(following(state, run, {}), sinks=sinks, sink_places=places)) if places else state


def _written(
    spec: Spec,
    directory: Directory,
    out: Path,
    state: State,
    versions: Mapping[str, Mapping[str, Any]],
    files: Mapping[str, bytes],
) -> Backup:
    manifest = {
        "format": FORMAT,
        "version": __version__,
        "made": clock.utc_text(),
        "pipeline": spec.name,
        "ledger": state.ledger,
        "epoch": state.epoch,
        "term": state.term,
        "position": state.position.as_dict(),
        "destination": str(spec.sink.path),
        **versions,
    }
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        make_folders(out.absolute().parent)
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))
            for name, content in files.items():
                archive.writestr(f"ledger/{name}", content)
            for path in (directory.spec, directory.controls, directory.parked):
                if path.exists():
                    archive.write(path, path.name)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        rename(partial, out)
        sync_folder(out.absolute().parent)
    except OSError as error:
        raise SpecError(f"The backup {out} cannot be written: {error}.", hint="Choose another file.") from error
    finally:
        partial.unlink(missing_ok=True)
    return Backup(out, state.epoch, _position(state), len(versions["tables"]))


def _state(directory: Directory) -> State:
    state = Ledger(directory.ledger).state
    if state is None:
        raise SpecError("The pipeline has no ledger yet.", detail="There is nothing to back up.", hint="Run it first.")
    return state


def _versions(destination: Destination, state: State, *, whole: bool = False) -> dict[str, TableVersions]:
    """The versions of the tables that have begun. whole: only of those that are there as a whole."""
    versions_by_table = dict[str, TableVersions]()
    for name, table_state in state.tables.items():
        if not table_state.begun:
            continue
        table = destination.table(state.owner, published_as(table_from_dict(table_state.table), table_state.projection))
        if isinstance(table, Versioned) and (table.is_there or not whole):
            versions_by_table[name] = table.versions()
    return versions_by_table


def _begun(state: State) -> set[str]:
    return {name for name, table in state.tables.items() if table.begun}


def _ledger_files(ledger: Folder) -> dict[str, bytes]:
    """The ledger's current files. One that is pruned meanwhile is left out; `_is_complete` notices."""

    def content(name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return ledger.read(name)
        return None

    names = [entry.name for entry in ledger.entries() if fnmatchcase(entry.name, "*-*.json")]
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        files = dict(zip(names, pool.map(content, names), strict=True))
    return {name: one for name, one in files.items() if one is not None}


def _state_in(files: Mapping[str, bytes]) -> State | None:
    """The state to which copied files lead; None if they do not fit together."""
    with TemporaryDirectory(prefix="tidemark-backup-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        try:
            return Ledger(Path(folder)).state
        except LedgerError:
            return None


def _is_complete(files: Mapping[str, bytes], tables: Mapping[str, Any], state: State) -> bool:
    """Whether the copied files include every epoch that a table lacks.

    A kind of commit has its place in the mirror or in the change log. That of a time when the table had no key, or had
    one, is older.
    """
    epochs = {int(name[6:-5]) for name in files if name.startswith("epoch-")}
    for name, versions in tables.items():
        for kind, recorded in state.tables[name].applied.items() if name in state.tables else ():
            numbers = [
                number
                for _, transactions in versions.values()
                for app, number in transactions.items()
                if app.endswith(f"-{kind}")
            ]
            if numbers and not epochs.issuperset(range(max(numbers) + 1, recorded + 1)):
                return False
    return True


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise SpecError(f"The backup {file} cannot be read: {error}.", detail="Nothing was changed.") from error


def _manifest(archive: zipfile.ZipFile, file: Path, spec: Spec) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
    except (KeyError, ValueError) as error:
        raise SpecError(f"{file} is not a backup of a pipeline.", detail="Nothing was changed.") from error
    if manifest["format"] > FORMAT:
        raise SpecError(
            f"{file} was written by Tidemark {manifest['version']}, and this version cannot read its backups.",
            detail="Nothing was changed.",
            hint="Restore it with that version or a newer one.",
        )
    if manifest["pipeline"] != spec.name:
        raise SpecError(
            f"{file} is a backup of the pipeline {manifest['pipeline']!r}, not of {spec.name!r}.",
            detail="Nothing was changed.",
            hint="Use the spec that it belongs to.",
        )
    return manifest


def _unpack_ledger(archive: zipfile.ZipFile, ledger: Folder) -> None:
    for name in archive.namelist():
        folder, _, own = name.rpartition("/")
        if folder == "ledger":
            ledger.write(own, archive.read(name))


def _unpack_others(archive: zipfile.ZipFile, directory: Directory) -> None:
    for name in archive.namelist():
        if name in (directory.controls.name, directory.parked.name):
            write_atomically(directory.root / name, archive.read(name).decode())


def _position(state: State) -> str:
    return str(state.position)
