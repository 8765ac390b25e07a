"""The ledger's files: `epoch-00000007.json`, one per epoch, and occasionally `state-00000100.json`, a full state.

Creating an epoch's file is the commit (`store.Folder.create`). It appears whole or not at all, and only one of two
runners can create it, whatever hosts they are on. The other one stops with PipelineHeldError before it has published
anything. Commit order: data files durable, epoch file created, sinks apply it, journal.

Terms. A runner begins with an epoch that contains nothing but its term (`take_term`). From then on, a runner of an
earlier term cannot commit: the epoch that it would create exists already. Whatever it committed before is part of the
state from which the new runner continues. So two runners never continue from the same state, even if the lock fails.
"""

import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from engine.base.durable import UnknownOutcomeError
from engine.base.errors import LedgerError, PipelineHeldError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.ledger.record_json import change_from_json, epoch_from_json, epoch_to_json, state_from_json, state_to_json
from engine.ledger.records import Description, EpochRecord, TableChange, TermRecord
from engine.ledger.state import State, apply, following
from engine.ledger.upgrade import upgraded
from engine.pipeline import formats
from engine.store.folder import FileEntry
from engine.store.local_folder import LocalFolder

FULL_STATE_EVERY = 200
_ATTEMPTS = 10
_DELETED_AT_ONCE = 100
Collect = Callable[[Mapping[str, TableChange]], None]
"""Called with the parts of tables in an epoch before they are deleted."""
_EPOCH = re.compile(r"^epoch-(\d{8,})\.json$")
_STATE = re.compile(r"^state-(\d{8,})\.json$")


