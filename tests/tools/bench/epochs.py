"""`python -m tests.tools.bench.epochs`: epochs of many changed tables, in a folder and in a bucket behind a slow link.

Each epoch has one change of each table. The figures are the seconds until the tables are created, until the last table
has an epoch, and until all mirrors have all epochs. Nothing else uses the store.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from engine.destination.publisher import Publisher
from engine.journal import Entry, Journal
from engine.journal.destination_events import SinkApplied
from engine.ledger.store import Ledger
from engine.spec.sink_settings import Sink
from tests.servers.bucket import CREDENTIALS, bucket_server
from tests.support.slow_link import slow_link
from tests.unit.destination.support import OLD, PLAN, World


class _Tables(World):
    """The epochs, for any sink."""

    def __init__(self, folder: Path, where: Sink) -> None:
        super().__init__(folder)
        self._where = where

    def sink(self, merge_interval_s: float) -> Sink:
        return self._where.model_copy(update={"merge_interval_s": merge_interval_s})


@contextmanager
def _bucket(folder: Path, delay_ms: float) -> Iterator[Sink]:
    os.environ.update(CREDENTIALS)
    with bucket_server(folder) as server, slow_link(server.port, delay_ms) as port:
        url = f"{server.root.url}/lake"
        yield Sink(path=url, endpoint=f"http://127.0.0.1:{port}", region="us-east-1", path_style=True)


def measure(folder: Path, sink: Sink, count: int, epochs: int) -> dict[str, float]:
    """Seconds by step; of the epochs, the median."""
    tables = [replace(OLD, name=f"t{number}") for number in range(count)]
    world = _Tables(folder, sink)
    world.tables_epoch({one.full_name: {"planned": {"table": one.as_dict(), "plan": PLAN.as_dict()}} for one in tables})
    ledger, journal = Ledger(folder / "ledger"), Journal(folder / "j.jsonl", "r")
    commits = list[SinkApplied]()

    def hear(entry: Entry) -> None:
        if isinstance(entry.event, SinkApplied):
            commits.append(entry.event)

    journal.listeners.append(hear)
    ledger.commit(world.records[0])
    assert ledger.state is not None
    began_s = time.monotonic()
    publisher = Publisher(world.sink(10_000.0), world.destination(), ledger, journal)
    publisher.tables.open_all(ledger.state)
    publisher.recover()
    seconds, appended_s = {"tables created": time.monotonic() - began_s}, list[float]()
    for epoch in range(epochs):
        world.tables_epoch({one.full_name: {"changes": world.changes(one, [("+I", epoch, epoch)])} for one in tables})
        ledger.commit(world.records[-1])
        submitted_s = time.monotonic()
        publisher.submit(world.records[-1])
        while len(commits) < count * (epoch + 1):
            publisher.check()
            time.sleep(0.002)
        appended_s.append(time.monotonic() - submitted_s)
    seconds["an epoch committed"] = statistics.median(appended_s)
    began_s = time.monotonic()
    publisher.drain()
    seconds["mirrors merged"] = time.monotonic() - began_s
    publisher.finish()
    journal.close()
    return seconds


def main() -> None:
    """Print a table of the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--delay-ms", type=float, default=50.0, help="how long the link delays each answer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("local", "bucket"):
            (folder / part).mkdir()
        local = measure(folder / "local", Sink(path=folder / "local" / "lake"), options.tables, options.epochs)
        with _bucket(folder / "bucket", options.delay_ms) as sink:
            distant = measure(folder / "bucket", sink, options.tables, options.epochs)
    print(f"{options.tables} tables\t\tfolder, s\tbucket after {options.delay_ms:g} ms, s")
    for step, seconds in local.items():
        print(f"{step:20}\t{seconds:9.2f}\t{distant[step]:9.2f}")


if __name__ == "__main__":
    main()
