"""A chunk that cannot be read is parked with its error; its table, the other tables and the binlog continue."""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pymysql

from tests.live.conftest import PipelineFactory
from tests.live.support.background import Background
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import USER, Server
from tests.support.depth import on

ROWS, CHUNK_ROWS, CHUNKS = 3000, 100, 30
FIRST, SECOND = 15, 20
_REPEATS = 14_000_000


class Watchdog(Background):
    """Kills the queries of two chunks, except those in `spared`, like a tool that ends slow queries.

    It recognises them by their bounds. By time it would also kill others on a slow machine.
    """

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self.spared: set[int] = set()

    def work(self, _number: int) -> None:
        """Check twenty times per second."""
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            while not self.stopping.wait(0.05):
                cursor.execute("SHOW FULL PROCESSLIST")
                for number, sql in [(row[0], row[7] or "") for row in cursor.fetchall() if row[1] == USER]:
                    if self._reads_doomed(sql):
                        with suppress(pymysql.MySQLError):  # it has just ended
                            cursor.execute(f"KILL QUERY {number}")

    def _reads_doomed(self, sql: str) -> bool:
        bounds = [(str(n * CHUNK_ROWS), str((n + 1) * CHUNK_ROWS)) for n in {FIRST, SECOND} - self.spared]
        return "`slow`" in sql and any(lower in sql and upper in sql for lower, upper in bounds)


def _create(server: Server) -> None:
    """Create a table in which some rows of two chunks are slow: a generated column is computed on read."""
    server.execute("CREATE DATABASE d")
    for name in ("slow", "other"):
        server.execute(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT, n INT)")
        long = [chunk * CHUNK_ROWS + n for chunk in (FIRST, SECOND) for n in range(40, 66)] if name == "slow" else []
        with closing(server.connect(database="d")) as connection, connection.cursor() as cursor:
            rows = [(n, 0, _REPEATS if n in long else 1) for n in range(ROWS)]
            cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s, %s)", rows)
    computed = "h VARCHAR(128) CHARACTER SET ascii AS (SHA2(REPEAT('x', n), 512)) VIRTUAL"
    server.execute(f"ALTER TABLE d.slow ADD COLUMN {computed}")


@on("mysql")
def test_a_chunk_that_fails_is_parked_and_the_rest_goes_on(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """It is reported everywhere, retried by the next run and by `resume`, and blocks only the end of a bounded run."""
    server = private_server(flavor)
    _create(server)
    pipeline = new_pipeline(server, "d", chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0, snapshot="chunk_attempts = 2")
    with Watchdog(server) as watchdog:
        ended = pipeline.command("run", "--until", "caught-up")
        assert ended.returncode == 1
        error = pipeline.events("run.ended")[-1]["error"]
        assert error["error"] == "ChunksParkedError"
        assert all(f"d.slow chunk {n} [{n * 100}, {n * 100 + 100})" in error["message"] for n in (FIRST, SECOND))
        _check_reports(pipeline)

        runner = pipeline.start()
        pipeline.wait_for(lambda: len(pipeline.events("chunk.parked")) == 4, runner)
        assert len(pipeline.events("chunk.failed")) == 6, "another run tries each once"
        _check_log_goes_on(pipeline, server, runner)
        watchdog.spared = {FIRST}
        for _ in range(2):  # the second one comes while the chunks are read, or when one is parked again
            assert pipeline.command("resume", "--table", "d.slow").returncode == 0
        pipeline.wait_for(lambda: [e["chunk"] for e in pipeline.events("chunk.unparked")] == [FIRST], runner)
        pipeline.wait_for(lambda: len(pipeline.events("command.done")) == 2, runner)
        pipeline.wait_for(lambda: _table(pipeline)["chunks_done"] == CHUNKS - 1 and _table(pipeline)["parked"], runner)
        assert [p["chunk"] for p in _table(pipeline)["parked"]] == [SECOND]
        watchdog.spared = {FIRST, SECOND}
        assert pipeline.command("resume", "--table", "d.slow").returncode == 0
        pipeline.wait_for(lambda: ("d.slow", "streaming") in _states(pipeline), runner)
    pipeline.finish(runner)
    assert not _table(pipeline)["parked"]
    assert not (pipeline.home / "parked.json").exists()
    raised, cleared = (
        [a["kind"] for a in pipeline.events(f"alert.{event}") if a["kind"] != "run_failed"]
        for event in ("raised", "cleared")
    )
    assert raised == cleared == ["chunk_parked"]
    for name in ("slow", "other"):
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))


def _states(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(e["table"], e["state"]) for e in pipeline.events("table.state")]


def _check_reports(pipeline: Pipeline) -> None:
    """Journal, status and alert name chunk, range, error and attempts, and no other chunk."""
    assert {tuple(e["chunks"]) for e in pipeline.events("chunk.failed")} == {(FIRST,), (SECOND,)}
    for number, parked in zip(
        (FIRST, SECOND), sorted(_table(pipeline)["parked"], key=lambda p: p["chunk"]), strict=True
    ):
        lower = number * CHUNK_ROWS
        assert (parked["chunk"], parked["lower"], parked["upper"]) == (number, str(lower), str(lower + CHUNK_ROWS))
        assert parked["attempts"] == 2
        assert "interrupted" in parked["message"]
    assert _table(pipeline)["state"] == "copying"
    assert _table(pipeline)["chunks_done"] == CHUNKS - 2
    alert = next(a for a in pipeline.status()["alerts"] if a["kind"] == "chunk_parked")
    assert alert["table"] == "d.slow"
    assert "resume SPEC --table d.slow" in alert["hint"]


def _check_log_goes_on(pipeline: Pipeline, server: Server, runner: Runner) -> None:
    """Changes outside the parked ranges are published, changes inside them are not."""
    server.execute("UPDATE d.slow SET v = 7 WHERE id IN (5, 1510, 2010, 2950)")
    server.execute("UPDATE d.other SET v = 7 WHERE id = 1510")

    def published() -> set[int]:
        with suppress(FileNotFoundError):
            return {row["id"] for row in _changed(pipeline.changes("slow"))}
        return set()

    pipeline.wait_for(lambda: published() >= {5, 2950} and _changed(pipeline.changes("other")), runner)
    assert published() == {5, 2950}
    ids = set(lake_table(pipeline.mirror("slow"))["id"].to_pylist())
    assert ids == set(range(ROWS)) - set(range(1500, 1600)) - set(range(2000, 2100))


def _changed(folder: Path) -> list[dict[str, Any]]:
    return [row for row in lake_table(folder).to_pylist() if row["v"] == 7]


def _table(pipeline: Pipeline) -> dict[str, Any]:
    return next(t for t in pipeline.status()["tables"] if t["table"] == "d.slow")
