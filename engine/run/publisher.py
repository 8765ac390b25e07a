"""The thread that applies committed epochs to the destination, in their order, while the coordinator goes on.

It holds nothing that matters: what it has not applied when it dies is in the ledger, and what it has applied is known by the
destination's own transaction identifiers, so `recover` finds the difference.
"""

import queue
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine import clock
from engine.capture.carry import moving
from engine.capture.files import DataFile
from engine.decode.schema import Table, table_from_dict
from engine.errors import TidemarkError
from engine.events import Journal
from engine.ledger.state import Record, State
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan, plan_from_dict
from engine.sink.delta import Applied, DeltaTables

_QUEUE_EPOCHS = 64
_SINK = "delta"


@dataclass
class _Target:
    """One table's destination, with the change files that no merge has taken yet: (epoch, file).

    moving: whether its rows move between chunks; everything is then merged before a chunk is added (`capture.carry`). applied: the
    last epoch whose chunks, changes and merge it has.
    """

    delta: DeltaTables
    moving: bool
    applied: dict[str, int]
    waiting: list[tuple[int, DataFile]] = field(default_factory=list)


class Publisher:
    """Applies epochs. `submit` hands one over; `finish` waits until all are applied and merged.

    Errors of the thread are raised by the next call.
    """

    def __init__(self, root: Path, ledger: Ledger, journal: Journal, merge_interval_s: float) -> None:
        self._root, self._ledger, self._journal, self._interval_s = root, ledger, journal, merge_interval_s
        self._targets: dict[str, _Target] = {}
        self._queue: queue.Queue[Record | None] = queue.Queue(_QUEUE_EPOCHS)
        self._error: BaseException | None = None
        self._applied = -1
        self._last_merge = clock.monotonic_s()
        self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)

    def open_tables(self, state: State) -> None:
        """Create the Delta tables that are missing. Raises SpecError when a destination belongs to another ledger."""
        for table in state.tables.values():
            if not table.begun:
                continue
            expected = bool(table.rows_read or table.changes_applied)
            self._open(table_from_dict(table.table), plan_from_dict(table.plan), state.ledger, expected)

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

    def recover(self) -> int:
        """Apply what an earlier run committed and did not apply; returns the number of epochs looked at. Then start."""
        records = list(self._ledger.kept_epochs())
        self._append(records)
        self._merge_all()
        self._thread.start()
        return len(records)

    def submit(self, record: Record) -> None:
        """Hand over a committed epoch; waits when the destination is far behind."""
        self.check()
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
            target = self._targets.get(name)
            parts = [(record["epoch"], record["tables"][name]) for record in records if name in record["tables"]]
            # Where rows move between chunks, what comes before a chunk is merged before it.
            for some in [[part] for part in parts] if target and target.moving else [parts]:
                self._append_table(name, target, some)
        if records:
            self._applied = records[-1]["epoch"]

    def _append_table(self, name: str, target: _Target | None, parts: Sequence[tuple[int, Record]]) -> None:
        chunks = [
            (epoch, DataFile(**file))
            for epoch, part in parts
            for chunk in part.get("chunks", [])
            for file in chunk["files"]
        ]
        changes = [
            (epoch, DataFile(**file)) for epoch, part in parts for file in part.get("changes", {}).get("files", [])
        ]
        if not chunks and not changes:
            return
        assert target is not None, f"{name} has files and no destination"
        if target.moving and self._new(target, "chunks", chunks):
            self._merge(target)
        for kind, files in (("chunks", chunks), ("changes", changes)):
            if new := self._new(target, kind, files):
                self._told(target.delta.append(kind, new[-1][0], [file for _, file in new]))
                target.applied[kind] = new[-1][0]
        if target.delta.table.key:
            target.waiting += self._new(target, "merge", changes)

    @staticmethod
    def _new(target: _Target, kind: str, files: Sequence[tuple[int, DataFile]]) -> list[tuple[int, DataFile]]:
        """Those of epochs that the destination does not have yet."""
        return [(epoch, file) for epoch, file in files if epoch > target.applied[kind]]

    def _merge_all(self) -> None:
        for target in self._targets.values():
            self._merge(target)
        self._last_merge = clock.monotonic_s()
        self._ledger.prune(self._applied)

    def _merge(self, target: _Target) -> None:
        if target.waiting:
            through = target.waiting[-1][0]
            self._told(target.delta.merge(through, [file for _, file in target.waiting]))
            target.applied["merge"], target.waiting = through, []

    def _told(self, applied: Applied | None) -> None:
        if applied is not None:
            self._journal.write("sink.applied", sink=_SINK, **asdict(applied))
