"""`make bench`: the pipeline against the server's own speed.

Or `python -m tests.tools.bench --flavor mariadb --schema wide`.

All figures of a table come from one run on one machine; read the ratios, the machine's noise is in the rest.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live.support.pipeline import Pipeline
from tests.servers import FLAVORS, Server, start
from tests.tools.bench.log import bench_log
from tests.tools.bench.measure import DATABASE, bench_rows
from tests.tools.bench.report import report
from tests.tools.bench.schemas import SCHEMAS, Schema
from tests.tools.bench.workloads import WORKLOADS


def main() -> None:
    """Run the benchmarks of the schemas asked for, each on a server of its own, and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench", description=__doc__)
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--schema", choices=(*SCHEMAS, "both"), default="both")
    parser.add_argument("--rows", type=int, help="default: 2 million narrow ones, 500 000 wide ones")
    parser.add_argument(
        "--changes",
        type=int,
        help="single-row transactions, and half of the changes in bulk; default: 500 000 narrow ones, "
        "100 000 wide ones; 0: none",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {}
    for schema in SCHEMAS.values():
        if options.schema in (schema.name, "both"):
            rows = schema.rows if options.rows is None else options.rows
            changes = schema.changes if options.changes is None else options.changes
            if changes > rows // 2:
                parser.error(f"--changes {changes} needs {2 * changes} rows at least, so that none is deleted twice")
            figures[schema.name] = _bench(options.flavor, schema, rows, changes)
            if not options.json:
                print(report(options.flavor, schema, figures[schema.name]), flush=True)
    if options.json:
        print(json.dumps(figures))


def _bench(flavor: str, schema: Schema, rows: int, changes: int) -> dict[str, dict[str, float | str]]:
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, _server(flavor) as server:
        (home := Path(folder) / "two").mkdir()
        pipeline = Pipeline(server, DATABASE, home)
        figures = {"rows": bench_rows(server, pipeline, schema, rows)}
        for workload in WORKLOADS if changes else ():
            count = workload.factor * changes
            figures[workload.name] = bench_log(server, pipeline, schema, workload, rows, count)
        return figures


@contextmanager
def _server(flavor: str) -> Iterator[Server]:
    """A server that writes fast, as what is measured is reading, and whose binlog has files enough for two slots."""
    fast = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0, "buffer_pool": "1G"}
    with start(flavor, **fast, max_binlog_size=32 << 20) as server:
        server.execute(f"CREATE DATABASE {DATABASE}")
        yield server


if __name__ == "__main__":
    main()
