"""The two Delta tables of one captured table: their owner, the epochs they have, and how commits to them are made.

`<path>/<database>/<table>` is the mirror, `<table>__changes` the change log. Every Delta commit contains transaction identifiers
together with the files:

    …-chunks, …-changes, …-merge   the last epoch whose chunks, changes or merge the table has. A repeated epoch finds its
                                   identifier there and does nothing: exactly once, whenever the runner was killed
    …-merged-seq                   the `_tm_seq` up to which the change log is merged into the mirror
    …-term                         the term of the runner that made the commit (`destination.fence`); one with an earlier term stops

The identifiers name the ledger, so another ledger's destination is recognised and refused.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from engine.base import clock
from engine.base.errors import DestinationError, MissingFilesError, PipelineHeldError, SpecError
from engine.capture.binlog.row_changes import log_schema
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Table
from engine.destination.delta.folder_removal import drop
from engine.destination.delta.generations import GENERATION, kept_generations
from engine.destination.delta.layout import changes_folder, check_no_link, make_readable, mirror_folder
from engine.destination.delta.log.delta_actions import (
    Actions,
    StoredFile,
    metadata_of,
    needed_features,
    protocol_of,
)
from engine.destination.delta.log.delta_log import DeltaLog, StaleVersionError, check_files, create
from engine.destination.delta.log.known_tables import KnownTables, describe, fingerprint
from engine.destination.delta.log.missing_files import Recent, lost_names
from engine.destination.delta.log.rollback import check_is_same, check_is_there, rolled_back
from engine.destination.delta.merge.key_index import KeyIndex
from engine.destination.delta.schema_evolution import lacks, mirror_schema, schema_of
from engine.destination.delta.table_properties import PROPERTIES, properties_of
from engine.ledger.state import Owner

_ATTEMPTS, _RETRY_S = 6, 0.1
KINDS = ("chunks", "changes", "merge")
SEQ = "merged-seq"
TERM = "term"
Guard = Callable[[], int]
"""Returns this runner's term; raises PipelineHeldError when another runner has a later one."""


def unguarded() -> int:
    """The guard of read-only users."""
    return 0


