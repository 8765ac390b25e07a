"""The seam: what the publisher asks of a destination, whatever its kind. `engine.destination.registry` knows the kinds.

A destination takes epochs, table by table, in order. It MUST keep these promises:

    exactly once     `append` and `apply` store the epoch's number in the same commit as its rows, so that an epoch that
                     is applied again, however often and after whatever kill, changes nothing
    durable          what a method did survives a power cut when it returns: the ledger may then forget the epoch
    whole            a reader never sees part of a commit. Once the first copy is complete, a mirror is the source
                     between two transactions
    fenced           a runner with an earlier term writes nothing more: its next call raises PipelineHeldError
    local            an error of one table is raised by its own methods and stops that table alone

What an error does:

    PipelineHeldError                  ends the run, whichever method raises it: another runner has a later term
    OSError of a disk that is full     the caller waits, and calls the method again. A server that cannot be reached
    or read-only, StoreAwayError,      MUST be a StoreAwayError, one that refuses the credentials a StoreAccessError
    StoreAccessError
    any other TidemarkError            final. Of a table's method, it stops that table; of the destination's, the run
    any other error                    the caller repeats `append`, `apply`, `alter`, `begin_copy` and `publish` a few
                                       times; then it is final

A destination that commits all tables at once keeps what `append` gets invisible until `publish`.

What only some destinations can do is a protocol of its own, in `engine.destination.capabilities`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.decode.schema import Table
from engine.destination.fence import Term
from engine.journal.destination_events import SinkApplied
from engine.ledger.state import Owner
from engine.plan.chunks import Plan

if TYPE_CHECKING:  # they load Arrow
    from engine.capture.files import DataFile
    from engine.capture.landing import Landing

CHUNKS, CHANGES, MERGE = "chunks", "changes", "merge"
KINDS = (CHUNKS, CHANGES, MERGE)
"""The kinds of commits whose last epoch a destination stores, by table."""
MERGED_SEQ = "merged-seq"
"""The kind by which a mirror stores up to which `_tm_seq` it has the change log."""
Guard = Callable[[], int]
"""Returns this runner's term; raises PipelineHeldError when another runner has a later one."""


def no_guard() -> int:
    """The guard of read-only users."""
    return 0


@dataclass(frozen=True)
class MirrorStep:
    """Files that a commit applies to a mirror: first the chunks, then the changes, each in epoch order."""

    chunks: "Sequence[DataFile]" = ()
    changes: "Sequence[DataFile]" = ()


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
    gtids: str | None = None
    """The GTIDs of all transactions before that place, as the server writes them; None if they are not known."""


class PublishedMirror(Protocol):
    """The rows of one table as the source has them, between two transactions."""

    def apply(self, content: Content) -> SinkApplied | None:
        """Apply chunks and changes; None if it has them.

        MUST be one commit that is durable on return, and idempotent by the content's epochs.
        """


