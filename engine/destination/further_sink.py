"""A further sink: a thread that applies the ledger's epochs to one more destination, at its own pace.

The first destination decides where readers put files, and is what a pipeline waits for. A further one reads the same
files, from the epochs that the ledger keeps for it. Whatever fails here delays this sink alone: it opens its
destination again after a pause, and applies what it lacks. The ledger keeps epochs for it up to `sink.max_kept_bytes`;
then the sink is stopped for good, and the ledger says so.

    joins     the ledger records after which epoch it takes epochs. What was copied before is read back from the first
              destination (`destination.read_back`), and published with one epoch
    leaves    the ledger forgets it. Its data stays

A later runner takes it over like the first destination: by a term, and by sealing what an earlier runner prepared.
"""

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from engine.base import clock
from engine.base.errors import DestinationError, TidemarkError
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import table_from_dict
from engine.destination.agreement import compare, look_at
from engine.destination.destination_protocol import CHANGES, CHUNKS, Destination, EpochEnd
from engine.destination.epoch_replay import EpochReplay
from engine.destination.epoch_retention import EpochRetention
from engine.destination.fence import Term
from engine.destination.published_tables import PublishedTables
from engine.destination.read_back import HasEverything, read_back
from engine.journal import Journal
from engine.journal.destination_events import SinkApplied
from engine.journal.events import ErrorReported
from engine.ledger.records import EpochRecord, ErrorRecord, SinkRecord
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.plan.chunks import plan_from_dict
from engine.spec.sink_settings import Sink

_BATCH_EPOCHS = 64
_LOOK_S = 0.5
_RETRY_S, _LONGEST_RETRY_S = 2.0, 60.0
_AGAIN_S = 60.0
"""How long tables that failed alone are left before the sink is opened again."""
Report = Callable[[str, BaseException | None], None]
"""Called with the sink's name and its error, or None while it works."""


class _ClosingError(Exception):
    """The run ends."""


@dataclass
class _Kept:
    """The epochs that are kept for the sink."""

    epochs: deque[tuple[int, str, int]] = field(default_factory=deque)
    """Each with its time (UTC text) and the bytes of its files."""
    bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, record: EpochRecord) -> None:
        """Add an epoch."""
        with self.lock:
            size = _bytes(record)
            self.epochs.append((record["epoch"], record["ts"], size))
            self.bytes += size

    def drop(self, through: int) -> None:
        """Remove the epochs that were applied."""
        with self.lock:
            while self.epochs and self.epochs[0][0] <= through:
                self.bytes -= self.epochs.popleft()[2]