class LedgerFiles(Protocol):
    """What the ledger needs of a `Folder`."""

    @property
    def url(self) -> str:
        """Where it is."""

    def find(self, name: str) -> FileEntry | None:
        """A file by name."""

    def read(self, name: str) -> bytes:
        """A file's content."""

    def entries(self, prefix: str = "") -> Iterator[FileEntry]:
        """The files with a prefix in their names."""

    def create(self, name: str, content: bytes) -> str:
        """Create a file. Returns its tag; "" if the name is taken by other content."""

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files."""


class Ledger:
    """The ledger in one folder. `state`: the committed state, None before epoch 0."""

    def __init__(self, folder: LedgerFiles | Path) -> None:
        """Read the committed state. Raises LedgerError if its files are inconsistent.

        folder: a path is one of the file system.
        """
        self._folder: LedgerFiles = LocalFolder(folder) if isinstance(folder, Path) else folder
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
        state = None if full is None else state_from_json(self._read(_state_name(full)))
        for number in sorted(n for n in self._numbers(_EPOCH) if state is None or n > state.epoch):
            state = apply(state, self.epoch(number))
        return state

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        prefix = pattern.pattern[1 : pattern.pattern.index("-") + 1]
        return [int(match[1]) for entry in self._folder.entries(prefix) if (match := pattern.match(entry.name))]

    def _read(self, name: str) -> Description:
        try:
            record: Description = json.loads(self._folder.read(name))
        except (StoreAwayError, StoreAccessError):
            raise  # it is there, as far as anybody knows
        except (OSError, ValueError) as error:
            raise LedgerError(
                f"The ledger file {name} cannot be read: {error}.",
                detail="Without it the committed state is unknown. Nothing was started.",
                hint="Restore the file from a backup, or start a new pipeline with a new destination.",
            ) from error
        formats.check(name.partition("-")[0], record, f"{self._folder.url}/{name}")
        return formats.without(upgraded(record))

    def epoch(self, number: int) -> EpochRecord:
        """The record of one epoch."""
        return epoch_from_json(self._read(_epoch_name(number)))

    def kept_numbers(self) -> list[int]:
        """The epochs whose files exist, in order."""
        return sorted(self._numbers(_EPOCH))

    def committed_ns(self) -> int | None:
        """When the last epoch was committed, by its file's time, in nanoseconds since 1970; None without epochs."""
        times = (entry.changed_s for entry in self._folder.entries("epoch-") if _EPOCH.match(entry.name))
        newest_s = max(times, default=None)
        return None if newest_s is None else round(newest_s * 1e9)

    def kept_epochs(self) -> Iterator[EpochRecord]:
        """Yield the records of all epochs whose files exist, in order; files deleted meanwhile are skipped."""
        return self._records(self.kept_numbers())

    def _records(self, numbers: Iterable[int]) -> Iterator[EpochRecord]:
        for number in numbers:
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
        self._create(record)
        if self._others_pruned(state.epoch):
            # The name was free only because the epoch was pruned, after a full state that contains it was written.
            self._folder.delete([_epoch_name(state.epoch)])
            raise _held(state.epoch)
        self.state = state
        with self._lock:
            self._known_epochs().add(state.epoch)
        if state.epoch % FULL_STATE_EVERY == 0 and state.epoch:
            full = formats.stamped("state", state_to_json(state))
            with suppress(OSError):  # disk full: all epochs since the last full state are still there
                self._folder.write(_state_name(state.epoch), _content(full))
                self._full = state.epoch
        return state

    def _create(self, record: EpochRecord) -> None:
        """Create an epoch's file. Its run and its time make the content unique.

        Raises LedgerError if the epoch may be there: this run cannot commit it again.
        """
        content = _content(formats.stamped("epoch", epoch_to_json(record)))
        try:
            created = self._folder.create(_epoch_name(record.epoch), content)
        except UnknownOutcomeError as error:
            raise LedgerError(
                f"It is not known whether epoch {record.epoch} was committed: {error}.",
                detail="Nothing of it is published yet. After a power cut it may be gone.",
                hint=f"Check the store of {self._folder.url}, then run again: it continues from what the ledger has.",
            ) from error
        if not created:
            raise _held(record.epoch)

    def _others_pruned(self, epoch: int) -> bool:
        """Whether another runner has a full state with this epoch.

        Pruning starts with the older full states. So while ours exists, nobody has a newer one and has pruned epochs
        after ours.
        """
        if self._full is not None and self._folder.find(_state_name(self._full)) is not None:
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
        names_by_kind: dict[str, set[str]] = {}
        for record in self.kept_epochs():
            for table, part in record.tables.items():
                names = (str(file["name"]) for written in part.written for file in written.files)
                names_by_kind.setdefault(table, set()).update(names)
        return names_by_kind

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
                older = [number for number in self._numbers(_STATE) if number < self._full]
                self._folder.delete(map(_state_name, older))  # first: `_others_pruned` relies on it
                self._written = None
                self._pruned_full = self._full
            through = min(self._full, applied)
            old = [number for number in self._known_epochs() if number <= through]
        needed = needed or {}
        for number in old:  # all of them first, in case of a crash
            if number in needed:
                self._reduce(number, frozenset(needed[number]), collect)
        deleted = [number for number in old if number not in needed]
        for begin in range(0, len(deleted), _DELETED_AT_ONCE):
            numbers = deleted[begin : begin + _DELETED_AT_ONCE]
            if collect is not None:
                for record in self._records(numbers):
                    collect(record.tables)
            self._folder.delete(map(_epoch_name, numbers))
            with self._lock:
                self._known_epochs().difference_update(numbers)
            for number in numbers:
                self._reduced.pop(number, None)

    def _reduce(self, number: int, tables: frozenset[str], collect: Collect | None) -> None:
        """Remove the parts of other tables from an epoch's file."""
        if self._reduced.get(number) == tables:
            return
        record = self._read(_epoch_name(number))
        parts = record["tables"]
        other_parts = {name: part for name, part in parts.items() if name in tables}
        if len(other_parts) < len(parts):
            if collect is not None:
                collect({name: change_from_json(part) for name, part in parts.items() if name not in tables})
            reduced = {**record, "tables": other_parts, "only": sorted(tables)}
            self._folder.write(_epoch_name(number), _content(formats.stamped("epoch", reduced)))
        self._reduced[number] = tables


def _content(record: Mapping[str, object]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()


def _epoch_name(epoch: int) -> str:
    return f"epoch-{epoch:08d}.json"


def _state_name(epoch: int) -> str:
    return f"state-{epoch:08d}.json"


def _held(epoch: int) -> PipelineHeldError:
    return PipelineHeldError(
        f"Another runner has committed epoch {epoch} of this pipeline.",
        detail="This runner published nothing of that epoch. The other runner continues.",
        hint="Run only one runner per pipeline. `tidemark status SPEC` shows the other one.",
    )