class DestinationTable(Protocol):
    """One captured table in a destination. Its errors stop this table alone; PipelineHeldError ends the run.

    One thread at a time uses it, but several tables are used at the same time: what they share MUST be locked.
    """

    table: Table
    """The captured table as it is published."""

    @property
    def mirror(self) -> PublishedMirror | None:
        """Its mirror; None if the destination has every change of the table alone.

        A change log without a mirror begins with the rows of the snapshot, and begins again with each resnapshot.
        """

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    @property
    def is_there(self) -> bool:
        """Whether it exists and belongs to the ledger. MAY raise DestinationError."""

    def last_epoch(self, kind: str) -> int:
        """The last epoch of a kind whose rows readers see; -1 for none, or if it cannot be read.

        MUST read it back, and not rely on what this process has written. Writes nothing.
        """

    def read_state(self) -> StoredState:
        """Its state. MUST write nothing, and return a fault instead of raising DestinationError."""

    def check(self, before: Table | None, after: Table) -> None:
        """Whether it can get the columns of `after`. Writes nothing; called before anything is committed.

        before: the columns that it has; None for a table that joins. MUST raise IncompatibleColumnsError when it cannot
        get the new ones, and SpecError when a table joins and something is there that its rows would be mixed with.
        """

    def open(self, *, must_exist: bool, copied_as: Table | None = None) -> OpenedTable:
        """Open it for writing; create it if it is not there. What it creates MUST be durable on return.

        must_exist: the ledger has published rows to it. MUST raise DestinationError when it is expected and gone:
        it never begins again in silence. MUST raise SpecError when it belongs to another ledger.

        copied_as: a copy with these columns follows. It MUST then open whatever is lost: what is missing is given up,
        and a change log that is gone begins with these columns.
        """

    def append(self, kind: str, epoch: int, files: "Sequence[DataFile]") -> SinkApplied | None:
        """Add the files of chunks or changes, through an epoch; None if they were added before.

        MUST be idempotent by kind and epoch. MUST be durable on return, or once `publish` returns. A file that is
        missing MUST raise MissingFilesError instead of losing its rows.
        """

    def alter(self, table: Table, epoch: int, *, copy_follows: bool) -> None:
        """Get the columns that the table has after an epoch. MUST be idempotent, durable on return, and keep the rows.

        copy_follows: a new copy follows, which alters the mirror.
        """

    def begin_copy(self, table: Table, plan: Plan, epoch: int, until: str) -> CopyStart:
        """Begin a resnapshot after this epoch. MUST be idempotent by the epoch.

        Readers MUST keep the old copy until `apply` replaces it. until: when the epoch was committed, UTC text.
        """

    def drop(self) -> None:
        """Delete it. MUST leave what belongs to another ledger, and complete an interrupted deletion.

        Nothing of it is there on return: `check` then lets a table of its name join.
        """


class Terms(Protocol):
    """The terms of the runners that write to a destination. Whoever has the newest one holds it."""

    def newest(self, ledger: str) -> Term | None:
        """The newest term of a runner of this ledger; None if there is none. Writes nothing."""

    def take(self, ledger: str, term: Term) -> None:
        """Take the destination for this runner. MUST be durable on return.

        MUST raise PipelineHeldError when another one has this term or a later one, also of two that take it at once.
        """

    def check(self) -> int:
        """The number of this runner's term; 0 before it took one. Called before each write, and by tables themselves.

        MUST raise PipelineHeldError when another one has a later term: it ends the run.
        """

    def release(self) -> None:
        """Mark this runner as ended in order: it writes nothing more, so the next one need not fence it."""


class Destination(Protocol):
    """A destination of one pipeline. Its errors end the run, or delay a further sink."""

    @property
    def root(self) -> Path | str:
        """Where it is."""

    @property
    def landing(self) -> "Landing":
        """Where readers put files for it. It MAY be a `ReadsBack` or a `StagesFiles` (`engine.capture.landing`)."""

    @property
    def terms(self) -> Terms:
        """Which runner may write to it. `engine.destination.fence` keeps them in files of the destination."""

    def recall(self, newest: Term | None) -> None:
        """Forget what this process knows of the tables: another run may have written since.

        newest: the newest term. What its run remembered may be trusted if it ended in order (`RemembersTables`).
        """

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> DestinationTable:
        """A captured table in the destination. Touches nothing.

        plan: without effect if its mirror exists and is not replaced.
        """

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """Reject what an earlier runner prepared: its commits MUST fail from now on. Faulty tables are left out.

        epochs: those in the ledger; an earlier runner has prepared no others.
        """

    def publish(self, end: EpochEnd) -> None:
        """Make visible what `append` and `begin_copy` did, after all tables have got their part of some epochs.

        When it returns, all of it MUST be durable. A destination that commits table by table has nothing left to do.
        MUST be idempotent by the epochs in it. If it fails, what was not published is applied again by the next run.
        """

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """The largest `_tm_seq` in the change logs, as far as they can be read; 0 for none."""

    def delete_orphans(
        self, opened_tables: Iterable[DestinationTable], committed_names: Collection[str], after_ns: int
    ) -> int:
        """Delete files that readers of earlier runs wrote and never committed. Returns how many.

        opened_tables: tables that were opened. committed_names: files in the ledger's epochs. after_ns: when the last
        epoch was committed; older files stay. Call it while no reader runs.
        """
