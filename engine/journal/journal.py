"""The journal: the append-only event log of a run, one JSON object per line (`events`, in files of `parts`).

Writing an event never fails because of the file or a listener. Lines that find no room are kept in memory and written
later (`journal.linefile`). Failures are recorded in `Journal.failures`, for the thread that reports them.
"""

import json
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from engine.base import clock
from engine.base.redaction import clean_line
from engine.journal.event_lines import event_from
from engine.journal.events import ErrorReported, Event
from engine.journal.linefile import LineFile
from engine.journal.parts import newest_lines, path_of, runs_in

PART_BYTES, PART_S = 64 << 20, 86_400.0
"""The size (in characters) and the age after which a part of a journal is closed."""
_RETRY_S = 60.0
_LAST_BYTES = 64 << 10
_TS = re.compile(r'"ts": "(\d{4}-\d\d-\d\dT[0-9:.]+Z)"')


@dataclass(frozen=True)
class Entry:
    """One line of the journal, as listeners get it: without secrets."""

    run: str
    seq: int
    ts: str
    event: Event

    def to_json(self) -> dict[str, Any]:
        """The line."""
        return {"run": self.run, "seq": self.seq, "ts": self.ts, "event": self.event.NAME, **self.event.to_json()}


def entry_from(line: Mapping[str, Any]) -> Entry | None:
    """A line that was read back; None if this version does not know its event."""
    event = event_from(str(line.get("event")), line)
    return Entry(str(line["run"]), int(line["seq"]), str(line["ts"]), event) if event else None


class Journal:
    """Appends the events of one run to its newest part. Thread-safe. Each of the `listeners` gets every line.

    `ts` never goes backwards, within a run or from the newest earlier run to this one: if the clock is set back, times
    stand still until it catches up. So later lines sort later, and a search for the newest event finds it. A clock that
    was more than a day ahead is not waited for.

    path: the file of the first part. failures: the most recent failures: "journal" for the file, otherwise the
    listener's name.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self.run = run
        self.listeners: list[Callable[[Entry], None]] = []
        self.failures: dict[str, Exception] = {}
        self._seq = 0
        self._ts = _latest(path)
        self._lock = threading.Lock()
        self._file = LineFile(path)
        self._part_bytes = 0
        self._close_s = clock.monotonic_s() + PART_S
        self._retry_s = 0.0

    def write(self, event: Event) -> Entry:
        """Append one event. Returns the line as written."""
        with self._lock:
            entry = self._append(event)
            self._report_losses()
        for listener in self.listeners:
            name = getattr(listener, "__qualname__", type(listener).__name__)
            try:
                listener(entry)
            except Exception as error:  # noqa: BLE001 - a listener must not break the writer
                self.failures[name] = error
            else:
                self.failures.pop(name, None)
        return entry

    def flush(self) -> bool:
        """Write the lines kept in memory. Returns whether all of them are in the file."""
        with self._lock:
            self._file.flush()
            return self._report_losses()

    def _append(self, event: Event) -> Entry:
        self._seq += 1
        self._ts = max(clock.utc_text(), self._ts)
        clean = type(event).from_json(clean_line(event.to_json()))
        entry = Entry(self.run, self._seq, self._ts, clean)
        line = json.dumps(entry.to_json(), ensure_ascii=False, default=str)
        large = self._part_bytes + len(line) > PART_BYTES and clock.monotonic_s() >= self._retry_s
        if self._part_bytes and (large or clock.monotonic_s() >= self._close_s):
            self._begin_part()
        self._file.append(line)
        self._part_bytes += len(line)
        return entry

    def _begin_part(self) -> None:
        """Continue in a new file, unless lines still wait for room in this one.

        If that fails, try again in a minute.
        """
        self._close_s = clock.monotonic_s() + _RETRY_S
        self._retry_s = self._close_s
        if self._file.waiting:
            return
        try:
            following = LineFile(path_of(self.path, self._seq))
        except OSError as error:
            self.failures["new part of the journal"] = error
            return
        self.failures.pop("new part of the journal", None)
        self._file.close()
        self._file = following
        self._part_bytes = 0
        self._close_s = clock.monotonic_s() + PART_S
        self._retry_s = 0.0

    def _report_losses(self) -> bool:
        """Report dropped lines once there is room, and record what is wrong."""
        if self._file.error is None and (dropped := self._file.take_dropped()):
            self._append(
                ErrorReported(
                    error="JournalError",
                    message=f"{dropped} events were lost: the journal could not be written, "
                    "and memory for them is bounded.",
                    detail="The data is not affected: the ledger has every commit. "
                    "History and charts lack these events.",
                    hint="Keep space free on the disk of the pipeline's folder.",
                )
            )
        if self._file.error is not None:
            self.failures["journal"] = self._file.error
            return False
        self.failures.pop("journal", None)
        return True

    def close(self) -> None:
        """Close the file; the journal stays readable. Lines that still find no room are lost, and stderr says so."""
        with self._lock:
            lost_lines, error = self._file.close(), self._file.error
        if lost_lines:
            print(f"{lost_lines} events of the journal {self.path} were lost: {error}", file=sys.stderr)  # noqa: T201


def _latest(path: Path) -> str:
    """The newest time in the previous run's journal, if it is at most a day ahead of the clock; otherwise empty."""
    earlier = [run for run in runs_in(path.parent) if run < path.stem]
    try:
        times = _TS.findall("\n".join(newest_lines(path.parent, _LAST_BYTES, earlier[-1])))
    except (OSError, IndexError):
        return ""
    latest = max(times, default="")
    return latest if latest <= clock.utc_text(clock.utc_now() + timedelta(days=1)) else ""
