"""Catching up with the binlog, compared with yardsticks on the same bytes, in row images per second.

From the least work to the most: the server's dump, discarded; our decoding alone, its tables discarded; the pipeline to
committed files, with one slot and with two; the pipeline to the merged mirror. And mysql-replication, which only
decodes.
"""

import shutil
import time
from contextlib import closing
from statistics import median

from engine.base import clock
from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.source.catalog import read_table
from engine.source.connect import describe, open_connection
from engine.source.positions import Position, current
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.tools.bench.drain import endpoint, log_by_mysql_replication, log_undecoded, wrong_by_mysql_replication
from tests.tools.bench.measure import DATABASE, Figures, run
from tests.tools.bench.schemas import Schema
from tests.tools.bench.workloads import Workload

_REPEATS, _MYSQL_REPLICATION_S, _SERVER_ID = 3, 8.0, 99_100


def bench_log(
    server: Server, pipeline: Pipeline, schema: Schema, workload: Workload, rows: int, changes: int
) -> Figures:
    """Images per second; the pipeline has copied the table before, and has caught up afterwards.

    The pipeline with one slot is a copy of the other's folder, so that both start at the same position.
    """
    server.execute("FLUSH BINARY LOGS")
    start = position(server)
    images = workload.write(server, DATABASE, schema, rows, changes)
    end = position(server)
    dumped, decoded, size = [], [], 0
    for _ in range(_REPEATS):
        took_s, size = log_undecoded(server, start)
        dumped.append(took_s)
        decoded.append(decode(server, schema, start, end, images))
    alone = Pipeline(
        server, DATABASE, shutil.copytree(pipeline.folder, pipeline.folder.parent / "one", symlinks=True), slots=1
    )
    one, two = catch_up(alone, images), catch_up(pipeline, images)
    shutil.rmtree(alone.folder)
    return {
        "images": images,
        "bytes": size,
        "undecoded": images / median(dumped),
        "decoding": images / median(decoded),
        "one_slot": one["committed"],
        **two,
        **log_by_mysql_replication(server, start, _MYSQL_REPLICATION_S),
        "mysql_replication_wrong": ", ".join(wrong_by_mysql_replication(server, start, f"{DATABASE}.{schema.table}")),
    }


def position(server: Server) -> Position:
    """The binlog's end."""
    with closing(open_connection(endpoint(server))) as connection:
        return current(connection, describe(connection))


def decode(server: Server, schema: Schema, start: Position, end: Position, images: int) -> float:
    """The seconds that decoding takes in this process."""
    with closing(open_connection(endpoint(server))) as connection:
        table = read_table(connection, DATABASE, schema.table)
    binlog_range = BinlogRange({(DATABASE, schema.table): table}, start, end, mariadb=server.flavor == "mariadb")
    began = time.perf_counter()
    found = sum(len(changes) for _, _, changes in read_range(endpoint(server), binlog_range, _SERVER_ID))
    took_s = time.perf_counter() - began
    assert found == images, f"{found} images decoded of {images}"
    return took_s


def catch_up(pipeline: Pipeline, images: int) -> Figures:
    """Images per second from the start of a run until they are committed, and until they are merged."""
    events, memory = run(pipeline, "caught-up")
    began = next(clock.parse_utc(e["ts"]) for e in events if e["event"] == "run.state" and e["state"] == "running")
    epochs = [e for e in events if e["event"] == "epoch.committed" and e["changes"]]
    merged = [clock.parse_utc(e["ts"]) for e in events if e["event"] == "sink.applied" and e["kind"] == "merge"]
    found = sum(e["changes"] for e in epochs)
    assert found == images, f"{found} images committed of {images}"
    committed = max(clock.parse_utc(e["ts"]) for e in epochs)
    return {
        "committed": images / (committed - began).total_seconds(),
        "merged": images / (max(merged) - began).total_seconds(),
        **memory,
    }
