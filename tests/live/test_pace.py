"""A rate limits what the source reads in each second, also within a chunk."""

import time
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

ROWS, RATE = 12_000, 1500
_SLICE = 300
_NOISE = 250
"""Rows a second of the writer, and of Tidemark's own questions."""


class Sampler(Background):
    """Samples how many rows the server's engine has read."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self.samples: list[tuple[float, int]] = []

    def work(self, _number: int) -> None:
        """Sample until the test ends. MySQL also counts rows of its own dictionary among those of the handlers."""
        counter = "Innodb_rows_read" if self._server.flavor == "mysql" else "Handler_read_next"
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            while not self.stopping.is_set():
                cursor.execute("SHOW GLOBAL STATUS LIKE %s", (counter,))
                self.samples.append((time.monotonic(), int(cursor.fetchall()[0][1])))
                time.sleep(0.05)

    def most_in_a_second(self) -> int:
        """The most rows between two samples that are a second apart at most."""
        return max(
            later - before
            for n, (at_s, before) in enumerate(self.samples)
            for until_s, later in self.samples[n:]
            if until_s - at_s <= 1.0
        )


class Writer(Background):
    """Changes rows everywhere in a table while it is copied."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def work(self, _number: int) -> None:
        """Update, delete and insert."""
        n = 0
        while not self.stopping.is_set():
            n += 7919
            self._server.execute("UPDATE d.big SET v = v + 1 WHERE id = %s", (n % ROWS,))
            self._server.execute("DELETE FROM d.big WHERE id = %s", ((n * 31) % ROWS,))
            self._server.execute("INSERT IGNORE INTO d.big VALUES (%s, -1)", ((n * 17) % (2 * ROWS),))
            time.sleep(0.05)


def _create(server: Server, key: str) -> None:
    digits = " UNION ALL ".join(f"SELECT {n} AS d" for n in range(10))
    server.execute("CREATE DATABASE d")
    server.execute(f"CREATE TABLE d.big (id INT NOT NULL, v INT{key})")
    server.execute(
        f"INSERT INTO d.big SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n, 0 FROM ({digits}) a, "
        f"({digits}) b, ({digits}) c, ({digits}) e, ({digits}) f HAVING n < {ROWS}"
    )


def _state(pipeline: Pipeline) -> str:
    return next((str(e["state"]) for e in reversed(pipeline.events("table.state"))), "")


def _rows_so_far(pipeline: Pipeline) -> int:
    """The rows that `status` shows of the chunk that is being read."""
    return sum(table["reading"]["rows"] for table in pipeline.status()["tables"] if table["reading"])


def _copied(pipeline: Pipeline, runner: Runner) -> None:
    pipeline.wait_for(lambda: _state(pipeline) == "streaming", runner)


@pytest.mark.timeout(180)
def test_a_chunk_is_read_no_faster_than_the_rate(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """In no second does the source read more rows than the rate and one slice, although the table is one chunk.

    Meanwhile the binlog is streamed, `status` shows the rows read so far, and the copy is exact.
    """
    server = private_server(flavor)
    _create(server, ", PRIMARY KEY (id)")
    limits = f"[throttle]\nmax_rows_per_s = {RATE}\n"
    pipeline = new_pipeline(server, "d", chunk_rows=1_000_000, poll=0.3, merge=1.0, more=limits)
    with Sampler(server) as source, Writer(server) as writer:
        runner = pipeline.start()
        pipeline.wait_for(lambda: 0 < _rows_so_far(pipeline) < ROWS, runner)
        assert pipeline.status()["waiting_for"] in (None, f"at most {RATE:,} rows/s")
        assert not pipeline.events("chunk.finished")
        epochs = len(pipeline.events("epoch.committed"))
        pipeline.wait_for(lambda: len(pipeline.events("epoch.committed")) >= epochs + 3, runner)
        assert not pipeline.events("chunk.finished"), "the binlog does not wait for the chunk"
        _copied(pipeline, runner)
        source.stop()
        writer.stop()
    (read,) = pipeline.events("chunk.finished")
    assert source.most_in_a_second() <= RATE + _SLICE + _NOISE
    assert read["timings"]["read"] >= 0.75 * ROWS / RATE
    assert read["backfill"]["changes"] > 0
    pipeline.finish(runner)
    assert_equal(source_table(server, "d", "big"), pipeline.mirror("big"))


@pytest.mark.timeout(180)
def test_a_table_without_a_key_is_read_no_faster_than_the_rate(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Its reader pauses between network blocks; the server may be ahead of it by the network's buffers."""
    server = private_server(flavor)
    _create(server, "")
    server.execute("ALTER TABLE d.big ADD text CHAR(200)")
    server.execute("UPDATE d.big SET text = REPEAT('x', 200)")
    pipeline = new_pipeline(server, "d", chunk_rows=1000, poll=0.3, more=f"[throttle]\nmax_rows_per_s = {RATE}\n")
    runner = pipeline.start()
    _copied(pipeline, runner)
    (read,) = pipeline.events("chunk.finished")
    assert read["timings"]["read"] >= 0.7 * ROWS / RATE
    pipeline.finish(runner)
    assert lake_table(pipeline.changes("big")).num_rows == ROWS


@on("mysql")
def test_a_stop_does_not_wait_for_a_throttled_chunk(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """It gives the chunk up, without a failure. The next run reads it again, as fast as its own limits allow."""
    server = private_server(flavor)
    _create(server, ", PRIMARY KEY (id)")
    pipeline = new_pipeline(server, "d", chunk_rows=1_000_000, poll=0.3, more="[throttle]\nmax_rows_per_s = 100\n")
    runner = pipeline.start()
    pipeline.wait_for(lambda: _rows_so_far(pipeline) > 0, runner)
    since_s = time.monotonic()
    pipeline.stop(runner)
    assert time.monotonic() - since_s < 0.5 * ROWS / 100, "it has waited for the chunk"
    assert not pipeline.events("chunk.finished", "chunk.failed")
    assert pipeline.command("throttle", "max_rows_per_s=0").returncode == 0
    pipeline.run("snapshot")
    assert_equal(source_table(server, "d", "big"), pipeline.mirror("big"))


@on("mariadb")
def test_a_run_that_fails_does_not_wait_for_a_throttled_chunk(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Another runner has committed the next epoch: this one ends with 5 at once, and gives the chunk up."""
    server = private_server(flavor)
    _create(server, ", PRIMARY KEY (id)")
    pipeline = new_pipeline(server, "d", chunk_rows=1_000_000, poll=0.3, more="[throttle]\nmax_rows_per_s = 100\n")
    runner = pipeline.start()
    pipeline.wait_for(lambda: _rows_so_far(pipeline) > 0, runner)
    with Writer(server):
        pipeline.wait_for(pipeline.epochs, runner)
        since_s, number = time.monotonic(), pipeline.epochs()[-1]["epoch"] + 3
        (pipeline.home / "ledger" / f"epoch-{number:08d}.json").write_text("{}")
        assert runner.wait(timeout=PATIENCE_S) == 5
    assert time.monotonic() - since_s < 0.5 * ROWS / 100, "it has waited for the chunk"
    assert not pipeline.events("chunk.finished")
