"""The thread that applies committed epochs to the destination, in their order, while the coordinator goes on.

It holds nothing that matters: what it has not applied when it dies is in the ledger, and what it has applied is known by the
destination's own transaction identifiers, so `recover` finds the difference.
"""

import queue
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine import clock
from engine.capture.files import DataFile
from engine.decode.schema import Table, table_from_dict
from engine.errors import TidemarkError
from engine.events import Journal
from engine.ledger.state import Record, State
from engine.ledger.store import Ledger
from engine.sink.delta import Applied, DeltaTables

_QUEUE_EPOCHS = 64
_SINK = "delta"


@dataclass
class _Target:
    """One table's destination, with the change files that no merge has taken yet: (epoch, file)."""

    delta: DeltaTables
    merged: int = -1
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
        for name, table in state.tables.items():
            if not table.begun:
                continue
            expected = bool(table.finished or table.changes_applied)
            self._open(name, table_from_dict(table.table), state.ledger, expected)

    def _open(self, name: str, table: Table, ledger: str, expected: bool) -> None:
        delta = DeltaTables(self._root, ledger, table)
        delta.create(expected=expected)
        self._targets[name] = _Target(delta, delta.applied("merge"))

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
        looked = 0
        for record in self._ledger.kept_epochs():
            looked += 1
            self._append(record)
        self._merge_all()
        self._thread.start()
        return looked

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
                    if record is None:
                        self._merge_all()
                        return
                    self._append(record)
                if self._waiting() and clock.monotonic_s() - self._last_merge >= self._interval_s:
                    self._merge_all()
        except BaseException as error:  # noqa: BLE001 - raised again by `check` in the coordinator's thread
            self._error = error

    def _waiting(self) -> bool:
        return any(target.waiting for target in self._targets.values())

    def _append(self, record: Record) -> None:
        epoch = record["epoch"]
        for name, change in record["tables"].items():
            chunks = [DataFile(**file) for chunk in change.get("chunks", []) for file in chunk["files"]]
            changes = [DataFile(**file) for file in change.get("changes", {}).get("files", [])]
            if not chunks and not changes:
                continue
            target = self._targets[name]
            self._told(target.delta.append("chunks", epoch, chunks))
            self._told(target.delta.append("changes", epoch, changes))
            if epoch > target.merged:
                target.waiting += [(epoch, file) for file in changes]
        self._applied = epoch

    def _merge_all(self) -> None:
        for target in self._targets.values():
            if target.waiting:
                through = target.waiting[-1][0]
                self._told(target.delta.merge(through, [file for _, file in target.waiting]))
                target.merged, target.waiting = through, []
        self._last_merge = clock.monotonic_s()
        self._ledger.prune(self._applied)

    def _told(self, applied: Applied | None) -> None:
        if applied is not None:
            self._journal.write("sink.applied", sink=_SINK, **asdict(applied))
