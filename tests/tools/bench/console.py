"""``python -m tests.tools.bench.console``: what a rerun of the console costs.

In milliseconds of server time, with a large history.

A pipeline of 500 tables, one of them with 10 000 chunks, in 50 runs over a week: a lag measurement every two seconds,
an epoch with changes every four; and small pipelines beside it. Options make all of it larger. A page consists of parts
that rerun by themselves. Each figure is the cost of one rerun of one part, or of the whole page when it is opened
again: its time, and its processor time, which hardly depends on what else the machine does. Before each rerun, the
journal of the large pipeline gets an epoch, and that of each other pipeline a lag; indexing them is measured
separately. Parts of a page share answers.
"""

import argparse
import json
import os
import random
import socket
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import streamlit
from streamlit import config
from streamlit.testing.v1 import AppTest

from app.common import home
from engine.base import clock

ROOT = Path(__file__).parents[3]
DAYS, CHUNKS_EACH = 7, 20
SECTIONS = ("Overview", "Chunks", "Readers", "Watermarks", "Plan", "Pace", "Tables", "Destination", "Events", "Spec")
SPEC = """name = "big"
source = { host = "127.0.0.1", user = "u", tables = ["d.*"] }
sink = { type = "delta", path = "lake" }
spark = { master = "local[2]" }
"""
PAGES = {
    "pipelines": {},
    "table": {"pipeline": "big", "table": "d.t0001"},
    "verify": {"pipeline": "big", "table": "d.t0001"},
    "history": {},
    "alerts": {},
    "redump": {"pipeline": "big", "table": "d.t0000"},
}
"""The other pages, with their addresses."""


@dataclass(frozen=True)
class Size:
    """How large everything is."""

    tables: int
    chunks: int
    """Of the largest table."""
    runs: int
    pipelines: int
    copying: bool = False
    """Whether all tables of the large pipeline are still being copied, although each chunk is published."""

    def chunks_by_table(self) -> list[tuple[str, int]]:
        """The names of the tables, and their numbers of chunks."""
        return [(f"d.t{n:04d}", self.chunks if n == 0 else CHUNKS_EACH) for n in range(self.tables)]


def text(at: datetime) -> str:
    """A time as the journal writes it."""
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def copy(at: datetime, tables: Sequence[tuple[str, int]], state: str) -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """The events of a copy: plans, chunks, the epoch that commits them and the state of the tables after it."""
    for name, count in tables:
        bounds = [str(n * 1000) for n in range(1, count)]
        chunks = list(zip([None, *bounds], [*bounds, None], strict=True))
        plan = {"approx_rows": count * 1000, "chunk_key": "id", "min": "1", "max": "9", "distribution_factor": 1.0}
        plan |= {"strategy": "even", "reason": "number key", "chunk_rows": 1000, "estimated_chunks": count}
        yield at, "table.planned", {"table": name, **plan, "chunks": chunks}
        for number, (lower, upper) in enumerate(chunks):
            began, at = at, at + timedelta(seconds=0.05)
            place = f"mysql-bin.000001:{number * 100 + 4}"
            facts: dict[str, Any] = {
                "lower": lower,
                "upper": upper,
                "low": place,
                "high": place,
                "gap_bytes": 0,
                "rows": 1000,
                "bytes": 9000,
            }
            facts |= {
                "backfill": {"changes": 0, "deleted": 0, "upserted": 0},
                "file": "f",
                "attempt": 0,
                "group": number // 5,
            }
            facts |= {"timings": {"low": 0.001, "read": 0.03, "high": 0.001, "backfill": 0.008, "write": 0.01}}
            who = {
                "reader": f"h:{number % 4}",
                "host": "h",
                "pid": number % 4,
                "started": text(began),
                "ended": text(at),
            }
            yield at, "chunk.finished", {"table": name, "chunk": number, **facts, **who}
    yield (
        at,
        "epoch.committed",
        {"epoch": 1, "to_position": "mysql-bin.000001:9999999", "changes": 0, "transactions": 0},
    )
    for name, _ in tables:
        yield at, "table.state", {"table": name, "state": state}


def streaming(
    at: datetime, until: datetime, tables: Sequence[tuple[str, int]]
) -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """The events while streaming: lag and epochs."""
    epoch = 2
    while at < until:
        lag = {"position": "mysql-bin.000002:5", "source_position": "mysql-bin.000002:9", "lag_bytes": 100}
        yield at, "source.lag", {**lag, "lag_s": random.random(), "runway_s": 86400.0}
        if random.random() < 0.5:
            name, _ = random.choice(tables)
            facts = {"epoch": epoch, "to_position": "mysql-bin.000002:8", "changes": 10, "tables": {name: 10}}
            yield at, "epoch.committed", {**facts, "transactions": 5, "timings": {"read": 0.1, "commit": 0.1}}
            epoch += 1
        at += timedelta(seconds=2)


def journals(home: Path, size: Size) -> list[Path]:
    """Write all journals; returns the newest of each pipeline, of the large one last."""
    small = Size(3, CHUNKS_EACH, 1, 0)
    found = [_journals(home, f"small-{n:02d}", small, timedelta(hours=1)) for n in range(1, size.pipelines)]
    return [*found, _journals(home, "big", size, timedelta(days=DAYS))]


