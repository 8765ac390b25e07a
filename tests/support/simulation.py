"""Realistic journals without a runner: a small model of a run that writes through `engine.journal.events.Journal`.

`Simulation` has its own clock, so ten minutes of a run are written in milliseconds (`advance`), and a run can continue
in real time under the console (`play`). The browser tests and the tests of `engine.history` use it.
"""

import json
import random
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.base import clock
from engine.base.durable import write_atomically
from engine.journal import Journal
from engine.journal.alert_events import AlertCleared, AlertRaised
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import list_text, read_alerts
from engine.spec import settings
from tests.support.entries import event as make_event

SPEC = """\
name = "{name}"

[source]
host = "127.0.0.1"
port = 3306
user = "tidemark"
password_env = "TIDEMARK_DEMO_PASSWORD"
tables = ["shop.*", "!shop.audit_*"]

[sink]
type = "delta"
path = "lake"
"""


_CLOCK = threading.Lock()
"""Held while the engine's clock is patched for a line, so that simulations do not mix up their times."""


def real_now() -> datetime:
    """The current time, even while a simulation patches the engine's clock."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class SimulatedTable:
    """A table of the model."""

    name: str
    rows: int
    chunks: int
    factor: float | None = 1.0
    """The distribution factor; None without an integer key."""
    estimated_chunks: int | None = None
    """If set, the table is split while it is copied, and this is the estimate from statistics."""
    split_each: int = 0
    """If set, one chunk in this many is twice as large as planned and is split."""

    @property
    def step(self) -> int:
        """Keys a chunk."""
        return max(int((self.factor or 1.0) * self.rows / self.chunks), 1)


CUT_AHEAD = 8
"""The most chunks of a table to plan ahead of the readers."""
Bounds = tuple[str | None, str | None]


def _bounds(table: SimulatedTable, number: int) -> Bounds:
    """The bounds of a chunk; open at the ends of the table."""
    lower = None if number == 0 else str(1 + table.step * number)
    return lower, None if number == table.chunks - 1 else str(1 + table.step * (number + 1))


@dataclass
class _Reader:
    name: str
    pid: int
    free_at: datetime
    queue: list[tuple[SimulatedTable, int, str]] = field(default_factory=list)


class Simulation:
    """One run of a pipeline in the directory `root`."""

    def __init__(
        self,
        root: Path,
        tables: list[SimulatedTable],
        *,
        run: str = "20261121-053000-a1b2",
        readers: int = 2,
        changes_per_s: int = 800,
        start: datetime | None = None,
        seed: int = 7,
        resume: "Simulation | None" = None,
        starting: bool = False,
    ) -> None:
        self.directory = Directory(root)
        self.mirror_age_s = 0.0
        root.mkdir(parents=True, exist_ok=True)
        self.directory.spec.write_text(SPEC.format(name=root.name), encoding="utf-8")
        self.now = self.started = start or real_now()
        self.paused_at, self.reason = self.now, ""
        self.random = random.Random(seed)
        self.journal = Journal(self.directory.journal(run), run)
        weakref.finalize(self, self.journal.close)
        self.run, self.tables, self.changes_per_s = run, tables, changes_per_s
        self.state, self.phase = "running", "snapshot"
        self.position, self.file = 120_000, 41
        self.epoch: int = resume.epoch if resume else 0
        self.resumed = resume is not None
        self.unpublished: list[tuple[str, int, tuple[int, int]]] = []
        if resume:
            self.file, self.position = resume.file, resume.position
        self.committed: set[tuple[str, int]] = set(resume.committed) if resume else set()
        self.walked: dict[str, int] = dict(resume.walked) if resume else {}
        self.bounds: dict[str, list[Bounds]] = {t: list(b) for t, b in resume.bounds.items()} if resume else {}
        self.pending: list[tuple[SimulatedTable, int]] = []
        self.readers = [_Reader(f"reader-{n + 1}", 4200 + n, self.now) for n in range(readers)]
        self.finished = self.ticks = 0
        self.startup: list[dict[str, Any]] = []
        self.away: dict[str, Any] | None = None
        self.write_outage: dict[str, Any] | None = None
        self.blocked: list[dict[str, Any]] = []
        self.source: dict[str, Any] | None = None
        self.sinks: list[dict[str, Any]] = []
        self._opening(starting)

    def write(self, event: str, **fields: Any) -> None:
        """Write a journal line at the model's time."""
        with _CLOCK, patch.object(clock, "utc_now", lambda: self.now):
            self.journal.write(make_event(event, **fields))

    def _opening(self, starting: bool) -> None:
        spec = settings.load(self.directory.spec).model_dump(mode="json")
        started = {
            "pipeline": self.directory.root.name,
            "host": "db-tools-1",
            "pid": 4100,
            "version": "0.1.0",
            "spec": spec,
        }
        self.write("run.started", **started, until=None)
        if starting:
            self.state = self.phase = "starting"
            return
        source = {
            "server": "127.0.0.1:3306",
            "version": "9.7.4",
            "flavor": "mysql",
            "uuid": "5f1c",
            "watermark_class": "settled",
        }
        spark = {"master": f"local[{len(self.readers)}]", "ui": "http://127.0.0.1:4040", "version": "4.3.0"}
        self.write("run.connected", source=source, spark=spark | {"slots": len(self.readers)})
        self.write("run.state", state="running", reason="")
        for table in self.tables:
            if not self.resumed:
                self._plan(table)
            numbers = range(len(self.bounds[table.name]))
            self.pending += [(table, n) for n in numbers if (table.name, n) not in self.committed]
            self.write("table.state", table=table.name, state="copying", reason=None)

    def _plan(self, table: SimulatedTable) -> None:
        strategy, reason = "even", "integer key, factor within its bounds"
        if table.chunks == 1:
            strategy, reason = "one", "no more rows than one chunk holds"
        elif (table.factor or 0) > 1000:
            strategy, reason = "uneven", "factor above 1000: even steps would be nearly empty"
        elif table.factor is None:
            strategy, reason = "uneven", "the key is no number: bounds are found by walking along it"
        listed = table.estimated_chunks is None
        self.walked[table.name] = table.chunks if listed else 0
        self.bounds[table.name] = [_bounds(table, n) for n in range(self.walked[table.name])]
        self.write(
            "table.planned",
            table=table.name,
            approx_rows=table.rows,
            chunk_key=["id"],
            min="1",
            max=str(table.step * table.chunks),
            distribution_factor=table.factor,
            strategy=strategy,
            reason=reason,
            chunks=self.bounds[table.name],
            chunk_rows=table.rows // table.chunks,
            estimated_chunks=table.chunks if listed else table.estimated_chunks,
        )

    def _walk(self, table: SimulatedTable) -> None:
        """Plan more chunks, up to `CUT_AHEAD` ahead of the readers."""
        waiting = sum(t is table for t, _ in self.pending)
        begin, walked = self.walked[table.name], self.bounds[table.name]
        end = min(begin + CUT_AHEAD - waiting, table.chunks)
        if end <= begin:
            return
        self.walked[table.name] = end
        first = len(walked)
        walked += [_bounds(table, n) for n in range(begin, end)]
        self._announce(table, range(first, len(walked)), complete=end == table.chunks)
        self.pending += [(table, number) for number in range(first, len(walked))]

    def _split(self, table: SimulatedTable, number: int) -> None:
        """Split the rest off a chunk that is larger than planned. Halves are not split again."""
        bounds = self.bounds[table.name]
        lower, upper = bounds[number]
        if upper is None or int(upper) - int(lower or 1) < table.step:
            return
        middle = str(int(lower or 1) + table.step // 2)
        bounds[number] = (lower, middle)
        bounds.append((middle, upper))
        self._announce(table, [number], complete=False)
        self._announce(table, [len(bounds) - 1], complete=False, parent=number)
        self.pending.append((table, len(bounds) - 1))

    def _announce(
        self, table: SimulatedTable, numbers: Iterable[int], *, complete: bool, parent: int | None = None
    ) -> None:
        chunks = [[number, *self.bounds[table.name][number]] for number in numbers]
        self.write("chunk.planned", table=table.name, chunks=chunks, complete=complete, parent=parent)

    def advance(self, seconds: float, step_s: float = 0.5) -> "Simulation":
        """Run the model for a while."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now = min(self.now + timedelta(seconds=step_s), end)
            self.ticks += 1
            if self.away is not None or self.state == "starting":
                continue
            if self.state == "running":
                self._read()
            if self.ticks % 2 == 0 and self.state == "running":
                self._commit()
            if self.ticks % 4 == 0:
                self._measure()
        return self

    def lose_source(self, error: str) -> "Simulation":
        """From now on the source is unreachable; five tries have failed within 48 seconds."""
        began = self.now
        away = {"since": clock.utc_text(began), "gives_up_at": clock.utc_text(began + timedelta(hours=57))}
        for attempt, after_s in enumerate((2, 4, 9, 18, 48), 1):
            self.now = began + timedelta(seconds=after_s)
            self.write("source.away", **away, attempt=attempt, retry_in_s=min(2.0**attempt, 30.0), message=error)
        next_try = clock.utc_text(self.now + timedelta(seconds=30))
        self.away = {**away, "attempt": 5, "next_try": next_try, "error": error}
        return self.raise_alert("source_away", value=48.0, message=error, since=away["since"])

    def _read(self) -> None:
        for table in self.tables:
            self._walk(table)
        for reader in self.readers:
            while reader.free_at <= self.now and (reader.queue or self.pending):
                if not reader.queue:
                    self._assign(reader)
                table, number, group = reader.queue.pop(0)
                self._finish(reader, table, number, group)

    def _assign(self, reader: _Reader) -> None:
        group, table = f"g{self.random.randrange(16**6):06x}", self.pending[0][0]
        numbers = [n for t, n in self.pending[:3] if t is table]
        self.pending = self.pending[len(numbers) :]
        self.write("chunk.assigned", table=table.name, chunks=numbers, group=group)
        if self.random.random() < 0.02:
            error = {"error": "TransientError", "message": "Lost connection to the server during query", "attempt": 1}
            self.write("chunk.failed", table=table.name, chunks=numbers, group=group, **error, retry_in_s=2.0)
            reader.free_at += timedelta(seconds=2)
            self.write("chunk.assigned", table=table.name, chunks=numbers, group=group)
        reader.queue = [(table, n, group) for n in numbers]

    def _finish(self, reader: _Reader, table: SimulatedTable, number: int, group: str) -> None:
        if table.split_each and number % table.split_each == table.split_each - 1:
            self._split(table, number)
        rows = table.rows // table.chunks + self.random.randrange(-40, 40)
        seconds = 0.25 + rows / 90_000 * self.random.lognormvariate(0, 0.25) * (5 if self.random.random() < 0.01 else 1)
        began = max(reader.free_at, self.now - timedelta(seconds=2))
        reader.free_at = began + timedelta(seconds=seconds)
        gap = int(self.changes_per_s * seconds * 64 * self.random.uniform(0.2, 1.4))
        lower, upper = self.bounds[table.name][number]
        changes = gap // 6400
        self.write(
            "chunk.finished",
            table=table.name,
            chunk=number,
            lower=lower,
            upper=upper,
            low=f"mysql-bin.{self.file:06d}:{self.position}",
            high=f"mysql-bin.{self.file:06d}:{self.position + gap}",
            gap_bytes=gap,
            rows=rows,
            backfill={"changes": changes, "deleted": changes // 5, "upserted": changes - changes // 5},
            file=f"{table.name.replace('.', '/')}/part-{group}-{number}.parquet",
            bytes=rows * 61,
            timings={
                "low": 0.002,
                "read": seconds * 0.7,
                "high": 0.001,
                "backfill": seconds * 0.1,
                "write": seconds * 0.2,
            },
            started=clock.utc_text(began),
            ended=clock.utc_text(reader.free_at),
            reader=f"db-tools-1:{reader.pid}",
            host="db-tools-1",
            pid=reader.pid,
            attempt=0,
            group=group,
        )
        self.finished += 1
        self.unpublished.append((table.name, number, (self.file, self.position + gap)))

    def _commit(self) -> None:
        changes = int(self.changes_per_s * self.random.uniform(0.7, 1.3))
        if not changes and not self.unpublished:
            return
        self.epoch += 1
        before = f"mysql-bin.{self.file:06d}:{self.position}"
        self.position += changes * 64
        if self.position > 40_000_000:
            self.file, self.position = self.file + 1, 4
            self.write(
                "source.event",
                kind="rotation",
                position=f"mysql-bin.{self.file:06d}:4",
                table=None,
                statement=None,
                reason=None,
            )
        # As in the engine, an epoch commits the chunks whose high watermark is not after its end; the others wait.
        first, updates, deletes = self.tables[0].name, changes // 5, changes // 10
        kinds = [changes - 2 * updates - deletes, updates, updates, deletes]
        publishable = [chunk for chunk in self.unpublished if chunk[2] <= (self.file, self.position)]
        self.unpublished = [chunk for chunk in self.unpublished if chunk not in publishable]
        self.committed |= {(name, number) for name, number, _ in publishable}
        self.write(
            "epoch.committed",
            epoch=self.epoch,
            from_position=before,
            to_position=f"mysql-bin.{self.file:06d}:{self.position}",
            changes=changes,
            kinds=dict(zip(("+I", "-U", "+U", "-D"), kinds, strict=True)),
            tables={first: changes},
            table_kinds={first: kinds},
            transactions=changes // 2,
            bytes=changes * 64,
            chunks=len(publishable),
            timings={"read": 0.12, "commit": 0.03},
            reader=f"db-tools-1:{self.readers[0].pid}",
            events={"GTID": changes // 2, "TABLE_MAP": changes // 2, "WRITE_ROWS": changes // 2, "XID": changes // 2},
            unknown={},
            largest={"gtid": None, "position": before, "bytes": 640, "events": 4},
        )
        applied = {"sink": "delta", "table": first, "through_epoch": self.epoch, "files": 1, "duration_s": 0.02}
        for kind in ("append", "merge") if changes else ():
            self.write("sink.applied", kind=kind, rows=changes, **applied)
        if (
            self.phase == "snapshot"
            and not self.pending
            and all(self.walked[table.name] == table.chunks for table in self.tables)
            and not self.unpublished
            and not any(reader.queue for reader in self.readers)
        ):
            self.phase = "streaming"
            for table in self.tables:
                self.write("table.state", table=table.name, state="streaming", reason=None)

    def _measure(self) -> None:
        idle = self.changes_per_s == 0
        behind = 0 if idle else int(self.changes_per_s * 64 * self.random.uniform(0.1, 1.2))
        if self.state == "paused":
            behind = int((self.now - self.paused_at).total_seconds() * self.changes_per_s * 64)
        self.write(
            "source.lag",
            position=f"mysql-bin.{self.file:06d}:{self.position}",
            source_position=f"mysql-bin.{self.file:06d}:{self.position + behind}",
            lag_s=behind / max(self.changes_per_s * 64, 1),
            lag_bytes=behind,
            runway_s=None if idle else 86_400 * 2.4,
            percentiles={"p50": 0.3, "p95": 0.9, "p99": 1.4, "max": 1.6},
            mirror_age_s=self.mirror_age_s,
            log_freshness=None if idle else {"p50": 0.3, "p95": 0.6, "p99": 0.8, "max": 1.1},
            mirror_freshness=None if idle else {"p50": 0.9, "p95": 1.7, "p99": 2.1, "max": 2.4},
        )

    def command(self, verb: str, identity: str = "c0ffee", actor: str = "dba", reason: str = "") -> "Simulation":
        """A pause, resume or stop: accepted, carried out and done."""
        self.write("command.accepted", id=identity, verb=verb, actor=actor, reason=reason)
        states = {"pause": "paused", "resume": "running", "stop": "stopping"}
        if verb not in states:  # of tables
            self.now += timedelta(seconds=0.4)
            self.write("command.done", id=identity, verb=verb, duration_s=0.4)
            return self
        self.state = states[verb]
        if verb == "pause":
            self.paused_at = self.now
        self.reason = f"{actor}: {reason}" if reason else actor
        self.write("run.state", state=self.state, reason=self.reason)
        self.now += timedelta(seconds=0.4)
        self.write("command.done", id=identity, verb=verb, duration_s=0.4)
        return self.end() if verb == "stop" else self

    def _answer(self) -> None:
        """Carry out the commands in the inbox, as the runner would."""
        for path in sorted(self.directory.inbox.glob("*.json")):
            command = json.loads(path.read_text(encoding="utf-8"))
            path.unlink()
            self.command(command["verb"], command["id"], command["actor"], command["reason"])

    def end(self, outcome: str = "stopped", exit_code: int = 0, error: dict[str, str] | None = None) -> "Simulation":
        """The run's last line."""
        if error:
            self.write("error", **error, attempt=None, retry_in_s=None)
        self.write("run.ended", outcome=outcome, exit_code=exit_code, error=error)
        self.state = "ended"
        return self

    def raise_alert(self, kind: str, table: str | None = None, **fields: Any) -> "Simulation":
        """Raise an alert, in the journal and in the file, as the runner would.

        Its cause began now unless `since` is given.
        """
        at = clock.utc_text(self.now)
        alert = replace(Alert(kind, table, since=at, announced=at), **fields)
        self.write("alert.raised", **alert.event(AlertRaised).to_json())
        self._save_alerts([*read_alerts(self.directory), alert])
        return self

    def clear_alert(self, kind: str, table: str | None = None, **fields: Any) -> "Simulation":
        """Clear that alert."""
        alerts = read_alerts(self.directory)
        (alert,) = (one for one in alerts if one.name == (kind, table))
        self.write("alert.cleared", **alert.event(AlertCleared).to_json() | fields)
        self._save_alerts([one for one in alerts if one is not alert])
        return self

    def _save_alerts(self, alerts: list[Alert]) -> None:
        write_atomically(self.directory.alerts, list_text("alerts", [alert.to_json() for alert in alerts]))

    def runner(self, *, heartbeat: datetime | None = None, error: dict[str, str] | None = None) -> "Simulation":
        """Write `runner.json` as the runner would."""
        record = {
            "run": self.run,
            "pid": 4100,
            "host": "db-tools-1",
            "state": self.state,
            "reason": self.reason if self.state == "paused" else "",
            "phase": self.phase,
            "startup": self.startup,
            "away": self.away,
            "write_outage": self.write_outage,
            "blocked": self.blocked,
            "source": self.source,
            "sinks": self.sinks,
            "heartbeat": clock.utc_text(heartbeat or real_now()),
            "started": clock.utc_text(self.started),
            "spark_ui": "http://127.0.0.1:4040",
            "error": error,
        }
        write_atomically(self.directory.runner, json.dumps(record))
        return self

    @contextmanager
    def play(self) -> Iterator["Simulation"]:
        """Continue in real time, with heartbeats, while the block lasts."""
        done = threading.Event()

        def live() -> None:
            while not done.is_set():
                behind = (real_now() - self.now).total_seconds()
                if self.state in ("running", "paused") and behind > 0:
                    self.advance(behind)
                self._answer()
                self.runner()
                done.wait(1.0)

        self.runner()
        thread = threading.Thread(target=live, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            done.set()
            thread.join(timeout=10)
