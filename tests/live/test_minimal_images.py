"""Row images that lack columns: the table is resnapshotted automatically, and the others stream on."""

from engine.source.connect import describe
from engine.source.durable_settings import durable_remedy
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.servers import Server


def test_a_row_image_that_lacks_columns_resnapshots_its_table(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """A session writes with binlog_row_image = MINIMAL.

    With `schema_changes = "stop"` the table stops, with a hint that works.
    """
    for name in ("t", "other"):
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, v INT, w INT)")
        server.execute(f"INSERT INTO `{database}`.{name} VALUES (1, 1, 1), (2, 2, 2)")
    pipeline = new_pipeline(server, database)
    pipeline.run("caught-up")
    with server.connect(database=database, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
        cursor.execute("UPDATE t SET v = 20 WHERE id = 2")
        cursor.execute("SET SESSION binlog_row_image = 'FULL'")
        cursor.execute("INSERT INTO t VALUES (3, 3, 3)")
        cursor.execute("INSERT INTO other VALUES (3, 3, 3)")
    pipeline.run("caught-up")
    for name in ("t", "other"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))
    again = [e["table"] for e in pipeline.events("source.event") if e["kind"] == "resnapshotted"]
    assert again == [f"{database}.t"]
    pipeline.spec.write_text(pipeline.spec.read_text().replace("[source]", '[source]\nschema_changes = "stop"'))
    with server.connect(database=database, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
        cursor.execute("UPDATE t SET v = 21 WHERE id = 2")
    stopped = pipeline.command("run", "--until", "caught-up")
    assert stopped.returncode == 1
    assert "lacks columns" in " ".join((stopped.stdout + stopped.stderr).split())
    (hint,) = [table["hint"] for table in pipeline.status()["tables"] if table["state"] == "stopped"]
    setting, then, command = hint.partition(", and end the sessions that set it otherwise. Then resnapshot it: ")
    assert (setting, bool(then)) == (
        "Set binlog_row_image = FULL on the source (`tidemark check SPEC` shows the statement)",
        True,
    )
    with server.connect() as session:
        server.execute(durable_remedy(describe(session), "binlog_row_image", "FULL"))
    assert command.startswith(f"tidemark redump SPEC --table {database}.t")
    assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
