"""The Delta destination: `<path>/<database>/<table>`, the mirror, and `<table>__changes`, the change log.

Readers have written the Parquet files in place; a commit adds them, so nothing is copied twice. Every commit carries transaction
identifiers, written in the same Delta commit as the files:

    …-chunks, …-changes, …-merge   the last epoch whose chunks, changes or merge the table has. An epoch that is applied again finds
                                   its identifier there and does nothing: exactly once, whenever the runner was killed
    …-merged-seq                   the `_tm_seq` through which the change log is merged into the mirror
    …-term                         the term of the runner that made the commit (`sink.fence`); a runner of an earlier term stops

The identifiers name the ledger, so a destination that another ledger has filled is recognised and refused.

Every version of a mirror whose copy is complete is the source between two transactions. For each of its changes is one commit
(`sink.merging`), and takes it to the end of an epoch: the newest image of each key replaces or deletes the row. A merge that covers
the epochs up to k comes after the chunks of all epochs up to k were added. Chunks that were added later than some of its epochs
do it no harm: none of those epochs holds a change of theirs (the rule of emission).

A table without identity has no mirror: its chunk is part of the log, as inserts.

A table that is resnapshotted keeps its mirror as it was until the last chunk is there; one commit then replaces all of it with the
chunks and the changes since. Columns that the source drops stay in the destination, NULL in what is written from then on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine import clock
from engine.capture.changes import log_schema
from engine.capture.files import DataFile
from engine.decode.schema import Table, arrow_schema
from engine.errors import DestinationError, MissingFilesError, PipelineHeldError, SpecError
from engine.layout import changes_folder, make_readable, mirror_folder
from engine.ledger.state import Owner
from engine.sink.dropping import drop
from engine.sink.evolution import check_evolution, lacks, mirror_schema, prepared, schema_of, united, widened
from engine.sink.log import Actions, DeltaLog, StaleVersionError, check_files, create, files_of, metadata_of
from engine.sink.lost import Recent, lost_names
from engine.sink.merging import MirrorFiles

_ATTEMPTS, _RETRY_S = 6, 0.1
_PROPERTIES = {"delta.enableChangeDataFeed": "false", "delta.dataSkippingNumIndexedCols": "8"}
KINDS = ("chunks", "changes", "merge")
SEQ = "merged-seq"
TERM = "term"
Guard = Callable[[], int]
"""Returns the term of this runner; raises PipelineHeldError when another runner has taken a later one."""


def unguarded() -> int:
    """The guard of those who only read."""
    return 0


@dataclass(frozen=True)
class Applied:
    """What one commit did, for the journal."""

    table: str
    kind: str
    through_epoch: int
    rows: int
    files: int
    duration_s: float


@dataclass(frozen=True)
class Step:
    """Files that a commit brings into a mirror: first the chunks, then the changes, each in the order of the epochs."""

    chunks: Sequence[DataFile] = ()
    changes: Sequence[DataFile] = ()


class DeltaTables:
    """The two Delta tables of one captured table.

    owner: the ledger that they belong to. guard: asked before anything is written or deleted.
    """

    def __init__(self, root: Path, owner: Owner, table: Table, guard: Guard = unguarded) -> None:
        self.table, self._owner, self._guard = table, owner, guard
        self.mirror = mirror_folder(root, table.database, table.name)
        self.changes = changes_folder(root, table.database, table.name)
        self._logs = {folder: DeltaLog(folder) for folder in (self.mirror, self.changes)}
        self._recent = {folder: Recent() for folder in self._logs}

    def create(self, *, expected: bool) -> None:
        """Create both where they do not exist.

        expected: the ledger has published rows to them. Raises SpecError when they exist and belong to another ledger,
        DestinationError when they are expected and do not exist, or cannot be read.
        """
        for folder, schema in self._folders():
            _check_no_link(folder)
            log = self._logs[folder]
            if not log.there:
                if expected:
                    raise DestinationError(
                        f"The destination {folder} is gone, but the ledger has published rows to it.",
                        detail="Going on would leave a table that lacks them; nothing was written.",
                        hint=f"Restore the folder, or resnapshot the table: python -m engine redump SPEC --table "
                        f"{self.table.full_name}",
                    )
                self._guard()
                make_readable(folder)
                with suppress(StaleVersionError):  # somebody was quicker: whose it is, is asked below
                    create(folder, schema, f"Tidemark ledger {self._owner.ledger}", _PROPERTIES)
                    continue
            if not self._ours(folder):
                raise SpecError(
                    f"The destination {folder} exists already and does not belong to this pipeline's ledger.",
                    detail="Adding to it would mix the rows of two pipelines; nothing was written.",
                    hint="Choose another sink.path, or move that folder away.",
                )
            if folder == self.changes:
                self._add_columns(log, schema)  # those of an earlier version lack columns

    def repair(self, *, accepting: bool = False) -> list[str]:
        """Set aside commits that a power cut tore; returns their names. Raises DestinationError when later ones rest on them.

        accepting: a resnapshot follows, so what such a commit did is given up instead.
        """
        self._guard()
        logs = [(folder, self._logs[folder]) for folder, _ in self._folders()]
        return [f"{folder.name}/{name}" for folder, log in logs for name in log.repair(accepting=accepting)]

    def _ours(self, folder: Path) -> bool:
        return self._owner.ledger in (self._load(folder).metadata().description or "")

    @staticmethod
    def folders(root: Path, table: Table) -> tuple[Path, Path]:
        """Where chunks and changes of a table lie."""
        changes = changes_folder(root, table.database, table.name)
        return (mirror_folder(root, table.database, table.name) if table.key else changes), changes

    def fault(self) -> str:
        """Why the tables are not what this ledger has published to; empty where they are. Writes nothing.

        What a power cut tore at the end of a log is none: the ledger has it (`repair`). Raises DestinationError.
        """
        for folder, _ in self._folders():
            log = self._logs[folder]
            if not log.there:
                return f"{folder} is gone"
            end, amid = log.torn()
            if amid:
                return f"the commit {amid[0].name} of {folder} is empty or torn, and later ones rest on it"
            if not end and not self._ours(folder):
                return f"{folder} belongs to another ledger"
        return ""

    @property
    def there(self) -> bool:
        """Whether the tables exist and belong to the ledger: one of them alone is none of them."""
        folders = [folder for folder, _ in self._folders()]
        return all(self._logs[folder].there and self._ours(folder) for folder in folders)

    def check_free(self) -> None:
        """Raises SpecError when there is one already, whosever it is, so that a table cannot join.

        But for those that were created and never written to: a runner was killed before it committed that the table joins.
        """
        for folder, log in self._logs.items():
            if log.there and not (self._ours(folder) and log.version == 0):
                raise SpecError(
                    f"The destination {folder} exists already.",
                    detail="Its rows would be mixed with those of the table; nothing was written.",
                    hint="Move that folder away, then add the table again.",
                )

    def begin(self) -> None:
        """Create both for a table that joins; `check_free` was asked. Raises SpecError when that cannot be done."""
        self.drop()
        self.create(expected=False)

    def drop(self) -> None:
        """Delete both, as far as they are there and belong to the ledger; an attempt that was broken off is completed."""
        self._guard()
        for folder, log in self._logs.items():
            if not folder.exists() or (log.there and self._ours(folder)):
                drop(folder)
                log.version = -1

    def _folders(self) -> list[tuple[Path, pa.Schema]]:
        """The folders of the tables that there are, with their schemas."""
        log = (self.changes, log_schema(arrow_schema(self.table)))
        return [(self.mirror, mirror_schema(self.table)), log] if self.table.key else [log]

    def _folder(self, kind: str) -> Path:
        return self.mirror if self.table.key and kind != "changes" else self.changes

    def file_names(self) -> set[str]:
        """The names of the files that the tables consist of now."""
        return {file.name for folder, _ in self._folders() for file in files_of(self._load(folder), folder)}

    def lost(self) -> str:
        """Which files the tables name that are not there, said in words; empty where all are. Raises DestinationError."""
        found = [(folder, names) for folder, _ in self._folders() if (names := lost_names(self._load(folder), folder))]
        return "; ".join(
            f"{len(names)} data files of {folder} are gone: {', '.join(names[:3])}" for folder, names in found
        )

    def check_recent(self) -> None:
        """Look once more at the files that were added since the last look. Raises MissingFilesError when some are gone."""
        for folder, recent in self._recent.items():
            try:
                check_files(folder, added := recent.take())
            except MissingFilesError:
                there = self.file_names()  # another writer may have removed some from the table
                check_files(folder, [file for file in added if file.name in there])

    def drop_lost(self) -> list[str]:
        """Before a resnapshot: let the change log name no file that is not there; returns which it named, a gap in it.

        The mirror's files are not looked at again: all of them are replaced.
        """
        gone: list[str] = []
        self._recent[self.mirror].take()

        def actions() -> Actions | None:
            delta = self._load(self.changes)
            gone[:] = lost_names(delta, self.changes)
            return (
                Actions("FSCK", {}, remove=[f for f in files_of(delta, self.changes) if f.name in gone])
                if gone
                else None
            )

        self._commit(self.changes, actions)
        return gone

    def applied(self, kind: str) -> int:
        """The last epoch whose "chunks", "changes" or "merge" is in the destination; -1 for none."""
        self._load(self._folder(kind))
        return self._known(kind)

    def _known(self, kind: str) -> int:
        found = self._logs[self._folder(kind)].transactions.get(self._app(kind), -1)
        return max(found, self._owner.floor)

    def merged_seq(self) -> int:
        """The `_tm_seq` through which the change log is merged into the mirror; -1 where that is not known."""
        return self._load(self.mirror).transaction_version(self._app(SEQ)) or -1 if self.table.key else -1

    def terms(self) -> set[int]:
        """The terms of the runners that made the newest commits of both; empty where none is known."""
        found = {self._load(folder).transaction_version(self._app(TERM)) for folder, _ in self._folders()}
        return {int(term) for term in found if term is not None}

    def largest_seq(self) -> int:
        """The largest `_tm_seq` that the change log holds, by the statistics of its files; 0 for none."""
        files = files_of(self._load(self.changes), self.changes)
        return max((file.high.get("_tm_seq", 0) for file in files), default=0)

    def _app(self, kind: str) -> str:
        # Terms count on over a change of the lineage: they tell runners apart, not epochs.
        owner = self._owner.ledger if kind == TERM else self._owner.application
        return f"tidemark-{owner}-{kind}"

    def _load(self, folder: Path) -> DeltaTable:
        return self._logs[folder].load(self._app(kind) for kind in (*KINDS, SEQ, TERM))

    def seal(self) -> None:
        """Mark both as this runner's: a commit that an earlier one has prepared is turned away from here on."""
        for folder, _ in self._folders():
            self._commit(folder, lambda: Actions("TERM", {}))

    def versions(self) -> dict[str, tuple[int, dict[str, int]]]:
        """By folder name, the newest version of each table and the transaction identifiers of this ledger in it."""
        found = {}
        for folder, _ in self._folders():
            self._load(folder)
            log = self._logs[folder]
            found[folder.name] = log.version, dict(log.transactions)
        return found

    def check_roll_back(self, versions: Mapping[str, tuple[int, Mapping[str, int]]]) -> None:
        """Raises DestinationError when `roll_back` cannot be done; changes nothing."""
        for folder, _ in self._folders():
            if found := self._rolled_back(folder, *versions[folder.name]):
                check_files(folder, found.add)

    def roll_back(self, versions: Mapping[str, tuple[int, Mapping[str, int]]]) -> None:
        """Make both what they were at these versions, transaction identifiers included (the inverse of `versions`).

        Raises DestinationError when a version, or a file of it, is not there any more; nothing of that table is changed then.
        """
        for folder, _ in self._folders():
            version, transactions = versions[folder.name]
            self._commit(folder, partial(self._rolled_back, folder, version, transactions))

    def _rolled_back(self, folder: Path, version: int, transactions: Mapping[str, int]) -> Actions | None:
        delta = self._load(folder)
        if delta.version() == version:
            return None
        try:
            old = DeltaTable(str(folder), version=version)
        except (DeltaError, OSError) as error:
            raise DestinationError(
                f"The version {version} of {folder} is not there: {error}",
                detail="The table is older than the backup, or its log was cleaned up. It was not changed.",
                hint="Put a copy of that folder back which is as new as the backup, then restore again; or resnapshot the table.",
            ) from error
        now, then = ({file.name: file for file in files_of(table, folder)} for table in (delta, old))
        known = {self._app(kind): -1 for kind in (*KINDS, SEQ)}
        changed = schema_of(old) != schema_of(delta)
        return Actions(
            "RESTORE",
            {
                app: transactions.get(app, -1)
                for app in known
                if app in transactions or app in self._logs[folder].transactions
            },
            [file for name, file in then.items() if name not in now],
            [file for name, file in now.items() if name not in then],
            metadata_of(delta, schema_of(old)) if changed else None,
        )

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> Applied | None:
        """Add the files of an epoch to the mirror ("chunks") or to the log ("changes"); None when they are there already."""
        began, folder = time.monotonic(), self._folder(kind)

        def actions() -> Actions | None:
            if not files or self._known(kind) >= epoch:
                return None
            return Actions("WRITE", {self._app(kind): epoch}, add=files)

        if not self._commit(folder, actions):
            return None
        rows = sum(file.rows for file in files)
        return Applied(self.table.full_name, "append", epoch, rows, len(files), round(time.monotonic() - began, 6))

    def merge(self, epoch: int, files: Sequence[DataFile]) -> Applied | None:
        """Bring the changes in `files`, in their order, into the mirror; afterwards it is the source at the end of `epoch`.

        None when the mirror has this epoch already: a runner that was overtaken must not turn it back.
        """
        return self.apply("merge", [Step(changes=files)], merge=epoch) if files else None

    def replace(
        self, epoch: int, steps: Sequence[Step], through: int | None = None, since: int | None = None
    ) -> Applied | None:
        """Put these files in the place of everything that the mirror holds; None when it has this epoch's chunks already.

        through: the epoch whose changes are the last of the steps. since: what is merged from here on, when there is none.
        """
        return self.apply("replace", steps, chunks=epoch, merge=through if through is not None else since)

    def apply(
        self, kind: str, steps: Sequence[Step], *, chunks: int | None = None, merge: int | None = None
    ) -> Applied | None:
        """Bring chunks and changes, step by step, into the mirror, in one commit; None when it has them.

        kind: "merge", "append" or, where everything that it holds goes first, "replace". chunks, merge: the epochs that the mirror
        has afterwards.
        """
        began, prepared_files = time.monotonic(), list[MirrorFiles]()
        count = 0

        def actions() -> Actions | None:
            nonlocal count
            delta = self._load(self.mirror)
            copies = chunks is not None and self._known("chunks") < chunks
            merges = merge is not None and self._known("merge") < merge
            if not copies and not merges:
                return None
            discard()
            delta, schema = self._columns(delta, replaced=copies and kind == "replace")
            files = MirrorFiles(self.mirror, schema, self.table, files_of(delta, self.mirror))
            prepared_files.append(files)
            count = _carry_out(
                files, self._steps(steps), clear=copies and kind == "replace", copies=copies, merges=merges
            )
            changed = schema != schema_of(delta)
            transactions = self._transactions(steps, chunks if copies else None, merge if merges else None)
            if copies and kind == "replace":  # the new copy stands for all that the log has, also for what it never got
                transactions[self._app(SEQ)] = self.largest_seq()
            return Actions(
                "MERGE" if kind == "merge" else "WRITE",
                transactions,
                files.added,
                files.removed,
                metadata_of(delta, schema) if changed else None,
                "Overwrite" if copies and kind == "replace" else "Append",
            )

        def discard() -> None:
            while prepared_files:
                prepared_files.pop().discard()

        try:
            if not self._commit(self.mirror, actions):
                return None
        except BaseException:
            discard()
            raise
        prepared_files[-1].drop_unused()
        number = merge if chunks is None else chunks
        assert number is not None
        taken = sum(len(step.chunks) + len(step.changes) for step in steps)
        return Applied(self.table.full_name, kind, number, count, taken, round(time.monotonic() - began, 6))

    def _transactions(self, steps: Sequence[Step], chunks: int | None, merge: int | None) -> dict[str, int]:
        found = {} if chunks is None else {self._app("chunks"): chunks}
        if merge is not None:
            found[self._app("merge")] = merge
            if sequences := [file.high["_tm_seq"] for step in steps for file in step.changes if "_tm_seq" in file.high]:
                found[self._app(SEQ)] = max(sequences)
        return found

    def _steps(self, steps: Sequence[Step]) -> list[tuple[Sequence[DataFile], list[Path]]]:
        return [(step.chunks, [self.changes / file.name for file in step.changes]) for step in steps]

    def _columns(self, delta: DeltaTable, *, replaced: bool) -> tuple[DeltaTable, pa.Schema]:
        """The table and the columns that it has after a commit: wider ones come with a new copy alone."""
        if not replaced:
            return delta, schema_of(delta)
        wanted = mirror_schema(self.table)
        names = {name.casefold() for name in wanted.names}
        delta = prepared(self._logs[self.mirror], delta, wanted)
        kept = [field for field in schema_of(delta) if field.name.casefold() not in names]
        return delta, pa.schema([*wanted, *kept])

    def _commit(self, folder: Path, actions: Callable[[], Actions | None]) -> bool:
        """Make a commit of what `actions` says; False when that is nothing.

        Another writer's commit (a repair by hand, an OPTIMIZE) that came before is looked at, and the commit made anew.
        """
        log = self._logs[folder]
        if log.version < 0:
            self._load(folder)
        for attempt in range(_ATTEMPTS + 1):
            term = self._guard()
            self._check_term(log, term)
            found = actions()
            if found is None:
                return False
            transactions = {**found.transactions, **({self._app(TERM): term} if term else {})}
            try:
                log.commit(replace(found, transactions=transactions))
            except StaleVersionError:
                clock.sleep(_RETRY_S * 2**attempt)
                self._load(folder)
            except MissingFilesError:  # of a merge, whose files are written again; those of readers are not
                if attempt:
                    raise
            else:
                self._recent[folder].committed(found.add, found.remove)
                return True
        raise DestinationError(
            f"Another writer commits to {folder} all the time: {_ATTEMPTS} attempts came too late.",
            detail="Nothing was written by them; what the table holds stays.",
            hint="Find out who writes there; let only Tidemark write to its tables, and others seldom.",
        )

    def _check_term(self, log: DeltaLog, term: int) -> None:
        theirs = log.transactions.get(self._app(TERM), 0)
        if term and theirs > term:
            raise PipelineHeldError(
                f"A runner with term {theirs} has written to {log.folder}; this one has term {term}.",
                detail="It has taken the pipeline over and goes on; this runner wrote nothing more.",
                hint="Run one runner a pipeline. `status` shows where the other one is.",
            )

    def check(self, before: Table, after: Table) -> None:
        """Raises TableStoppedError when the log, which has or will have the columns of `before`, cannot get those of `after`."""
        if not self._logs[self.changes].there:
            return  # it is made anew
        held = united(schema_of(self._load(self.changes)), log_schema(arrow_schema(before)))
        check_evolution(after.full_name, held, log_schema(arrow_schema(after)))

    def evolve(self, table: Table) -> None:
        """From here on the table has these columns: the log gets those that it lacks, and wider types."""
        self.table = table
        log = self._logs[self.changes]
        wanted = log_schema(arrow_schema(table))
        held = schema_of(self._load(self.changes))
        both = united(held, wanted)  # never narrower: an epoch may be applied again after later ones
        if any(both.field(name).type != held.field(name).type for name in held.names):
            self._widen(log, both)
        else:
            self._add_columns(log, both)

    def widen_mirror(self) -> None:
        """Give the mirror the table's columns that it lacks; their types are those that it has of the others."""
        if self.table.key:
            self._add_columns(self._logs[self.mirror], mirror_schema(self.table))

    def _add_columns(self, log: DeltaLog, wanted: pa.Schema) -> None:
        """Give a Delta table the columns that it lacks; they are NULL in what it holds."""

        def actions() -> Actions | None:
            delta = self._load(log.folder)
            if not lacks(delta, wanted):
                return None
            delta = prepared(log, delta, wanted)
            held = schema_of(delta)
            new = [field for field in wanted if field.name not in held.names]
            return Actions("ADD COLUMN", {}, metadata=metadata_of(delta, pa.schema([*held, *new])))

        self._commit(log.folder, actions)

    def _widen(self, log: DeltaLog, schema: pa.Schema) -> None:
        """Write a change log again with wider types."""

        def actions() -> Actions:
            delta = prepared(log, self._load(log.folder), schema)
            before, bounded = files_of(delta, log.folder), (*self.table.key, "_tm_seq")
            after = [new for file in before for new in widened(log.folder, file, schema, bounded)]
            return Actions("WRITE", {}, after, before, metadata_of(delta, schema))

        self._commit(log.folder, actions)


def _carry_out(
    files: MirrorFiles,
    steps: Sequence[tuple[Sequence[DataFile], list[Path]]],
    *,
    clear: bool,
    copies: bool,
    merges: bool,
) -> int:
    """What the steps do to a mirror's files; returns rows that were added and keys that were merged."""
    count = 0
    if clear:
        files.clear()
    for chunks, changes in steps:
        if copies:
            files.add(chunks)
            count += sum(file.rows for file in chunks)
        if merges and changes:
            count += files.merge(changes)
    return count


def _check_no_link(folder: Path) -> None:
    if folder.is_symlink() or folder.parent.is_symlink():
        raise SpecError(
            f"The destination {folder} is a link, which is how another table's folder is read.",
            detail="Two tables would be mixed; nothing was written.",
            hint="Exclude one of the two tables, or give it a pipeline and a sink.path of its own.",
        )
