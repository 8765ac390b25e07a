"""The seam: what the publisher asks of a destination, whatever its kind. `engine.destination.registry` knows the kinds.

A destination takes epochs, table by table, in order. It MUST keep these promises:

    exactly once     `append` and `apply` store the epoch's number in the same commit as its rows, so that an epoch that
                     is applied again, however often and after whatever kill, changes nothing
    durable          what a method did survives a power cut when it returns: the ledger may then forget the epoch
    whole            a reader never sees part of a commit. Once the first copy is complete, a mirror is the source
                     between two transactions
    fenced           a runner with an earlier term writes nothing more: its next call raises PipelineHeldError
    local            an error of one table is raised by its own methods and stops that table alone. An OSError of a full
                     disk is waited for by the caller; a DestinationError is not tried again

A destination without mirrors has the change log alone: `has_mirror` is False, and `apply` is never called. Its change
log begins with the rows of the snapshot, and begins again with each resnapshot.

A destination that commits all tables at once keeps what `append` gets invisible until `publish`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

from engine.capture.files import DataFile
from engine.capture.landing import Landing
from engine.decode.schema import Table
from engine.destination.fence import Term
from engine.journal.destination_events import SinkApplied, TableMaintained
from engine.ledger.state import Owner
from engine.plan.chunks import Plan

CHUNKS, CHANGES, MERGE = "chunks", "changes", "merge"
KINDS = (CHUNKS, CHANGES, MERGE)
"""The kinds of commits whose last epoch a destination stores, by table."""
Guard = Callable[[], int]
"""Returns this runner's term; raises PipelineHeldError when another runner has a later one."""
MaintenanceStep = Literal["optimize", "compact", "expire", "vacuum"]
STEPS: tuple[MaintenanceStep, ...] = ("optimize", "compact", "expire", "vacuum")


def no_guard() -> int:
    """The guard of read-only users."""
    return 0


@dataclass(frozen=True)
class MirrorStep:
    """Files that a commit applies to a mirror: first the chunks, then the changes, each in epoch order."""

    chunks: Sequence[DataFile] = ()
    changes: Sequence[DataFile] = ()


@dataclass(frozen=True)
class Content:
    """What one commit does to a mirror."""

    steps: Sequence[MirrorStep]
    chunks: int | None = None
    """The epoch whose chunks the mirror has afterwards; None without chunks."""
    merge: int | None = None
    """The epoch whose changes the mirror has afterwards; None without changes."""
    replaces: bool = False
    """Whether the steps replace all rows."""


@dataclass(frozen=True)
class StoredState:
    """The state of one table in the destination."""

    applied_epochs: Mapping[str, int] = field(default_factory=dict)
    """The last applied epoch, by kind."""
    terms: frozenset[int] = frozenset()
    """The terms of the runners that made its newest commits."""
    fault: str = ""
    """Why it cannot be what the ledger has published; "" if it can."""
    missing_files: str = ""
    """Which of its data files are gone, if nothing else is wrong; "" if none is. A resnapshot repairs that."""


@dataclass(frozen=True)
class OpenedTable:
    """How a table was opened."""

    applied_epochs: Mapping[str, int]
    """The last applied epoch, by kind."""
    repaired_commits: Sequence[str] = ()
    """Commits that a power cut tore, and that were set aside."""
    is_unchanged: bool = False
    """Whether it is as the last run left it, so that it was not looked through."""
    is_new: bool = False
    """Whether its change log was gone, and begins again."""


@dataclass(frozen=True)
class CopyStart:
    """How a resnapshot began."""

    generation: int
    """The epoch with which the change log's generation began; -1 for the first one."""
    kept_folder: str = ""
    """Where an earlier generation of the change log is kept, if one ended."""
    missing_files: Sequence[str] = ()
    """The files that the change log lacks from now on."""


@dataclass(frozen=True)
class EpochEnd:
    """The end of the epochs that a destination has got."""

    epoch: int
    """The last one."""
    position: str
    """Where it ends in the binlog: `file:offset`."""
    committed_at: str
    """When it was committed to the ledger: UTC text."""


