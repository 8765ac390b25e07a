"""Applies committed epochs to the tables of a destination, in order.

After a kill, it applies them again, as far as the destination lacks them.

A resnapshot repairs a failed table (`destination.published_tables`): the change log gets the missing changes, as far as
their files exist, and the mirror gets a new copy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from engine.base import clock
from engine.base.errors import MissingFilesError, PipelineHeldError, SpecError, TidemarkError, is_unwritable
from engine.base.parallel import run_parallel
from engine.base.wording import plural
from engine.capture.chunk.fast_forward import has_mutable_key
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.decode.types import fault
from engine.destination.capabilities import NamesPositions
from engine.destination.destination_protocol import CHANGES, MERGE, EpochEnd, OpenedTable
from engine.destination.published_tables import LIGHT_MERGE_BYTES, PublishedTables, TableAction
from engine.destination.table_progress import EpochPart, Resnapshot, Target, files_of_parts
from engine.journal import Journal
from engine.journal.events import ErrorReported
from engine.journal.verification_events import ChangeLogKept
from engine.ledger.records import EpochRecord, Switch, TableChange
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan, plan_from_dict
from engine.spec.sink_settings import AUTO_BYTES, Sink

_HEAVY_BYTES = 8 << 20
"""Bytes of files up to which several tables are written at the same time."""


class EpochReplay:
    """Applies epochs to the tables. One thread at a time uses it, except where a docstring says otherwise."""

    def __init__(
        self,
        sink: Sink,
        tables: PublishedTables,
        ledger: Ledger,
        journal: Journal,
        prune: Callable[[], None],
        *,
        is_first: bool = True,
    ) -> None:
        """prune: called after merges. is_first: of the first destination, the coordinator deletes removed tables."""
        self.tables = tables
        self._sink = sink
        self._ledger = ledger
        self._journal = journal
        self.applied_epoch = -1
        """The epoch up to which files were added."""
        self._prune = prune
        self._is_first = is_first
        self.facts: tuple[int, dict[str, dict[str, int]]] = (-1, {})
        """The epoch up to which everything is applied and merged, and the last applied epochs by table and kind."""
        self.last_merge_s = clock.monotonic_s()

    def unmerged_files(self, table: str) -> list[str]:
        """The committed files of a table's change log that its mirror may lack, in order."""
        target, records = self.tables.targets.get(table), list(self._ledger.kept_epochs())
        merged_epoch = target.applied_epochs[MERGE] if target else -1
        later = (
            part
            for record, part in zip(records, self._parts_of_targets(records), strict=True)
            if record.epoch > merged_epoch
        )
        return [file["name"] for parts in later if table in parts for file in parts[table].change_files]

    def apply_kept(
        self, state: State, after: int = -1, at_once: int = 0, check: Callable[[], None] = lambda: None
    ) -> int:
        """Apply what was committed up to a state, and after an epoch, but not applied.

        state: the one by which the tables were opened. at_once: the most epochs of a commit; 0: all. check: called
        before each; its error ends this. Returns the number of epochs checked.
        """
        kept_records = [record for record in self._ledger.kept_epochs() if after < record.epoch <= state.epoch]
        parts = self._parts_of_targets(kept_records)
        records = [replace(record, tables=part) for record, part in zip(kept_records, parts, strict=True)]
        for record in reversed(records):
            for name, change in record.tables.items():
                for switch in change.switches:
                    if name in self.tables.targets:
                        self._take_columns_before(self.tables.targets[name], switch)
        size = at_once or len(records) or 1
        for first in range(0, len(records), size):
            check()
            self.append(records[first : first + size])
        self.merge_all()
        for name in state.removed:
            self.tables.targets.pop(name, None)
        return len(records)

    @staticmethod
    def _take_columns_before(target: Target, switch: Switch) -> None:
        """Files of earlier epochs have the columns before a switch; a table that was refused for them has no files."""
        before = published_as(table_from_dict(switch.before), switch.before_projection)
        if not any(map(fault, before.columns)):
            target.destination.table = before
        target.mutable_key = True  # maybe not by the old plan, but safe with any plan

    def _parts_of_targets(self, records: Sequence[EpochRecord]) -> list[dict[str, TableChange]]:
        """The records' parts of tables that have a destination, from its creation on.

        An earlier destination is gone.
        """
        first_records = {
            name: n for n, record in enumerate(records) for name, part in record.tables.items() if part.planned
        }
        return [
            {
                name: p
                for name, p in record.tables.items()
                if name in self.tables.targets and n >= first_records.get(name, 0)
            }
            for n, record in enumerate(records)
        ]

    def has_everything(self, table: str, epoch: int) -> bool:
        """Whether a table has all changes of this epoch, in its mirror too. Called by other threads."""
        target = self.tables.targets.get(table)
        if self.applied_epoch < epoch or target is None or target.error is not None:
            return False
        return target.has_merged(epoch)

    @property
    def has_pending_work(self) -> bool:
        """Whether changes wait for a merge, or epochs were applied that the ledger may be able to prune."""
        return self.applied_epoch > self.facts[0] or any(
            t.waiting_files and t.error is None for t in self.tables.targets.values()
        )

    def append(self, records: Sequence[EpochRecord]) -> None:
        """Add the files of epochs, table by table."""
        ends = [_end_of(record) for record in records]
        if isinstance(self.tables.destination, NamesPositions):
            self.tables.destination.note_ends(ends)
        times = {record.epoch: record.ts for record in records}
        parts_by_table: dict[str, list[EpochPart]] = {}
        for record in records:
            for name, part in record.tables.items():
                parts_by_table.setdefault(name, []).append((record.epoch, part))
        light_steps, heavy_steps = list[TableAction](), list[TableAction]()
        for name, parts in parts_by_table.items():
            steps = heavy_steps if self._is_heavy(name, parts) else light_steps
            steps.append(partial(self._append_parts, name, parts, times))
        run_parallel(light_steps)
        run_parallel(heavy_steps, 1)
        if ends:
            self.tables.publish(ends[-1])
            self.applied_epoch = ends[-1].epoch

    def _is_heavy(self, name: str, parts: Sequence[EpochPart]) -> bool:
        """Whether applying these parts may need so much memory that no other table shall be written at the same time.

        Some destinations write the rows of files again; others merge changes into the mirror.
        """
        chunks, changes = files_of_parts(parts)
        if sum(file.bytes for _, file in (*chunks, *changes)) > _HEAVY_BYTES:
            return True
        target = self.tables.targets.get(name)
        merges = any(part.copied or part.switches or part.removed for _, part in parts)
        if not merges and not (target is not None and target.mutable_key):
            return False
        if target is not None and target.resnapshot is not None:
            return True  # with all changes since it began
        plans = (plan_from_dict(part.planned.plan) for _, part in parts if part.planned is not None)
        table_bytes = max([plan.approx_bytes for plan in plans], default=target.table_bytes if target else 0)
        changed_bytes = sum(file.bytes for _, file in changes) + (target.waiting_bytes if target else 0)
        return table_bytes >= AUTO_BYTES or changed_bytes > LIGHT_MERGE_BYTES

    def _append_parts(self, name: str, parts: Sequence[EpochPart], times: Mapping[int, str]) -> None:
        for group in self._commit_groups(name, parts):
            self._append_table(name, group, times[group[-1][0]])

    def _commit_groups(self, name: str, parts: Sequence[EpochPart]) -> Iterator[list[EpochPart]]:
        """Group parts into commits.

        Each ends at a part that ends a copy, or in which the table joins, leaves or is altered.
        """
        group: list[EpochPart] = []
        for part in parts:
            group.append(part)
            target = self.tables.targets.get(name)
            # If rows move between chunks, all earlier changes are merged before a chunk is added.
            change = part[1]
            ends = change.planned or change.copied or change.removed or change.switches
            if ends or (target is not None and target.mutable_key):
                yield group
                group = []
        if group:
            yield group

    def _append_table(self, name: str, parts: list[EpochPart], until: str) -> None:
        """Apply the parts of some epochs. until: when the last one was committed."""
        epoch, last = parts[-1]
        if not self._is_first and last.planned:
            self.tables.drop(name, last.planned, epoch)
        new_table = last.planned
        if name not in self.tables.targets and new_table is not None and not last.stopped:
            published_table = published_as(table_from_dict(new_table.table), new_table.projection)
            with suppress(SpecError):  # already recorded as failed: another ledger's table is there
                self.tables.open(published_table, plan_from_dict(new_table.plan), must_exist=False)
        target = self.tables.targets.get(name)
        if target is None:
            assert not any(files_of_parts(parts)), f"{name} has files and no destination"
        else:
            self._apply(name, target, parts)
        if last.removed is not None:
            if not self._is_first and last.removed.drop:
                self.tables.drop(name)
            self.tables.targets.pop(name, None)
            self.tables.leaving_tables.discard(name)
        for switch in last.switches:
            self._switch(name, (epoch, until), switch, resnapshot=last.resnapshot is not None)

    def _apply(self, name: str, target: Target, parts: list[EpochPart]) -> None:
        """Apply the parts of some epochs to a table."""
        if target.error is not None:
            target.missing_parts += parts
            return
        self.tables.run_step(name, target, lambda: target.apply(parts), parts)
        if any(part.stopped for _, part in parts):
            target.resnapshot = None  # the mirror stays as it is until the next resnapshot

    def _switch(self, name: str, after: tuple[int, str], switch: Switch, *, resnapshot: bool) -> None:
        """Switch a table to new columns after an epoch.

        resnapshot: by a resnapshot, which repairs a failed destination.

        after: the epoch, and when it was committed.
        """
        table = published_as(table_from_dict(switch.table), switch.projection)
        plan = plan_from_dict(switch.plan)
        if name not in self.tables.targets:  # it was refused or removed before
            self.tables.open(table, plan, must_exist=False)
        target, empties_mirror, epoch = self.tables.targets[name], bool(switch.since), after[0]
        if target.resnapshot is None:
            self.tables.merge(name, target)
        if resnapshot and (target.error is not None or target.destination.read_state().fault):
            self._repair_for_resnapshot(name, target, table)
        target.mutable_key = has_mutable_key(table, plan.key(table))
        target.table_bytes = plan.approx_bytes
        if resnapshot:
            self.tables.run_step(
                name, target, lambda: self._begin_resnapshot(target, table, plan, after, empties_mirror=empties_mirror)
            )
            if not empties_mirror and target.destination.mirror is not None:
                target.resnapshot = Resnapshot(epoch)
        else:
            self.tables.run_step(name, target, lambda: target.alter(table, epoch))
        if target.error is not None:
            target.destination.table = table

    def _begin_resnapshot(
        self, target: Target, table: Table, plan: Plan, after: tuple[int, str], *, empties_mirror: bool
    ) -> None:
        copy_start = target.begin_resnapshot(table, plan, *after, empties_mirror=empties_mirror)
        if missing_files := copy_start.missing_files:
            what = f"the changes of {plural(len(missing_files), 'missing file')}: {', '.join(missing_files[:3])}"
            self._has_gap(table.full_name, what)
        if copy_start.kept_folder:
            self._journal.write(ChangeLogKept(table=table.full_name, folder=copy_start.kept_folder, until=after[1]))

    def _repair_for_resnapshot(self, name: str, target: Target, table: Table) -> None:
        """Prepare a resnapshot.

        Makes the destination writable, and appends the lacking changes, as far as their files exist.

        table: as it is resnapshotted. A change log that is gone begins with its columns.
        """
        missing_parts, results = target.reopen(), list[OpenedTable]()

        def open_again() -> None:
            results.append(target.destination.open(must_exist=False, copied_as=table))

        self.tables.run_step(name, target, open_again, missing_parts)
        if not results:
            return
        opened = results[0]
        self.tables.take_opened(name, target, opened)
        if opened.is_new:
            self._has_gap(name, "everything before this resnapshot: its folder is gone")
        for part in () if opened.is_new else missing_parts:
            try:
                target.append(CHANGES, files_of_parts([part])[1])
            except PipelineHeldError:
                raise
            except Exception as error:
                if is_unwritable(error):
                    raise  # the destination is away: nothing is known of its files
                reason = error.message if isinstance(error, TidemarkError) else str(error)
                self._has_gap(name, f"its changes of epoch {part[0]}: {reason}")

    def _has_gap(self, name: str, what: str) -> None:
        self._journal.write(
            ErrorReported(
                error=MissingFilesError.__name__,
                message=f"The change log of {name} lacks {what}",
                detail="The mirror is right again after the resnapshot; the change log has a gap there.",
                hint="",
                table=name,
            )
        )

    def merge_all(self, *, only_due: bool = False) -> None:
        """Merge all waiting changes. only_due: only those that are worth it now."""
        self.last_merge_s = clock.monotonic_s()
        self.tables.merge_all(
            name for name, target in self.tables.targets.items() if not only_due or target.merge_due(self._sink)
        )
        healthy = {
            name: dict(target.applied_epochs) for name, target in self.tables.targets.items() if target.error is None
        }
        self.facts = (self.applied_epoch, healthy)
        self._prune()


def _end_of(record: EpochRecord) -> EpochEnd:
    return EpochEnd(record.epoch, str(record.to_position), record.ts, record.to_position.gtids)
