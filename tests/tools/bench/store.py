"""`python -m tests.tools.bench.store`: a copy to a bucket, compared with one to a folder.

The same table is copied to a folder, to a bucket on this machine, to that bucket behind a link that sends so many bytes
a second, and behind one that also delays each request, in turns. The figure is the median of the ratios of neighbouring
runs, which have the same noise. The bucket's server and the link need processor time of this machine, which a distant
store does not: the ratio of both links is what the delay costs.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from engine.base import clock
from tests.live.support.pipeline import Pipeline
from tests.servers import FLAVORS, Server, start
from tests.servers.bucket import CREDENTIALS, bucket_server
from tests.support.slow_link import slow_link
from tests.tools.bench.measure import DATABASE, run
from tests.tools.bench.schemas import NARROW, fill


def copy_rate(server: Server, folder: Path, rows: int, port: int | None) -> float:
    """Rows per second, from the first chunk to the committed mirror. port: of the bucket's server; None: a folder."""
    folder.mkdir()
    environment: Mapping[str, str] | None = CREDENTIALS if port else None
    pipeline = Pipeline(server, DATABASE, folder, environment=environment)
    if port:
        place = f'path = "s3://lake/{folder.name}"\nendpoint = "http://127.0.0.1:{port}"\nregion = "us-east-1"'
        pipeline.spec.write_text(pipeline.spec.read_text().replace('path = "lake"', place))
    events, _ = run(pipeline, "snapshot")
    chunks = [event for event in events if event["event"] == "chunk.finished"]
    began = min(clock.parse_utc(chunk["started"]) for chunk in chunks)
    ended = max(clock.parse_utc(event["ts"]) for event in events if event["event"] == "sink.applied")
    assert sum(chunk["rows"] for chunk in chunks) == rows
    shutil.rmtree(folder)
    return rows / (ended - began).total_seconds()


def main() -> None:
    """Measure on a private server; print each round's figures and the medians of the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.store", description=__doc__)
    parser.add_argument("--flavor", choices=FLAVORS, default="mysql")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-ms", type=float, default=50.0, help="how long the link delays each request")
    parser.add_argument("--mb-per-s", type=float, default=100.0, help="what the link can send")
    options = parser.parse_args()
    os.environ.update(CREDENTIALS)
    fast = {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 0}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-bench-")))
        server = stack.enter_context(start(options.flavor, **fast))
        bucket = stack.enter_context(bucket_server(home / "bucket"))
        link = stack.enter_context(slow_link(bucket.port, 0.0, options.mb_per_s))
        slow = stack.enter_context(slow_link(bucket.port, options.delay_ms, options.mb_per_s))
        server.execute(f"CREATE DATABASE {DATABASE}")
        fill(server, DATABASE, NARROW, options.rows)
        places = {"folder": None, "bucket": bucket.port, "link": link, "distant": slow}
        pairs = (("bucket", "folder"), ("link", "folder"), ("distant", "folder"), ("distant", "link"))
        ratios: dict[str, list[float]] = {f"{one} / {other}": [] for one, other in pairs}
        for number in range(options.rounds):
            rates = {
                name: copy_rate(server, home / f"{number}-{name}", options.rows, port) for name, port in places.items()
            }
            print(f"round {number + 1}: " + ", ".join(f"{name} {rate:,.0f} rows/s" for name, rate in rates.items()))
            for one, other in pairs:
                ratios[f"{one} / {other}"].append(rates[one] / rates[other])
    for name, values in ratios.items():
        print(f"{options.flavor}: {name}: {median(values):.2f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