class DestinationTable(Protocol):
    """One captured table in a destination."""

    @property
    def table(self) -> Table:
        """The captured table as it is published."""

    @table.setter
    def table(self, table: Table) -> None: ...

    @property
    def has_mirror(self) -> bool:
        """Whether the destination keeps the table's current rows; else it has every change alone."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    @property
    def is_there(self) -> bool:
        """Whether it exists and belongs to the ledger. MAY raise DestinationError."""

    @property
    def needs_repair(self) -> bool:
        """Whether it must be opened with `repair` before a new copy."""

    def last_epoch(self, kind: str) -> int:
        """The last epoch of a kind whose rows readers see; -1 for none, or if it cannot be read.

        MUST NOT rely on the publisher.
        """

    def check_free(self) -> None:
        """MUST raise SpecError when something is there already that rows of this table would be mixed with."""

    def create(self) -> None:
        """Create it for a table that joins, after `check_free`. MUST delete first what a killed runner began."""

    def open(self, *, must_exist: bool) -> OpenedTable:
        """Open it for writing; create it if it is not there.

        must_exist: the ledger has published rows to it. MUST raise DestinationError when it is expected and gone, and
        SpecError when it belongs to another ledger.
        """

    def repair(self, table: Table) -> OpenedTable:
        """Open it for a new copy with the columns of `table`, whatever is lost: what is missing is given up."""

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> SinkApplied | None:
        """Add the files of chunks or changes, through an epoch; None if they were added before.

        MUST be idempotent by kind and epoch. A file that is missing MUST fail the table instead of losing its rows.
        """

    def apply(self, content: Content) -> SinkApplied | None:
        """Apply chunks and changes to the mirror; None if it has them.

        MUST be one commit, and idempotent by the content's epochs.
        """

    def check(self, before: Table, after: Table) -> None:
        """MUST raise IncompatibleColumnsError when it cannot evolve.

        It has the columns of `before`, and must get those of `after`.
        """

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Get the columns that the table has after an epoch. MUST be idempotent, and keep the rows.

        copy_follows: a new copy follows, which alters the mirror.
        """

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Begin a resnapshot after this epoch. Readers MUST keep the old copy until `apply` replaces it.

        until: when the epoch was committed, UTC text.
        """

    def inspect(self) -> Sequence[str]:
        """Look after what the last commits added. Returns what failed after them and concerns no row.

        MUST raise MissingFilesError when rows that were applied are gone.
        """

    def read_state(self) -> StoredState:
        """Its state. MUST write nothing."""

    def drop(self) -> None:
        """Delete it. MUST leave what belongs to another ledger, and complete an interrupted deletion."""


class TableMaintenance(Protocol):
    """Maintains one table, in steps of bounded size that change no row. Each returns None if there is nothing to do."""

    @property
    def table(self) -> Table:
        """The captured table as it is published."""

    def optimize(self) -> TableMaintained | None:
        """Rewrite what makes the mirror slow to read."""

    def compact(self) -> TableMaintained | None:
        """Merge small files of the change log."""

    def expire(self, before: datetime) -> TableMaintained | None:
        """Remove older changes from the change log, as far as the mirror has them."""

    def vacuum(self, needed_files: Collection[str], retention: timedelta) -> TableMaintained | None:
        """Delete files that no version within the retention names. needed_files: files that the ledger still needs."""

    def due_steps(self, before: datetime | None) -> list[MaintenanceStep]:
        """The steps that have something to do, apart from the vacuum. before: as for `expire`. Writes nothing."""


@dataclass(frozen=True)
class DifferenceRow:
    """A row that differs."""

    found_at: datetime
    table: str
    kind: str
    """missing, extra, different or duplicate."""
    key: str
    """A JSON list of texts, in the order of the primary key."""
    columns: list[str]
    """The columns that differ, of a different row."""
    cause: str
    source: str | None
    """The source's row as JSON; None if it has none."""
    mirror: str | None
    """The mirror's row as JSON."""
    position: str
    """Where both were compared: at this position or later."""
    version: int
    """The version of the mirror, as its comparison began."""


