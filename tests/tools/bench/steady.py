"""`python -m tests.tools.bench.steady`: a pipeline in its steady state, on a real server, with maintenance.

A table is copied. Then a client makes 1 000 random updates, 200 inserts and 100 deletes a second, in ten transactions,
for some minutes. The figures:

* the age of the mirror, ten times a second: for how long the oldest committed change that it lacks has been committed.
  It comes from the commit times of the changes (`_tm_ts`) and of the mirror's versions. MariaDB's have whole seconds,
  so ages there are up to a second too high;
* freshness: how soon after its commit a change could be read in the mirror, from the same times, and what the product
  itself measured, in the change log too;
* bytes written to the mirror by merges and maintenance, per byte of the changes;
* bytes and files of the mirror's folder, old files included, and the runner's memory and processor time;
* with `--iceberg`: bytes of Iceberg metadata, and how far it is behind (`iceberg_cost`).
"""

import argparse
import json
import tempfile
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from deltalake import DeltaTable

from engine.base import clock
from tests.live.support.background import Background
from tests.live.support.pipeline import Pipeline
from tests.live.support.seed import BATCH_ROWS, DIGITS
from tests.servers import FLAVORS, Server, start
from tests.tools.bench.iceberg_cost import IcebergSamples
from tests.tools.bench.measure import DATABASE

UPDATES, INSERTS, DELETES, TRANSACTIONS = 1000, 200, 100, 10
"""A second."""
TABLE = "parcels"
KEYS = {
    "int": ("BIGINT", "n"),
    "uuid": (
        "CHAR(36) CHARACTER SET ascii",
        "CONCAT(LPAD(HEX(CRC32(n)), 8, '0'), '-0000-4000-8000-', LPAD(n, 12, '0'))",
    ),
}
_CREATE = """
CREATE TABLE {database}.{table} (
    id {type} NOT NULL PRIMARY KEY, quantity INT NOT NULL, customer_id INT NOT NULL, sku VARCHAR(32) NOT NULL,
    price DECIMAL(10,2) NOT NULL, note VARCHAR(100), updated_at DATETIME(6) NOT NULL
) ENGINE=InnoDB CHARACTER SET utf8mb4"""
_FILL = f"""
INSERT INTO {{database}}.{{table}}
SELECT {{key}}, 1 + n MOD 9, CRC32(n) MOD 50000, CONCAT('SKU-', CRC32(n * 7) MOD 10000), \
(CRC32(n * 3) MOD 1000000) / 100,
       CONCAT('please leave parcel ', n, ' at the door'), TIMESTAMPADD(MICROSECOND, CRC32(n * 11), '2025-01-01')
FROM (SELECT %s + 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n
      FROM {DIGITS} a, {DIGITS} b, {DIGITS} c, {DIGITS} e, {DIGITS} f) numbers
WHERE n <= %s ORDER BY 1"""


def key_of(kind: str, number: int) -> Any:
    """The key of a row's number, as the server computes it."""
    return number if kind == "int" else f"{zlib.crc32(str(number).encode()):08X}-0000-4000-8000-{number:012d}"


def fill(server: Server, kind: str, rows: int) -> None:
    """Create the table, past the binlog."""
    names = {"database": DATABASE, "table": TABLE}
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0, unique_checks = 0")
        cursor.execute(_CREATE.format(**names, type=KEYS[kind][0]))
        for begin in range(0, rows, BATCH_ROWS):
            cursor.execute(_FILL.format(**names, key=KEYS[kind][1]), (begin, rows))
        cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {DATABASE}.{TABLE}")


