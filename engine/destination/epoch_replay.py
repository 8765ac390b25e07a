"""The tables of a destination, to which committed epochs are applied in order.

A failed destination affects only its table: the table fails here, the coordinator stops it (`failures`), and the others continue.
Its unapplied epochs stay in the ledger. A resnapshot repairs it: the change log gets the missing changes, as far as their files
exist, and the mirror gets a new copy.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from engine.base import clock
from engine.base.errors import (
    DestinationError,
    MissingFilesError,
    PipelineHeldError,
    SpecError,
    TableStoppedError,
    TidemarkError,
    is_unwritable,
)
from engine.capture.chunk.fast_forward import has_mutable_key
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.destination.destination_protocol import CHANGES, KINDS, MERGE, Destination, DestinationTable, Opened
from engine.destination.maintenance_schedule import Answer, Maintenance, Request
from engine.destination.table_progress import Part, Resnapshot, Target, files_of_parts
from engine.journal import Journal
from engine.journal.events import ErrorReported, SinkApplied
from engine.journal.verification_events import ChangeLogKept
from engine.ledger.records import EpochRecord, Switch, TableChange
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan, plan_from_dict
from engine.spec.sink_settings import Sink

_TRIES, _RETRY_S = 3, 0.5
Step = Callable[[], None]


class Targets:
    """Applies epochs to the tables. One thread at a time uses it, except where a docstring says otherwise.

    through_full_disk: runs a step, waiting while a disk is full.
    """

    def __init__(
        self,
        sink: Sink,
        destination: Destination,
        ledger: Ledger,
        journal: Journal,
        through_full_disk: Callable[[Step], None] = lambda step: step(),
    ) -> None:
        self._sink = sink
        self.destination = destination
        self._ledger = ledger
        self._journal = journal
        self._through_full_disk = through_full_disk
        self._targets: dict[str, Target] = {}
        self._leaving: set[str] = set()
        self.unchanged: set[str] = set()
        """The tables that are as the last run left them, so that they were not opened."""
        self._applied = self._recorded = -1
        self._facts: tuple[int, dict[str, dict[str, int]]] = (-1, {})
        self._last_merge = clock.monotonic_s()
        self._maintenance = Maintenance(sink, journal, ledger.file_names)

    def open_tables(self, state: State) -> None:
        """Open the tables; create those that are not there. Raises SpecError when one belongs to another ledger.

        Also opens removed tables whose destination is kept: they may lack earlier commits.
        """
        for table in state.tables.values():
            if not table.begun:
                continue
            # During a resnapshot, the mirror of a table that just got a key may not exist yet.
            expected = bool(table.rows_read or table.changes_applied) and (table.copied or not table.generation)
            shown = published_as(table_from_dict(table.table), table.projection)
            self._open(shown, plan_from_dict(table.plan), expected)
        for table in state.removed.values():
            shown = published_as(table_from_dict(table.table), table.projection)
            kept = table.removed and not table.removed["drop"]
            with suppress(DestinationError):  # it no longer belongs to the pipeline
                if kept and self._table(shown).is_there:
                    self._open(shown, plan_from_dict(table.plan), expected=True)

    def _table(self, table: Table, plan: Plan | None = None) -> DestinationTable:
        return self.destination.table(self._state.owner, table, plan)

    def unpublished(self) -> dict[str, TidemarkError]:
        """The tables with a failed destination that the ledger has not stopped, with the errors; until the repair."""
        tables = self._state.tables
        errors = {
            name: target.error
            for name, target in list(self._targets.items())
            if name in tables and not tables[name].stopped
        }
        return {name: error for name, error in errors.items() if error is not None}

    def _fail(self, name: str, error: Exception, lacking: Sequence[Part] = ()) -> None:
        if is_unwritable(error):
            raise error  # not the table's fault
        known = error if isinstance(error, TableStoppedError) else _failed(name, error)
        self._targets[name].fail(known, lacking)

    def _retry(self, action: Step) -> None:
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
        """Raises TableStoppedError when the destination cannot take these columns. before, after: the table as published."""
        if target := self._targets.get(before.full_name):
            if target.error is None:
                target.destination.check(before, after)
            return
        found, known = self._table(after), self._state.tables.get(before.full_name)
        if known is not None and known.begun:  # it joined, but its epoch is not applied yet
            if found.is_there:
                found.check(before, after)
            return
        try:
            found.check_free()
        except SpecError as error:
            raise TableStoppedError(error.message, detail=error.detail, hint=error.hint) from error

    @property
    def _state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    def _open(self, table: Table, plan: Plan, expected: bool) -> None:
        found = self._table(table, plan)
        mutable_key = has_mutable_key(table, plan.key(table))
        maintenance = self.destination.maintenance(found)
        target = Target(found, maintenance, mutable_key, dict.fromkeys(KINDS, -1), self._written)
        self._targets[table.full_name] = target
        try:
            opened = found.open(expected=expected)
            if opened.unchanged:
                self.unchanged.add(table.full_name)
            self._take_opened(table.full_name, target, opened)
        except PipelineHeldError:
            raise
        except Exception as error:
            self._fail(table.full_name, error)  # whatever is wrong, the other tables continue
            if isinstance(error, SpecError):
                raise

    def _take_opened(self, name: str, target: Target, opened: Opened) -> None:
        for commit in opened.repaired:
            self._repaired(name, commit)
        target.applied = dict(opened.applied)

    def _repaired(self, table: str, name: str) -> None:
        self._journal.write(
            ErrorReported(
                error="TornCommit",
                message=f"{table}: the Delta commit {name} was empty, torn or gone, as after a power cut; it was set aside.",
                detail="The publisher applies its actions again, as far as the ledger has them.",
                hint="",
            )
        )

    def complete(self) -> list[DestinationTable]:
        """The tables that lack nothing, when nothing writes to them any more (`Destination.release`)."""
        healthy = (target for target in self._targets.values() if target.error is None and target.resnapshot is None)
        return [target.destination for target in healthy]

    def delete_orphans(self) -> int:
        """Delete what readers of earlier runs left without a commit (`Destination.delete_orphans`). Returns the number of files.

        Of tables that were opened: the content of a failed one is unknown, and an unchanged one got no file.
        """
        changes = [table for record in self._ledger.kept_epochs() for table in record["tables"].values()]
        lists = [
            part["files"]
            for t in changes
            for part in [*t.get("chunks", []), *([t["changes"]] if "changes" in t else [])]
        ]
        names = {file["name"] for files in lists for file in files}
        opened = [
            target.destination
            for name, target in self._targets.items()
            if target.error is None and name in self._state.tables and name not in self.unchanged
        ]
        committed_ns = self._ledger.committed_ns()
        return 0 if committed_ns is None else self.destination.delete_orphans(opened, names, committed_ns)

    @property
    def failed(self) -> set[str]:
        """The tables with a failed destination, which get no more writes."""
        return {name for name, target in self._targets.items() if target.error is not None}

    def unmerged(self, table: str) -> list[str]:
        """The committed files of a table's change log that its mirror may lack, in order."""
        target, kept = self._targets.get(table), list(self._ledger.kept_epochs())
        merged = target.applied[MERGE] if target else -1
        later = (
            part for record, part in zip(kept, self._parts_of_targets(kept), strict=True) if record["epoch"] > merged
        )
        changes = (part.get(table, {}).get("changes", {}) for part in later)
        return [file["name"] for part in changes for file in part.get("files", [])]

    def _apply_kept(self) -> int:
        """Apply what earlier runs committed but did not apply. Returns the number of epochs checked."""
        kept = list(self._ledger.kept_epochs())
        records = list(kept)
        for n, part in enumerate(self._parts_of_targets(kept)):
            records[n] = {**kept[n], "tables": part}
        for record in reversed(records):
            for name, change in record["tables"].items():
                for switch in _switches(change):
                    if name in self._targets:  # files of earlier epochs have the old columns
                        before = published_as(table_from_dict(switch["before"]), switch.get("before_projection"))
                        self._targets[name].destination.table = before
                        self._targets[name].mutable_key = True  # maybe not by the old plan, but safe with any plan
        self._append(records)
        self._merge_all()
        for name in self._state.removed:
            self._targets.pop(name, None)
        return len(records)

    def _parts_of_targets(self, records: Sequence[EpochRecord]) -> list[dict[str, TableChange]]:
        """The records' parts of tables that have a destination, from its creation on; an earlier destination is gone."""
        begun = {
            name: n for n, record in enumerate(records) for name, part in record["tables"].items() if "planned" in part
        }
        return [
            {name: p for name, p in record["tables"].items() if name in self._targets and n >= begun.get(name, 0)}
            for n, record in enumerate(records)
        ]

    @property
    def _unsettled(self) -> bool:
        """Whether changes wait for a merge, or epochs were applied that the ledger may be able to prune."""
        return self._applied > self._facts[0] or any(t.waiting and t.error is None for t in self._targets.values())

    def oldest_mirror(self) -> tuple[float, str | None]:
        """For how many seconds the oldest change that a mirror lacks has waited, and its table; called by any thread.

        A mirror that takes nothing counts from its failure on, until its table has stopped or has a new copy.
        """
        tables = self._state.tables
        waiting = [
            (since_s, name)
            for name, target in list(self._targets.items())
            if (since_s := target.lacks_since_s) is not None and not (name in tables and tables[name].stopped)
        ]
        since_s, name = min(waiting, default=(None, None))
        return (0.0 if since_s is None else clock.monotonic_s() - since_s), name

    def _append(self, records: Sequence[EpochRecord]) -> None:
        """Add the files of epochs, table by table."""
        times = {record["epoch"]: record["ts"] for record in records}
        for name in dict.fromkeys(name for record in records for name in record["tables"]):
            parts = [(record["epoch"], record["tables"][name]) for record in records if name in record["tables"]]
            for group in self._commit_groups(name, parts):
                self._append_table(name, group, times[group[-1][0]])
        if records:
            self._applied = records[-1]["epoch"]

    def _commit_groups(self, name: str, parts: Sequence[Part]) -> Iterator[list[Part]]:
        """Group parts into commits: each ends at a part that ends a copy, or in which the table joins, leaves or is altered."""
        group: list[Part] = []
        for part in parts:
            group.append(part)
            target = self._targets.get(name)
            # If rows move between chunks, all earlier changes are merged before a chunk is added.
            ends = any(kind in part[1] for kind in ("planned", "copied", "removed"))
            if ends or _switches(part[1]) or (target is not None and target.mutable_key):
                yield group
                group = []
        if group:
            yield group

    def _append_table(self, name: str, parts: list[Part], until: str) -> None:
        """Apply the parts of some epochs. until: when the last one was committed."""
        epoch, last = parts[-1]
        if name not in self._targets and "planned" in last and "stopped" not in last:
            joined = last["planned"]
            shown = published_as(table_from_dict(joined["table"]), joined.get("projection"))
            with suppress(SpecError):  # already recorded as failed: another ledger's table is there
                self._open(shown, plan_from_dict(joined["plan"]), expected=False)
        target = self._targets.get(name)
        if target is None:
            assert not any(files_of_parts(parts)), f"{name} has files and no destination"
        else:
            self._apply(name, target, parts)
        if "removed" in last:
            self._targets.pop(name, None)
            self._leaving.discard(name)
        for switch in _switches(last):
            self._switch(name, (epoch, until), switch, resnapshot="resnapshot" in last)

    def _apply(self, name: str, target: Target, parts: list[Part]) -> None:
        """Apply the parts of some epochs to a table."""
        if target.error is not None:
            target.lacking += parts
            return
        self._run_step(name, target, lambda: target.apply(parts), parts)
        if any("stopped" in part for _, part in parts):
            target.resnapshot = None  # the mirror stays as it is until the next resnapshot

    def _switch(self, name: str, after: tuple[int, str], switch: Switch, *, resnapshot: bool) -> None:
        """Switch a table to new columns after an epoch. resnapshot: by a resnapshot, which repairs a failed destination.

        after: the epoch, and when it was committed.
        """
        table = published_as(table_from_dict(switch["table"]), switch.get("projection"))
        plan = plan_from_dict(switch["plan"])
        if name not in self._targets:  # it was refused or removed before
            self._open(table, plan, expected=False)
        target, emptied, epoch = self._targets[name], bool(switch.get("since")), after[0]
        if target.resnapshot is None:
            self._merge(name, target)
        if resnapshot and (target.error is not None or target.destination.needs_repair):
            self._repair_for_resnapshot(name, target, table)
        target.mutable_key = has_mutable_key(table, plan.key(table))
        if resnapshot:
            self._run_step(name, target, lambda: self._begin_resnapshot(target, table, plan, after, emptied=emptied))
            if not emptied:
                target.resnapshot = Resnapshot(epoch)
        else:
            self._run_step(name, target, lambda: target.alter(table, epoch))
        if target.error is not None:
            target.destination.table = table

    def _begin_resnapshot(
        self, target: Target, table: Table, plan: Plan, after: tuple[int, str], *, emptied: bool
    ) -> None:
        begun = target.begin_resnapshot(table, plan, *after, emptied=emptied)
        if gone := begun.missing:
            what = f"the changes of {len(gone)} files that are missing: {', '.join(gone[:3])}"
            self._has_gap(table.full_name, what)
        if begun.kept:
            self._journal.write(ChangeLogKept(table=table.full_name, folder=begun.kept, until=after[1]))

    def _repair_for_resnapshot(self, name: str, target: Target, table: Table) -> None:
        """Prepare a resnapshot: make the destination writable, and append the lacking changes, as far as their files exist.

        table: as it is resnapshotted. A change log that is gone begins with its columns.
        """
        lacking = target.reopen()
        try:
            opened = target.destination.repair(table)
            self._take_opened(name, target, opened)
        except PipelineHeldError:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            self._fail(name, error, lacking)
            return
        if opened.is_new:
            self._has_gap(name, "everything before this resnapshot: its folder is gone")
        for part in () if opened.is_new else lacking:
            try:
                target.append(CHANGES, files_of_parts([part])[1])
            except PipelineHeldError:
                raise
            except Exception as error:  # noqa: BLE001 - its files are missing
                reason = error.message if isinstance(error, TidemarkError) else str(error)
                self._has_gap(name, f"its changes of epoch {part[0]}: {reason}")

    def _has_gap(self, name: str, what: str) -> None:
        self._journal.write(
            ErrorReported(
                error=MissingFilesError.__name__,
                message=f"The change log of {name} lacks {what}",
                detail="The mirror is right again after the resnapshot; the change log has a gap there.",
                hint="",
            )
        )

    def _merge_all(self, *, due: bool = False) -> None:
        """Merge all waiting changes. due: only those that are worth it now."""
        self._last_merge = clock.monotonic_s()
        for name, target in self._targets.items():
            if not due or target.merge_due(self._sink):
                self._merge(name, target)
        healthy = {name: dict(target.applied) for name, target in self._targets.items() if target.error is None}
        self._facts = (self._applied, healthy)
        self._prune()

    def _inspect(self, name: str, target: Target) -> None:
        """Report once what failed after commits. It concerns no row."""
        for error in target.destination.inspect():
            self._journal.write(
                ErrorReported(
                    error="HousekeepingError",
                    message=f"{name}: {error}",
                    detail="The commits are complete, and no row is affected. Without checkpoints, the log grows and opens slowly.",
                    hint="Check the destination's space and permissions. The next commits try again.",
                )
            )

    def _merge(self, name: str, target: Target) -> None:
        self._run_step(name, target, lambda: self._inspect(name, target))
        self._run_step(name, target, target.merge)

    def _run_step(self, name: str, target: Target, step: Step, parts: Sequence[Part] = ()) -> None:
        """Run a step unless the table has failed. If the step fails, the table has failed and lacks these parts."""
        if target.error is not None:
            return
        try:
            self._retry(step)
        except PipelineHeldError:
            raise
        except Exception as error:  # noqa: BLE001 - see the module's docstring
            self._fail(name, error, parts)

    def _prune(self) -> None:
        """Let the ledger prune the epochs that it knows the destination has."""
        needed = defaultdict[int, set[str]](set)
        for name, target in list(self._targets.items()):
            for epoch in target.needed:
                needed[epoch].add(name)
        with suppress(OSError):  # such as a full disk: nothing is lost, and the next merge tries again
            self._ledger.prune(self._recorded, needed)

    def _written(self, applied: SinkApplied | None) -> None:
        if applied is not None:
            self._journal.write(applied)
            self._maintenance.committed(applied.table, merged=applied.kind == "merge")

    def request_maintenance(self, request: Request) -> None:
        """Maintain some tables now; called by the coordinator's thread."""
        self._maintenance.request(request)

    def maintained(self) -> dict[str, Answer]:
        """The completed requests since the last call, by identity; called by the coordinator's thread."""
        return self._maintenance.answers()

    def _maintain(self) -> bool:
        """Run one step of maintenance if any is due. Returns whether one ran."""
        return self._maintenance.run_one(self._targets)


def _failed(name: str, error: Exception) -> DestinationError:
    return DestinationError(
        f"Publishing {name} failed: {type(error).__name__}: {error}",
        detail="Its published data stays as it is; later commits are in the ledger. The other tables continue.",
        hint=f"Check its folder in the destination (space, permissions, other writers). Then resnapshot it: "
        f"tidemark redump SPEC --table {name}",
    )


def _switches(change: TableChange) -> list[Switch]:
    """The column changes and resnapshots in an epoch's record of a table."""
    return [change[kind] for kind in ("altered", "resnapshot") if kind in change]
