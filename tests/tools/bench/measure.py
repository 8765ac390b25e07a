"""Copying a table, compared with yardsticks on the same rows; and a measured run of a pipeline."""

from statistics import median
from typing import Any

from engine.base import clock
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.tools.bench.drain import rows_by_pymysql, rows_undecoded
from tests.tools.bench.memory import Memory
from tests.tools.bench.schemas import Schema, fill

DATABASE = "bench"
_DRAINS, _PYMYSQL_ROWS = 3, 300_000

Figures = dict[str, float | str]


def bench_rows(server: Server, pipeline: Pipeline, schema: Schema, rows: int) -> Figures:
    """Rows per second: undecoded, with PyMySQL, and with the pipeline from its first chunk to the committed mirror."""
    fill(server, DATABASE, schema, rows)
    sql = f"SELECT * FROM {DATABASE}.{schema.table}"
    drained = median(rows_undecoded(server, sql, rows) for _ in range(_DRAINS))
    python = rows_by_pymysql(server, sql, min(rows, _PYMYSQL_ROWS))
    events, memory = run(pipeline, "snapshot")
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


def run(pipeline: Pipeline, until: str) -> tuple[list[dict[str, Any]], Figures]:
    """Run the pipeline; returns its journal and its peak memory."""
    before = len(pipeline.events())
    runner = pipeline.start("--until", until)
    memory = Memory(runner.pid)
    assert runner.wait() == 0, "the run failed"
    memory.stop()
    return pipeline.events()[before:], {"runner_bytes": memory.runner, "reader_bytes": memory.reader}
