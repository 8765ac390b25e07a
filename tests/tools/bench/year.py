"""`python -m tests.tools.bench.year`: a year of a pipeline in an hour or two, without a server.

300 tables, a million epochs, one every 31.5 seconds of a simulated clock. Each epoch has changes of a table: nine times
of ten of one of the two busiest ones, otherwise of one chosen at random. Half of the tables are merged on read, the
others copied on write. Ledger, publisher, maintenance and journal are the real ones; only the clock, the source and
Spark are not. Every simulated hour, the epochs wait until the maintenance has nothing more to do: it would have had the
time. The runner starts again every month.

`--tables 1 --days 7 --epochs 604800 --age-hours 1 --merge-interval-s 10` is a week of a table that changes every
second: it shows how many files the lake has, with `--mirror` for each kind of mirror.

After the first day, and then every month, it prints what an epoch, `status`, a start and the live page take
(milliseconds, and milliseconds of the processor behind them), and what the pipeline holds in memory and on disk.
Neither must grow with the year.
"""

import argparse
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from streamlit import config
from streamlit.testing.v1 import AppTest

from app.common import home
from engine.base import clock
from engine.capture.binlog.row_changes import log_schema
from engine.capture.files import FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.decode.schema import Column, Table
from engine.destination.delta.layout import changes_folder, mirror_folder
from engine.destination.destination_protocol import Destination
from engine.destination.publisher import Publisher
from engine.destination.registry import destination_of
from engine.journal import Journal
from engine.journal.events import EpochCommitted, LagMeasured, RunStarted, RunState
from engine.ledger.record_json import change_from_json, epoch_from_json
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.plan.chunks import WHOLE, Plan
from engine.plan.coverage import Chunk, Coverage, split_as_dict
from engine.run.lifecycle.takeover import Takeover
from engine.source.positions import Position
from engine.spec.sink_settings import Sink, SinkRules
from engine.status.status import status
from engine.store.folder import Folder
from tests.tools.bench.console import ROOT, beat

DAY_S, HOUR_S = 86_400.0, 3600.0
ROWS, CHANGES = 1000, 20
SPEC = """name = "year"
source = { host = "127.0.0.1", user = "u", tables = ["d.*"] }
sink = { type = "delta", path = "lake" }
spark = { master = "local[2]" }
"""


class Clock:
    """The simulated time.

    It ends now, because the library would keep the entries of files that were removed in the future.
    """

    def __init__(self, days: int) -> None:
        self._began, self.passed_s = datetime.now(UTC) - timedelta(days=days), 0.0

    def utc_now(self) -> datetime:
        """As `clock.utc_now`."""
        return self._began + timedelta(seconds=self.passed_s)

    def monotonic_s(self) -> float:
        """As `clock.monotonic_s`."""
        return self.passed_s

    def unix_s(self) -> float:
        """As `clock.unix_s`."""
        return self.utc_now().timestamp()


@dataclass(frozen=True, order=True)
class Took:
    """Milliseconds: on the clock, and of the processor, all threads of this process together."""

    wall_ms: float
    processor_ms: float

    @staticmethod
    def now() -> "Took":
        """Both since some instant."""
        return Took(time.perf_counter() * 1000, time.process_time() * 1000)

    def __sub__(self, other: "Took") -> "Took":
        return Took(self.wall_ms - other.wall_ms, self.processor_ms - other.processor_ms)

    def __truediv__(self, parts: int) -> "Took":
        return Took(self.wall_ms / parts, self.processor_ms / parts)


