"""What a stopped table's hint says is done word by word, and the table is right again."""

import re
import shutil
import signal
from contextlib import closing
from itertools import product

import pytest

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import FLAVORS, Server
from tests.support.delta import rows_at
from tests.support.depth import depth, on
from tests.support.patience import PATIENCE_S

WRONG_ARGUMENTS = 2
COMMAND = re.compile(r"tidemark ([a-z-]+) SPEC (--table \S+(?: --drop)?)")
CREATED = {
    "dated": "(id INT PRIMARY KEY, v DATE)",
    "keyless": "(id INT, v INT)",
    "keyed": "(id INT, v INT)",
    "gone": "(id INT PRIMARY KEY)",
    "left": "(id INT PRIMARY KEY)",
    "moved": "(id INT PRIMARY KEY, v VARCHAR(20))",
    "other": "(id INT PRIMARY KEY)",
}


def test_every_stop_is_ended_by_what_its_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """What stops tables.

    A value that cannot be published, tables without a key, one that is dropped, folders that are gone while columns
    change.
    """
    for name, columns in CREATED.items():
        server.execute(f"CREATE TABLE {database}.{name} {columns}")
        server.execute(f"INSERT INTO {database}.{name} (id) VALUES (1), (2)")
    pipeline = new_pipeline(server, database, poll=0.3, merge=0.5)
    runner = pipeline.start()
    pipeline.wait_for(lambda: pipeline.status()["phase"] == "streaming", runner)
    with closing(server.connect(database=database)) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO dated VALUES (3, '0000-00-00')")
    for name in ("keyless", "keyed"):
        server.execute(f"ALTER TABLE {database}.{name} MODIFY v BIGINT")
    server.execute(f"DROP TABLE {database}.gone, {database}.left")
    for folder in (pipeline.mirror("moved"), pipeline.changes("moved")):
        shutil.move(folder, pipeline.folder / folder.name)
    server.execute(f"INSERT INTO {database}.moved VALUES (3, 'x')")
    stopped = {"dated", "gone", "left", "keyless", "keyed", "moved"}
    pipeline.wait_for(lambda: hints(pipeline).keys() == stopped, runner)

    server.execute(f"UPDATE {database}.dated SET v = '2026-01-01' WHERE id = 3")
    server.execute(f"ALTER TABLE {database}.keyed ADD PRIMARY KEY (id)")  # its hint offers that first
    server.execute(f"ALTER TABLE {database}.moved DROP COLUMN v, ADD COLUMN v INT DEFAULT 7")
    assert pipeline.command("redump", "--table", f"{database}.keyless").returncode == 0
    pipeline.wait_for(lambda: pipeline.events("command.refused"), runner)
    (refusal,) = pipeline.events("command.refused")
    assert "keyless has no key" in str(refusal)
    for name, hint in hints(pipeline).items():
        if name == "gone":
            assert "If a table of this name appears again, it is copied and streamed." in hint
            server.execute(f"CREATE TABLE {database}.gone {CREATED['gone']}")
        elif name != "keyed":
            follow(pipeline, runner, name, hint)
    pipeline.wait_for(lambda: not hints(pipeline) and pipeline.status()["phase"] == "streaming", runner)
    for name in CREATED.keys() - {"left"}:
        server.execute(f"INSERT INTO {database}.{name} (id) VALUES (9)")
    check(server, pipeline, runner)


def hints(pipeline: Pipeline) -> dict[str, str]:
    """The stopped tables, with what to do."""
    return {t["table"].partition(".")[2]: t["hint"] for t in pipeline.status()["tables"] if t["state"] == "stopped"}


def follow(pipeline: Pipeline, runner: Runner, name: str, hint: str) -> None:
    """Run the commands that a hint names, in order."""
    commands = COMMAND.findall(hint)
    assert commands, hint
    for verb, arguments in commands:
        assert f"{pipeline.database}.{name}" in arguments, hint
        result = pipeline.command(verb, *arguments.rstrip(",.").split())
        assert result.returncode == 0, result.stdout + result.stderr
        if verb == "remove-table":
            pipeline.wait_for(lambda: name in removed(pipeline), runner)


