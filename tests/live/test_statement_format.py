"""A session logs its writes as statements: the tables that they may write are resnapshotted, the others stream on."""

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

from engine.run.tables.resnapshot_limit import AT_ONCE
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import USER, Server, create_user
from tests.servers.users import GRANTS

SEES_ALL = (*GRANTS, "TRIGGER ON *.*", "SHOW VIEW ON *.*")
NAMES = ("first", "second", "third")
SECRET = "a value that nobody may see"
SCHEMA = (
    "CREATE TABLE d.first (id INT PRIMARY KEY, v VARCHAR(60))",
    "CREATE TABLE d.second (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60))",
    "CREATE TABLE d.third (id INT PRIMARY KEY, v VARCHAR(60))",
    "CREATE TABLE d.parent (id INT PRIMARY KEY)",
    "CREATE TABLE d.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.parent (id) ON DELETE CASCADE)",
    "CREATE TRIGGER d.after_first AFTER UPDATE ON d.first FOR EACH ROW INSERT INTO d.second (v) VALUES (NEW.v)",
    "CREATE TRIGGER d.gone_first AFTER DELETE ON d.first FOR EACH ROW INSERT INTO d.second (v) VALUES (OLD.v)",
    "CREATE VIEW d.seen AS SELECT * FROM d.third",
    "CREATE PROCEDURE d.fill(IN n INT) INSERT INTO d.third VALUES (n, 'called')",
    "CREATE FUNCTION d.noted(n INT) RETURNS INT BEGIN INSERT INTO d.third VALUES (n, 'noted'); RETURN n; END",
)
ALL = {"d.first", "d.second", "d.third", "d.parent", "d.child"}
CASES: dict[str, tuple[str, set[str]]] = {
    "trigger": (f"UPDATE first SET v = '{SECRET}' WHERE id < 3", {"d.first", "d.second"}),
    "view": (f"UPDATE seen SET v = '{SECRET}' WHERE id = 1", {"d.third"}),
    "routine": ("CALL fill(77)", {"d.third"}),
    "cascade": ("DELETE FROM parent WHERE id = 1", {"d.parent", "d.child"}),
    "function": ("DO noted(78)", {"d.third"}),
    "emptied": ("DELETE FROM `d`.`first`", {"d.first", "d.second"}),
    "escaped": ("UPDATE third SET v = 'it\\'s' WHERE id = 1", {"d.third"}),
    "unclear": ("UPDATE third SET v = '\ufffd' WHERE id = 1", ALL),
}


@pytest.fixture
def source(flavor: str, private_server: Callable[..., Server]) -> Server:
    """A private server whose whole catalog is visible to the user."""
    server = private_server(flavor)
    create_user(server, USER, SEES_ALL)
    server.execute("CREATE DATABASE d")
    for statement in SCHEMA:
        server.execute(statement)
    for n in range(1, 6):
        server.execute("INSERT INTO d.parent VALUES (%s)", (n,))
        server.execute("INSERT INTO d.child VALUES (%s, %s)", (n, n))
        for name in NAMES:
            server.execute(f"INSERT INTO d.{name} VALUES (%s, 'x')", (n,))
    return server


def as_statement(server: Server, *statements: str) -> None:
    """Run one transaction in a session with statement logging."""
    with closing(server.connect(database="d")) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("BEGIN")
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("COMMIT")


def resnapshotted(pipeline: Pipeline, seen: int = 0) -> set[str]:
    """The resnapshotted tables among the events after the first `seen`."""
    return {e["table"] for e in pipeline.events("source.event")[seen:] if e["kind"] == "resnapshotted"}


def streaming(pipeline: Pipeline) -> set[str]:
    """The tables that stream, or did."""
    return {event["table"] for event in pipeline.events("table.state") if event["state"] == "streaming"}


def all_resnapshotted(pipeline: Pipeline, seen: int, expected: set[str]) -> bool:
    """Whether all of these were resnapshotted."""
    return resnapshotted(pipeline, seen) >= expected


def equal(server: Server, pipeline: Pipeline) -> None:
    """Assert that every mirror equals its table."""
    for name in ALL:
        table = name.removeprefix("d.")
        assert_equal(source_table(server, "d", table), pipeline.mirror(table), ["id"])


def test_only_the_tables_that_a_statement_writes_are_resnapshotted(
    source: Server, new_pipeline: PipelineFactory
) -> None:
    """Through a trigger, a view, routines and a foreign key; an unknown statement resnapshots every table.

    A procedure's statements are logged one by one, a function's call as such.
    """
    pipeline = new_pipeline(source, "d", poll=0.2, merge=0.5)
    runner = pipeline.start_streaming()
    for name, (statement, expected) in CASES.items():
        seen = len(pipeline.events("source.event"))
        as_statement(source, statement)
        source.execute("UPDATE d.third SET v = CONCAT(v, '!') WHERE id = 2")
        pipeline.wait_for(partial(all_resnapshotted, pipeline, seen, expected), runner, 60)
        assert resnapshotted(pipeline, seen) == expected, name
        pipeline.wait_for(lambda: all(one["state"] == "streaming" for one in pipeline.status()["tables"]), runner)
    pipeline.finish(runner)
    pipeline.run("caught-up")
    equal(source, pipeline)
    assert SECRET not in json.dumps(pipeline.events())
    assert not [t for t in pipeline.status()["tables"] if t["state"] == "stopped"]


