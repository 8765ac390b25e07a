"""Appends events to the journal of a run that has ended, for the watchdog.

Only for a run whose process is gone: two writers would number their lines alike. The caller makes sure of that, and
that no other watchdog appends at the same time.
"""

import json
from pathlib import Path
from typing import Any

from engine.base import clock
from engine.base.redaction import clean_line
from engine.journal.events import Event
from engine.journal.journal import Entry
from engine.journal.linefile import LineFile
from engine.journal.parts import newest_lines, parts_in, path_of

_TAILS = (64 << 10, 64 << 20)


def append_to(folder: Path, run: str, event: Event) -> Entry | None:
    """Append an event to the run's newest part. Returns the line; None if the run has no journal. Raises OSError."""
    parts = parts_in(folder, run)
    last = _last_line(folder, run) if parts else None
    if last is None:
        return None
    seq, ts = int(last["seq"]) + 1, max(clock.utc_text(), str(last["ts"]))
    entry = Entry(run, seq, ts, type(event).from_json(clean_line(event.to_json())))
    # A compressed part is closed.
    path = path_of(folder / f"{run}.jsonl", seq) if parts[-1].compressed else parts[-1].path
    file = LineFile(path)
    file.append(json.dumps(entry.to_json(), ensure_ascii=False, default=str))
    if file.close() and file.error is not None:
        raise file.error
    return entry


def _last_line(folder: Path, run: str) -> dict[str, Any] | None:
    """The newest whole line of a run. Half a line, which a killed runner may have left, is none."""
    for most_bytes in _TAILS:
        for line in reversed(newest_lines(folder, most_bytes, run)):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and isinstance(entry.get("seq"), int):
                return entry
    return None
