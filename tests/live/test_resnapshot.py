"""Tables that are resnapshotted on command: wrong rows are corrected, lost positions and rows are recovered."""

from collections.abc import Callable
from contextlib import closing, suppress

import pymysql
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.live.support.schema_changes import Writer
from tests.servers import Server
from tests.support.depth import on

ROWS, CHUNK_ROWS = 3000, 300
NAMES = ("a", "b")


def _fill(server: Server) -> None:
    server.execute("CREATE DATABASE d")
    for name in NAMES:
        server.execute(
            f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT, name VARCHAR(20) CHARACTER SET utf8mb4, note TEXT)"
        )
        digits = " UNION ALL ".join(f"SELECT {n} AS d" for n in range(10))
        server.execute(
            f"INSERT INTO d.{name} (id, v, name) SELECT n, n %% 9, 'x' FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 "
            f"* e.d AS n FROM ({digits}) a, ({digits}) b, ({digits}) c, ({digits}) e) numbers WHERE n < %s",
            (ROWS,),
        )


@on("mariadb")
def test_a_lost_position_is_repaired_and_a_damaged_table_is_right_again(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Purged: exit code 4 with a remedy that works.

    Damaged: resnapshotted under writes, without touching the other table.
    """
    server = private_server(flavor)
    _fill(server)
    pipeline = new_pipeline(server, "d", chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0)
    pipeline.run("snapshot")
    for turn in range(2):
        server.execute("DELETE FROM d.a WHERE id %% 10 = %s", (turn,))
        server.execute("FLUSH BINARY LOGS")
    server.purge_binlogs()
    lost = pipeline.command("run", "--until", "caught-up")
    assert lost.returncode == 4
    assert "redump" in lost.stderr
    assert pipeline.command("redump", "--table", "d.nothing").returncode == 2
    assert pipeline.command("redump", "--all", "--reason", "the log was purged").returncode == 0

    with Writer(server, "d", NAMES, ROWS) as writer:
        runner = pipeline.start()
        pipeline.wait_for(lambda: _copied(pipeline) == {"d.a": 2, "d.b": 2}, runner)
        _damage(pipeline, runner)
        kept = {f.rpartition("/")[2] for f in DeltaTable(str(pipeline.mirror("b"))).file_uris()}
        assert pipeline.command("redump", "--table", "d.a", "--reason", "damaged").returncode == 0
        pipeline.wait_for(lambda: len(pipeline.events("command.done")) == 2, runner)
        writer.stop()
    pipeline.finish(runner)
    assert kept
    assert _copied(pipeline) == {"d.a": 2, "d.b": 2}, "a streaming table is read again beside the binlog"
    for name in NAMES:
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))
    answers = [(e["event"], e["verb"]) for e in pipeline.events("command.accepted", "command.done")]
    assert answers == [("command.accepted", "redump"), ("command.done", "redump")] * 2
    everything, damaged = (e["result"] for e in pipeline.events("command.done"))
    assert everything == {"begun": ["d.a", "d.b"]}, "the mirrors have the rows only when the copy is complete"
    assert "begun" not in damaged
    assert not list((pipeline.home / "inbox").glob("*.json"))


def test_a_write_that_is_logged_as_a_statement_stops_the_tables_and_is_repaired(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """A running pipeline names the remedy, which needs no restart."""
    server = private_server(flavor)
    _fill(server)
    server.execute("CREATE VIEW d.seen AS SELECT * FROM d.a")
    pipeline = new_pipeline(server, "d", chunk_rows=CHUNK_ROWS, poll=0.3, merge=1.0, source='schema_changes = "stop"')
    runner = pipeline.start()
    pipeline.wait_for(lambda: _copied(pipeline) == {"d.a": 1, "d.b": 1}, runner)
    with closing(server.connect(database="d")) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("UPDATE seen SET v = v + 1 WHERE id % 2 = 0")
    pipeline.wait_for(lambda: _stopped(pipeline), runner)
    states = {t["table"]: t for t in pipeline.status()["tables"]}
    assert "redump" in states["d.a"]["hint"], states
    assert "d.a" in _stopped(pipeline)
    server.execute("UPDATE d.b SET v = v + 1 WHERE id % 3 = 0")
    assert pipeline.command("redump", "--all").returncode == 0
    pipeline.wait_for(lambda: _copied(pipeline)["d.a"] == 2, runner)
    pipeline.finish(runner)
    (answer,) = pipeline.events("command.done")
    assert "d.a" in answer["result"]["begun"]
    for name in NAMES:
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))


def test_an_incident_ends_with_4_and_is_repaired(
    private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """On MySQL, a statement on a MyISAM table that does not fit its cache logs an incident: changes are missing."""
    server = private_server("mysql", max_binlog_stmt_cache_size=4096, binlog_stmt_cache_size=4096)
    _fill(server)
    server.execute("CREATE TABLE d.m (id INT PRIMARY KEY, note TEXT) ENGINE=MyISAM")
    pipeline = new_pipeline(server, "d", chunk_rows=CHUNK_ROWS)
    pipeline.run("snapshot")
    with pytest.raises(pymysql.MySQLError, match="max_binlog_stmt_cache_size"):
        server.execute("INSERT INTO d.m SELECT id, REPEAT('z', 2000) FROM d.a")
    server.execute("UPDATE d.a SET v = v + 1 WHERE id % 3 = 0")
    lost = pipeline.command("run", "--until", "caught-up")
    assert lost.returncode == 4
    assert "INCIDENT" in lost.stderr
    assert pipeline.command("redump", "--all").returncode == 0
    pipeline.run("caught-up")
    for name in (*NAMES, "m"):
        assert_equal(source_table(server, "d", name), pipeline.mirror(name))


def _stopped(pipeline: Pipeline) -> dict[str, str]:
    """The stopped tables, with their reasons."""
    return {e["table"]: e["reason"] for e in pipeline.events("table.state") if e["state"] == "stopped"}


def _copied(pipeline: Pipeline) -> dict[str, int]:
    """How often each table was copied."""
    states = [e["table"] for e in pipeline.events("table.state") if e["state"] == "streaming"]
    return {name: states.count(name) for name in sorted(set(states))}


def _damage(pipeline: Pipeline, runner: Runner) -> None:
    """Change, delete and invent rows behind Tidemark's back, while it commits to the table."""
    damages: list[Callable[[DeltaTable], object]] = [
        lambda mirror: mirror.update({"v": "-1"}, predicate="id % 7 = 0"),
        lambda mirror: mirror.delete("id % 11 = 0"),
        lambda mirror: mirror.update({"id": "id + 100000"}, predicate="id % 13 = 0"),
    ]
    for damage in damages:
        pipeline.wait_for(lambda damage=damage: _committed(damage, pipeline), runner)  # type: ignore[misc]


def _committed(damage: Callable[[DeltaTable], object], pipeline: Pipeline) -> bool:
    with suppress(CommitFailedError):
        damage(DeltaTable(str(pipeline.mirror("a"))))
        return True
    return False
