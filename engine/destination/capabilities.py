"""What only some destinations can do. One that cannot lacks the methods: it does not imitate them.

    Maintainable         a table whose files are rewritten and vacuumed
    Versioned            a table that can be rolled back, for backups
    InspectsCommits      a table that checks again what its last commits added
    HoldsSessions        a destination with an open transaction, which must end before another process opens it
    SeparatesEpochs      a table that gets the files of each epoch by themselves, because its rows name it
    KeepsHalfCopies      a table that remembers how far the files of a copy are, by their names
    CompletesCopies      a table without a mirror that tells its readers which rows a new copy no longer has
    RemembersTables      a destination whose next run need not look through tables that have not changed
    KeepsVersions        a destination that retains the versions that backups name
    NamesPositions       a destination whose commits name where their epochs end in the binlog
    PublishesFormats     a destination whose tables can be read in other formats too
    KeepsDifferences     a destination that keeps the differences which a verification finds

The publisher and the commands ask with `isinstance`. Two more are of the landing (`engine.capture.landing`):

    ReadsBack            a landing whose tables can be read back
    StagesFiles          a landing whose files become part of no table
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, runtime_checkable

from engine.decode.schema import Table
from engine.destination.destination_protocol import DestinationTable, EpochEnd
from engine.journal.destination_events import SinkApplied, TableMaintained
from engine.ledger.state import Owner

MaintenanceStep = Literal["optimize", "compact", "expire", "vacuum"]
STEPS: tuple[MaintenanceStep, ...] = ("optimize", "compact", "expire", "vacuum")


@dataclass(frozen=True)
class Sizes:
    """What a table has in its destination."""

    mirror_files: int
    mirror_bytes: int
    deleted_rows: int
    """Rows of the mirror's files that deletion vectors delete."""
    changes_files: int
    changes_bytes: int
    old_files: int
    """Files that the newest versions do not name."""
    old_bytes: int
    on_read: bool
    """Whether the mirror is merged on read."""


@dataclass(frozen=True)
class CatalogEntry:
    """A table in a catalog."""

    namespace: str
    table: str
    """Its name there, in the namespace."""
    version: int | None
    """The version of the table that readers of the catalog see; None if it is not registered, or nobody knows."""
    fault: str = ""
    """Why nobody knows."""

    @property
    def name(self) -> str:
        """Both."""
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True)
class PublishedFormat:
    """What readers of another format see of a table."""

    format: str
    """Its name, such as "Iceberg v3"."""
    table_place: str
    """The folder or URL of the table whose files it has."""
    place: str
    """Its own folder or URL."""
    pointer: str
    """The file that names its newest version; "" without one."""
    version: int | None
    """The version of the table that it has; None if it is not published yet, or another program wrote to it."""
    missing_versions: int
    """How many later versions it lacks, of those that change something; 100 at most."""
    catalog: CatalogEntry | None = None
    """What a catalog has of it; None without one."""


@dataclass(frozen=True)
class FormatAgreement:
    """Whether another format of a table has, in its newest version, just what the table has in that version."""

    format: str
    place: str
    """Its folder or URL."""
    version: int | None
    """The version that was compared; None if it is not published."""
    files: int
    """How many data files both have."""
    rows: int
    """How many rows both have."""
    differences: Sequence[str]


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

    def sizes(self) -> Sizes:
        """What the table has in the destination. Writes nothing. Raises DestinationError if that cannot be read."""

    def formats(self) -> Sequence[PublishedFormat]:
        """What readers of other formats see, of the mirror first. Writes nothing. Raises DestinationError."""

    def compare_formats(self) -> Sequence[FormatAgreement]:
        """Compare what other formats have, file by file and deleted row by deleted row. Raises DestinationError."""

    def newest_versions(self) -> Mapping[str, int]:
        """The newest version of each of its parts. Costs a listing or two, and says whether `sizes` are up to date."""


@runtime_checkable
class Maintainable(Protocol):
    """A table that is maintained between merges."""

    def maintenance(self) -> TableMaintenance:
        """How it is maintained. An error of a step concerns no row, so the table continues."""


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