class OwnedTables:
    """The Delta tables of one captured table and one ledger.

    owner: the ledger. guard: called before each write or deletion. on_read: whether a mirror that is created, or replaced by a
    resnapshot, merges changes on read (`destination.delta.merge.mirror_files`).
    """

    def __init__(
        self, root: Path, owner: Owner, table: Table, guard: Guard = unguarded, *, on_read: bool = False
    ) -> None:
        self.table = table
        self._owner = owner
        self._guard = guard
        self.on_read = on_read
        self.index: KeyIndex | None = None
        self.mirror = mirror_folder(root, table.database, table.name)
        self.changes = changes_folder(root, table.database, table.name)
        # `optimize` bounds a mirror's files; a change log grows.
        self._logs = {folder: DeltaLog(folder, keeps=folder == self.mirror) for folder in (self.mirror, self.changes)}
        self._recent = {folder: Recent() for folder in self._logs}

    def create(self, *, expected: bool) -> None:
        """Create the tables that do not exist.

        expected: the ledger has published rows to them. Raises SpecError when they exist and belong to another ledger,
        DestinationError when they are expected and missing, or cannot be read.
        """
        for folder, schema in self._folders():
            check_no_link(folder)
            log = self._logs[folder]
            if not log.there:
                if expected:
                    raise DestinationError(
                        f"The destination {folder} is gone, but the ledger has published rows to it.",
                        detail="Continuing would leave a table without those rows; nothing was written.",
                        hint=f"Restore the folder, or resnapshot the table: tidemark redump SPEC --table "
                        f"{self.table.full_name}",
                    )
                self._guard()
                make_readable(folder)
                with suppress(StaleVersionError):  # another writer was first: the owner is checked below
                    vectors = self.on_read and folder == self.mirror
                    properties = PROPERTIES | self._properties(folder)
                    create(folder, schema, self._description, properties, vectors=vectors)
                    continue
            delta = self._load(folder)
            if not self._describes_us(delta):
                raise SpecError(
                    f"The destination {folder} exists already and does not belong to this pipeline's ledger.",
                    detail="Adding to it would mix the rows of two pipelines; nothing was written.",
                    hint="Choose another sink.path, or move that folder away.",
                )
            # Change logs of an earlier version lack columns, both tables of one lack properties.
            wanted = schema if folder == self.changes else pa.schema([])
            if self._lacks(delta, folder, wanted):
                self._add_columns(log, wanted)

    @property
    def _description(self) -> str:
        """By which its tables name the ledger."""
        return f"Tidemark ledger {self._owner.ledger}"

    @property
    def generation(self) -> int:
        """The epoch with which the change log's generation began; -1 for the first one."""
        self._refresh(self.changes)
        return self._logs[self.changes].transactions.get(self._app(GENERATION), -1)

    @property
    def has_log(self) -> bool:
        """Whether the folder of the change log is there."""
        return self._logs[self.changes].there

    @property
    def exist(self) -> bool:
        """Whether the folders of its tables are there, whoever owns them."""
        return all(self._logs[folder].there for folder, _ in self._folders())

    @property
    def any_is_there(self) -> bool:
        """Whether one of its tables exists and belongs to the ledger."""
        return any(self._logs[folder].there and self._is_ours(folder) for folder, _ in self._folders())

    def hold(self, *, held: bool) -> None:
        """Whether the change log's newest version stays in memory too, which a start needs several times."""
        log = self._logs[self.changes]
        log.keeps = held
        if not held:
            log.forget()

    def recall(self, known: KnownTables) -> bool:
        """Take the tables as the last run left them. Returns False if one has changed, or was checked for something else."""
        found = {folder: known.unchanged(folder, self._checked(folder, schema)) for folder, schema in self._folders()}
        return all(log is not None and self._logs[folder].recall(log) for folder, log in found.items())

    def remember(self) -> dict[str, dict[str, Any]]:
        """The tables as this run leaves them, for the next run's `recall`; without those that have just changed."""
        found = {}
        for folder, schema in self._folders():
            self._refresh(folder)
            if known := describe(folder, self._checked(folder, schema), self._logs[folder].remembered()):
                found[str(folder)] = known
        return found

    def _checked(self, folder: Path, schema: pa.Schema) -> str:
        """What `create` checks a table for."""
        wanted = sorted(self._properties(folder).items()), [(field.name, str(field.type)) for field in schema]
        return fingerprint(self._owner.ledger, self._owner.application, self._owner.floor, wanted)

    def repair(self, *, accepting: bool = False) -> list[str]:
        """Set aside commits torn by a power cut. Returns their names. Raises DestinationError when later commits rest on them.

        accepting: give up the actions of those instead, because a resnapshot follows.
        """
        self._guard()
        return [f"{f.name}/{name}" for f, _ in self._folders() for name in self._logs[f].repair(accepting=accepting)]

    def _is_ours(self, folder: Path) -> bool:
        return self._describes_us(self._load(folder))

    def _is_ours_at(self, folder: Path) -> bool:
        with suppress(DeltaError, OSError):
            return self._describes_us(DeltaTable(str(folder)))
        return False

    def _describes_us(self, delta: DeltaTable) -> bool:
        return self._owner.ledger in (delta.metadata().description or "")

    @staticmethod
    def folders(root: Path, table: Table) -> tuple[Path, Path]:
        """The folders for the table's chunks and changes."""
        changes = changes_folder(root, table.database, table.name)
        return (mirror_folder(root, table.database, table.name) if table.key else changes), changes

    def fault(self) -> str:
        """Why the tables are not the ones this ledger has published to; "" if they are. Writes nothing.

        Files torn at the end of a log do not count: the ledger has their actions (`repair`). Raises DestinationError.
        """
        for folder, _ in self._folders():
            log = self._logs[folder]
            if not log.there:
                return f"{folder} is gone"
            end, amid = log.torn()
            if amid:
                return f"the commit {amid[0].name} of {folder} is empty, torn or gone, and later ones rest on it"
            if not end and not self._is_ours(folder):
                return f"{folder} belongs to another ledger"
        return ""

    @property
    def is_torn(self) -> bool:
        """Whether a commit that later ones rest on is torn or gone. Runs read only newer commits, so they may not notice."""
        return any(self._logs[folder].torn()[1] for folder, _ in self._folders())

    @property
    def there(self) -> bool:
        """Whether all its tables exist and belong to the ledger."""
        return all(self._logs[folder].there and self._is_ours(folder) for folder, _ in self._folders())

    def check_free(self) -> None:
        """Raises SpecError when one exists already, whoever owns it, so that the table cannot join.

        Tables of this ledger without writes are fine: a runner created them, and was killed before it committed the join.
        """
        for folder, log in self._logs.items():
            if log.there and not (self._is_ours(folder) and log.version == 0):
                raise SpecError(
                    f"The destination {folder} exists already.",
                    detail="Its rows would be mixed with those of the table; nothing was written.",
                    hint="Move that folder away, then add the table again.",
                )

    def begin(self) -> None:
        """Create both for a table that joins, after `check_free`. Raises SpecError when that is not possible."""
        self.drop()
        self.create(expected=False)

    def drop(self) -> None:
        """Delete those that exist and belong to the ledger; also completes an interrupted deletion."""
        self._guard()
        for folder, log in self._logs.items():
            if not folder.exists() or (log.there and self._is_ours(folder)):
                drop(folder)
                log.version = -1
        for kept in kept_generations(self.changes):
            if self._is_ours_at(kept):
                drop(kept)

    def _folders(self) -> list[tuple[Path, pa.Schema]]:
        """The folders and schemas of its tables."""
        log = (self.changes, log_schema(arrow_schema(self.table)))
        return [(self.mirror, mirror_schema(self.table)), log] if self.table.key else [log]

    def _folder(self, kind: str) -> Path:
        return self.mirror if self.table.key and kind != "changes" else self.changes

    def file_names(self) -> set[str]:
        """The names of the tables' current data files."""
        return {file.name for folder, _ in self._folders() for file in self._files(folder)}

    def lost(self) -> str:
        """The missing data files as text; "" if none is missing. Raises DestinationError."""
        found = [(folder, names) for folder, _ in self._folders() if (names := lost_names(self._files(folder), folder))]
        return "; ".join(
            f"{len(names)} data files of {folder} are gone: {', '.join(names[:3])}" for folder, names in found
        )

    def check_recent(self) -> None:
        """Check again the files added since the last check. Raises MissingFilesError if any is missing."""
        for folder, recent in self._recent.items():
            try:
                check_files(folder, added := recent.take())
            except MissingFilesError:
                there = self.file_names()  # another writer may have removed some from the table
                check_files(folder, [file for file in added if file.name in there])

    def drop_lost(self) -> list[str]:
        """Before a resnapshot: remove missing files from the change log. Returns their names, which are a gap in it.

        The mirror's files are not checked: the resnapshot replaces all of them.
        """
        missing: list[str] = []
        self._recent[self.mirror].take()

        def actions() -> Actions | None:
            files = self._files(self.changes)
            missing[:] = lost_names(files, self.changes)
            return Actions("FSCK", {}, remove=[f for f in files if f.name in missing]) if missing else None

        self._commit(self.changes, actions)
        return missing

    def applied(self, kind: str) -> int:
        """The last epoch whose "chunks", "changes" or "merge" is in the destination; -1 for none."""
        self._refresh(self._folder(kind))
        return self._known(kind)

    def applied_so_far(self) -> dict[str, int]:
        """As `applied`, by kind, of the tables that can be read."""
        found = {}
        for kind in KINDS:
            with suppress(DestinationError):
                if self._logs[folder := self._folder(kind)].there and self._is_ours(folder):
                    found[kind] = self.applied(kind)
        return found

    def _known(self, kind: str) -> int:
        return max(self._logs[self._folder(kind)].transactions.get(self._app(kind), -1), self._owner.floor)

    def merged_seq(self) -> int:
        """The `_tm_seq` up to which the change log is merged into the mirror; -1 if unknown."""
        if not self.table.key:
            return -1
        self._refresh(self.mirror)
        return self._logs[self.mirror].transactions.get(self._app(SEQ), -1)

    def terms(self) -> set[int]:
        """The terms of the runners that made the newest commits; empty if none is known."""
        for folder, _ in self._folders():
            self._refresh(folder)
        found = {self._logs[folder].transactions.get(self._app(TERM)) for folder, _ in self._folders()}
        return {term for term in found if term is not None}

    def largest_seq(self) -> int:
        """The largest `_tm_seq` in the change log, by its files' statistics; 0 for none."""
        return max((file.high.get("_tm_seq", 0) for file in self._files(self.changes)), default=0)

    def _app(self, kind: str) -> str:
        # Terms continue across lineages: they distinguish runners, not epochs.
        return f"tidemark-{self._owner.ledger}-{kind}" if kind == TERM else self._owner.transaction(kind)

    def _load(self, folder: Path) -> DeltaTable:
        return self._logs[folder].load(self._apps(folder))

    def _refresh(self, folder: Path) -> None:
        self._logs[folder].refresh(self._apps(folder))

    def _apps(self, folder: Path) -> list[str]:
        """The identifiers that commits to a table may have; the search for each takes as long as the load."""
        kinds = [kind for kind in KINDS if self._folder(kind) == folder]
        return [self._app(kind) for kind in (*kinds, SEQ if folder == self.mirror else GENERATION, TERM)]

    def _files(self, folder: Path) -> list[StoredFile]:
        """The data files of the newest version."""
        return self._logs[folder].files(self._load(folder))

    def seal(self) -> None:
        """Commit this runner's term to both: from then on a commit prepared by an earlier runner is rejected."""
        for folder, _ in self._folders():
            self._commit(folder, lambda: Actions("TERM", {}))

    def versions(self) -> dict[str, tuple[int, dict[str, int]]]:
        """By folder name, the newest version of each table and this ledger's transaction identifiers in it."""
        found = {}
        for folder, _ in self._folders():
            self._refresh(folder)
            log = self._logs[folder]
            found[folder.name] = log.version, dict(log.transactions)
        return found

    def identities(self) -> dict[str, str]:
        """By folder name, the identifier that each Delta table got when it was created."""
        return {folder.name: str(self._load(folder).metadata().id) for folder, _ in self._folders()}

    def check_roll_back(
        self, versions: Mapping[str, tuple[int, Mapping[str, int]]], identities: Mapping[str, str]
    ) -> None:
        """Raises DestinationError when `roll_back` is not possible; changes nothing.

        identities: those of the tables that the versions are of; empty if they are not known.
        """
        for folder, _ in self._folders():
            check_is_there(folder, self.table.full_name)
            version, transactions = versions[folder.name]
            then = {app: transactions.get(app, -1) for app in self._rolled_apps}
            check_is_same(folder, self.table.full_name, version, then, identities.get(folder.name, ""))
            if found := self._rolled_back(folder, *versions[folder.name]):
                check_files(folder, found.add)

    def roll_back(self, versions: Mapping[str, tuple[int, Mapping[str, int]]]) -> None:
        """Roll both back to these versions, transaction identifiers included (the inverse of `versions`).

        Raises DestinationError when a version or one of its files is missing; that table is then unchanged.
        """
        for folder, _ in self._folders():
            version, transactions = versions[folder.name]
            self._commit(folder, partial(self._rolled_back, folder, version, transactions))

    def _rolled_back(self, folder: Path, version: int, transactions: Mapping[str, int]) -> Actions | None:
        delta = self._load(folder)
        log = self._logs[folder]
        if log.version == version:
            return None
        apps = [app for app in self._rolled_apps if app in transactions or app in log.transactions]
        return rolled_back(folder, delta, log.files(delta), version, {app: transactions.get(app, -1) for app in apps})

    @property
    def _rolled_apps(self) -> list[str]:
        return [self._app(kind) for kind in (*KINDS, SEQ, GENERATION)]

    def _commit(self, folder: Path, actions: Callable[[], Actions | None]) -> bool:
        """Commit the result of `actions`. Returns False if that is None.

        After another writer's commit (a manual repair, an OPTIMIZE), the commit is retried on top of it.
        """
        log = self._logs[folder]
        if log.version < 0:
            self._load(folder)
        for attempt in range(_ATTEMPTS + 1):
            term = self._guard()
            self._check_term(log, term)
            try:
                found = actions()
                if found is None:
                    return False
                transactions = {**found.transactions, **({self._app(TERM): term} if term else {})}
                log.commit(replace(found, transactions=transactions))
            except StaleVersionError:
                if attempt < _ATTEMPTS:
                    clock.sleep(_RETRY_S * 2**attempt)
                self._load(folder)
            except MissingFilesError:
                # A merge writes its files again, and reads the newest version: another writer may have replaced files of this
                # one and removed them, and may do so again meanwhile. Those of readers are lost.
                if attempt == _ATTEMPTS:
                    raise
            else:
                self._recent[folder].committed(found.add, found.remove)
                return True
        raise DestinationError(
            f"Another writer keeps committing to {folder}: {_ATTEMPTS + 1} attempts came too late.",
            detail="They wrote nothing; the table stays as it is.",
            hint="Find out who writes there: DESCRIBE HISTORY has the tool of each commit. Stop that writer, then resnapshot the "
            f"table: tidemark redump SPEC --table {self.table.full_name}",
        )

    def _check_term(self, log: DeltaLog, term: int) -> None:
        other_term = log.transactions.get(self._app(TERM), 0)
        if term and other_term > term:
            raise PipelineHeldError(
                f"A runner with term {other_term} has written to {log.folder}; this one has term {term}.",
                detail="That runner holds the pipeline now; this one wrote nothing more.",
                hint="Run one runner per pipeline. `status` shows where the other one is.",
            )

    def housekeeping_failures(self) -> list[str]:
        """What failed after commits since the last call."""
        found = [log.failure for log in self._logs.values() if log.failure]
        for log in self._logs.values():
            log.failure = ""
        return found

    def _add_columns(self, log: DeltaLog, wanted: pa.Schema) -> None:
        """Add missing columns to a Delta table, NULL in existing rows, and the properties that its key needs."""

        def actions() -> Actions | None:
            delta = self._load(log.folder)
            if not self._lacks(delta, log.folder, wanted):
                return None
            held, properties = schema_of(delta), self._properties(log.folder)
            new = [field for field in wanted if field.name not in held.names]
            metadata = metadata_of(delta, pa.schema([*held, *new]), properties)
            return Actions("ADD COLUMN", {}, metadata=metadata, protocol=protocol_of(delta, needed_features(wanted)))

        self._commit(log.folder, actions)

    def _properties(self, folder: Path) -> dict[str, str]:
        return properties_of(self.table, mirror=folder == self.mirror)

    def _lacks(self, delta: DeltaTable, folder: Path, wanted: pa.Schema) -> bool:
        """Whether a table lacks some of the columns, or properties that its key needs."""
        return lacks(delta, wanted) or not self._properties(folder).items() <= delta.metadata().configuration.items()