@dataclass
class Year:
    """One pipeline, its tables, and the figures."""

    root: Path
    tables: int
    step_s: float
    clock: Clock
    merge_interval_s: float = 300.0
    mirror: str = "both"
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    seq: int = 0
    runs: int = 0
    maintained: int = 0
    """How often the maintenance had nothing more to do."""
    journal: Journal = field(init=False)
    publisher: Publisher = field(init=False)
    takeover: Takeover = field(init=False)

    def __post_init__(self) -> None:
        columns = (Column("id", "int", nullable=False), Column("v", "int"))
        self.all = [Table("d", f"{'ab'[n % 2]}{n:03}", columns, ("id",)) for n in range(self.tables)]
        rules = {"d.b*": SinkRules(mirror="merge_on_read")} if self.mirror == "both" else {}
        self.sink = Sink(
            path=self.root.parent / "lake",
            mirror="copy_on_write" if self.mirror == "both" else self.mirror,
            tables=rules,
            merge_interval_s=self.merge_interval_s,
        )
        self.directory = Directory(self.root)
        self.root.mkdir(parents=True)
        (self.root / "pipeline.toml").write_text(SPEC)
        self.ledger = Ledger(self.directory.ledger)

    def copy(self) -> None:
        """The first epochs: each table is planned and copied."""
        begin = {"ledger": "L", "identity": "server", "epoch": 0, "run": "r", "ts": clock.utc_text()}
        at = {"file": "b.000001", "offset": 4, "gtids": None}
        plan = Plan("d.t", ROWS, 0, ("id",), "PRIMARY", "0", "9", 1.0, "one", "", ROWS, 1, "10", "10")
        planned = {t.full_name: {"planned": {"table": t.as_dict(), "plan": plan.as_dict()}} for t in self.all}
        record = epoch_from_json({**begin, "from": at, "to": at, "next_seq": 0, "tables": planned})
        self.ledger.commit(replace(record, term=Takeover(self._destination(), "first").first_term("L")))
        self.start()
        split = split_as_dict([Chunk(0, WHOLE)], Coverage(next_number=1))
        schema, parts = arrow_schema(self.all[0]), dict[str, Any]()
        for table in self.all:
            rows = pa.table({"id": range(ROWS), "v": [0] * ROWS}).cast(schema)
            files = self._written(mirror_folder(self.sink.folder, "d", table.name), "chunk", rows)
            chunk: dict[str, Any] = {"chunk": 0, "exact": None, "files": files, "rows": ROWS, "nulled": {}}
            parts[table.full_name] = {"split": split, "chunks": [chunk], "copied": True}
        self._commit(parts)
        self.publisher.drain()

    def start(self) -> "Took":
        """Begin a run. Returns how long it takes until it is ready to stream."""
        if self.runs:
            self.end()
            time.sleep(2)  # a table that changed in this time is opened
        began = Took.now()
        self.runs += 1
        self.ledger = Ledger(self.directory.ledger)
        run = f"{clock.utc_now():%Y%m%dT%H%M%S}-{self.runs:06x}"
        self.journal = Journal(self.directory.journal(run), run)
        self.journal.write(
            RunStarted(pipeline="year", host="h", pid=os.getpid(), version="0", until=None, spec={}, format=1)
        )
        self.journal.write(RunState(state="running"))
        assert self.ledger.state is not None
        self.destination = self._destination()
        self.takeover = Takeover(self.destination, f"run {self.runs}")
        if self.runs == 1:
            self.takeover.take_first(self.ledger)
        else:
            self.takeover.take(self.ledger, (), everything=False)
        self.publisher = Publisher(self.sink, self.destination, self.ledger, self.journal)
        maintenance = self.publisher.maintenance
        run_one = maintenance.run_one

        def counted(targets: Any) -> bool:
            ran = run_one(targets)
            self.maintained += not ran
            return ran

        maintenance.run_one = counted  # type: ignore[method-assign]
        self.publisher.tables.open_all(self.ledger.state)
        self.publisher.tables.delete_orphans()
        self.publisher.recover()
        return Took.now() - began

    def _destination(self) -> Destination:
        return destination_of(self.sink, self.directory.maintenance, self.directory.known_tables)

    def end(self) -> None:
        """End a run in order."""
        self.publisher.finish()
        self.publisher.tables.release()
        self.journal.close()

    def epoch(self) -> None:
        """Commit and submit an epoch."""
        self.clock.passed_s += self.step_s
        table = self.chance.choice(self.all[:2] if self.chance.random() < 0.9 else self.all)
        changes = {"files": self._changes(table), "kinds": [0, 0, CHANGES, 0], "nulled": {}}
        self._commit({table.full_name: {"changes": changes}})

    def _commit(self, parts: dict[str, Any]) -> None:
        state = self.ledger.state
        assert state is not None
        end = Position("b.000001", state.position.offset + 1000)
        changes = {name: change_from_json(part) for name, part in parts.items()}
        record = replace(following(state, self.journal.run, changes), to_position=end, next_seq=self.seq)
        through, facts = self.publisher.facts
        applied = {name: dict(new) for name, new in facts.items() if dict(state.tables[name].applied) != dict(new)}
        self.ledger.commit(replace(record, applied=applied))
        self.publisher.record_through(through)
        self.publisher.submit(record)
        changed = {name: CHANGES for name, part in parts.items() if "changes" in part}
        begins, ends = f"b.000001:{end.offset - 1000}", f"b.000001:{end.offset}"
        self.journal.write(
            EpochCommitted(
                epoch=record.epoch,
                from_position=begins,
                to_position=ends,
                changes=sum(changed.values()),
                kinds={"+U": sum(changed.values())},
                tables=changed,
                table_kinds={name: [0, 0, CHANGES, 0] for name in changed},
                transactions=1,
                bytes=1000,
                chunks=0,
                timings={"read": 0.01, "commit": 0.001},
            )
        )
        self.journal.write(LagMeasured(position=ends, source_position=ends, lag_s=0.0, lag_bytes=0))

    def _changes(self, table: Table) -> list[dict[str, Any]]:
        schema = log_schema(arrow_schema(table))
        columns = {
            "id": pa.array([self.chance.randrange(ROWS) for _ in range(CHANGES)]),
            "v": pa.array(range(CHANGES)),
            "_tm_kind": pa.array(["+U"] * CHANGES),
            "_tm_seq": pa.array(range(self.seq + 1, self.seq + 1 + CHANGES)),
            "_tm_ts": pa.array([clock.utc_now()] * CHANGES),
        }
        arrays = [columns.get(one.name, pa.nulls(CHANGES, one.type)).cast(one.type) for one in schema]
        self.seq += CHANGES
        return self._written(
            changes_folder(self.sink.folder, "d", table.name),
            "changes",
            pa.table(arrays, schema=schema),
        )

    @staticmethod
    def _written(folder: Folder, kind: str, rows: pa.Table) -> list[dict[str, Any]]:
        with FileWriter(folder, kind, rows.schema, ("id", "_tm_seq") if kind == "changes" else ("id",)) as writer:
            writer.write(rows)
            return [file.as_dict() for file in writer.close()]

    def next_hour(self) -> None:
        """Let the maintenance do what is due."""
        before = self.maintained
        self.publisher.drain()
        while self.maintained == before:
            self.publisher.check()
            time.sleep(0.001)

    def age_commits(self, hours: int) -> None:
        """Make the commits of the Delta logs older.

        The library compares their files' times with the real time.

        Except the newest ones: the engine would take them for other writers' commits.
        """
        for log in Path(self.sink.path).glob("d/*/_delta_log"):
            entries = list(os.scandir(log))
            newest = max((entry.name for entry in entries if entry.name.endswith(".json")), default="")
            for entry in entries:
                if entry.name == newest:
                    continue
                with suppress(FileNotFoundError):  # the publisher commits, and renames its files, meanwhile
                    found = entry.stat()
                    os.utime(entry.path, (found.st_atime, found.st_mtime - hours * HOUR_S))


