"""A further sink: a thread that applies the ledger's epochs to one more destination, at its own pace.

The first destination decides where readers put files, and is what a pipeline waits for. A further one reads the same
files, from the epochs that the ledger keeps for it. Whatever fails here delays this sink alone: it opens its
destination again after a pause, and applies what it lacks. The ledger keeps epochs for it up to `sink.max_kept_bytes`;
then the sink is stopped for good, and the ledger says so.

    joins     the ledger records after which epoch it takes epochs. What was copied before is read back from the first
              destination (`destination.read_back`), and published with one epoch
    leaves    the ledger forgets it. Its data stays

A later runner takes it over like the first destination: by a term, and by fencing earlier runners.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from engine.base import clock
from engine.base.errors import DestinationError, ErrorRecord, TidemarkError
from engine.destination.destination_protocol import CHANGES, CHUNKS, Destination
from engine.destination.epoch_replay import EpochReplay
from engine.destination.epoch_retention import EpochRetention
from engine.destination.freshness import CommitTimes, FreshnessMeter
from engine.destination.read_back import HasEverything
from engine.destination.sink_opening import BEGIN_AGAIN, RefusedError, SinkOpening, StopWorkError, give_up
from engine.destination.sink_pace import SinkPace
from engine.destination.table_progress import files_of_parts, needed_epochs
from engine.journal import Journal
from engine.journal.events import ErrorReported
from engine.ledger.records import Applied, EpochRecord, SinkNews
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.spec.sink_settings import Sink

_BATCH_EPOCHS = 64
_LOOK_S = 0.5
_RETRY_S, _LONGEST_RETRY_S = 2.0, 60.0
_END_S = 5.0
"""How long the end of a run waits for it, unless the run has a goal."""
_EPOCH_BYTES = 4096
"""What an epoch without files counts: its file in the ledger."""
_AGAIN_S = 60.0
"""How long tables that failed alone are left before the sink is opened again."""
SinkReport = Callable[[str, BaseException | None], None]
"""Called with the sink's name and its error, or None while it works."""


class _ClosingError(StopWorkError):
    """The run ends."""


class _PausedError(StopWorkError):
    """An operator has paused the sink while it was opened."""