class FurtherSink:
    """One further destination of a run. Its public methods are called by other threads than its own.

    open_destination: opens it as a process does. landing: of the first destination.
    """

    def __init__(
        self,
        sink: Sink,
        open_destination: Callable[[], Destination],
        first: Destination,
        ledger: Ledger,
        journal: Journal,
        retention: EpochRetention,
        report: Report,
    ) -> None:
        assert ledger.state is not None
        self.name = sink.name
        self._sink = sink
        self._open_destination = open_destination
        self._first = first
        self._ledger = ledger
        self._journal = journal
        self._retention = retention
        self._report = report
        self._term = Term(ledger.state.term, journal.run, socket.gethostname(), os.getpid(), clock.utc_text())
        self._through = -1
        self._applied: Mapping[str, Mapping[str, int]] = {}
        self._needed: Mapping[str, set[int]] = {}
        self._stopped: ErrorRecord | None = ledger.state.sinks[sink.name].get("stopped")
        self._kept = _Kept()
        self._taken = False
        self._failure: TidemarkError | None = None
        self._closing = threading.Event()
        self._drains = False
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []
        retention.keep(lambda: {} if self._stopped else self._needed)

    def start(self, has_everything: HasEverything) -> None:
        """Start its thread. has_everything: of the first destination."""
        for record in self._ledger.kept_epochs():
            if record["epoch"] > self._joined:
                self._kept.add(record)
        if self._stopped is None:
            thread = threading.Thread(target=self._work, args=(has_everything,), name=f"sink {self.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def through(self) -> int | None:
        """The epoch up to which it has everything; None if it gets nothing any more."""
        return None if self._stopped else self._through

    def news(self, state: State) -> SinkRecord:
        """What the ledger does not know yet of its progress."""
        known, found = state.sinks.get(self.name, SinkRecord()), SinkRecord()
        applied = {
            name: dict(kinds)
            for name, kinds in self._applied.items()
            if known.get("applied", {}).get(name) != dict(kinds)
        }
        if applied:
            found["applied"] = applied
        if self._stopped and "stopped" not in known:
            found["stopped"] = self._stopped
        return found

    def submitted(self, record: EpochRecord) -> None:
        """Tell it that an epoch was committed."""
        if self._stopped is None:
            self._kept.add(record)
            self._require_bound()
        self._wake.set()

    def finish(self, *, drains: bool) -> None:
        """End its thread. drains: apply all epochs before, unless it fails."""
        self._drains = drains
        self._closing.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()

    @property
    def error(self) -> TidemarkError | None:
        """Why it lacks epochs; None if nothing keeps it from applying them."""
        if self._stopped is not None:
            return DestinationError(
                self._stopped["message"], detail=self._stopped["detail"], hint=self._stopped["hint"]
            )
        return self._failure

    def as_dict(self) -> dict[str, object]:
        """Its progress, for `status`."""
        with self._kept.lock:
            oldest, kept_bytes = next(iter(self._kept.epochs), None), self._kept.bytes
        error = self.error
        state = "stopped" if self._stopped else "retrying" if error else "publishing" if self._taken else "starting"
        return {
            "sink": self.name,
            "type": self._sink.type,
            "path": str(self._sink.path),
            "state": state,
            "through_epoch": self._through,
            "lacks_since": oldest[1] if oldest else None,
            "kept_bytes": kept_bytes,
            "max_kept_bytes": self._sink.max_kept_bytes,
            "error": error.message if error else None,
        }

    @property
    def _joined(self) -> int:
        return self._record["joined"]

    @property
    def _record(self) -> SinkRecord:
        return self._state.sinks[self.name]

    @property
    def _state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    def _require_bound(self) -> None:
        if self._kept.bytes <= self._sink.max_kept_bytes:
            return
        why = self._failure
        error = DestinationError(
            f"Sink {self.name} was stopped: {self._kept.bytes:,} bytes of epochs were kept for it, more than "
            f"sinks.max_kept_bytes ({self._sink.max_kept_bytes:,}).",
            detail=f"It has everything through epoch {self._through}; nothing after it is published there. The other "
            f"sinks continue.{f' Its last error: {why.message}' if why else ''}",
            hint="Mend the cause, remove the sink from the spec and start the run; then move its folder away, add the "
            "sink again and start the run: it begins with a copy of the mirrors.",
        )
        self._journal.write(ErrorReported.of(error, attempt=1, retry_in_s=0.0))
        self._stopped = error.as_dict()
        self._report(self.name, error)

    def _work(self, has_everything: HasEverything) -> None:
        pause_s = _RETRY_S
        while not self._stopped:
            try:
                replay = self._opened(has_everything)
                pause_s = _RETRY_S
                self._follow(replay)
            except _ClosingError:
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this sink's alone
                self._fail(error)
            if self._closing.wait(pause_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_RETRY_S)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, TidemarkError):
            self._failure = error
        else:
            self._failure = DestinationError(
                f"Sink {self.name} cannot be written: {type(error).__name__}: {error}",
                detail="It gets what it lacks when it can be written again; the ledger keeps it. "
                "The other sinks continue.",
                hint=f"Check {self._sink.path} (space, permissions, whether it is mounted).",
            )
        self._report(self.name, self._failure)

    def _opened(self, has_everything: HasEverything) -> EpochReplay:
        """Open the destination, and apply what it lacks."""
        destination, state = self._open_destination(), self._state
        if not self._taken:
            self._possess(destination, state)
        destination.take(state.ledger, self._term)
        self._taken = True
        tables = PublishedTables(destination, self._ledger, self._journal, self._written, lambda step: step())
        tables.open_all(state, self._record.get("applied", {}))
        tables.delete_orphans()
        replay = EpochReplay(self._sink, tables, self._ledger, self._journal, self._retention)
        for name in self._record["generations"]:
            self._read_back(name, tables, has_everything)
        replay.apply_kept(self._joined)
        replay.applied = max(replay.applied, state.epoch)  # earlier ones that the ledger does not have were applied
        replay.merge_all()
        self._note(replay, tables)
        return replay

    def _possess(self, destination: Destination, state: State) -> None:
        """Raises MismatchError if ledger and destination do not belong together; seals what an earlier run prepared."""
        applied, kept = self._record.get("applied", {}), list(self._ledger.kept_epochs())
        tables = {
            name: replace(table, applied=applied[name]) for name, table in state.tables.items() if name in applied
        }
        seen = replace(state, tables=tables)
        newest = destination.newest_term(state.ledger)
        asked = {name for record in kept for name, part in record["tables"].items() if "resnapshot" in part}
        compare(destination, seen, newest, kept, look_at(destination, seen)).require(asked, everything=False)
        destination.take(state.ledger, self._term)
        if newest is None or not newest.ended:
            shown = [published_as(table_from_dict(t.table), t.projection) for t in state.tables.values() if t.begun]
            destination.seal(state.owner, shown, self._ledger.kept_numbers())

    def _read_back(self, name: str, tables: PublishedTables, has_everything: HasEverything) -> None:
        """Publish the rows that a table had when the sink joined, unless the sink has them."""
        target, generation = tables.targets.get(name), self._record["generations"][name]
        if target is None or target.error is not None or target.applied[CHANGES] >= max(self._joined, 0):
            return
        readable = self._first.landing.reader(target.destination.table).has_mirror
        if not readable and not target.destination.table.key:
            tables.fail(name, _no_rows(name, self.name))
            return
        while True:
            state = self._state
            known = state.tables.get(name)
            if known is None or known.generation != generation or known.stopped:
                return
            if readable and known.copied and has_everything(name, state.epoch):
                break
            if self._closing.is_set():
                raise _ClosingError
            self._wake.wait(_LOOK_S)
            self._wake.clear()
        table = published_as(table_from_dict(known.table), known.projection)
        rows = read_back(self._first.landing, state.owner, table, state.epoch, self._require_time)
        try:
            now = self._state.tables.get(name)
            if now is None or now.generation != generation:
                return  # it is being resnapshotted
            target.begin_resnapshot(table, plan_from_dict(known.plan), rows.through, clock.utc_text(), emptied=False)
            target.append(CHUNKS, [(rows.through, file) for file in rows.files])
            position = f"{state.position['file']}:{state.position['offset']}"
            tables.publish(EpochEnd(rows.through, position, clock.utc_text()))
        finally:
            rows.delete()

    def _require_time(self) -> None:
        """Raises _ClosingError if the run ends and does not wait for this sink."""
        if self._closing.is_set() and not self._drains:
            raise _ClosingError

    def _follow(self, replay: EpochReplay) -> None:
        """Apply epochs until the run ends."""
        opened_s, tables = clock.monotonic_s(), replay.tables
        while not self._stopped:
            last = min(self._state.epoch, replay.applied + _BATCH_EPOCHS)
            batch = [self._ledger.epoch(number) for number in range(replay.applied + 1, last + 1)]
            if batch and not (self._closing.is_set() and not self._drains):
                replay.append(batch)
                replay.merge_all()
                self._note(replay, tables)
            elif self._closing.is_set():
                tables.destination.release(tables.complete())
                raise _ClosingError
            else:
                self._wake.wait(_LOOK_S)
                self._wake.clear()
            if self._failure is not None and clock.monotonic_s() - opened_s > _AGAIN_S:
                raise self._failure  # tables that failed alone get another attempt

    def _note(self, replay: EpochReplay, tables: PublishedTables) -> None:
        """Note the progress for other threads."""
        self._needed = tables.needed()
        self._through, applied = replay.facts
        self._applied = {name: {k: n for k, n in kinds.items() if n >= 0} for name, kinds in applied.items()}
        self._kept.drop(self._through)
        failed = tables.unpublished()
        self._failure = next(iter(failed.values()), None)
        self._report(self.name, self._failure)

    def _written(self, applied: SinkApplied | None) -> None:
        if applied is not None:
            self._journal.write(replace(applied, sink=self.name))


