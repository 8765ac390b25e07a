"""`make bench`, or `python -m tests.bench --flavor mariadb --rows 10000000`: the pipeline against the server's own speed.

All figures of a table come from one run on one machine; read the ratios, the machine's noise is in the rest.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from engine import clock
from engine.source.connect import describe, open_connection
from engine.source.positions import Position, current
from tests.bench.drain import endpoint, log_by_mysql_replication, log_undecoded, rows_by_pymysql, rows_undecoded
from tests.bench.memory import Memory
from tests.live.pipeline import Pipeline
from tests.live.seed import seed_table
from tests.servers import Server, start

DATABASE, TABLE = "bench", "orders"
_CHANGE = """
CREATE PROCEDURE {database}.change_rows(IN first INT, IN changes INT, IN rows_there INT)
BEGIN
  DECLARE n INT DEFAULT first;
  WHILE n < first + changes DO
    CASE n MOD 5
      WHEN 0 THEN INSERT INTO {database}.orders (customer_id, sku, quantity, price, status, note, created_at, updated_at, score)
        VALUES (n, CONCAT('sku-', n), 1, 9.99, 'new', NULL, NOW(6), NOW(), n / 7);
      WHEN 1 THEN DELETE FROM {database}.orders WHERE id = 1 + (n * 7919) MOD rows_there;
      ELSE UPDATE {database}.orders SET quantity = quantity + 1, status = 'changed' WHERE id = 1 + (n * 104729) MOD rows_there;
    END CASE;
    SET n = n + 1;
  END WHILE;
END"""


def main() -> None:
    """Run both benchmarks and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--flavor", choices=("mysql", "mariadb"), default="mysql")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=500_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, _server(options.flavor) as server:
        pipeline = Pipeline(server, DATABASE, Path(folder))
        figures = {"rows": bench_rows(server, pipeline, options.rows)}
        if options.changes:
            figures["changes"] = bench_changes(server, pipeline, options.rows, options.changes)
    if options.json:
        print(json.dumps(figures))
    else:
        _show(options, figures)


@contextmanager
def _server(flavor: str) -> Iterator[Server]:
    """A server that writes fast: what is measured is reading."""
    with start(flavor, sync_binlog=0, innodb_flush_log_at_trx_commit=0, buffer_pool="1G") as server:
        server.execute(f"CREATE DATABASE {DATABASE}")
        yield server


def bench_rows(server: Server, pipeline: Pipeline, rows: int) -> dict[str, float]:
    """Rows a second: drained, by PyMySQL, and by the pipeline from its first chunk to the committed mirror."""
    seed_table(server, DATABASE, TABLE, rows, binlog=False)
    sql = f"SELECT * FROM {DATABASE}.{TABLE}"
    drained = median(rows_undecoded(server, sql, rows) for _ in range(3))
    python = rows_by_pymysql(server, sql, min(rows, 300_000))
    runner = pipeline.start("--until", "snapshot")
    memory = Memory(runner.pid)
    assert runner.wait() == 0, "the run failed"
    memory.stop()
    chunks = pipeline.events("chunk.finished")
    began = min(clock.parse_utc(chunk["started"]) for chunk in chunks)
    ended = max(clock.parse_utc(event["ts"]) for event in pipeline.events("sink.applied"))
    copied = sum(chunk["rows"] for chunk in chunks)
    assert copied == rows, f"{copied} rows copied of {rows}"
    return {
        "drained": drained,
        "pymysql": python,
        "pipeline": rows / (ended - began).total_seconds(),
        "runner_bytes": memory.runner,
        "reader_bytes": memory.reader,
    }


def bench_changes(server: Server, pipeline: Pipeline, rows: int, changes: int) -> dict[str, float]:
    """Changes a second: dump undecoded, by mysql-replication, and by the pipeline from its start to the merged mirror."""
    start_position = _write_changes(server, rows, changes)
    pipeline_events = len(pipeline.events())
    runner = pipeline.start("--until", "caught-up")
    memory = Memory(runner.pid)
    assert runner.wait() == 0, "the run failed"
    memory.stop()
    events = pipeline.events()[pipeline_events:]
    began = next(clock.parse_utc(e["ts"]) for e in events if e["event"] == "run.state" and e["state"] == "running")
    committed = [clock.parse_utc(e["ts"]) for e in events if e["event"] == "epoch.committed" and e["changes"]]
    merged = [clock.parse_utc(e["ts"]) for e in events if e["event"] == "sink.applied" and e["kind"] == "merge"]
    undecoded, bytes_a_second = log_undecoded(server, start_position, changes)
    return {
        "undecoded": undecoded,
        "undecoded_bytes": bytes_a_second,
        "mysql_replication": log_by_mysql_replication(server, start_position, 8.0),
        "committed": changes / (max(committed) - began).total_seconds(),
        "pipeline": changes / (max(merged) - began).total_seconds(),
        "runner_bytes": memory.runner,
        "reader_bytes": memory.reader,
    }


def _write_changes(server: Server, rows: int, changes: int) -> Position:
    """Write single-row transactions; returns where they begin. Deletes that find no row write nothing, so some are made up for."""
    with closing(open_connection(endpoint(server))) as connection:
        position = current(connection, describe(connection))
    server.execute(_CHANGE.format(database=DATABASE))
    server.execute(f"CALL {DATABASE}.change_rows(0, %s, %s)", (changes, rows))
    return position


def _show(options: argparse.Namespace, figures: dict[str, dict[str, float]]) -> None:
    rows = figures["rows"]
    print(f"\n{options.rows:,} rows of 10 columns, {options.flavor}, two slots; rows a second")
    for name, label in (
        ("drained", "server, undecoded"),
        ("pymysql", "PyMySQL's cursor"),
        ("pipeline", "pipeline to mirror"),
    ):
        print(f"  {label:<28}{rows[name]:>14,.0f}   {rows[name] / rows['drained']:.3f} of the drain")
    print(f"  pipeline / PyMySQL          {rows['pipeline'] / rows['pymysql']:>14.1f}")
    print(
        f"  peak memory: runner {rows['runner_bytes'] / 2**20:.0f} MiB, reader {rows['reader_bytes'] / 2**20:.0f} MiB"
    )
    if "changes" not in figures:
        return
    log = figures["changes"]
    print(f"\n{options.changes:,} single-row transactions, {options.flavor}, two slots; changes a second")
    labels = (
        ("undecoded", "dump, undecoded"),
        ("mysql_replication", "mysql-replication"),
        ("committed", "pipeline to committed files"),
        ("pipeline", "pipeline to merged mirror"),
    )
    for name, label in labels:
        ratio = log[name] / log["mysql_replication"]
        print(f"  {label:<28}{log[name]:>14,.0f}   {ratio:>8.1f} × mysql-replication")
    print(f"  peak memory: runner {log['runner_bytes'] / 2**20:.0f} MiB, reader {log['reader_bytes'] / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
