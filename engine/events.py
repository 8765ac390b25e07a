"""The journal: the append-only event log of a run, one JSON object per line in `journal/<run>.jsonl`.

Every line has `run` (run id), `seq` (1, 2, 3 … within the run), `ts` (UTC text of `clock.utc_text`) and `event`, a name from
`EVENTS`. The other fields are exactly those listed in `EVENTS` (`null` if unknown). Positions are `file:offset`, durations seconds,
sizes bytes. The console, `status` and DuckDB's history read nothing else.

Writing an event never fails because of the file or a listener. Lines that find no room are kept in memory and written later
(`engine.linefile`). Failures are recorded in `Journal.failures`, for the thread that reports them.
"""

import json
import re
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from engine import clock
from engine.linefile import LineFile
from engine.redaction import clean_line
from engine.tail import tail

_LAST_BYTES = 64 << 10
_TS = re.compile(r'"ts": "(\d{4}-\d\d-\d\dT[0-9:.]+Z)"')

EVENTS: dict[str, tuple[str, ...]] = {
    # The run. `source`: server, version, flavor, uuid, watermark_class. `spark`: master, ui, version, slots.
    # `format`: the journal's version (`engine.formats`).
    "run.started": ("pipeline", "host", "pid", "version", "until", "spec", "format"),
    "run.connected": ("source", "spark"),
    "run.state": ("state", "reason"),
    "run.ended": ("outcome", "exit_code", "error"),
    # `helper`: the helper thread that met the error; null if it was none.
    "error": ("error", "message", "detail", "hint", "attempt", "retry_in_s", "helper"),
    # A helper thread that reported an error works again.
    "helper.recovered": ("helper", "errors", "duration_s"),
    # A full disk (`error`: DiskFullError) has room again; `attempts`: failures meanwhile.
    "disk.freed": ("attempts", "duration_s"),
    # Tables and their chunks. `chunks` of table.planned: [[lower, upper], …] as text, null if open. It lists all chunks of a table
    # that is split evenly into at most 10 000; otherwise it is empty, and `chunk.planned` lists them as the walk reaches them.
    # `chunk_rows`: planned rows per chunk. `estimated_chunks`: the expected number of chunks, from the server's statistics.
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
    # New chunks: [[number, lower, upper], …]. A number that was planned before has been given these bounds instead, because the
    # chunk was larger than planned and was split. `complete`: no more will follow for this table, except splits.
    "chunk.planned": ("table", "chunks", "complete"),
    # `chunks`: numbers committed by earlier runs, as closed ranges [[first, last], …].
    "table.resumed": ("table", "chunks"),
    # `state`: copying, streaming, stopped or removed.
    "table.state": ("table", "state", "reason", "hint"),
    # Invalid dates published as NULL with an epoch: `columns`: {column: values} (source.invalid_dates).
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
    # A chunk that failed `attempts` times in a row by itself is not retried in this run, unless its table is resumed. Unparked:
    # it was read after all, or the table was split again (`reason`). `parked`: the number of the table's chunks parked now.
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
    # The binlog. `events`: of all tables, by type; `unknown`: skipped events that this version does not know;
    # `damaged`: how often a damaged event was read again;
    # `largest`: the largest transaction {"gtid", "position", "bytes", "events"}, null if there is none.
    # `kinds`: {"+I": n, …}; `tables`: {table: changes}; `table_kinds`: {table: [changes of +I, -U, +U, -D]};
    # `timings`: {"read", "commit"}; `chunks`: published with the epoch.
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
    # `kind`: "append", "merge", or "replace" if a resnapshot replaced the old rows; `through_epoch`: the last epoch that the
    # destination has afterwards.
    "sink.applied": ("sink", "table", "kind", "through_epoch", "rows", "files", "duration_s"),
    # Every two seconds while connected. `lag_s`, `runway_s`: null if unknown. `percentiles`: of `lag_s` over the last ten minutes,
    # {"p50", "p95", "p99", "max"}.
    "source.lag": ("position", "source_position", "lag_s", "lag_bytes", "runway_s", "percentiles"),
    # The source is away, or refuses the login: one event per attempt. `since`, `gives_up_at`: UTC text; the latter is null if
    # the run waits indefinitely.
    "source.away": ("since", "attempt", "retry_in_s", "message", "gives_up_at"),
    "source.back": ("since", "seconds"),
    # `kind`: what happened to a table that was altered, or is resnapshotted on request (then without statement): evolved,
    # resnapshotted, stopped.
    "source.event": ("kind", "position", "table", "statement", "reason"),
    # The source became another server: the ledger's position, and the same place in the new binlog. `gtids`: all before it.
    "source.failover": ("from_identity", "to_identity", "from_position", "to_position", "gtids"),
    # Operators' settings (`run.commands.overrides`).
    "run.controls": ("throttle", "snapshot", "tables"),
    # Commands from the inbox. `verb`: pause, resume, stop, throttle, redump, add-table, remove-table. `what`: for commands that
    # stay open until they are carried out, their subject in words.
    "command.accepted": ("id", "verb", "actor", "reason", "what"),
    "command.refused": ("id", "verb", "actor", "reason", "message"),
    # `result`: of a redump {"rows", "ghosts"}, plus "missing" and "missing_keys" if keys were requested.
    "command.done": ("id", "verb", "duration_s", "result"),
    # A part of a table was redumped for the command `id`: `chunk` numbers the parts; `ghosts`: rows that only the mirror had.
    "redump.chunk": ("id", "table", "chunk", "lower", "upper", "rows", "ghosts", "reader"),
    # Alerts (`engine.run.observe.alerts`). `kind`: lag, lag_bytes, runway, table_stopped, chunk_parked, source_away, disk_full,
    # helper_failed, run_failed; `value`, `threshold`: seconds, bytes, or the exit code of a failed run; `since`: UTC text, when it
    # began; `repeat`: 0 when it is raised, then the number of repeats.
    "alert.raised": ("kind", "table", "value", "threshold", "message", "hint", "since", "repeat"),
    "alert.cleared": ("kind", "table", "value", "threshold", "message", "hint", "since", "repeat"),
}