@dataclass
class _KeptEpochs:
    """The epochs that are kept for the sink."""

    epochs: deque[tuple[int, str, int]] = field(default_factory=deque)
    """Each with its time (UTC text) and the bytes of its files."""
    bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, record: EpochRecord, applied_epochs: Applied = MappingProxyType({})) -> None:
        """Add an epoch. applied_epochs: what the sink has, by table and kind."""
        with self.lock:
            size = _EPOCH_BYTES + _bytes(record, applied_epochs)
            self.epochs.append((record.epoch, record.ts, size))
            self.bytes += size

    def drop(self, through: int, needed_epochs: Collection[int]) -> None:
        """Remove the epochs that were applied. needed_epochs: those that a failed table lacks."""
        with self.lock:
            self.epochs = deque(one for one in self.epochs if one[0] > through or one[0] in needed_epochs)
            self.bytes = sum(size for _, _, size in self.epochs)


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
        report: SinkReport,
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """is_paused: whether an operator has paused it."""
        assert ledger.state is not None
        self.name = sink.name
        self._sink = sink
        self._ledger = ledger
        self._journal = journal
        self._report = report
        self.pace = SinkPace(is_paused)
        self._opening = SinkOpening(sink, open_destination, first, ledger, journal, self.pace.note)
        self._position = ""
        self._through = -1
        self._applied_epochs: Applied = {}
        self._needed_epochs: Mapping[str, set[int]] = {}
        self._stop_error: ErrorRecord | None = ledger.state.sinks[sink.name].stopped
        self._kept_epochs = _KeptEpochs()
        self.freshness = FreshnessMeter()
        """Its `log` is what counts: an epoch can be read when it is appended and merged."""
        self._failure: TidemarkError | None = None
        self._close_event = threading.Event()
        self._drains = False
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []
        retention.keep(lambda: {} if self._is_given_up else self._needed_epochs)

    def start(self, has_everything: HasEverything) -> None:
        """Start its thread. has_everything: of the first destination."""
        sink_record = self._opening.record
        applied_epochs = sink_record.applied
        newest = max(
            (epoch for kinds in applied_epochs.values() for epoch in kinds.values()), default=sink_record.joined
        )
        for record in self._ledger.kept_epochs():
            if record.epoch > newest or _bytes(record, applied_epochs) > 0:
                self._kept_epochs.add(record, applied_epochs)
        if self._stop_error is None:
            thread = threading.Thread(target=self._work, args=(has_everything,), name=f"sink {self.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def through(self) -> int | None:
        """The epoch up to which it has everything; None if it gets nothing any more."""
        return None if self._is_given_up else self._through

    @property
    def _is_given_up(self) -> bool:
        """Whether the ledger knows that it was stopped: until then, what it lacks is kept."""
        sink_record = self._state.sinks.get(self.name)
        return sink_record is not None and sink_record.stopped is not None

    def news(self, state: State) -> SinkNews:
        """What the ledger does not know yet of its progress."""
        sink_record = state.sinks.get(self.name)
        has, stopped = (sink_record.applied, sink_record.stopped) if sink_record is not None else ({}, None)
        applied = {name: dict(kinds) for name, kinds in self._applied_epochs.items() if has.get(name) != dict(kinds)}
        tables = frozenset[str]() if sink_record is None else sink_record.generations.keys() - sink_record.copied
        return SinkNews(applied, None if stopped else self._stop_error, self._opening.copied & tables)

    def note_epoch(
        self, record: EpochRecord, commits: CommitTimes | None = None, changes: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Tell it that an epoch was committed. commits, changes: as `Publisher.submit` has them."""
        if self._stop_error is None:
            if commits is not None and changes:
                self.freshness.committed(record.epoch, commits, changes, ())
            self._kept_epochs.add(record)
            self._require_bound()
        self._wake.set()

    def finish(self, *, drains: bool) -> None:
        """End its thread. drains: apply all epochs before, unless it fails."""
        self._drains = drains
        self._close_event.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(None if drains else _END_S)  # its disk may hang; the next run fences it

    @property
    def error(self) -> TidemarkError | None:
        """Why it lacks epochs; None if nothing keeps it from applying them."""
        if self._stop_error is not None:
            return self._stop_error.to_error()
        return self._failure

    def as_dict(self) -> dict[str, object]:
        """Its progress, for `status`."""
        with self._kept_epochs.lock:
            oldest, kept_bytes = next(iter(self._kept_epochs.epochs), None), self._kept_epochs.bytes
        error = self.error
        working = "publishing" if self._opening.is_taken else "starting"
        usual = "paused" if self.pace.is_paused else "retrying" if error else working
        state = "stopped" if self._stop_error else usual
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
            "position": self._position or None,
            "rows_per_s": round(self.pace.rows_per_s, 1),
            "freshness_s": self.freshness.measured().log,
        }

    @property
    def _state(self) -> State:
        assert self._ledger.state is not None
        return self._ledger.state

    def _require_bound(self) -> None:
        if self._kept_epochs.bytes <= self._sink.max_kept_bytes:
            return
        why = self._failure
        error = DestinationError(
            f"Sink {self.name} was stopped: {self._kept_epochs.bytes:,} bytes of epochs were kept for it, more than "
            f"sinks.max_kept_bytes ({self._sink.max_kept_bytes:,}).",
            detail=f"It has everything through epoch {self._through}; nothing after it is published there. The other "
            f"sinks continue.{f' Its last error: {why.message}' if why else ''}",
            hint=f"Repair the cause. Then {BEGIN_AGAIN}",
        )
        self._stop(error)

    def _stop(self, error: DestinationError) -> None:
        """Stop it for good; the ledger learns it with the next commit."""
        self._journal.write(ErrorReported.of(error, attempt=1, retry_in_s=0.0))
        self._stop_error = error.to_record()
        self._report(self.name, error)

    def _work(self, has_everything: HasEverything) -> None:
        pause_s = 0.0
        while not self._stop_error:
            if (pause_s or self.pace.is_paused) and self.pace.rest(pause_s, self._close_event):
                return
            pause_s = min(max(2 * pause_s, _RETRY_S), _LONGEST_RETRY_S)
            try:
                position = str(self._state.position)
                replay = self._opening.open(has_everything, self._wait_opening)
                self._position = position
                pause_s = _RETRY_S
                try:
                    self._note(replay)
                    self._follow(replay)
                finally:
                    give_up(replay.tables.destination)
            except _ClosingError:
                return
            except _PausedError:
                pause_s = 0.0  # it rests until it is resumed
            except RefusedError as error:
                self._stop(error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this sink's alone
                self._fail(error)

    def _wait(self, seconds: float) -> None:
        """Wait for news. Raises _ClosingError if the run ends, and does not wait for this sink any more."""
        if self._close_event.is_set() and (seconds or not self._drains):
            raise _ClosingError
        if seconds:
            self._wake.wait(seconds)
            self._wake.clear()

    def _wait_opening(self, seconds: float) -> None:
        """As `_wait`, while it is opened. Raises _PausedError if it is paused."""
        if self.pace.is_paused:
            raise _PausedError
        self._wait(seconds)

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

    def _follow(self, replay: EpochReplay) -> None:
        """Apply epochs until the run ends."""
        opened_s = clock.monotonic_s()
        while not self._stop_error:
            last = min(self._state.epoch, replay.applied_epoch + _BATCH_EPOCHS)
            batch = [self._ledger.epoch(number) for number in range(replay.applied_epoch + 1, last + 1)]
            is_closing = self._close_event.is_set()
            if batch and not self.pace.is_paused and not (is_closing and not self._drains):
                replay.append(batch)
                replay.merge_all()
                self._position = str(batch[-1].to_position)
                self._note(replay)
            elif is_closing:
                replay.tables.release()
                raise _ClosingError
            else:
                self._wait(_LOOK_S)
                if self._failure is None:
                    self._report(self.name, None)
            again_s = 0.0 if self.pace.must_try() else _AGAIN_S
            if self._failure is not None and clock.monotonic_s() - opened_s > again_s:
                raise self._failure  # tables that failed alone get another attempt

    def _of_table(self, error: TidemarkError) -> TidemarkError:
        """The error of a table that failed here alone."""
        return DestinationError(
            f"Sink {self.name}: {error.message}",
            detail=f"It has everything of the other tables. The table is tried again every {_AGAIN_S:.0f} s.",
            hint=f"If that does not help, {BEGIN_AGAIN}",
        )

    def _note(self, replay: EpochReplay) -> None:
        """Note the progress for other threads."""
        self._needed_epochs = needed_epochs(replay.tables.targets)
        self._through, applied = replay.facts
        self._applied_epochs = {name: {k: n for k, n in kinds.items() if n >= 0} for name, kinds in applied.items()}
        self._kept_epochs.drop(self._through, set().union(*self._needed_epochs.values()))
        failed_tables = replay.tables.failed_tables()
        self.freshness.appended(replay.applied_epoch, failed_tables)
        self._failure = self._of_table(next(iter(failed_tables.values()))) if failed_tables else None
        self._report(self.name, self._failure)


def _bytes(record: EpochRecord, applied_epochs: Applied) -> int:
    """The bytes of the files in an epoch that are not applied."""
    epoch, size = record.epoch, 0
    for name, part in record.tables.items():
        chunks, changes = files_of_parts([(epoch, part)])
        for kind, files in ((CHUNKS, chunks), (CHANGES, changes)):
            if epoch > applied_epochs.get(name, {}).get(kind, -1):
                size += sum(file.bytes for _, file in files)
    return size
