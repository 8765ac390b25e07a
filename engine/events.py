"""The journal: the append-only event log of a run, one JSON object a line in `journal/<run>.jsonl`.

Every line has `run` (run id), `seq` (1, 2, 3 … in the run), `ts` (UTC text of `clock.utc_text`) and `event`, a name out of
`EVENTS`; the other fields are those that `EVENTS` lists, always all of them (`null` where unknown). Positions are written
`file:offset`, durations in seconds, sizes in bytes. The console, `status` and DuckDB's history read nothing else.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from engine import clock

EVENTS: dict[str, tuple[str, ...]] = {
    # The run. `source`: server, version, flavor, uuid, watermark_class. `spark`: master, ui, version, slots.
    "run.started": ("pipeline", "host", "pid", "version", "until", "spec"),
    "run.connected": ("source", "spark"),
    "run.state": ("state", "reason"),
    "run.ended": ("outcome", "exit_code", "error"),
    "error": ("error", "message", "detail", "hint", "attempt", "retry_in_s"),
    # Tables and their chunks. `chunks` of table.planned: [[lower, upper], …] as text, null when open; all chunks of a table that is
    # cut evenly into at most 10 000 of them, else empty: they follow in `chunk.planned` as the walk comes to them.
    # `chunk_rows`: rows a chunk by plan. `estimated_chunks`: how many chunks it will be, from the server's statistics.
    "table.planned": (
        "table",
        "approx_rows",
        "chunk_key",
        "min",
        "max",
        "distribution_factor",
        "strategy",
        "reason",
        "chunks",
        "chunk_rows",
        "estimated_chunks",
    ),
    # Chunks that were cut since: [[number, lower, upper], …]. A number that was planned before has got these bounds instead (it was
    # split because it was larger than planned). `complete`: no more will follow for this table, but for splits.
    "chunk.planned": ("table", "chunks", "complete"),
    # `chunks`: numbers committed by earlier runs, as closed ranges [[first, last], …].
    "table.resumed": ("table", "chunks"),
    # `state`: copying, streaming, stopped or removed.
    "table.state": ("table", "state", "reason", "hint"),
    # Dates that do not exist and were published as NULL with an epoch: `columns`: {column: values} (source.invalid_dates).
    "table.nulled": ("table", "columns"),
    "chunk.assigned": ("table", "chunks", "group"),
    # `low`, `high`: watermarks; `gap_bytes` between them; `backfill`: {"changes", "deleted", "upserted"};
    # `timings`: {"low", "read", "high", "backfill", "write"} in seconds; `started`, `ended`: UTC text by the reader's clock.
    "chunk.finished": (
        "table",
        "chunk",
        "lower",
        "upper",
        "low",
        "high",
        "gap_bytes",
        "rows",
        "backfill",
        "file",
        "bytes",
        "timings",
        "started",
        "ended",
        "reader",
        "host",
        "pid",
        "attempt",
        "group",
    ),
    "chunk.failed": ("table", "chunks", "group", "error", "message", "attempt", "retry_in_s"),
    # A chunk that failed `attempts` times in a row by itself is not tried again in this run, unless its table is resumed. Unparked:
    # it was read after all, or the table was cut anew (`reason`). `parked`: how many of the table are now.
    "chunk.parked": (
        "table",
        "chunk",
        "lower",
        "upper",
        "error",
        "message",
        "hint",
        "attempts",
        "since",
        "parked",
    ),
    "chunk.unparked": ("table", "chunk", "reason", "parked"),
    # The log. `events`: of every table, by type; `unknown`: those passed over that this version does not know;
    # `damaged`: how often an event came damaged and was read again;
    # `largest`: the largest transaction {"gtid", "position", "bytes", "events"}, null without.
    # `kinds`: {"+I": n, …}; `tables`: {table: changes}; `table_kinds`: {table: [changes of +I, -U, +U, -D]};
    # `timings`: {"read", "commit"}; `chunks`: published with it.
    "epoch.committed": (
        "epoch",
        "from_position",
        "to_position",
        "changes",
        "kinds",
        "tables",
        "table_kinds",
        "transactions",
        "bytes",
        "chunks",
        "timings",
        "reader",
        "events",
        "unknown",
        "damaged",
        "largest",
    ),
    # `kind`: "append", "merge", or "replace" where a new copy took the place of the old one; `through_epoch`: what the destination
    # holds after it.
    "sink.applied": ("sink", "table", "kind", "through_epoch", "rows", "files", "duration_s"),
    # Every two seconds while connected. `lag_s`, `runway_s`: null when unknown. `percentiles`: of `lag_s` in the last ten minutes,
    # {"p50", "p95", "p99", "max"}.
    "source.lag": ("position", "source_position", "lag_s", "lag_bytes", "runway_s", "percentiles"),
    # `kind`: what became of a table that was altered, or is copied again because that was asked for (then without statement):
    # followed, copied again, stopped.
    "source.event": ("kind", "position", "table", "statement", "reason"),
    # The source became another server: the ledger's position, and the same place in the new one's binlog. `gtids`: all before it.
    "source.followed": ("from_identity", "to_identity", "from_position", "to_position", "gtids"),
    # What operators have set (`run.controls`).
    "run.controls": ("throttle", "snapshot", "tables"),
    # Commands out of the inbox. `verb`: pause, resume, stop, throttle, redump, add-table, remove-table. `what`: of those that stay
    # open until they are carried out, what they concern, in words.
    "command.accepted": ("id", "verb", "actor", "reason", "what"),
    "command.refused": ("id", "verb", "actor", "reason", "message"),
    # `result`: of a redump {"rows", "ghosts"}, with "missing" and "missing_keys" where keys were asked for.
    "command.done": ("id", "verb", "duration_s", "result"),
    # A part of a table was read again for the command `id`: `chunk` numbers them; `ghosts`: rows that only the mirror had.
    "redump.chunk": ("id", "table", "chunk", "lower", "upper", "rows", "ghosts", "reader"),
    # Alerts (`engine.run.alerts`). `kind`: lag, lag_bytes, runway, table_stopped, chunk_parked, run_failed; `value`, `threshold`:
    # seconds, bytes, or the exit code of a failed run; `since`: UTC text, when it began; `repeat`: 0 when it is raised, then how
    # often repeated.
    "alert.raised": ("kind", "table", "value", "threshold", "message", "hint", "since", "repeat"),
    "alert.cleared": ("kind", "table", "value", "threshold", "message", "hint", "since", "repeat"),
}


class Journal:
    """Appends the events of one run to its file; safe to call from several threads. `listeners` are given each line.

    Raises ValueError for an event or a field that `EVENTS` does not know: the journal is a protocol.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        self._seq = 0
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", encoding="utf-8", buffering=1)

    def write(self, event: str, **fields: Any) -> dict[str, Any]:
        """Append one event; returns the line as it was written."""
        known = EVENTS.get(event)
        if known is None or set(fields) - set(known):
            raise ValueError(f"journal event {event!r} with fields {sorted(fields)} is not in EVENTS")
        with self._lock:
            self._seq += 1
            line = {"run": self.run, "seq": self._seq, "ts": clock.utc_text(), "event": event}
            line |= {name: fields.get(name) for name in known}
            self._file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        for listener in self.listeners:
            listener(line)
        return line

    def close(self) -> None:
        """Close the file; the journal stays readable."""
        self._file.close()