Versions = Mapping[str, tuple[int, Mapping[str, int]]]
"""By a name of the destination's, a version of a table and the ledger's transaction identifiers in it."""


class TableVersions(Protocol):
    """The versions of one table, for backups: a destination that keeps earlier ones can be rolled back."""

    @property
    def is_there(self) -> bool:
        """Whether something of the table is there to be rolled back."""

    def newest(self) -> Versions:
        """The newest version."""

    def identities(self) -> Mapping[str, str]:
        """Identifiers that a table gets when it is created: another one of the same name has others."""

    def check_roll_back(self, versions: Versions, identities: Mapping[str, str]) -> None:
        """Raises DestinationError when `roll_back` is not possible; changes nothing.

        identities: those of the table that the versions are of; empty if they are not known.
        """

    def roll_back(self, versions: Versions) -> None:
        """Roll the table back, transaction identifiers included (the inverse of `newest`); then fence it.

        Raises DestinationError when a version or one of its files is missing; the table is then unchanged.
        """


class Destination(Protocol):
    """A destination of one pipeline."""

    @property
    def root(self) -> Path | str:
        """Where it is."""

    @property
    def landing(self) -> Landing:
        """Where readers put files for it, and how its tables are read back."""

    def newest_term(self, ledger: str) -> Term | None:
        """The newest term of a runner of this ledger; None if there is none."""

    def take(self, ledger: str, term: Term) -> None:
        """Take the destination for this runner.

        MUST raise PipelineHeldError when another one has this term or a later one.
        """

    def guard(self) -> int:
        """The number of this runner's term; 0 before it took one.

        MUST raise PipelineHeldError when another one has a later term: it ends the run.
        """

    def release(self, tables: Iterable[DestinationTable] = ()) -> None:
        """Mark this runner as ended in order: it writes nothing more.

        tables: those that the next run may find `is_unchanged`.
        """

    def recall(self, newest: Term | None) -> None:
        """Read what the run with the newest term left.

        So `read_state` and `open` need not look through unchanged tables.
        """

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> DestinationTable:
        """A captured table in the destination. plan: without effect if its mirror exists and is not replaced."""

    def maintenance(self, table: DestinationTable) -> TableMaintenance | None:
        """How a table of this destination is maintained; None if there is nothing to maintain."""

    def versions(self, table: DestinationTable) -> TableVersions | None:
        """The versions of a table of this destination; None if it keeps the newest one alone."""

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """Reject what an earlier runner prepared: its commits MUST fail from now on. Faulty tables are left out.

        epochs: those in the ledger; an earlier runner has prepared no others.
        """

    def publish(self, end: EpochEnd) -> None:
        """Make visible what `append` and `begin_copy` did, after all tables have got their part of some epochs.

        When it returns, all of it MUST be durable. A destination that commits table by table has nothing left to do.
        Any error but a full disk ends the run: what was not published is applied again.
        """

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """The largest `_tm_seq` in the change logs, as far as they can be read; 0 for none."""

    def files_fault(self, table: Table, chunks: Sequence[DataFile], changes: Sequence[DataFile]) -> str:
        """Why files of readers cannot be applied; "" if all are there."""

    @property
    def unreadable(self) -> tuple[type[Exception], ...]:
        """What a read of a mirror raises when it or its files are gone or damaged."""

    def keep_differences(self, rows: Sequence[DifferenceRow]) -> None:
        """Keep rows that a verification found to differ, for readers of the destination."""

    def delete_orphans(
        self, opened_tables: Iterable[DestinationTable], committed_names: Collection[str], after_ns: int
    ) -> int:
        """Delete files that readers of earlier runs wrote and never committed. Returns how many.

        opened_tables: tables that were opened. committed_names: files in the ledger's epochs. after_ns: when the last
        epoch was committed; older files stay. Call it while no reader runs.
        """
