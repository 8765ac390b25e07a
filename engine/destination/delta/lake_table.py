"""One Delta table: its folder, its log, the ledger that owns it, and how commits to it are made.

Every commit contains transaction identifiers together with the files:

    …-chunks, …-changes, …-merge   the last epoch whose chunks, changes or merge the table has. A repeated epoch finds
                                   its identifier there and does nothing: exactly once, whenever the runner was killed
    …-merged-seq                   the `_tm_seq` up to which the change log is merged into the mirror
    …-generation                   the epoch with which the change log's generation began
    …-copy                         the last resnapshot that found or made the columns of the change log fit
    …-term                         the term of the runner that made the commit (`destination.fence`); one with an
                                   earlier term stops

The identifiers name the ledger, so another ledger's table is recognised and refused.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from engine.base import clock
from engine.base.errors import DestinationError, MissingFilesError, PipelineHeldError, SpecError
from engine.base.wording import shell_word
from engine.capture.files import DataFile
from engine.destination.delta.folder_removal import drop, is_half_dropped
from engine.destination.delta.layout import check_no_link, make_readable
from engine.destination.delta.log.delta_actions import (
    Actions,
    StoredFile,
    metadata_of,
    needed_features,
    protocol_of,
)
from engine.destination.delta.log.delta_log import DeltaLog, StaleVersionError
from engine.destination.delta.log.epoch_positions import EpochPositions
from engine.destination.delta.log.known_tables import KnownTables, describe, fingerprint
from engine.destination.delta.log.missing_files import RecentFiles, check_vectors, missing_names
from engine.destination.delta.log.table_creation import create
from engine.destination.delta.log.table_opening import is_table
from engine.destination.delta.schema_evolution import lacks, schema_of
from engine.destination.delta.table_properties import PROPERTIES
from engine.destination.destination_protocol import KINDS, Guard, no_guard
from engine.ledger.state import Owner
from engine.store.folder import Folder

_ATTEMPTS, _RETRY_S, _LONGEST_RETRY_S = 16, 0.1, 2.0
GENERATION = "generation"
COPY = "copy"
TERM = "term"


@dataclass(frozen=True)
class Guards:
    """What a Delta table calls before it is written to."""

    commit: Guard = no_guard
    """Its answer may be a second old (`FolderTerms.check_for_commit`)."""
    deletion: Guard = no_guard
    """Also before a table is created, which deletes what is left of one that was half dropped."""


NO_GUARDS = Guards()
"""Those of read-only users."""


class LakeTable:
    """One Delta table of one captured table and one ledger.

    owner: the ledger. guards: called before it is written to. name: of the captured table, for messages. kinds: the
    transaction identifiers that commits to it may have, apart from the term; the search for each takes as long as a
    load. keeps: whether the newest version stays in memory, for tables of few files. on_commit: called after each
    commit, with its version. positions: where epochs end, which commits name.
    """

    def __init__(
        self,
        folder: Folder,
        owner: Owner,
        name: str,
        kinds: Sequence[str],
        guards: Guards,
        *,
        keeps: bool,
        on_commit: Callable[[int], None] = lambda _: None,
        positions: EpochPositions | None = None,
    ) -> None:
        self.folder = folder
        self.kinds = kinds
        self.log = DeltaLog(folder, keeps=keeps)
        self._owner = owner
        self._name = name
        self._guards = guards
        self._recent = RecentFiles()
        self._on_commit = on_commit
        self._positions = positions or EpochPositions()

    @property
    def description(self) -> str:
        """By which the table names its ledger."""
        return f"Tidemark ledger {self._owner.ledger}"

    @property
    def exists(self) -> bool:
        """Whether the table exists, whoever owns it."""
        return is_table(self.folder) and not is_half_dropped(self.folder)

    @property
    def is_ours(self) -> bool:
        """Whether the table belongs to the ledger. Raises DestinationError if it cannot be read."""
        return self.belongs(self.load())

    def belongs(self, delta: DeltaTable) -> bool:
        """Whether a table, or an earlier generation of it, belongs to the ledger."""
        return self._owner.ledger in (delta.metadata().description or "")

    def app(self, kind: str) -> str:
        """The transaction identifier of a kind of commit."""
        # Terms continue across lineages: they distinguish runners, not epochs.
        return f"tidemark-{self._owner.ledger}-{kind}" if kind == TERM else self._owner.transaction(kind)

    @property
    def _apps(self) -> list[str]:
        return [self.app(kind) for kind in (*self.kinds, TERM)]

    def load(self) -> DeltaTable:
        """The newest version (`DeltaLog.load`)."""
        return self.log.load(self._apps)

    def refresh(self) -> None:
        """Look for newer commits."""
        self.log.refresh(self._apps)

    def files(self) -> list[StoredFile]:
        """The data files of the newest version."""
        return self.log.files(self.load())

    def newest(self, kind: str) -> int | None:
        """A transaction identifier, as of the last load or commit; None without one."""
        return self.log.transactions.get(self.app(kind))

    def loaded_epoch(self, kind: str) -> int:
        """The last epoch of a kind, as of the last load or commit; -1 for none."""
        epoch = self.newest(kind)
        return max(-1 if epoch is None else epoch, self._owner.floor)

    def last_epoch(self, kind: str) -> int:
        """The last epoch of a kind in the newest version; -1 for none."""
        self.refresh()
        return self.loaded_epoch(kind)

    def create(
        self, schema: pa.Schema, properties: Mapping[str, str], *, must_exist: bool, vectors: bool, all_columns: bool
    ) -> None:
        """Create the table if it does not exist; else add the properties that it lacks.

        must_exist: the ledger has published rows to it. vectors: a new table may get deletion vectors. all_columns:
        whether an existing table gets the columns that it lacks. Raises SpecError when it exists and belongs to another
        ledger, DestinationError when it is expected and missing, or cannot be read.
        """
        check_no_link(self.folder)
        if not self.exists:
            if must_exist:
                raise DestinationError(
                    f"The destination {self.folder.url} is gone, but the ledger has published rows to it.",
                    detail="Continuing would leave a table without those rows; nothing was written.",
                    hint="Restore the folder, or resnapshot the table: tidemark redump SPEC --table "
                    f"{shell_word(self._name)}",
                )
            self._guards.deletion()
            if is_half_dropped(self.folder):
                drop(self.folder)
            make_readable(self.folder)
            with suppress(StaleVersionError):  # another writer was first: the owner is checked below
                create(self.folder, schema, self.description, {**PROPERTIES, **properties}, vectors=vectors)
                self.log.begin_again()
                return
        delta = self.load()
        if not self.belongs(delta):
            raise SpecError(
                f"The destination {self.folder.url} exists already and does not belong to this pipeline's ledger.",
                detail="Adding to it would mix the rows of two pipelines; nothing was written.",
                hint="If this pipeline has published it, put the pipeline's folder with its ledger back. Otherwise "
                "choose another sink.path, or move that folder away.",
            )
        columns = schema if all_columns else pa.schema([])
        if _lacks(delta, columns, properties):
            self.add_columns(columns, properties)

    def check_free(self) -> None:
        """Raises SpecError when the table exists already, whoever owns it, so that the captured table cannot join.

        A table of this ledger without writes is fine: a runner created it, and was killed before it committed the join.
        """
        if self.exists and not (self.is_ours and self.log.version == 0):
            raise SpecError(
                f"The destination {self.folder.url} exists already.",
                detail="Its rows would be mixed with those of the table; nothing was written.",
                hint="This pipeline wrote it, before the table was removed or its ledger was restored. Move the "
                "folders of the mirror and of the change log away, then try again."
                if self.is_ours
                else "If this pipeline has published it, put the pipeline's folder with its ledger back. If another "
                "one publishes there, choose another sink.path. Otherwise move that folder away, then try again.",
            )

    def drop(self) -> None:
        """Delete the table if it belongs to the ledger; also completes an interrupted deletion."""
        self._guards.deletion()
        if not self.folder.is_there or is_half_dropped(self.folder) or (self.exists and self.is_ours):
            drop(self.folder)
            self.log.begin_again()

    def add_columns(self, schema: pa.Schema, properties: Mapping[str, str]) -> None:
        """Add the columns that the table lacks, NULL in existing rows, and the properties."""

        def actions() -> Actions | None:
            delta = self.load()
            if not _lacks(delta, schema, properties):
                return None
            columns = schema_of(delta)
            new_columns = [field for field in schema if field.name not in columns.names]
            metadata = metadata_of(delta, pa.schema([*columns, *new_columns]), properties)
            return Actions("ADD COLUMN", {}, metadata=metadata, protocol=protocol_of(delta, needed_features(schema)))

        self.commit(actions)

    def append(self, kind: str, epoch: int, files: Sequence[DataFile]) -> bool:
        """Add the files of an epoch. Returns False if the table has them, or there are none."""

        def actions() -> Actions | None:
            if not files or self.loaded_epoch(kind) >= epoch:
                return None
            return Actions("WRITE", {self.app(kind): epoch}, add=files)

        return self.commit(actions)

    def commit(self, actions: Callable[[], Actions | None]) -> bool:
        """Commit the result of `actions`. Returns False if that is None.

        After another writer's commit (a manual repair, an OPTIMIZE), the commit is retried on top of it.
        """
        if self.log.version < 0:
            self.load()
        for attempt in range(_ATTEMPTS + 1):
            term = self._guards.commit()
            self._check_term(term)
            try:
                commit_actions = actions()
                if commit_actions is None:
                    return False
                transactions = {**commit_actions.transactions, **({self.app(TERM): term} if term else {})}
                epoch = max(commit_actions.transactions.get(self.app(kind), -1) for kind in KINDS)
                notes = self._positions.describe(epoch)
                self.log.commit(replace(commit_actions, transactions=transactions, notes=notes))
            except StaleVersionError:
                if attempt < _ATTEMPTS:
                    clock.sleep(min(_RETRY_S * 2**attempt, _LONGEST_RETRY_S))
                self.load()
            except MissingFilesError:
                # A merge writes its files again, and reads the newest version: another writer may have replaced files
                # of this one and removed them, and may do so again meanwhile. Those of readers are lost.
                if attempt == _ATTEMPTS:
                    raise
            else:
                self._recent.add(commit_actions.add, commit_actions.remove)
                self._on_commit(self.log.version)
                return True
        raise DestinationError(
            f"Another writer keeps committing to {self.folder.url}: {_ATTEMPTS + 1} attempts came too late.",
            detail="They wrote nothing; the table stays as it is.",
            hint="Find out who writes there: DESCRIBE HISTORY has the tool of each commit. Stop that writer, then "
            f"resnapshot the table: tidemark redump SPEC --table {shell_word(self._name)}",
        )

    def _check_term(self, term: int) -> None:
        other_term = self.newest(TERM) or 0
        if term and other_term > term:
            raise PipelineHeldError(
                f"A runner with term {other_term} has written to {self.folder.url}; this one has term {term}.",
                detail="That runner holds the pipeline now; this one wrote nothing more.",
                hint="Run one runner per pipeline. `status` shows where the other one is.",
            )

    def fault(self) -> str:
        """Why the table is not the one that this ledger has published to; "" if it is. Writes nothing.

        Files torn at the end of its log do not count: the ledger has their actions (`DeltaLog.repair`). Raises
        DestinationError.
        """
        if not self.exists:
            return f"{self.folder.url} is gone"
        end, amid = self.log.torn_files()
        if amid:
            return f"the commit {amid[0]} of {self.folder.url} is empty, torn or gone, and later ones rest on it"
        return "" if end or self.is_ours else f"{self.folder.url} belongs to another ledger"

    def missing_files(self) -> list[str]:
        """The names of missing data files. Raises DestinationError."""
        return missing_names(self.files(), self.folder)

    def check_recent(self) -> None:
        """Check again the files added since the last check. Raises MissingFilesError if any is missing."""
        try:
            check_vectors(self.folder, files := self._recent.take())
        except MissingFilesError:
            names = {file.name for file in self.files()}  # another writer may have removed some from the table
            check_vectors(self.folder, [file for file in files if file.name in names])

    def accept_loss(self, seen_version: int) -> range:
        """Take the table as it is, because a resnapshot follows. Returns the versions that are gone.

        seen_version: the newest one that this process knows of, before any repair; -1 for none.
        """
        self._recent.take()
        if not self.exists:
            return range(0)
        try:
            self.refresh()
        except MissingFilesError:  # another writer may have taken its number
            self.log.begin_again()
            self.load()
            return range(min(self.log.version + 1, seen_version), seen_version + 1)
        return range(self.log.version + 1, seen_version + 1)

    def recall(self, known_tables: KnownTables, expectations: object) -> bool:
        """Take the table as the last run left it. Returns False if it has changed, or was checked for something else.

        expectations: what `create` checks it for.
        """
        log = known_tables.find_unchanged(self.folder, self._fingerprint(expectations))
        return log is not None and self.log.recall(log)

    def remember(self, expectations: object) -> dict[str, Any]:
        """The table as this run leaves it, by its folder, for the next run's `recall`; empty if it has just changed."""
        self.refresh()
        description = describe(self.folder, self._fingerprint(expectations), self.log.description())
        return {self.folder.url: description} if description else {}

    def _fingerprint(self, expectations: object) -> str:
        return fingerprint(self._owner.ledger, self._owner.application, self._owner.floor, expectations)


def _lacks(delta: DeltaTable, schema: pa.Schema, properties: Mapping[str, str]) -> bool:
    """Whether a table lacks some of the columns or of the properties."""
    return lacks(delta, schema) or not properties.items() <= delta.metadata().configuration.items()