def _no_rows(table: str, sink: str) -> DestinationError:
    return DestinationError(
        f"Sink {sink} joined after {table} was copied, and its rows cannot be read back from the first destination.",
        detail="The table has no key, so it is not resnapshotted either. The sink gets nothing of it.",
        hint=f"tidemark remove-table SPEC --table {table} --drop and, once it is removed, "
        f"tidemark add-table SPEC --table {table}",
    )


def _bytes(record: EpochRecord) -> int:
    parts = record["tables"].values()
    chunks = sum(file["bytes"] for part in parts for chunk in part.get("chunks", []) for file in chunk["files"])
    return int(chunks + sum(file["bytes"] for part in parts for file in part.get("changes", {}).get("files", [])))


def joining(state: State, sinks: Mapping[str, Sink], kept: list[int]) -> dict[str, SinkRecord | None]:
    """What the ledger must record of the sinks of a spec: those that join, and those that leave.

    kept: the epochs in the ledger. Where it has all of them, a sink begins with the first one.
    """
    found: dict[str, SinkRecord | None] = {name: None for name in state.sinks if name not in sinks}
    for name, sink in sinks.items():
        known = state.sinks.get(name)
        place = {"type": sink.type, "path": str(sink.path)}
        if known is not None and {"type": known["type"], "path": known["path"]} == place:
            continue
        everything = bool(kept) and kept[0] == 0
        generations = {} if everything else {n: t.generation for n, t in state.tables.items() if t.begun}
        found[name] = SinkRecord(
            type=sink.type, path=str(sink.path), joined=-1 if everything else state.epoch, generations=generations
        )
    return found
