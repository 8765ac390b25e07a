"""A file of a change log is deleted while a pipeline runs."""

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.servers import Server


def test_a_redump_repairs_a_change_log_that_has_lost_a_file(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """`read` fails and advises it. It resnapshots the table, says which changes are lost, and the log can be read."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5)
    runner = pipeline.start_streaming()
    server.execute(f"INSERT INTO {database}.t VALUES (1)")
    pipeline.wait_for(lambda: lake_table(pipeline.mirror("t")).num_rows == 1, runner)
    (lost,) = pipeline.changes("t").glob("*.parquet")
    lost.unlink()

    read = pipeline.command("read", f"{database}.t__changes")
    assert read.returncode == 1
    words = " ".join(read.stderr.split())
    assert "sink.files_retention" in words
    assert f"tidemark redump SPEC --table {database}.t" in words
    dry_run = pipeline.command("redump", "--table", f"{database}.t", "--dry-run")
    assert "its change log cannot be read (1 data file of" in " ".join(dry_run.stdout.split())

    assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
    pipeline.wait_for(lambda: pipeline.events("command.done"), runner)
    pipeline.wait_for(lambda: [e["state"] for e in pipeline.events("table.state")].count("streaming") == 2, runner)
    server.execute(f"INSERT INTO {database}.t VALUES (2)")
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    read = pipeline.command("read", f"{database}.t__changes")
    assert read.returncode == 0, read.stderr
    (gap,) = (one for one in pipeline.events("error") if "lacks the changes of 1 missing file" in one["message"])
    assert lost.name in gap["message"]