class Client(Background):
    """Writes at a constant rate. late_s: by how much its last transaction was late."""

    def __init__(self, server: Server, kind: str, rows: int) -> None:
        super().__init__()
        self._server, self._kind, self._rows, self.late_s = server, kind, rows, 0.0

    def work(self, _number: int) -> None:
        """A transaction every tenth of a second."""
        chance, last, due = np.random.default_rng(1), self._rows, time.monotonic()
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            while not self.stopping.wait(max(0.0, due - time.monotonic())):
                self.late_s = max(time.monotonic() - due, 0.0)
                updated, deleted = (
                    [key_of(self._kind, n) for n in chance.integers(1, self._rows + 1, count // TRANSACTIONS).tolist()]
                    for count in (UPDATES, DELETES)
                )
                inserted = [key_of(self._kind, n) for n in range(last + 1, last + 1 + INSERTS // TRANSACTIONS)]
                last += len(inserted)
                cursor.execute("BEGIN")
                cursor.execute(f"UPDATE {DATABASE}.{TABLE} SET quantity = quantity + 1 WHERE id IN %s", (updated,))
                cursor.execute(f"DELETE FROM {DATABASE}.{TABLE} WHERE id IN %s", (deleted,))
                rows = [(key, 1, 7, "SKU-1", "9.99", "new", "2026-01-01") for key in inserted]
                cursor.executemany(f"INSERT INTO {DATABASE}.{TABLE} VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)
                cursor.execute("COMMIT")
                due += 1 / TRANSACTIONS


@dataclass
class Samples(Background):
    """What the mirror's folder and the runner hold, every two seconds."""

    folder: Path
    pid: int
    at_s: list[float] = field(default_factory=list)
    disk: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def work(self, _number: int) -> None:
        """Sample until the end."""
        while not self.stopping.wait(2.0):
            sizes = list(_sizes(self.folder))
            self.at_s.append(time.time())
            self.disk.append(sum(sizes))
            self.files.append(len(sizes))
            self.memory.append(psutil.Process(self.pid).memory_info().rss)


def _sizes(folder: Path) -> Iterator[int]:
    """The sizes of the data files and deletion vectors in a folder."""
    for path in [*folder.glob("*.parquet"), *folder.glob("_dv/*")]:
        try:
            yield path.stat().st_size
        except FileNotFoundError:
            continue


def mirror_ages(mirror: Path, changes: Path, begin_s: float, end_s: float) -> npt.NDArray[np.float64]:
    """The age of the mirror in seconds, at each tenth of a second of an interval."""
    sequences, times_s = _commits(changes)
    merged_s, merged_seq = _merges(mirror)
    ages = []
    for now_s in np.arange(begin_s, end_s, 0.1):
        version = bisect_right(merged_s, now_s) - 1
        has = merged_seq[version] if version >= 0 else -1
        oldest = int(np.searchsorted(sequences, has, side="right"))
        lacks = oldest < len(times_s) and times_s[oldest] <= now_s
        ages.append(float(now_s - times_s[oldest]) if lacks else 0.0)
    return np.array(ages)


def mirror_freshness(mirror: Path, changes: Path, begin_s: float, end_s: float) -> npt.NDArray[np.float64]:
    """Of the changes committed in an interval: after how many seconds the mirror had them."""
    sequences, times_s = _commits(changes)
    merged_s, merged_seq = _merges(mirror)
    shown = (times_s >= begin_s) & (times_s <= end_s) & (sequences <= merged_seq[-1])
    return np.array(merged_s)[np.searchsorted(merged_seq, sequences[shown])] - times_s[shown]


def _commits(changes: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The sequence numbers of a change log, and when they were committed, in Unix seconds."""
    log = DeltaTable(str(changes)).to_pyarrow_table(columns=["_tm_seq", "_tm_ts"]).sort_by("_tm_seq")
    return log["_tm_seq"].to_numpy(), np.maximum.accumulate(log["_tm_ts"].cast("int64").to_numpy() / 1e6)


def _merges(mirror: Path) -> tuple[list[float], list[int]]:
    """When the mirror's versions could be read, in Unix seconds, and through which sequence number they go."""
    merged_s, merged_seq = list[float](), list[int]()
    for path in sorted((mirror / "_delta_log").glob("0*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        found = [a["txn"]["version"] for a in actions if "txn" in a and a["txn"]["appId"].endswith("-merged-seq")]
        if found:
            merged_s.append(path.stat().st_mtime)
            merged_seq.append(found[0])
    return merged_s, merged_seq


def bench_steady(server: Server, folder: Path, options: argparse.Namespace) -> tuple[dict[str, str], dict[str, Any]]:
    """The figures as text, and the series of the charts."""
    server.execute(f"CREATE DATABASE {DATABASE}")
    fill(server, options.key, options.rows)
    formats = f'formats = ["delta", "iceberg"]\niceberg = "{options.iceberg}"' if options.iceberg else ""
    sink = f'files_retention = "{options.retention}"\n{formats}'
    more = {"mirror": options.mode, "amplification": 100, "sink": sink}
    if options.epochs:
        more |= {"poll": options.epochs, "epochs": f"max_epoch_interval_s = {options.epochs}"}
    pipeline = Pipeline(server, DATABASE, folder, merge=options.interval, **more)
    try:
        return _measured(server, pipeline, options)
    finally:
        pipeline.kill()


def _measured(server: Server, pipeline: Pipeline, options: argparse.Namespace) -> tuple[dict[str, str], dict[str, Any]]:
    began = time.monotonic()
    runner = pipeline.start()
    pipeline.wait_for(lambda: any(e["state"] == "streaming" for e in pipeline.events("table.state")), runner, 3600)
    copied_s = time.monotonic() - began
    assert pipeline.command("maintain").returncode == 0  # the snapshot's files, once
    table_bytes = sum(_sizes(pipeline.mirror(TABLE)))
    before = len(pipeline.events())
    folders = [pipeline.mirror(TABLE), pipeline.changes(TABLE)]
    iceberg, processor_s = IcebergSamples(folders if options.iceberg else []), _processor_s(runner.pid)
    with (
        iceberg,
        Samples(pipeline.mirror(TABLE), runner.pid) as samples,
        Client(server, options.key, options.rows) as client,
    ):
        time.sleep(min(30.0, options.minutes * 60))  # until merges and epochs have their pace
        begin_s = time.time()
        time.sleep(options.minutes * 60)
        end_s = time.time()
        late_s = client.late_s
        processor_s = _processor_s(runner.pid) - processor_s
    pipeline.finish(runner)
    events = pipeline.events()[before:]
    merges = [event for event in events if event["event"] == "sink.applied" and event["kind"] == "merge"]
    steps = [event for event in events if event["event"] == "sink.maintained" and event["step"] == "optimize"]
    epochs = [event for event in events if event["event"] == "epoch.committed"]
    changed = sum(event["changed_bytes"] for event in merges)
    written = sum(event["written_bytes"] for event in merges) + sum(event["added_bytes"] for event in steps)
    ages = mirror_ages(pipeline.mirror(TABLE), pipeline.changes(TABLE), begin_s, end_s)
    took = np.array([event["duration_s"] for event in merges])
    fresh = mirror_freshness(pipeline.mirror(TABLE), pipeline.changes(TABLE), begin_s, end_s)
    product = [one for one in events if one["event"] == "source.lag" and clock.parse_utc(one["ts"]).timestamp() < end_s]
    shown = [n for n, at_s in enumerate(samples.at_s) if begin_s <= at_s <= end_s]
    series = {
        "mirror age, s": (np.arange(0, len(ages)) / 10, ages),
        "disk, × the table": (
            [samples.at_s[n] - begin_s for n in shown],
            [samples.disk[n] / table_bytes for n in shown],
        ),
        "files": ([samples.at_s[n] - begin_s for n in shown], [samples.files[n] for n in shown]),
        "runner, MiB": ([samples.at_s[n] - begin_s for n in shown], [samples.memory[n] / 2**20 for n in shown]),
    }
    return {
        "table": f"{table_bytes / 1e6:,.0f} MB, copied in {copied_s:.0f} s",
        "mirror age": f"median {np.median(ages):.1f} s, p95 {np.quantile(ages, 0.95):.1f} s, most {ages.max():.1f} s",
        "mirror freshness": f"p50 {np.median(fresh):.2f} s, p99 {np.quantile(fresh, 0.99):.2f} s",
        "the product's own": f"mirror {product[-1]['mirror_freshness']}, log {product[-1]['log_freshness']}",
        "merges": f"{len(merges)}, median {np.median(took):.2f} s, p95 {np.quantile(took, 0.95):.2f} s",
        "epochs": f"one in {(end_s - begin_s + 30) / len(epochs):.1f} s",
        "written": f"{written / changed:.1f} × the changes",
        "disk": f"at most {max(samples.disk) / table_bytes:.2f} × the table",
        "files": f"at most {max(samples.files)}, at the end {samples.files[-1]}",
        "runner": f"at most {max(samples.memory) / 2**20:,.0f} MiB",
        "processor": f"{processor_s:.0f} s of the runner's own process",
        "client": f"{late_s:.1f} s late",
        **({"iceberg": iceberg.text(written + changed + _log_bytes(folders))} if options.iceberg else {}),
    }, series


def _processor_s(pid: int) -> float:
    """The seconds that a process has used, without its children: those are Spark."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _log_bytes(folders: list[Path]) -> int:
    """The bytes of the commits of Delta tables."""
    return sum(path.stat().st_size for folder in folders for path in (folder / "_delta_log").glob("0*.json"))


def chart(series: dict[str, Any], title: str, path: Path) -> None:
    """Write the series as a page with one chart below the other."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=len(series), cols=1, shared_xaxes=True, subplot_titles=list(series))
    for row, (name, (at_s, values)) in enumerate(series.items(), 1):
        figure.add_scatter(x=list(at_s), y=list(values), name=name, mode="lines", row=row, col=1)
        figure.update_yaxes(rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text="seconds", row=len(series), col=1)
    figure.update_layout(title=title, showlegend=False, height=240 * len(series), template="plotly_white")
    figure.write_html(path, include_plotlyjs=True)


def main() -> None:
    """Measure on a private server; print the figures, and write charts."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.steady", description=__doc__)
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--key", choices=tuple(KEYS), default="int")
    parser.add_argument("--mode", choices=("copy_on_write", "merge_on_read"), default="merge_on_read")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--interval", type=float, default=4.0, help="seconds between two merges")
    parser.add_argument("--epochs", type=float, help="seconds between two epochs (default: the product's)")
    parser.add_argument("--retention", default="10s", help="how long old files stay")
    parser.add_argument("--iceberg", choices=("v2", "v3"), help="publish the tables as Iceberg tables too")
    parser.add_argument("--charts", type=Path, help="an HTML file to write charts to")
    options = parser.parse_args()
    fast = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0, "buffer_pool": "2G"}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, start(options.flavor, **fast) as server:
        figures, series = bench_steady(server, Path(folder), options)
    title = (
        f"{options.flavor}, {options.rows:,} rows, {options.key} keys, {options.mode}, "
        f"merged every {options.interval:g} s"
    )
    print(f"{title}: {figures}", flush=True)
    if options.charts:
        chart(series, title, options.charts)


if __name__ == "__main__":
    main()