def _journals(home: Path, name: str, size: Size, past: timedelta) -> Path:
    folder, now, tables = home / name / "journal", datetime.now(UTC), size.chunks_by_table()
    folder.mkdir(parents=True)
    (home / name / "pipeline.toml").write_text(SPEC.replace('"big"', f'"{name}"'))
    begin, length, state = now - past, past / size.runs, "copying" if size.copying else "streaming"
    path = folder
    for n in range(size.runs):
        started = begin + n * length
        run = f"{started:%Y%m%dT%H%M%S}-{n:06x}"
        path = folder / f"{run}.jsonl"
        first = [(started, "run.started", {"pipeline": name, "host": "h", "pid": 1, "version": "0", "spec": {"n": n}})]
        first.append((started, "run.state", {"state": "running", "reason": ""}))
        events = [*first, *(copy(started, tables, state) if n == size.runs - 1 else ())]
        events += streaming(events[-1][0], started + length, tables)
        with path.open("w") as file:
            for seq, (at, event, fields) in enumerate(events, 1):
                file.write(json.dumps({"run": run, "seq": seq, "ts": text(at), "event": event, **fields}) + "\n")
    return path


def beat(newest: Path) -> None:
    """Write the heartbeat of a runner, with the pid of this process."""
    now, who = text(clock.utc_now()), {"pid": os.getpid(), "host": socket.gethostname()}
    alive = {
        "run": newest.stem,
        "state": "running",
        "phase": "streaming",
        "heartbeat": now,
        "started": now,
        "error": None,
    }
    (newest.parents[1] / "runner.json").write_text(json.dumps(who | alive))


Took = tuple[float, float]
"""The time and the processor time of a rerun, in milliseconds."""


@contextmanager
def timed(took: list[Took]) -> Iterator[None]:
    """Add what the block takes. Its processor time is that of all threads, which include DuckDB's."""
    began, worked = time.perf_counter(), time.process_time()
    yield
    took.append(((time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000))


class Parts:
    """Times each rerun of a part of a page, by its name."""

    def __init__(self) -> None:
        self.took: defaultdict[str, list[Took]] = defaultdict(list)
        self._fragment = streamlit.fragment
        streamlit.fragment = self._timed  # type: ignore[assignment]

    def _timed(self, *, run_every: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def decorate(draw: Callable[..., None]) -> Callable[..., None]:
            @wraps(draw)
            def part(*args: Any, **kwargs: Any) -> None:
                with timed(self.took[draw.__name__]):
                    draw(*args, **kwargs)

            return self._fragment(run_every=run_every)(part)

        return decorate


def measure(
    newest: Path, others: Sequence[Path], rounds: int, only: Sequence[str]
) -> Iterator[tuple[str, dict[str, list[Took]]]]:
    """What each rerun of each section and its parts took, after one that is not counted."""
    config.set_option("server.address", "127.0.0.1")  # otherwise the console refuses its client
    parts, seq = Parts(), 10_000_000
    streamlit.page_link = lambda *_, **__: None  # type: ignore[assignment]  # a page alone has no links
    live = {section: ("live", {"pipeline": "big", "section": section}) for section in SECTIONS}
    for section, (screen, address) in {**live, **{name: (name, address) for name, address in PAGES.items()}}.items():
        if only and section not in only:
            continue
        page = AppTest.from_file(str(ROOT / "app" / "screens" / f"{screen}.py"), default_timeout=600)
        for name, value in address.items():
            page.query_params[name] = value
        whole: list[Took] = []
        for n in range(rounds + 1):
            seq += 1
            line = {"run": newest.stem, "seq": seq, "ts": text(datetime.now(UTC)), "event": "epoch.committed"}
            with newest.open("a") as file:
                file.write(json.dumps({**line, "epoch": seq, "changes": 1, "tables": {"d.t0001": 1}}) + "\n")
            beat(newest)
            for other in others:
                seq += 1
                lag = {
                    "run": other.stem,
                    "seq": seq,
                    "ts": text(datetime.now(UTC)),
                    "event": "source.lag",
                    "lag_s": 0.1,
                }
                with other.open("a") as file:
                    file.write(json.dumps(lag) + "\n")
                beat(other)
            time.sleep(1.1)  # the index looks for new lines once a second
            if n == 1:
                parts.took.clear()
                whole.clear()
            with timed(parts.took["the new line"]):
                home.fresh()
            with timed(whole):
                page.run()
            assert not page.exception, page.exception
            assert screen != "live" or any("Copy: " in one.proto.body for one in page.get("html")), (
                "this is not the live page"
            )
        yield section, {**parts.took, "the whole page": whole}
        parts.took.clear()


def main() -> None:
    """Print one line per section."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.console")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--chunks", type=int, default=10_000, help="of the largest table; the others have 20")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--pipelines", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=(), help="names of sections and pages; default: all")
    parser.add_argument("--copying", action="store_true", help="all tables are still being copied")
    options = parser.parse_args()
    rounds = options.rounds
    size = Size(options.tables, options.chunks, options.runs, options.pipelines, options.copying)
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="tidemark-console-") as folder:
        os.environ["TIDEMARK_HOME"] = folder
        began = time.perf_counter()
        *others, newest = journals(Path(folder), size)
        print(f"journals written in {time.perf_counter() - began:.0f} s; the first page builds the index", flush=True)
        for section, parts in measure(newest, others, rounds, options.only):
            for part, took in parts.items():
                took_ms, worked_ms = zip(*took, strict=True)
                print(
                    f"{section:12} {part:16} {statistics.median(took_ms):7.0f} ms   most {max(took_ms):7.0f} ms"
                    f"   processor {statistics.median(worked_ms):7.0f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()
