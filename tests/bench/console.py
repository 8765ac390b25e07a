"""``python -m tests.bench.console``: what a refresh of the console costs on a large history, in milliseconds of server time.

A pipeline of 500 tables, one of them with 10 000 chunks, in 50 runs of a week: a lag every two seconds, an epoch with changes every
four. Each figure is of a whole page, which is more than any refresh, with a new line in the journal each time, so that nothing
that was asked before is known.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLES, CHUNKS, RUNS, DAYS = 500, 10_000, 50, 7
SECTIONS = ("Overview", "Chunks", "Readers", "Watermarks", "Plan", "Pace", "Tables", "Events", "Spec")
SPEC = """name = "big"
source = { host = "127.0.0.1", user = "u", tables = ["d.*"] }
sink = { type = "delta", path = "lake" }
spark = { master = "local[2]" }
"""
Line = tuple[str, dict[str, Any]]


def text(at: datetime) -> str:
    """As the journal writes a time."""
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def tables() -> list[tuple[str, int]]:
    """Names and numbers of chunks."""
    return [(f"d.t{n:03d}", CHUNKS if n == 0 else 20) for n in range(TABLES)]


def copy(at: datetime) -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """Plans, chunks and the epoch that commits them."""
    for name, count in tables():
        bounds = [str(n * 1000) for n in range(1, count)]
        chunks = list(zip([None, *bounds], [*bounds, None], strict=True))
        plan = {"approx_rows": count * 1000, "chunk_key": "id", "min": "1", "max": "9", "distribution_factor": 1.0}
        plan |= {"strategy": "even", "reason": "number key", "chunk_rows": 1000, "estimated_chunks": count}
        yield at, "table.planned", {"table": name, **plan, "chunks": chunks}
        for number, (lower, upper) in enumerate(chunks):
            began, at = at, at + timedelta(seconds=0.05)
            place = f"mysql-bin.000001:{number * 100 + 4}"
            facts = {
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
    for name, _ in tables():
        yield at, "table.state", {"table": name, "state": "streaming"}


def following(at: datetime, until: datetime) -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """Lags and epochs."""
    epoch = 2
    while at < until:
        lag = {"position": "mysql-bin.000002:5", "source_position": "mysql-bin.000002:9", "lag_bytes": 100}
        yield at, "source.lag", {**lag, "lag_s": random.random(), "runway_s": 86400.0}
        if random.random() < 0.5:
            name, _ = random.choice(tables())
            facts = {"epoch": epoch, "to_position": "mysql-bin.000002:8", "changes": 10, "tables": {name: 10}}
            yield at, "epoch.committed", {**facts, "transactions": 5, "timings": {"read": 0.1, "commit": 0.1}}
            epoch += 1
        at += timedelta(seconds=2)


def journals(home: Path) -> Path:
    """Write all of them; returns the newest."""
    folder, now = home / "big" / "journal", datetime.now(UTC)
    folder.mkdir(parents=True)
    (home / "big" / "pipeline.toml").write_text(SPEC)
    begin, length = now - timedelta(days=DAYS), timedelta(days=DAYS) / RUNS
    path = folder
    for n in range(RUNS):
        started = begin + n * length
        run = f"{started:%Y%m%dT%H%M%S}-{n:06x}"
        path = folder / f"{run}.jsonl"
        first = [(started, "run.started", {"pipeline": "big", "host": "h", "pid": 1, "version": "0", "spec": {"n": n}})]
        first.append((started, "run.state", {"state": "running", "reason": ""}))
        events = [*first, *(copy(started) if n == 0 else ())]
        events += following(events[-1][0], started + length)
        with path.open("w") as file:
            for seq, (at, event, fields) in enumerate(events, 1):
                file.write(json.dumps({"run": run, "seq": seq, "ts": text(at), "event": event, **fields}) + "\n")
    beat = {"run": path.stem, "pid": 1, "host": "h", "state": "running", "phase": "streaming", "heartbeat": text(now)}
    (home / "big" / "runner.json").write_text(json.dumps({**beat, "started": text(begin), "error": None}))
    return path


def measure(newest: Path, rounds: int) -> Iterator[tuple[str, list[float]]]:
    """Milliseconds of each drawing of each section, after one that is not counted."""
    from streamlit.testing.v1 import AppTest

    page, seq = AppTest.from_file(str(ROOT / "app" / "screens" / "live.py"), default_timeout=600), 10_000_000
    for section in SECTIONS:
        page.query_params["pipeline"], page.query_params["section"] = "big", section
        took = []
        for n in range(rounds + 1):
            seq += 1
            line = {"run": newest.stem, "seq": seq, "ts": text(datetime.now(UTC)), "event": "epoch.committed"}
            with newest.open("a") as file:
                file.write(json.dumps({**line, "epoch": seq, "changes": 1, "tables": {"d.t001": 1}}) + "\n")
            time.sleep(1.1)  # the index looks for new lines once a second
            began = time.perf_counter()
            page.run()
            took += [(time.perf_counter() - began) * 1000] if n else []
            assert not page.exception, page.exception
        yield section, took


def main() -> None:
    """Print a line a section."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.console")
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="tidemark-console-") as folder:
        os.environ |= {"TIDEMARK_HOME": folder, "STREAMLIT_SERVER_ADDRESS": "127.0.0.1"}
        began = time.perf_counter()
        newest = journals(Path(folder))
        print(f"journals written in {time.perf_counter() - began:.0f} s; the first page builds the index", flush=True)
        for section, took in measure(newest, rounds):
            print(f"{section:12} {statistics.median(took):7.0f} ms   most {max(took):7.0f} ms", flush=True)


if __name__ == "__main__":
    main()
