"""The two measurements: copying a table, and catching up with changes; each beside its yardsticks, on the same bytes."""

from contextlib import closing
from statistics import median
from typing import Any

from engine import clock
from engine.source.connect import describe, open_connection
from engine.source.positions import current
from tests.bench.drain import (
    endpoint,
    log_by_mysql_replication,
    log_undecoded,
    rows_by_pymysql,
    rows_undecoded,
    wrong_by_mysql_replication,
)
from tests.bench.memory import Memory
from tests.bench.schemas import Schema, change, fill
from tests.live.pipeline import Pipeline
from tests.servers import Server

DATABASE = "bench"
_DRAINS, _PYMYSQL_ROWS, _MYSQL_REPLICATION_S = 3, 300_000, 8.0

Figures = dict[str, float | str]


def bench_rows(server: Server, pipeline: Pipeline, schema: Schema, rows: int) -> Figures:
    """Rows a second: drained, by PyMySQL, and by the pipeline from its first chunk to the committed mirror."""
    fill(server, DATABASE, schema, rows)
    sql = f"SELECT * FROM {DATABASE}.{schema.table}"
    drained = median(rows_undecoded(server, sql, rows) for _ in range(_DRAINS))
    python = rows_by_pymysql(server, sql, min(rows, _PYMYSQL_ROWS))
    events, memory = _run(pipeline, "snapshot")
    chunks = [event for event in events if event["event"] == "chunk.finished"]
    began = min(clock.parse_utc(chunk["started"]) for chunk in chunks)
    ended = max(clock.parse_utc(event["ts"]) for event in events if event["event"] == "sink.applied")
    copied = sum(chunk["rows"] for chunk in chunks)
    assert copied == rows, f"{copied} rows copied of {rows}"
    return {
        "rows": rows,
        "drained": drained,
        "pymysql": python,
        "pipeline": rows / (ended - began).total_seconds(),
        **memory,
    }


def bench_changes(server: Server, pipeline: Pipeline, schema: Schema, rows: int, changes: int) -> Figures:
    """Changes a second: dump undecoded, by mysql-replication, and by the pipeline from its start to the merged mirror."""
    with closing(open_connection(endpoint(server))) as connection:
        start = current(connection, describe(connection))
    change(server, DATABASE, schema, rows, changes)
    events, memory = _run(pipeline, "caught-up")
    began = next(clock.parse_utc(e["ts"]) for e in events if e["event"] == "run.state" and e["state"] == "running")
    committed = [clock.parse_utc(e["ts"]) for e in events if e["event"] == "epoch.committed" and e["changes"]]
    merged = [clock.parse_utc(e["ts"]) for e in events if e["event"] == "sink.applied" and e["kind"] == "merge"]
    undecoded, bytes_a_second = log_undecoded(server, start, changes)
    return {
        "changes": changes,
        "undecoded": undecoded,
        "undecoded_bytes": bytes_a_second,
        **log_by_mysql_replication(server, start, _MYSQL_REPLICATION_S),
        "mysql_replication_wrong": ", ".join(wrong_by_mysql_replication(server, start, f"{DATABASE}.{schema.table}")),
        "committed": changes / (max(committed) - began).total_seconds(),
        "pipeline": changes / (max(merged) - began).total_seconds(),
        **memory,
    }


def _run(pipeline: Pipeline, until: str) -> tuple[list[dict[str, Any]], Figures]:
    """Run the pipeline; what it journalled meanwhile, and the memory that it took."""
    before = len(pipeline.events())
    runner = pipeline.start("--until", until)
    memory = Memory(runner.pid)
    assert runner.wait() == 0, "the run failed"
    memory.stop()
    return pipeline.events()[before:], {"runner_bytes": memory.runner, "reader_bytes": memory.reader}