class Page:
    """The live page, in this process."""

    def __init__(self, year: Year) -> None:
        config.set_option("server.address", "127.0.0.1")  # otherwise the console refuses its client
        self._year = year
        self._page = AppTest.from_file(str(ROOT / "app" / "screens" / "live.py"), default_timeout=600)
        self._page.query_params["pipeline"], self._page.query_params["section"] = "year", "Overview"

    def opened(self) -> Took:
        """The median of three reruns, once the index has the new lines."""
        beat(self._year.journal.path)
        time.sleep(1.1)  # the index looks for new lines once a second
        home.fresh()
        return _median(self._run)

    def _run(self) -> None:
        home.history()._answers.clear()
        self._page.run()
        assert not self._page.exception, self._page.exception


def _median(action: Callable[[], Any]) -> Took:
    took = []
    for _ in range(3):
        began = Took.now()
        action()
        took.append(Took.now() - began)
    return statistics.median_low(took)


def _held(year: Year) -> dict[str, str]:
    """What the pipeline holds."""
    found = {}
    kinds = {"ledger": year.directory.ledger, "journal": year.directory.journals, "lake": Path(year.sink.path)}
    for name, folder in {**kinds, "notes": year.directory.maintenance}.items():
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        found[name] = f"{sum(sizes) / 1e6:,.0f} MB in {len(sizes):,}"
    index = Path(os.environ["TIDEMARK_HOME"]) / "history.duckdb"
    found["index"] = f"{index.stat().st_size / 1e6:,.0f} MB" if index.exists() else "in memory"
    memory = int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()
    return found | {"memory": f"{memory / 2**20:,.0f} MiB"}


