"""The journal: the append-only event log of a run, one JSON object a line in `journal/<run>.jsonl`. `engine.events` has the events.

Writing an event never fails for the sake of the file or of who listens: lines that find no room are kept in memory and written
later (`engine.linefile`), and what went wrong is kept in `Journal.failures` for the thread that reports it.
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
    """Appends the events of one run to its file; safe to call from several threads. `listeners` are given each line.

    `ts` never runs backwards, in a run and from the newest earlier run to this one: where the clock is set back, times stand still
    until it has come again. So later lines sort later, and what asks for the newest of something finds it. A clock that was ahead
    by more than a day is not waited for.

    failures: what could not be done last time: "journal" for the file, else the listener's name.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        self.listeners: list[Callable[[Entry], None]] = []
        self.failures: dict[str, Exception] = {}
        self._seq, self._ts = 0, _latest(path)
        self._lock = threading.Lock()
        self._file = LineFile(path)

    def write(self, event: Event) -> Entry:
        """Append one event; returns the line as it was written."""
        with self._lock:
            entry = self._append(event)
            self._settle()
        for listener in self.listeners:
            name = getattr(listener, "__qualname__", type(listener).__name__)
            try:
                listener(entry)
            except Exception as error:  # noqa: BLE001 - a listener's failure must not end the writer
                self.failures[name] = error
            else:
                self.failures.pop(name, None)
        return entry

    def flush(self) -> bool:
        """Write the lines that are kept in memory; whether all of them are in the file."""
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
        """Say what was dropped, once there is room; note what is wrong."""
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
        """Close the file; the journal stays readable. What still finds no room is lost, and stderr says so."""
        with self._lock:
            lost, error = self._file.close(), self._file.error
        if lost:
            print(f"{lost} events of the journal {self.path} were lost: {error}", file=sys.stderr)  # noqa: T201


def _latest(path: Path) -> str:
    """The newest time in the journal before this one, if it is ahead of the clock by no more than a day; else empty."""
    others = sorted(other for other in path.parent.glob("*.jsonl") if other.name < path.name)
    try:
        found = _TS.findall(tail(others[-1], _LAST_BYTES))
    except (OSError, IndexError):
        return ""
    latest = max(found, default="")
    return latest if latest <= clock.utc_text(clock.utc_now() + timedelta(days=1)) else ""
