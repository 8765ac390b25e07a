"""The thread that applies committed epochs to the destination, in their order, while the coordinator goes on.

It holds nothing that matters: what it has not applied when it dies is in the ledger, and what it has applied is known by the
destination's own transaction identifiers, so `recover` finds the difference.
"""

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine import clock
from engine.capture.carry import moving
from engine.capture.files import DataFile
from engine.capture.shape import published_as
from engine.decode.schema import Table, table_from_dict
from engine.errors import SpecError, TableStoppedError, TidemarkError
from engine.events import Journal
from engine.ledger.state import Record, State
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan, plan_from_dict
from engine.sink.delta import Applied, DeltaTables

_QUEUE_EPOCHS = 64
_SINK = "delta"
Part = tuple[int, Record]
"""An epoch's number and what its record says of one table."""


@dataclass
class _Held:
    """A copy that is made anew, from an epoch on: its mirror waits until the last chunk is there."""

    epoch: int
    parts: list[Part] = field(default_factory=list)


@dataclass
class _Target:
    """One table's destination, with the change files that no merge has taken yet: (epoch, file).

    moving: whether its rows move between chunks; everything is then merged before a chunk is added (`capture.carry`). applied: the
    last epoch whose chunks, changes and merge it has. held: while the table is copied anew.
    """

    delta: DeltaTables
    moving: bool
    applied: dict[str, int]
    waiting: list[tuple[int, DataFile]] = field(default_factory=list)
    held: _Held | None = None