def test_a_catalog_that_changed_since_is_not_believed(source: Server, new_pipeline: PipelineFactory) -> None:
    """The trigger was dropped before its write was read: every table is resnapshotted, and all are equal."""
    pipeline = new_pipeline(source, "d")
    pipeline.run("caught-up")
    as_statement(source, *[f"UPDATE first SET v = 'y{n}' WHERE id = {n}" for n in range(1, 4)])
    source.execute("DROP TRIGGER d.after_first")
    pipeline.run("caught-up")
    assert resnapshotted(pipeline) == ALL
    equal(source, pipeline)


def test_without_the_grants_every_table_is_resnapshotted(source: Server, new_pipeline: PipelineFactory) -> None:
    """There may be a trigger that the user cannot see."""
    create_user(source, USER, GRANTS)
    pipeline = new_pipeline(source, "d")
    pipeline.run("caught-up")
    as_statement(source, CASES["trigger"][0])
    pipeline.run("caught-up")
    assert resnapshotted(pipeline) == ALL
    equal(source, pipeline)


def test_a_stop_says_that_statements_are_logged_and_what_ends_that(
    source: Server, new_pipeline: PipelineFactory
) -> None:
    """The format of the server, the statement that sets it, and the grants that narrow it to the written table."""
    create_user(source, USER, GRANTS)
    source.execute("SET GLOBAL binlog_format = 'ROW'")
    pipeline = new_pipeline(source, "d", poll=0.2, source="max_resnapshots_per_hour = 1")
    runner = pipeline.start()
    pipeline.wait_for(lambda: streaming(pipeline) == ALL, runner)
    source.execute("SET GLOBAL binlog_format = 'MIXED'")
    for n in range(1, 3):
        as_statement(source, f"UPDATE first SET v = 'z{n}' WHERE id = 2")
        pipeline.wait_for(lambda n=n: len(pipeline.events("source.event")) >= len(ALL) * n, runner)  # type: ignore[misc]
        if n == 1:
            pipeline.wait_for(lambda: all(one["state"] == "streaming" for one in pipeline.status()["tables"]), runner)
    by_name = {one["table"]: one for one in pipeline.status()["tables"]}
    stop = by_name["d.third"]
    assert stop["state"] == "stopped"
    assert "binlog_format is MIXED, not ROW" in stop["error"]
    assert "binlog_format = 'ROW'" in stop["hint"]
    assert "GRANT SELECT, TRIGGER, SHOW VIEW ON *.* TO 'tidemark'@'%'" in stop["hint"]
    assert "redump SPEC --table d.third" in stop["hint"]


def test_a_source_that_logs_statements_for_minutes_stops_no_table(
    source: Server, new_pipeline: PipelineFactory
) -> None:
    """After some resnapshots within an hour the next begins later, once for all writes until then, and says when.

    An operator's resnapshot begins at once.
    """
    pipeline = new_pipeline(source, "d", poll=0.2)
    runner = pipeline.start_streaming()

    def resting() -> str:
        as_statement(source, "UPDATE third SET v = CONCAT('z', RAND()) WHERE id = 2")
        waits = pipeline.status()["waiting_for"] or ""
        return waits if waits.startswith("the copy of d.third begins at ") else ""

    pipeline.wait_for(resting, runner)
    for _ in range(8):
        resting()
    epoch = len(pipeline.epochs())
    pipeline.wait_for(lambda: len(pipeline.epochs()) > epoch, runner)
    assert [e["within_hour"] for e in pipeline.events("source.event")] == list(range(1, AT_ONCE + 2))
    assert "It is number 6 within an hour, and begins at " in pipeline.events("source.event")[-1]["reason"]
    pipeline.stop(runner)
    runner = pipeline.start()
    pipeline.wait_for(resting, runner)
    assert pipeline.command("redump", "--table", "d.third").returncode == 0
    pipeline.wait_for(lambda: not pipeline.status()["waiting_for"], runner)
    pipeline.finish(runner)
    pipeline.run("caught-up")
    equal(source, pipeline)
    assert not [t for t in pipeline.status()["tables"] if t["state"] == "stopped"]


def test_a_write_while_tables_are_copied(source: Server, new_pipeline: PipelineFactory) -> None:
    """Chunks whose reads span the statement are read again; all tables end equal, and none stops."""
    numbers = ", ".join(f"({n}, 'x')" for n in range(100, 6000))
    source.execute(f"INSERT INTO d.third VALUES {numbers}")
    pipeline = new_pipeline(source, "d", chunk_rows=100)
    runner = pipeline.start()
    pipeline.wait_for(lambda: len(pipeline.epochs()) > 1, runner)
    for n in range(AT_ONCE):
        as_statement(source, f"UPDATE first SET v = 'z{n}' WHERE id = 2")
        source.execute("UPDATE d.third SET v = %s WHERE id %% 7 = 3", (f"w{n}",))
    pipeline.finish(runner)
    pipeline.run("caught-up")
    assert resnapshotted(pipeline) <= {"d.first", "d.second"}
    equal(source, pipeline)
