"""`python -m tests.tools.bench.database_sink`: rows from readers' files to committed transactions of databases.

In rows per second, on a server that shares the machine: from staged Parquet files, by the destination alone. `copy` is
a snapshot into an empty table, `changes` are updates of half of its rows and as many inserts. Medians of the rounds,
which alternate between the databases.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.base import clock
from engine.capture.files import FileWriter
from engine.decode.arrow_schema import arrow_schema
from engine.destination.destination_protocol import CHANGES, CHUNKS, EpochEnd
from engine.destination.fence import Term
from engine.destination.registry import destination_of
from engine.ledger.state import Owner
from engine.spec.sink_settings import Sink
from tests.servers.pool import Pool
from tests.servers.postgres import postgres
from tests.tools.bench.kafka_sink import TABLE, change_files, columns_of


def main() -> None:
    """Measure, and print a line for each database."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.database_sink", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates = dict[str, list[tuple[float, float]]]()
    pool = Pool()
    try:
        with tempfile.TemporaryDirectory() as name, postgres(_folder(Path(name) / "postgres")) as server:
            folder = Path(name)
            databases: dict[str, tuple[str, dict[str, Any]]] = {
                "PostgreSQL": (
                    "postgresql",
                    {"host": "127.0.0.1", "port": server.port, "user": "tidemark", "database": "postgres"},
                ),
                "MySQL": ("mysql", _mysql(pool, "mysql")),
                "MariaDB": ("mysql", _mysql(pool, "mariadb")),
                "DuckDB": ("duckdb", {"file": folder / "lake.duckdb"}),
            }
            for _ in range(options.rounds):
                for title, (kind, database) in databases.items():
                    rates.setdefault(title, []).append(_rates(folder, kind, database, options.rows))
    finally:
        pool.close()
    for title, found in rates.items():
        copy, changes = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"{title:10}  copy {copy:9,.0f} rows/s  changes {changes:9,.0f} rows/s")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _mysql(pool: Pool, flavor: str) -> dict[str, Any]:
    server = pool.get(flavor)
    server.execute("CREATE DATABASE IF NOT EXISTS bench_state")
    return {"host": "127.0.0.1", "port": server.port, "user": "root", "database": "bench_state"}


def _rates(folder: Path, kind: str, database: Mapping[str, Any], rows: int) -> tuple[float, float]:
    """Rows per second of a copy, and of changes."""
    name = f"b{uuid.uuid4().hex[:8]}"
    settings = {"type": kind, "path": folder / name, "database": {**database, "table": f"{name}.{{table}}"}}
    destination = destination_of(Sink.model_validate(settings))
    destination.terms.take(name, Term(1, "bench", "host", 1, clock.utc_text()))
    table = destination.table(Owner(name), TABLE)
    table.open(must_exist=False)
    schema = arrow_schema(TABLE)
    with FileWriter(destination.landing.chunks(TABLE), "chunk", schema, ("id",)) as writer:
        columns = columns_of(rows)
        writer.write(pa.table([pa.array(columns[one.name]).cast(one.type) for one in schema], schema=schema))
        chunks = writer.close()
    files = change_files(destination.landing.changes(TABLE), rows, first=rows // 2)
    results = []
    for kind_, epoch, part in ((CHUNKS, 1, chunks), (CHANGES, 2, files)):
        began_s = time.perf_counter()
        table.append(kind_, epoch, part)
        destination.publish(EpochEnd(epoch, "b:1", ""))
        results.append(rows / (time.perf_counter() - began_s))
    return results[0], results[1]


if __name__ == "__main__":
    main()