def removed(pipeline: Pipeline) -> list[str]:
    """The tables that were removed, and whose data was kept or is deleted, as asked."""
    tables = pipeline.status()["tables"]
    return [table["table"].partition(".")[2] for table in tables if table["destination"] in ("kept", "dropped")]


def check(server: Server, pipeline: Pipeline, runner: Runner) -> None:
    """Mirrors equal the source; of a table without a key, the change log has its rows."""
    pipeline.finish(runner)
    for name in ("dated", "gone", "keyed", "moved", "other"):
        source = source_table(server, pipeline.database, name)
        assert_equal(source, lake_table(pipeline.mirror(name)).select(source.column_names), ["id"])
    assert sorted(row["id"] for row in rows_at(pipeline.changes("keyless")).to_pylist()) == [1, 2, 9]


def test_a_changed_spec_and_a_resume_end_what_stopped_tables(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """A zero date, a dropped table that the spec leaves out, and an ALTER that may not be copied.

    `resume` after a correction.
    """
    for name, columns in CREATED.items():
        server.execute(f"CREATE TABLE {database}.{name} {columns.replace('(id INT,', '(id INT PRIMARY KEY,')}")
        server.execute(f"INSERT INTO {database}.{name} (id) VALUES (1), (2)")
    server.execute(f"CREATE TABLE {database}.fixed (id INT PRIMARY KEY, v DATE)")
    pipeline = new_pipeline(server, database, poll=0.3, merge=0.5, source='schema_changes = "stop"')
    runner = pipeline.start()
    pipeline.wait_for(lambda: pipeline.status()["phase"] == "streaming", runner)
    with closing(server.connect(database=database)) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        for name in ("dated", "fixed"):
            cursor.execute(f"INSERT INTO {name} VALUES (3, '0000-00-00')")
    server.execute(f"ALTER TABLE {database}.moved MODIFY v VARBINARY(20)")
    server.execute(f"DROP TABLE {database}.gone")
    pipeline.wait_for(lambda: hints(pipeline).keys() == {"dated", "fixed", "moved", "gone"}, runner)

    server.execute(f"UPDATE {database}.fixed SET v = '2026-01-01' WHERE id = 3")
    assert pipeline.command("resume", "--table", f"{database}.fixed").returncode == 0
    pipeline.wait_for(lambda: hints(pipeline).keys() == {"dated", "moved", "gone"}, runner)
    runner.send_signal(signal.SIGTERM)
    runner.wait(PATIENCE_S)
    spec = pipeline.spec.read_text().replace('schema_changes = "stop"', 'invalid_dates = "null"')
    pipeline.spec.write_text(spec.replace(f'"{database}.*"', f'"{database}.*", "!{database}.gone"'))
    runner = pipeline.start()
    pipeline.wait_for(lambda: not hints(pipeline) and pipeline.status()["phase"] == "streaming", runner)
    assert removed(pipeline) == ["gone"]
    pipeline.wait_for(lambda: not pipeline.status()["alerts"], runner)
    for name in CREATED.keys() - {"gone"}:
        server.execute(f"INSERT INTO {database}.{name} (id) VALUES (9)")
    pipeline.finish(runner)
    for name in ("fixed", "moved", "other"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name), ["id"])
    dated = lake_table(pipeline.mirror("dated")).sort_by("id")
    assert dated.column("v").to_pylist() == [None] * 4


@on("mariadb")
def test_the_only_table_is_replaced_as_the_hint_says(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """It cannot be removed: with another one it can, and can be added again then."""
    for name in ("only", "second"):
        server.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY)")
        server.execute(f"INSERT INTO {database}.{name} VALUES (1)")
    only, second = ("--table", f"{database}.only"), ("--table", f"{database}.second")
    pipeline = new_pipeline(server, database, tables=[f"{database}.only"])
    pipeline.run("caught-up")
    refused = pipeline.command("remove-table", *only, "--drop")
    assert refused.returncode == WRONG_ARGUMENTS
    assert "Add another table first: tidemark add-table SPEC --table" in " ".join(refused.stderr.split())
    for verb, *arguments in (("add-table", *second), ("remove-table", *only, "--drop"), ("add-table", *only)):
        sent = pipeline.command(verb, *arguments)
        assert sent.returncode == 0, sent.stderr
        pipeline.run("caught-up")
    for name in ("only", "second"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))


