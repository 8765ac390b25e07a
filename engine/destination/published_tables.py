"""The tables that a destination has: opened, failed, or left.

A failed destination affects only its table: the table fails here, the coordinator stops it (`failed_tables`), and the
others continue. Its unapplied epochs stay in the ledger. A resnapshot repairs it (`destination.epoch_replay`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial

from engine.base import clock
from engine.base.errors import (
    DestinationError,
    PipelineHeldError,
    SpecError,
    TableStoppedError,
    TidemarkError,
    is_disk_full,
    is_unwritable,
)
from engine.base.parallel import run_parallel
from engine.base.wording import shell_word
from engine.capture.chunk.fast_forward import has_mutable_key
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.destination.capabilities import InspectsCommits, Maintainable, RemembersTables
from engine.destination.destination_protocol import (
    CHANGES,
    CHUNKS,
    KINDS,
    Destination,
    DestinationTable,
    EpochEnd,
    OpenedTable,
)
from engine.destination.table_progress import EpochPart, Target
from engine.journal import Journal
from engine.journal.destination_events import SinkApplied
from engine.journal.events import ErrorReported
from engine.ledger.records import Planned
from engine.ledger.state import Owner, State
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan, plan_from_dict
from engine.spec.sink_settings import AUTO_BYTES

_TRIES, _RETRY_S = 3, 0.5
LIGHT_MERGE_BYTES = 1 << 20
"""Bytes of change files up to which several merges take place at the same time: together, they need little memory."""
_SMALL_AT_ONCE, _LARGE_AT_ONCE = 16, 4
"""Merges at once, by the size of the table: one of a large table may have to read all keys of some files."""
TableAction = Callable[[], None]


class PublishedTables:
    """The tables of one destination. One thread at a time uses it, except where a docstring says otherwise.

    on_commit: called with the result of each commit. through_full_disk: runs a step, waiting while a disk is full.
    """

    def __init__(
        self,
        destination: Destination,
        ledger: Ledger,
        journal: Journal,
        on_commit: Callable[[SinkApplied | None], None],
        through_full_disk: Callable[[TableAction], None],
        owner: Owner | None = None,
    ) -> None:
        """owner: how the destination identifies the ledger, if not by its state."""
        self.destination = destination
        self.targets: dict[str, Target] = {}
        self.leaving_tables: set[str] = set()
        """Tables whose removal is submitted, but not applied yet."""
        self.unchanged_tables: set[str] = set()
        """The tables that are as the last run left them, so that they were not opened."""
        self._ledger = ledger
        self._journal = journal
        self._on_commit = on_commit
        self._through_full_disk = through_full_disk
        self._owner = owner

    def open_all(
        self, state: State, published_names: Collection[str] | None = None, removed_names: Collection[str] = ()
    ) -> None:
        """Open the tables; create those that are not there. Raises SpecError when one belongs to another ledger.

        Also opens removed tables whose destination is kept: they may lack earlier commits. published_names: the tables
        that must be there; None for those with published rows. removed_names: removed tables that may not be there yet.
        """
        steps = list[TableAction]()
        for name, table in state.tables.items():
            if not table.begun:
                continue
            # During a resnapshot, the mirror of a table that just got a key may not exist yet.
            must_exist = bool(table.rows_read or table.changes_applied) and (table.copied or not table.generation)
            if published_names is not None:
                must_exist = name in published_names
            published_table = published_as(table_from_dict(table.table), table.projection)
            steps.append(partial(self.open, published_table, plan_from_dict(table.plan), must_exist))
        run_parallel(steps)
        for name, table in state.removed.items():
            published_table = published_as(table_from_dict(table.table), table.projection)
            is_kept = table.removed and not table.removed.drop
            with suppress(DestinationError):  # it no longer belongs to the pipeline
                if is_kept and (name in removed_names or self._table(published_table).is_there):
                    self.open(published_table, plan_from_dict(table.plan), must_exist=name not in removed_names)

    def _table(self, table: Table, plan: Plan | None = None) -> DestinationTable:
        return self.destination.table(self._owner or self.state.owner, table, plan)

    def failed_tables(self) -> dict[str, TidemarkError]:
        """The tables with a failed destination that the ledger has not stopped, with the errors; until the repair."""
        tables = self.state.tables
        errors = {
            name: target.error
            for name, target in list(self.targets.items())
            if name in tables and not tables[name].stopped
        }
        return {name: error for name, error in errors.items() if error is not None}

    def fail(self, name: str, error: Exception, missing_parts: Sequence[EpochPart] = ()) -> None:
        if is_unwritable(error) or is_disk_full(error):
            raise error  # not the table's fault
        table_error = error if isinstance(error, TableStoppedError) else _table_error(name, error)
        self.targets[name].fail(table_error, missing_parts)

    def _retry(self, action: TableAction) -> None:
        """Run a step. Wait while the disk is full; retry other possibly transient errors a few times."""
        for attempt in range(_TRIES):
            try:
                self._through_full_disk(action)
            except TidemarkError:
                raise
            except Exception as error:
                if attempt == _TRIES - 1 or is_unwritable(error):
                    raise
                clock.sleep(_RETRY_S * 2**attempt)
            else:
                return

    def check_columns(self, before: Table, after: Table) -> None:
        """Raises TableStoppedError when the destination cannot take these columns.

        before, after: the table as published.
        """
        if target := self.targets.get(before.full_name):
            if target.error is None:
                target.destination.check(before, after)
            return
        destination_table, table_state = self._table(after), self.state.tables.get(before.full_name)
        if table_state is not None and table_state.begun:  # it joined, but its epoch is not applied yet
            if destination_table.is_there:
                destination_table.check(before, after)
            return
        try:
            destination_table.check(None, after)
        except SpecError as error:
            raise TableStoppedError(error.message, detail=error.detail, hint=error.hint) from error

    @property
    def state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    def open(self, table: Table, plan: Plan, must_exist: bool) -> None:
        destination_table = self._table(table, plan)
        mutable_key = has_mutable_key(table, plan.key(table))
        maintenance = destination_table.maintenance() if isinstance(destination_table, Maintainable) else None
        target = Target(
            destination_table, maintenance, mutable_key, dict.fromkeys(KINDS, -1), self._on_commit, plan.approx_bytes
        )
        self.targets[table.full_name] = target
        try:
            opened = destination_table.open(must_exist=must_exist)
            if opened.is_unchanged:
                self.unchanged_tables.add(table.full_name)
            self.take_opened(table.full_name, target, opened)
        except PipelineHeldError:
            raise
        except Exception as error:
            self.fail(table.full_name, error)  # whatever is wrong, the other tables continue
            if isinstance(error, SpecError):
                raise

    def drop(self, name: str, new_table: Planned | None = None, epoch: int = -1) -> None:
        """Delete a table's data.

        new_table, epoch: the table joins with an epoch; only what an earlier one of its name has left is deleted.
        """
        table_state = self.state.known(name)
        if new_table is not None:
            destination_table = self._table(published_as(table_from_dict(new_table.table), new_table.projection))
            if (
                not destination_table.is_there
                or max(destination_table.last_epoch(CHUNKS), destination_table.last_epoch(CHANGES)) >= epoch
            ):
                return
        elif (target := self.targets.get(name)) is not None:
            destination_table = target.destination
        else:
            assert table_state is not None
            destination_table = self._table(published_as(table_from_dict(table_state.table), table_state.projection))
        destination_table.drop()
        self.targets.pop(name, None)

    def take_opened(self, name: str, target: Target, opened: OpenedTable) -> None:
        for commit in opened.repaired_commits:
            self._journal.write(_repair_report(name, commit))
        target.applied_epochs = dict(opened.applied_epochs)

    def publish(self, end: EpochEnd) -> None:
        """Make the parts of some epochs visible, once all tables have them (`Destination.publish`)."""
        self._retry(lambda: self.destination.publish(end))

    def release(self) -> None:
        """End this runner's term, once nothing writes any more.

        The destination may remember the tables that lack nothing.
        """
        healthy = (target for target in self.targets.values() if target.error is None and target.resnapshot is None)
        if isinstance(self.destination, RemembersTables):
            self.destination.remember([target.destination for target in healthy])
        self.destination.terms.release()

    def delete_orphans(self) -> int:
        """Delete what readers of earlier runs left without a commit (`Destination.delete_orphans`).

        Returns the number of files.

        Of tables that were opened: the content of a failed one is unknown, and an unchanged one got no file.
        """
        changes = [change for record in self._ledger.kept_epochs() for change in record.tables.values()]
        names = {file["name"] for change in changes for part in change.written for file in part.files}
        opened = [
            target.destination
            for name, target in self.targets.items()
            if target.error is None and name in self.state.tables and name not in self.unchanged_tables
        ]
        committed_ns = self._ledger.committed_ns()
        return 0 if committed_ns is None else self.destination.delete_orphans(opened, names, committed_ns)

    def oldest_mirror(self) -> tuple[float, str | None]:
        """For how many seconds the oldest change that a mirror lacks has waited, and its table; called by any thread.

        A mirror that takes nothing counts from its failure on, until its table has stopped or has a new copy.
        """
        tables = self.state.tables
        waiting = [
            (since_s, name)
            for name, target in list(self.targets.items())
            if (since_s := target.lacks_since_s) is not None and not (name in tables and tables[name].stopped)
        ]
        since_s, name = min(waiting, default=(None, None))
        return (0.0 if since_s is None else clock.monotonic_s() - since_s), name

    def inspect(self, name: str, target: Target, *, all_changes: bool = False) -> None:
        """Report once what failed after commits. It concerns no row. all_changes: as `InspectsCommits` has it."""
        if not isinstance(target.destination, InspectsCommits):
            return
        for error in target.destination.inspect(all_changes=all_changes):
            self._journal.write(
                ErrorReported(
                    error="HousekeepingError",
                    message=f"{name}: {error}",
                    detail="The commits are complete, and no row is affected. Without checkpoints, "
                    "the log grows and opens slowly.",
                    hint="Check the destination's space and permissions. The next commits try again.",
                    table=name,
                )
            )

    def merge_all(self, names: Iterable[str]) -> None:
        """Merge what waits for these tables. Merges of little take place at the same time."""
        merges: dict[int, list[TableAction]] = {_SMALL_AT_ONCE: [], _LARGE_AT_ONCE: [], 1: []}
        for name in names:
            target = self.targets[name]
            at_once = _SMALL_AT_ONCE if target.table_bytes < AUTO_BYTES else _LARGE_AT_ONCE
            at_once = at_once if target.waiting_bytes <= LIGHT_MERGE_BYTES else 1
            merges[at_once].append(partial(self.merge, name, target))
        for at_once, steps in merges.items():
            run_parallel(steps, at_once)

    def merge(self, name: str, target: Target) -> None:
        self.run_step(name, target, lambda: self.inspect(name, target))
        self.run_step(name, target, target.merge)

    def run_step(self, name: str, target: Target, step: TableAction, parts: Sequence[EpochPart] = ()) -> None:
        """Run a step unless the table has failed. If the step fails, the table has failed and lacks these parts."""
        if target.error is not None:
            return
        try:
            self._retry(step)
        except PipelineHeldError:
            raise
        except Exception as error:  # noqa: BLE001 - see the module's docstring
            self.fail(name, error, parts)


def _repair_report(table: str, commit: str) -> ErrorReported:
    return ErrorReported(
        error="TornCommit",
        message=f"{table}: the Delta commit {commit} was empty, torn or gone, as after a power cut; it was set aside.",
        detail="The publisher applies its actions again, as far as the ledger has them.",
        hint="",
        table=table,
    )


def _table_error(name: str, error: Exception) -> DestinationError:
    return DestinationError(
        f"Publishing {name} failed: {type(error).__name__}: {error}",
        detail="Its published data stays as it is; later commits are in the ledger. The other tables continue.",
        hint=f"Check its folder in the destination (space, permissions, other writers). Then resnapshot it: "
        f"tidemark redump SPEC --table {shell_word(name)}",
    )
