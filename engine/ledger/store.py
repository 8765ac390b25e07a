"""The ledger's files: `epoch-00000007.json`, one per epoch, and occasionally `state-00000100.json`, a full state.

An epoch file is written under another name, synced, and then linked to its own name: the link is the commit. It appears
whole or not at all, and only one of two runners can create it, whatever hosts they are on. The other one stops with
PipelineHeldError before it has published anything. Commit order: data files durable, epoch file created, sinks apply
it, journal.

Terms. A runner begins with an epoch that contains nothing but its term (`take_term`). From then on, a runner of an
earlier term cannot commit: the epoch that it would create exists already. Whatever it committed before is part of the
state from which the new runner continues. So two runners never continue from the same state, even if the lock fails.
"""

import json
import os
import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.base.durable import link, make_folders, naming, sync_folder, write_atomically
from engine.base.errors import LedgerError, PipelineHeldError
from engine.ledger.record_json import change_from_json, epoch_from_json, epoch_to_json, state_from_json, state_to_json
from engine.ledger.records import Description, EpochRecord, TableChange, TermRecord
from engine.ledger.state import State, apply, following
from engine.ledger.upgrade import upgraded
from engine.pipeline import formats

FULL_STATE_EVERY = 200
_ATTEMPTS = 10
Collect = Callable[[Mapping[str, TableChange]], None]
"""Called with the parts of tables in an epoch before they are deleted."""
_EPOCH = re.compile(r"^epoch-(\d{8,})\.json$")
_STATE = re.compile(r"^state-(\d{8,})\.json$")