def _figures(year: Year, epochs: int, days: int, months: int, age_hours: int) -> Iterator[dict[str, Took]]:
    """After the first day and each month: what an epoch, `status`, a start and the page took."""
    day, hour = max(round(epochs / days), 1), max(round(epochs / days / 24), 1)
    marks = [day, *(round(epochs * month / months) for month in range(1, months + 1))]
    page, began, before = Page(year), Took.now(), 0
    for number in range(1, epochs + 1):
        year.epoch()
        if number % hour == 0:
            year.next_hour()
        if number % (hour * age_hours) == 0:
            year.age_commits(age_hours)
        if number in marks:
            year.publisher.drain()
            epoch = (Took.now() - began) / (number - before)
            beat(year.journal.path)
            shown = _median(lambda: status(year.directory, "year"))
            yield {"epoch": epoch, "status": shown, "start": year.start(), "page": page.opened()}
            began, before = Took.now(), number


def main() -> None:
    """Print a line per month, and how the last month compares to the first day."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.year", description=__doc__)
    parser.add_argument("--epochs", type=int, default=1_000_000)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--months", type=int, default=12, help="parts of these days")
    parser.add_argument("--folder", type=Path, help="default: the system's folder for temporary files")
    parser.add_argument("--mirror", choices=("both", "copy_on_write", "merge_on_read"), default="both")
    parser.add_argument("--merge-interval-s", type=float, default=300.0)
    parser.add_argument("--age-hours", type=int, default=24, help="how often the files of commits become older")
    options = parser.parse_args()
    simulated = Clock(options.days)
    with tempfile.TemporaryDirectory(prefix="tidemark-year-", dir=options.folder) as folder:
        os.environ["TIDEMARK_HOME"] = folder
        times = {name: getattr(simulated, name) for name in ("utc_now", "monotonic_s", "unix_s")}
        with patch.multiple(clock, **times):
            year = Year(
                Path(folder) / "year",
                options.tables,
                options.days * DAY_S / options.epochs,
                simulated,
                options.merge_interval_s,
                options.mirror,
            )
            year.copy()
            first: dict[str, Took] = {}
            marks = _figures(year, options.epochs, options.days, options.months, options.age_hours)
            for month, figures in enumerate(marks):
                first = first or figures
                took = ", ".join(f"{name} {t.wall_ms:,.1f} ({t.processor_ms:,.1f}) ms" for name, t in figures.items())
                held = ", ".join(f"{name} {value}" for name, value in _held(year).items())
                print(f"{f'month {month}' if month else 'first day'}: {took}; {held}", flush=True)
            ratios = ", ".join(
                f"{name} {t.wall_ms / first[name].wall_ms:.2f} ({t.processor_ms / first[name].processor_ms:.2f})"
                for name, t in figures.items()
            )
            print(f"last month / first day: {ratios}", flush=True)
            year.end()


if __name__ == "__main__":
    main()