class Publisher:
    """Applies epochs. `submit` hands one over; `finish` waits until all are applied and merged.

    Errors of the thread are raised by the next call.
    """

    def __init__(self, root: Path, ledger: Ledger, journal: Journal, merge_interval_s: float) -> None:
        self._root, self._ledger, self._journal, self._interval_s = root, ledger, journal, merge_interval_s
        self._targets: dict[str, _Target] = {}
        self._leaving: set[str] = set()
        self._queue: queue.Queue[Record | None] = queue.Queue(_QUEUE_EPOCHS)
        self._error: BaseException | None = None
        self._applied = -1
        self._copied: dict[str, int] = {}
        self._last_merge = clock.monotonic_s()
        self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)

    def open_tables(self, state: State) -> None:
        """Create the Delta tables that are missing. Raises SpecError when a destination belongs to another ledger.

        Of tables that were removed those that are kept and there: they may lack what was committed before.
        """
        for table in state.tables.values():
            if not table.begun:
                continue
            # While it is copied anew, a mirror that it had no key for may not be there yet.
            expected = bool(table.rows_read or table.changes_applied) and (table.copied or not table.generation)
            shown = published_as(table_from_dict(table.table), table.shape)
            self._open(shown, plan_from_dict(table.plan), state.ledger, expected)
        for table in state.removed.values():
            shown = published_as(table_from_dict(table.table), table.shape)
            kept = table.removed and not table.removed["drop"]
            if kept and DeltaTables(self._root, state.ledger, shown).there:
                self._open(shown, plan_from_dict(table.plan), state.ledger, expected=True)

    def released(self, table: str) -> bool:
        """Whether nothing is written to a table's destination any more, as it was removed and all of it is applied."""
        return table not in self._leaving and table not in self._targets

    def check_columns(self, before: Table, after: Table) -> None:
        """Raises TableStoppedError when the destination cannot follow a table, as published before and after, to these columns."""
        if target := self._targets.get(before.full_name):
            target.delta.check(before, after)
            return
        delta, known = DeltaTables(self._root, self._state.ledger, after), self._state.tables.get(before.full_name)
        if known is not None and known.begun:  # it joined, or joined again, and its epoch is still to be applied
            if delta.there:
                delta.check(before, after)
            return
        try:
            delta.check_free()
        except SpecError as error:
            raise TableStoppedError(error.message, detail=error.detail, hint=error.hint) from error

    @property
    def _state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    def _open(self, table: Table, plan: Plan, ledger: str, expected: bool) -> None:
        delta = DeltaTables(self._root, ledger, table)
        delta.create(expected=expected)
        self._targets[table.full_name] = _Target(
            delta,
            moving(table, plan.key(table)),
            {kind: delta.applied(kind) for kind in ("chunks", "changes", "merge")},
        )

    def published(self) -> set[str]:
        """The names of the files that the ledger's epochs or the destination hold: not to be deleted."""
        changes = [table for record in self._ledger.kept_epochs() for table in record["tables"].values()]
        lists = [
            part["files"]
            for t in changes
            for part in [*t.get("chunks", []), *([t["changes"]] if "changes" in t else [])]
        ]
        names = {file["name"] for files in lists for file in files}
        return names.union(*(target.delta.file_names() for target in self._targets.values()))

    def has_copy(self, table: str) -> bool:
        """Whether the last chunk of a table's newest copy is in its mirror, and nothing of the copy before it."""
        return self._copied.get(table, -1) <= self._applied

    def unmerged(self, table: str) -> list[str]:
        """The files of a table's change log that its mirror may not have, in their order: of all that is committed."""
        target, kept = self._targets.get(table), list(self._ledger.kept_epochs())
        merged = target.applied["merge"] if target else -1
        later = (part for record, part in zip(kept, self._of_account(kept), strict=True) if record["epoch"] > merged)
        changes = (part.get(table, {}).get("changes", {}) for part in later)
        return [file["name"] for part in changes for file in part.get("files", [])]

    def recover(self) -> int:
        """Apply what an earlier run committed and did not apply; returns the number of epochs looked at. Then start."""
        kept = list(self._ledger.kept_epochs())
        records = [{**record, "tables": part} for record, part in zip(kept, self._of_account(kept), strict=True)]
        for record in reversed(records):
            for name, change in record["tables"].items():
                for switch in _switches(change):
                    if name in self._targets:  # the files of earlier epochs have the columns of then
                        before = published_as(table_from_dict(switch["before"]), switch.get("before_shape"))
                        self._targets[name].delta.table = before
                        self._targets[name].moving = True  # by the plan of then, perhaps; right for every plan
        self._append(records)
        self._merge_all()
        for name in self._state.removed:
            self._targets.pop(name, None)
        self._thread.start()
        return len(records)

    def _of_account(self, records: Sequence[Record]) -> list[dict[str, Record]]:
        """What the records say of tables that have a destination, since it was begun: what was before is gone with another one."""
        begun = {
            name: n for n, record in enumerate(records) for name, part in record["tables"].items() if "planned" in part
        }
        return [
            {name: p for name, p in record["tables"].items() if name in self._targets and n >= begun.get(name, 0)}
            for n, record in enumerate(records)
        ]

    def submit(self, record: Record) -> None:
        """Hand over a committed epoch; waits when the destination is far behind."""
        self.check()
        self._leaving.update(name for name, part in record["tables"].items() if "removed" in part)
        self._copied.update({name: record["epoch"] for name, part in record["tables"].items() if "copied" in part})
        while True:
            try:
                self._queue.put(record, timeout=0.5)
            except queue.Full:
                self.check()
            else:
                return

    def finish(self) -> None:
        """Wait until everything handed over is applied and merged, and end the thread."""
        if self._thread.is_alive():
            while True:
                try:
                    self._queue.put(None, timeout=0.5)
                    break
                except queue.Full:
                    self.check()
            self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises the error that ended the thread, if one has."""
        if self._error is not None:
            raise TidemarkError(
                f"Publishing to {self._root} failed: {self._error}",
                detail="Everything committed is in the ledger and its files; the destination gets it when the pipeline runs again.",
                hint="Look at the destination (space, rights), then start the pipeline again.",
            ) from self._error

    def _work(self) -> None:
        try:
            while True:
                due_s = self._last_merge + self._interval_s - clock.monotonic_s()
                try:
                    record = self._queue.get(timeout=max(due_s, 0.05) if self._waiting() else 1.0)
                except queue.Empty:
                    pass
                else:
                    records, ended = self._more(record)
                    self._append(records)
                    if ended:
                        self._merge_all()
                        return
                if self._waiting() and clock.monotonic_s() - self._last_merge >= self._interval_s:
                    self._merge_all()
        except BaseException as error:  # noqa: BLE001 - raised again by `check` in the coordinator's thread
            self._error = error

    def _waiting(self) -> bool:
        return any(target.waiting for target in self._targets.values())

    def _more(self, record: Record | None) -> tuple[list[Record], bool]:
        """The epochs that wait, from this one on, and whether they are the last: a commit of many costs what one of one costs."""
        records: list[Record] = []
        while record is not None:
            records.append(record)
            try:
                record = self._queue.get_nowait()
            except queue.Empty:
                return records, False
        return records, True

    def _append(self, records: Sequence[Record]) -> None:
        """Add the files of some epochs, table by table."""
        for name in dict.fromkeys(name for record in records for name in record["tables"]):
            parts = [(record["epoch"], record["tables"][name]) for record in records if name in record["tables"]]
            for some in self._together(name, parts):
                self._append_table(name, some)
        if records:
            self._applied = records[-1]["epoch"]

    def _together(self, name: str, parts: Sequence[Part]) -> Iterator[list[Part]]:
        """The parts that one commit can take: up to one that ends a copy, or in which the table joins, leaves or is altered."""
        some: list[Part] = []
        for part in parts:
            some.append(part)
            target = self._targets.get(name)
            # Where rows move between chunks, what comes before a chunk is merged before it.
            ends = any(kind in part[1] for kind in ("planned", "copied", "removed"))
            if ends or _switches(part[1]) or (target is not None and target.moving):
                yield some
                some = []
        if some:
            yield some

    def _append_table(self, name: str, parts: list[Part]) -> None:
        target = self._targets.get(name)
        epoch, last = parts[-1]
        if target is None and "planned" in last and "stopped" not in last:
            joined = last["planned"]
            shown = published_as(table_from_dict(joined["table"]), joined.get("shape"))
            self._open(shown, plan_from_dict(joined["plan"]), self._state.ledger, expected=False)
            target = self._targets[name]
        if target is None:
            assert not any(_files(parts)), f"{name} has files and no destination"
        elif target.held is None:
            self._publish(target, parts)
        else:
            self._append_files(target, "changes", _files(parts)[1])
            target.held.parts += parts
            if "copied" in last:
                self._complete(target, target.held, epoch)
        if target is not None and any("stopped" in part for _, part in parts):
            target.held = None  # its mirror stays as it is; another copy begins anew
        if "removed" in last:
            if target is not None and not last["removed"]["drop"]:
                self._merge(target)
            self._targets.pop(name, None)
            self._leaving.discard(name)
        for switch in _switches(last):
            self._switch(name, epoch, switch, again="again" in last)

    def _publish(self, target: _Target, parts: Sequence[Part]) -> None:
        chunks, changes = _files(parts)
        if target.moving and self._new(target, "chunks", chunks):
            self._merge(target)
        self._append_files(target, "chunks", chunks)
        self._append_files(target, "changes", changes)
        if target.delta.table.key:
            target.waiting += self._new(target, "merge", changes)

    def _append_files(self, target: _Target, kind: str, files: Sequence[tuple[int, DataFile]]) -> None:
        if new := self._new(target, kind, files):
            self._told(target.delta.append(kind, new[-1][0], [file for _, file in new]))
            target.applied[kind] = new[-1][0]

    def _complete(self, target: _Target, held: _Held, epoch: int) -> None:
        """The last chunk of a new copy is there: it takes the place of what the mirror holds."""
        target.held = None
        if target.moving:
            # Chunks and changes must be applied in turn, so readers see the mirror grow for a moment.
            self._replace(target, held.epoch, [])
            for part in held.parts:
                self._publish(target, [part])
            return
        chunks, changes = _files(held.parts)
        self._replace(target, epoch, [file for _, file in chunks])
        target.waiting += self._new(target, "merge", changes)

    def _replace(self, target: _Target, epoch: int, files: Sequence[DataFile]) -> None:
        if target.applied["chunks"] < epoch:
            self._told(target.delta.replace(epoch, files))
            target.applied["chunks"] = epoch

    def _switch(self, name: str, epoch: int, switch: Record, *, again: bool) -> None:
        """From the next epoch on the table is another; `again`: it is copied anew."""
        table = published_as(table_from_dict(switch["table"]), switch.get("shape"))
        plan = plan_from_dict(switch["plan"])
        target = self._targets.get(name)
        if target is None:  # it was refused, or removed, until now
            self._open(table, plan, self._state.ledger, expected=False)
            target = self._targets[name]
        if target.held is None:
            self._merge(target)
        target.delta.evolve(table)
        target.delta.create(expected=False)  # one that got a key gets a mirror
        target.moving = moving(table, plan.key(table))
        if again and switch.get("since"):
            target.held = None
            self._replace(target, epoch, [])
        elif again:
            target.held = _Held(epoch)
        elif target.held is None:
            target.delta.widen_mirror()

    @staticmethod
    def _new(target: _Target, kind: str, files: Sequence[tuple[int, DataFile]]) -> list[tuple[int, DataFile]]:
        """Those of epochs that the destination does not have yet."""
        return [(epoch, file) for epoch, file in files if epoch > target.applied[kind]]

    def _merge_all(self) -> None:
        for target in self._targets.values():
            self._merge(target)
        self._last_merge = clock.monotonic_s()
        # The files of a copy that is held are known by the records alone.
        held = [target.held.epoch - 1 for target in self._targets.values() if target.held]
        self._ledger.prune(min([self._applied, *held]))

    def _merge(self, target: _Target) -> None:
        if target.waiting:
            through = target.waiting[-1][0]
            self._told(target.delta.merge(through, [file for _, file in target.waiting]))
            target.applied["merge"], target.waiting = through, []

    def _told(self, applied: Applied | None) -> None:
        if applied is not None:
            self._journal.write("sink.applied", sink=_SINK, **asdict(applied))


def _switches(change: Record) -> list[Record]:
    """What an epoch's record of a table says of new columns, or of a new copy."""
    return [change[kind] for kind in ("altered", "again") if kind in change]


def _files(parts: Sequence[Part]) -> tuple[list[tuple[int, DataFile]], list[tuple[int, DataFile]]]:
    """The files of chunks and those of changes, with their epochs."""
    chunks = [(epoch, f) for epoch, part in parts for chunk in part.get("chunks", []) for f in chunk["files"]]
    changes = [(epoch, f) for epoch, part in parts for f in part.get("changes", {}).get("files", [])]
    return [(epoch, DataFile(**f)) for epoch, f in chunks], [(epoch, DataFile(**f)) for epoch, f in changes]