@runtime_checkable
class Versioned(Protocol):
    """A table that keeps earlier versions, to which a restored backup rolls it back."""

    def versions(self) -> TableVersions:
        """Its versions."""


@runtime_checkable
class KeepsVersions(Protocol):
    """A destination that retains the versions that backups name."""

    def keep_versions(self, ledger: str, versions: Mapping[str, Versions]) -> None:
        """Keep these versions, by the table's full name, for `sink.files_retention`, however many follow.

        ledger: its identifier. Raises OSError if that cannot be noted.
        """


@runtime_checkable
class NamesPositions(Protocol):
    """A destination whose commits name where their epochs end in the source's binlog."""

    def note_ends(self, ends: Iterable[EpochEnd]) -> None:
        """Take the ends of epochs that its tables are about to get. Their merges may follow much later."""


@runtime_checkable
class HoldsSessions(Protocol):
    """A destination whose open transaction would keep the next opening of it waiting."""

    def give_up(self) -> None:
        """Roll back what is not committed, and end its sessions. It is not used any more. MUST NOT raise."""


@runtime_checkable
class SeparatesEpochs(Protocol):
    """A table that MUST get the files of each epoch by themselves. Others get those of several epochs at once."""

    @property
    def separates_epochs(self) -> bool:
        """Whether that is so."""


@runtime_checkable
class KeepsHalfCopies(Protocol):
    """A table that continues a copy that was interrupted, if the same files come again."""

    def forget_rows(self) -> None:
        """Begin again instead: a copy comes whose files have other names. MUST be durable on return."""


@runtime_checkable
class CompletesCopies(Protocol):
    """A table without a mirror that tells its readers which rows a new copy no longer has."""

    def complete_copy(self, epoch: int) -> SinkApplied | None:
        """Called when all rows of a copy are appended, before the changes of its last epoch. MUST be idempotent by it.

        None if there is nothing to tell.
        """


@runtime_checkable
class InspectsCommits(Protocol):
    """A table that looks after what its last commits added."""

    def inspect(self, *, all_changes: bool = False) -> Sequence[str]:
        """What failed after the last commits and concerns no row. Called before each merge.

        all_changes: look for all files of the change log too. So it is called once in some minutes, also if nothing
        changes. It SHOULD list folders instead of asking for each file.

        MUST raise MissingFilesError when rows that were applied are gone; it stops the table, or resnapshots it.
        """


@runtime_checkable
class RemembersTables(Protocol):
    """A destination whose `read_state` and `open` need not look through tables that are as a run left them."""

    def remember(self, tables: Iterable[DestinationTable]) -> None:
        """Note the tables as this run leaves them, for the next run's `recall`. Called before `Terms.release`.

        An error of the disk MUST be ignored: the next run then looks through all tables.
        """


@dataclass(frozen=True)
class FormatState:
    """How far another format of a table is."""

    table: str
    """The captured table's full name."""
    place: str
    """Where it is: a folder or URL. A table may have several."""
    version: int
    """The newest version that its readers see; -1 for none, or if that is not known."""
    behind_s: float
    """For how many seconds the oldest commit has waited that it lacks; 0 if it lacks none."""
    failure: str
    """Why it could not be written; "" if it could."""
    hint: str
    foreign_commits: Sequence[str] = ()
    """What other programs have done to it since the last call, which counts for nothing."""


@runtime_checkable
class PublishesFormats(Protocol):
    """A destination whose tables can be read in other formats too, over the same files.

    It publishes them after its commits, in threads of its own. An error there concerns no row.
    """

    def format_states(self) -> Sequence[FormatState]:
        """Those of all tables."""

    def check_formats(self, owner: Owner, tables: Sequence[Table]) -> None:
        """Whether tables can be published in all of them. Writes nothing. Raises DestinationError or SpecError."""

    def finish_formats(self) -> None:
        """Wait until all that is committed is published, or what is not has failed. MUST NOT wait for ever."""


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


@runtime_checkable
class KeepsDifferences(Protocol):
    """A destination that keeps rows which a verification found to differ, for its readers."""

    def keep_differences(self, rows: Sequence[DifferenceRow]) -> None:
        """Keep them."""
