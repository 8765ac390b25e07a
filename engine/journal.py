"""The journal: the append-only event log of a run, one JSON object per line in `journal/<run>.jsonl` (events: `engine.events`).

Writing an event never fails because of the file or a listener. Lines that find no room are kept in memory and written later
(`engine.linefile`). Failures are recorded in `Journal.failures`, for the thread that reports them.
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

from engine import clock
from engine.events import ErrorReported, Event, event_from
from engine.linefile import LineFile
from engine.redaction import clean_line
from engine.tail import tail

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
    """Appends the events of one run to its file. Thread-safe. Each of the `listeners` gets every line.

    `ts` never goes backwards, within a run or from the newest earlier run to this one: if the clock is set back, times stand still
    until it catches up. So later lines sort later, and a search for the newest event finds it. A clock that was more than a day
    ahead is not waited for.

    failures: the most recent failures: "journal" for the file, otherwise the listener's name.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        self.listeners: list[Callable[[Entry], None]] = []
        self.failures: dict[str, Exception] = {}
        self._seq, self._ts = 0, _latest(path)
        self._lock = threading.Lock()
        self._file = LineFile(path)

    def write(self, event: Event) -> Entry:
        """Append one event. Returns the line as written."""
        with self._lock:
            entry = self._append(event)
            self._settle()
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
            return self._settle()

    def _append(self, event: Event) -> Entry:
        self._seq += 1
        self._ts = max(clock.utc_text(), self._ts)
        clean = type(event)(**clean_line(event.to_json()))
        entry = Entry(self.run, self._seq, self._ts, clean)
        self._file.append(json.dumps(entry.to_json(), ensure_ascii=False, default=str))
        return entry

    def _settle(self) -> bool:
        """Report dropped lines once there is room, and record what is wrong."""
        if self._file.error is None and (dropped := self._file.take_dropped()):
            self._append(
                ErrorReported(
                    error="JournalError",
                    message=f"{dropped} events were lost: the journal could not be written, and memory for them is bounded.",
                    detail="The data is not affected: the ledger has every commit. History and charts lack these events.",
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
            lost, error = self._file.close(), self._file.error
        if lost:
            print(f"{lost} events of the journal {self.path} were lost: {error}", file=sys.stderr)  # noqa: T201


def _latest(path: Path) -> str:
    """The newest time in the previous journal, if it is at most a day ahead of the clock; otherwise empty."""
    others = sorted(other for other in path.parent.glob("*.jsonl") if other.name < path.name)
    try:
        found = _TS.findall(tail(others[-1], _LAST_BYTES))
    except (OSError, IndexError):
        return ""
    latest = max(found, default="")
    return latest if latest <= clock.utc_text(clock.utc_now() + timedelta(days=1)) else ""