@on("mariadb")
def test_a_table_that_resnapshots_itself_again_and_again_stops(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """At the limit by the hour, after an alert; an operator's resnapshot counts from zero."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5, source="max_resnapshots_per_hour = 2")
    runner = pipeline.start()
    for turn in range(1, 4):
        pipeline.wait_for(lambda turn=turn: streamed(pipeline) == turn, runner)  # type: ignore[misc]
        server.execute(f"TRUNCATE TABLE {database}.t")
        server.execute(f"INSERT INTO {database}.t VALUES ({turn})")
    pipeline.wait_for(lambda: hints(pipeline), runner)
    raised = [(one["kind"], one["value"]) for one in pipeline.events("alert.raised") if one["kind"] == "resnapshots"]
    assert raised == [("resnapshots", 2.0)]
    assert "2 times within an hour" in pipeline.status()["tables"][0]["error"]
    runner.terminate()
    assert runner.wait() == 1, "it says that a table is stopped"
    (ended,) = pipeline.events("run.ended")
    assert (ended["outcome"], ended["exit_code"], ended["error"]["error"]) == ("stopped", 1, "TablesStoppedError")
    assert [one["kind"] for one in pipeline.status()["alerts"]] == ["table_stopped"], "the run did not fail"
    assert pipeline.status()["state"] == "stopped"
    runner = pipeline.start()
    follow(pipeline, runner, "t", hints(pipeline)["t"])
    pipeline.wait_for(lambda: streamed(pipeline) == 4, runner)
    server.execute(f"TRUNCATE TABLE {database}.t")
    server.execute(f"INSERT INTO {database}.t VALUES (9)")
    pipeline.wait_for(lambda: streamed(pipeline) == 5, runner)
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))


def streamed(pipeline: Pipeline) -> int:
    """How often the table began to stream."""
    return sum(event["state"] == "streaming" for event in pipeline.events("table.state"))


@pytest.mark.parametrize(
    ("flavor", "ends"),
    depth([("mysql", "killed"), ("mariadb", "stopped")], list(product(FLAVORS, ["stopped", "killed"]))),
)
def test_a_table_that_gets_a_key_is_copied_through_restarts(
    server: Server, database: str, new_pipeline: PipelineFactory, ends: str
) -> None:
    """The new mirror is empty until its copy is complete, and the chunks before were in the change log."""
    server.execute(f"CREATE TABLE {database}.t (x INT, y VARCHAR(30))")
    for start in range(0, 2000, 500):
        server.execute(f"INSERT INTO {database}.t VALUES {', '.join(f'({n}, 0)' for n in range(start, start + 500))}")
    pipeline = new_pipeline(server, database, chunk_rows=100, poll=0.2, merge=0.3)
    runner = pipeline.start_streaming()
    server.execute(f"INSERT INTO {database}.t VALUES (-1, 'q')")
    assert pipeline.command("throttle", "max_rows_per_s=300").returncode == 0
    server.execute(f"ALTER TABLE {database}.t ADD COLUMN pk INT AUTO_INCREMENT PRIMARY KEY")
    pipeline.wait_for(lambda: len(pipeline.events("chunk.finished")) >= 4, runner)
    if ends == "killed":
        runner.kill()
        runner.wait()
    else:
        assert pipeline.command("stop").returncode == 0
        assert runner.wait() == 0
    assert pipeline.command("throttle", "max_rows_per_s=1000000").returncode == 0
    check = pipeline.command("check")
    assert check.returncode == 0, check.stdout
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    for verb in ("backup", "restore"):
        done = pipeline.command(verb, str(pipeline.folder / "backup.zip"))
        assert done.returncode == 0, done.stdout + done.stderr
    pipeline.run("caught-up")
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