class Ledger:
    """The ledger in one folder. `state`: the committed state, None before epoch 0."""

    def __init__(self, folder: Path) -> None:
        """Read the committed state. Raises LedgerError if its files are inconsistent."""
        self._folder = folder
        self._full: int | None = None
        """The newest full state when this process last read or wrote one."""
        self._pruned_full: int | None = None
        """The full state before which the others have been deleted."""
        self._written: set[int] | None = None
        """The epochs whose files may exist; None before the first commit, which lists them."""
        self._reduced: dict[int, frozenset[str]] = {}
        """The tables that an epoch's file has been reduced to, by epoch."""
        self._lock = threading.Lock()
        """Of `_written`: the publisher's thread prunes."""
        self.state = self._load()

    def _load(self) -> State | None:
        """Read the committed state. A runner may be writing: it deletes files only after a newer full state exists."""
        failed = False
        while True:
            newest = self._newest_full()
            self._written = None
            self._full = newest
            try:
                state = self._replayed(newest)
            except LedgerError:
                # Retry once: a slow listing of many files may contain a later epoch without the one before.
                if self._newest_full() == newest and failed:
                    raise
                failed = True
            else:
                if self._newest_full() == newest:
                    return state

    def _newest_full(self) -> int | None:
        return max(self._numbers(_STATE), default=None)

    def _replayed(self, full: int | None) -> State | None:
        state = None if full is None else state_from_json(self._read(_full_name(full)))
        for number in sorted(n for n in self._numbers(_EPOCH) if state is None or n > state.epoch):
            state = apply(state, self.epoch(number))
        return state

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        if not self._folder.is_dir():
            return []
        return [int(match[1]) for path in self._folder.iterdir() if (match := pattern.match(path.name))]

    def _read(self, name: str) -> Description:
        try:
            record: Description = json.loads((self._folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"The ledger file {name} cannot be read: {error}.",
                detail="Without it the committed state is unknown. Nothing was started.",
                hint="Restore the file from a backup, or start a new pipeline with a new destination.",
            ) from error
        formats.check(name.partition("-")[0], record, self._folder / name)
        return formats.without(upgraded(record))

    def epoch(self, number: int) -> EpochRecord:
        """The record of one epoch."""
        return epoch_from_json(self._read(f"epoch-{number:08d}.json"))

    def kept_numbers(self) -> list[int]:
        """The epochs whose files exist, in order."""
        return sorted(self._numbers(_EPOCH))

    def committed_ns(self) -> int | None:
        """When the last epoch was committed, by its file's time, in nanoseconds since 1970; None without epochs."""
        return max((path.stat().st_mtime_ns for path in self._folder.glob("epoch-*.json")), default=None)

    def kept_epochs(self) -> Iterator[EpochRecord]:
        """Yield the records of all epochs whose files exist, in order; files deleted meanwhile are skipped."""
        for number in self.kept_numbers():
            try:
                record = self.epoch(number)
            except LedgerError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
            else:
                yield record

    def commit(self, record: EpochRecord) -> State:
        """Commit one more epoch.

        Returns the new state. Raises PipelineHeldError if another runner has created that epoch.
        """
        state = apply(self.state, record)
        make_folders(self._folder)
        path = self._path(record.epoch)
        # Not named by pid: two containers may have the same one, and both would write the same file.
        temporary = self._folder / f".{path.name}.{uuid.uuid4().hex}"
        try:
            with naming(path), temporary.open("x", encoding="utf-8") as file:
                json.dump(formats.stamped("epoch", epoch_to_json(record)), file, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            if not link(temporary, path):
                raise _held(state.epoch)
        finally:
            with suppress(OSError):  # the epoch may be committed
                temporary.unlink(missing_ok=True)
        if self._others_pruned(state.epoch):
            # The name was free only because the epoch was pruned, after a full state that contains it was written.
            path.unlink()
            raise _held(state.epoch)
        self._sync(state.epoch)
        self.state = state
        with self._lock:
            self._known_epochs().add(state.epoch)
        if state.epoch % FULL_STATE_EVERY == 0 and state.epoch:
            full = formats.stamped("state", state_to_json(state))
            with suppress(OSError):  # disk full: all epochs since the last full state are still there
                write_atomically(self._folder / _full_name(state.epoch), json.dumps(full, ensure_ascii=False))
                self._full = state.epoch
        return state

    def _sync(self, epoch: int) -> None:
        """Make a new epoch's name durable.

        Raises LedgerError: the epoch is there, so this run cannot commit it again.
        """
        try:
            sync_folder(self._folder)
        except OSError as error:
            raise LedgerError(
                f"Epoch {epoch} was written, but the ledger's folder could not be synced: {error}.",
                detail="The epoch may be lost in a power cut. Nothing of it is published yet.",
                hint="Check the disk, then run again: it continues from what the ledger has.",
            ) from None

    def _others_pruned(self, epoch: int) -> bool:
        """Whether another runner has a full state with this epoch.

        Pruning starts with the older full states. So while ours exists, nobody has a newer one and has pruned epochs
        after ours.
        """
        if self._full is not None and (self._folder / _full_name(self._full)).exists():
            return False
        newest = max(self._numbers(_STATE), default=-1)
        return newest >= epoch

    def _known_epochs(self) -> set[int]:
        if self._written is None:
            self._written = set(self._numbers(_EPOCH))
        return self._written

    def take_term(self, run: str, number: int) -> None:
        """Claim the pipeline for this run with an epoch that says so.

        Raises PipelineHeldError if others keep committing.
        """
        for _ in range(_ATTEMPTS):
            assert self.state is not None
            try:
                self.commit(replace(following(self.state, run, {}), term=TermRecord(number, run)))
            except PipelineHeldError:  # the previous runner has committed once more; load its epoch
                self.state = self._load()
            else:
                return
        assert self.state is not None
        raise _held(self.state.epoch)

    def file_names(self) -> dict[str, set[str]]:
        """The names of the data files in the epochs that are kept, by table."""
        found: dict[str, set[str]] = {}
        for record in self.kept_epochs():
            for table, part in record.tables.items():
                names = (str(file["name"]) for written in part.written for file in written.files)
                found.setdefault(table, set()).update(names)
        return found

    def prune(
        self,
        applied: int,
        needed: Mapping[int, Collection[str]] | None = None,
        collect: Collect | None = None,
    ) -> None:
        """Delete files that nobody will read.

        These are files up to the last full state whose epochs, up to `applied`, every sink has.

        needed: epochs to keep anyway, for some tables. Their files lose the parts of all other tables: if an epoch were
        applied again to a table whose later epochs are deleted, the table would be switched back. collect: None if
        nothing is to be done before that. Raises OSError; nothing is lost then.
        """
        if self._full is None:
            return
        with self._lock:
            if self._pruned_full != self._full:  # once per full state: the folder may have files that we do not know of
                for number in self._numbers(_STATE):
                    if number < self._full:  # first: `_others_pruned` relies on it
                        (self._folder / _full_name(number)).unlink(missing_ok=True)
                self._written = None
                self._pruned_full = self._full
            through = min(self._full, applied)
            old = [number for number in self._known_epochs() if number <= through]
        needed = needed or {}
        for number in old:  # all of them first, in case of a crash
            if number in needed:
                self._reduce(number, frozenset(needed[number]), collect)
        deleted = [number for number in old if number not in needed]
        for number in deleted:
            if collect is not None:
                collect(self.epoch(number).tables)
            self._path(number).unlink(missing_ok=True)
            self._reduced.pop(number, None)
        with self._lock:
            self._known_epochs().difference_update(deleted)

    def _reduce(self, number: int, tables: frozenset[str], collect: Collect | None) -> None:
        """Remove the parts of other tables from an epoch's file."""
        if self._reduced.get(number) == tables:
            return
        record = self._read(f"epoch-{number:08d}.json")
        parts = record["tables"]
        kept = {name: part for name, part in parts.items() if name in tables}
        if len(kept) < len(parts):
            if collect is not None:
                collect({name: change_from_json(part) for name, part in parts.items() if name not in tables})
            reduced = {**record, "tables": kept, "only": sorted(tables)}
            write_atomically(self._path(number), json.dumps(formats.stamped("epoch", reduced), ensure_ascii=False))
        self._reduced[number] = tables

    def _path(self, epoch: int) -> Path:
        return self._folder / f"epoch-{epoch:08d}.json"


def _full_name(epoch: int) -> str:
    return f"state-{epoch:08d}.json"


def _held(epoch: int) -> PipelineHeldError:
    return PipelineHeldError(
        f"Another runner has committed epoch {epoch} of this pipeline.",
        detail="This runner published nothing of that epoch. The other runner continues.",
        hint="Run only one runner per pipeline. `tidemark status SPEC` shows the other one.",
    )
