"""What a source does that nobody can foresee is ended by what the hint says, and the tables are equal again."""

from collections.abc import Callable
from contextlib import closing

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.damaging_proxy import DamagingProxy
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.servers.replica import await_executed, executed, replicate, take_over
from tests.support.depth import SOAK, on
from tests.support.patience import PATIENCE_S

ServerFactory = Callable[..., Server]
_OFTEN = 1_000_000
CREATED = "CREATE TABLE d.{} (id INT PRIMARY KEY, v INT, w INT) ENGINE = InnoDB"


def unlogged(server: Server, statement: str) -> None:
    """Run a statement that the binlog does not show."""
    with closing(server.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(statement)


def hints(pipeline: Pipeline) -> dict[str, str]:
    """The stopped tables, with what to do."""
    return {t["table"].partition(".")[2]: t["hint"] for t in pipeline.status()["tables"] if t["state"] == "stopped"}


def test_rows_that_were_prepared_in_a_purged_file_are_copied_as_the_hint_says(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """An XA transaction is committed when the binlog no longer has its PREPARE."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute(CREATED.format("t"))
    pipeline = new_pipeline(server, "d")
    pipeline.run("caught-up")
    with closing(server.connect(database="d", autocommit=True)) as session, session.cursor() as cursor:
        for statement in ("XA START 'x'", "INSERT INTO t VALUES (1, 1, 1)", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
        server.execute("FLUSH BINARY LOGS")
        pipeline.run("caught-up")
        server.purge_binlogs()
        cursor.execute("XA COMMIT 'x'")
    lost(pipeline, "commits an XA transaction whose rows it no longer contains")
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


@on("mariadb")
def test_a_rollback_that_nothing_explains_is_copied_as_the_hint_says(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The savepoint is damaged on its way, and there are no checksums."""
    server = private_server(flavor, binlog_checksum="NONE")
    server.execute("CREATE DATABASE d")
    server.execute(CREATED.format("t"))
    server.execute("CREATE TABLE d.m (id INT PRIMARY KEY) ENGINE = MyISAM")
    with DamagingProxy(server, b"SAVEPOINT `nobody`", _OFTEN) as proxy:
        pipeline = new_pipeline(server, "d", tables=["d.t"])
        pipeline.spec.write_text(pipeline.spec.read_text().replace(f"port = {server.port}", f"port = {proxy.port}"))
        pipeline.run("caught-up")
        with closing(server.connect(database="d")) as session, session.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO t VALUES (1, 1, 1)")
            cursor.execute("SAVEPOINT nobody")
            cursor.execute("INSERT INTO t VALUES (2, 2, 2)")
            cursor.execute("INSERT INTO m VALUES (2)")
            cursor.execute("ROLLBACK TO nobody")
            session.commit()
        lost(pipeline, "rolls a transaction back to a savepoint that it does not contain")
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


def lost(pipeline: Pipeline, says: str) -> None:
    """A run ends with 4, and continues after the command that it names."""
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4, result.stdout + result.stderr
    printed = " ".join(result.stderr.split())
    assert says in printed
    assert "Resnapshot the tables: tidemark redump SPEC --all" in printed
    assert pipeline.command("redump", "--all").returncode == 0
    pipeline.run("caught-up")


@on("mariadb")
def test_a_table_that_was_altered_behind_the_binlog_is_copied_as_the_hint_says(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """With sql_log_bin = 0, while it is streamed. Without `schema_changes = "stop"`, it resnapshots itself."""
    behind_the_binlog(private_server(flavor), new_pipeline, "streamed")


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="eight tries take 90 seconds")
def test_a_table_that_was_altered_behind_its_copy_is_copied_as_the_hint_says(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """With sql_log_bin = 0, before its chunks are read: the binlog never shows why they cannot be."""
    behind_the_binlog(private_server(flavor), new_pipeline, "copied")


def behind_the_binlog(server: Server, new_pipeline: PipelineFactory, name: str) -> None:
    """A column that the pipeline reads is gone, or one that it does not know is there."""
    server.execute("CREATE DATABASE d")
    for table in (name, "other"):
        server.execute(CREATED.format(table))
        server.execute(f"INSERT INTO d.{table} VALUES (1, 1, 1)")
    pipeline = new_pipeline(server, "d", source='schema_changes = "stop"')
    if name == "copied":
        assert pipeline.command("pause", "--table", "d.copied").returncode == 0
    runner = pipeline.start_streaming()
    unlogged(server, f"ALTER TABLE d.{name} DROP COLUMN w")
    server.execute(f"INSERT INTO d.{name} VALUES (2, 2)")
    if name == "copied":
        assert pipeline.command("resume", "--table", "d.copied").returncode == 0
    pipeline.wait_for(lambda: hints(pipeline), runner)
    (hint,) = hints(pipeline).values()
    assert (
        hint
        == f"Resnapshot it: tidemark redump SPEC --table d.{name}. The next start does with source.schema_changes = "
        "copy"
    )
    assert pipeline.command("redump", "--table", f"d.{name}").returncode == 0
    pipeline.wait_for(lambda: not hints(pipeline) and pipeline.status()["phase"] == "streaming", runner)
    for table in (name, "other"):
        server.execute(f"INSERT INTO d.{table} (id, v) VALUES (3, 3)")
    pipeline.finish(runner)
    for table in (name, "other"):
        source = source_table(server, "d", table)
        assert_equal(source, lake_table(pipeline.mirror(table)).select(source.column_names), ["id"])


@on("mysql")
def test_a_table_that_is_not_copied_is_streamed_from_now_on_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The catalog no longer shows the columns of its next rows."""
    table = f"{database}.t"
    server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
    pipeline = new_pipeline(server, database, source='startup = "latest"')
    pipeline.run("caught-up")
    for statement in ("MODIFY v BIGINT", "MODIFY v VARCHAR(20)"):
        server.execute(f"ALTER TABLE {table} {statement}")
        server.execute(f"INSERT INTO {table} SELECT COUNT(*), COUNT(*) FROM {table} AS other")
    assert pipeline.command("run", "--until", "caught-up").returncode == 1
    assert hints(pipeline) == {
        "t": f"Stream it from now on, without what lies between: tidemark redump SPEC --table {table}"
    }
    assert pipeline.command("redump", "--table", table).returncode == 0
    pipeline.run("caught-up")
    server.execute(f"INSERT INTO {table} VALUES (9, 'nine')")
    pipeline.run("caught-up")
    assert lake_table(pipeline.mirror("t"))["id"].to_pylist() == [9]


@on("mariadb")
def test_a_server_that_compares_names_otherwise_is_taken_at_the_next_start(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """A replica with lower_case_table_names = 1 takes over the address.

    The run ends, and starts again as its hint says.
    """
    first, second = private_server(flavor), private_server(flavor, log_slave_updates=1, lower_case_table_names=1)
    replicate(second, first)
    first.execute("CREATE DATABASE d")
    first.execute(CREATED.format("t"))
    first.execute("INSERT INTO d.t VALUES (1, 1, 1)")
    pipeline = new_pipeline(first, "d", tables=["D.*", "d.*"])
    runner = pipeline.start_streaming()
    await_executed(second, executed(first))
    take_over(second, first)
    assert runner.wait(timeout=PATIENCE_S) == 3
    (error,) = [event["error"] for event in pipeline.events("run.ended")]
    assert error["hint"] == "Start again: the run then follows the server's lower_case_table_names."
    second.execute("INSERT INTO d.t VALUES (2, 2, 2)")
    pipeline.run("caught-up")
    assert_equal(source_table(second, "d", "t"), pipeline.mirror("t"))