class Journal:
    """Appends the events of one run to its file. Thread-safe. Each of the `listeners` gets every line.

    `ts` never goes backwards, within a run or from the newest earlier run to this one: if the clock is set back, times stand still
    until it catches up. So later lines sort later, and a search for the newest event finds it. A clock that was more than a day
    ahead is not waited for.

    failures: the most recent failures: "journal" for the file, otherwise the listener's name.

    Raises ValueError for an event or a field that is not in `EVENTS`: the journal is a protocol.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        self.failures: dict[str, Exception] = {}
        self._seq, self._ts = 0, _latest(path)
        self._lock = threading.Lock()
        self._file = LineFile(path)

    def write(self, event: str, **fields: Any) -> dict[str, Any]:
        """Append one event. Returns the line as written."""
        fields_of_event = EVENTS.get(event)
        if fields_of_event is None or set(fields) - set(fields_of_event):
            raise ValueError(f"journal event {event!r} with fields {sorted(fields)} is not in EVENTS")
        with self._lock:
            line = self._append(event, {name: fields.get(name) for name in fields_of_event})
            self._settle()
        for listener in self.listeners:
            name = getattr(listener, "__qualname__", type(listener).__name__)
            try:
                listener(line)
            except Exception as error:  # noqa: BLE001 - a listener must not break the writer
                self.failures[name] = error
            else:
                self.failures.pop(name, None)
        return line

    def flush(self) -> bool:
        """Write the lines kept in memory. Returns whether all of them are in the file."""
        with self._lock:
            self._file.flush()
            return self._settle()

    def _append(self, event: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._seq += 1
        self._ts = max(clock.utc_text(), self._ts)
        line = clean_line({"run": self.run, "seq": self._seq, "ts": self._ts, "event": event, **fields})
        self._file.append(json.dumps(line, ensure_ascii=False, default=str))
        return line

    def _settle(self) -> bool:
        """Report dropped lines once there is room, and record what is wrong."""
        if self._file.error is None and (dropped := self._file.take_dropped()):
            lost = {
                "error": "JournalError",
                "message": f"{dropped} events were lost: the journal could not be written, and memory for them is bounded.",
                "detail": "The data is unaffected: the ledger has every commit. History and charts lack these events.",
                "hint": "Keep room on the disk of the pipeline's folder.",
            }
            self._append("error", {name: lost.get(name) for name in EVENTS["error"]})
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
