"""Changes that the binlog lacks: which are noticed while a pipeline runs, and which only verification finds."""

import json
import re
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from engine.journal import Journal
from engine.ledger.state import State
from engine.pipeline.helpers import Helpers
from engine.run.commands.heartbeat import Activity
from engine.run.monitors import hidden_monitor
from engine.run.monitors.hidden_monitor import HiddenMonitor, ReportedChanges
from engine.run.monitors.source_drift import SourceDrift
from engine.run.tables.first_epoch import SourceAccess
from engine.source.connect import Endpoint, describe, open_connection, query
from engine.source.positions import Position
from engine.spec.settings import Source as Settings
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.known_positions import ServerFactory
from tests.live.support.pipeline import Pipeline
from tests.live.test_statement_format import all_resnapshotted
from tests.servers import PASSWORD, USER, Server
from tests.support.depth import on

PARTS = "PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN (100))"
WHY = "its rows may have other values"


def fill(server: Server, database: str) -> None:
    """The tables: a partitioned one, one to exchange with its partition, one with an imported tablespace.

    And a bystander.
    """
    for name, more in (("parted", PARTS), ("plain", ""), ("space", ""), ("other", "")):
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, v INT) {more}")
    server.execute(f"INSERT INTO `{database}`.parted VALUES (1, 1), (50, 50), (51, 51)")
    server.execute(f"INSERT INTO `{database}`.plain VALUES (2, 2)")
    server.execute(f"INSERT INTO `{database}`.space VALUES (1, 1), (2, 2)")
    server.execute(f"INSERT INTO `{database}`.other VALUES (1, 1)")


def import_tablespace(server: Server, database: str, discarded: Callable[[], None]) -> None:
    """Export the tablespace, change its rows, discard it, and import the exported one."""
    folder, kept = server.data / database, server.folder / "kept"
    kept.mkdir()
    with closing(server.connect(database=database)) as session, session.cursor() as cursor:
        cursor.execute("FLUSH TABLES space FOR EXPORT")
        for file in folder.glob("space.[ic]*"):
            shutil.copy(file, kept)
        cursor.execute("UNLOCK TABLES")
        cursor.execute("UPDATE space SET v = 9")
        cursor.execute("ALTER TABLE space DISCARD TABLESPACE")
        discarded()
        for file in kept.iterdir():
            shutil.copy(file, folder)
        cursor.execute("ALTER TABLE space IMPORT TABLESPACE")
    shutil.rmtree(kept)


def equal(server: Server, pipeline: Pipeline, *names: str) -> None:
    """Assert that the mirrors equal their tables."""
    for name in names:
        assert_equal(source_table(server, pipeline.database, name), pipeline.mirror(name), ["id"])


def test_a_statement_that_exchanges_rows_resnapshots_its_tables(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """The binlog has no rows of exchanged and converted partitions, and of imported tablespaces.

    A discarded tablespace stops its table, and no other one, until another tablespace is imported.
    """
    fill(server, database)
    pipeline = new_pipeline(server, database, poll=0.2, merge=0.5, source='new_tables = "ignore"')
    runner = pipeline.start_streaming()

    def resnapshotted(*names: str, seen: int) -> None:
        expected = {f"{database}.{name}" for name in names}
        pipeline.wait_for(partial(all_resnapshotted, pipeline, seen, expected), runner, 60)
        # A copy that has yet to begin shows what follows, and is not begun again.
        pipeline.wait_for(lambda: all(one["state"] == "streaming" for one in pipeline.status()["tables"]), runner, 60)

    steps: list[tuple[str, tuple[str, ...]]] = [("EXCHANGE PARTITION low WITH TABLE plain", ("parted", "plain"))]
    if server.flavor == "mariadb":
        steps.append(("CONVERT PARTITION high TO TABLE apart", ("parted",)))
        steps.append(("CONVERT TABLE apart TO PARTITION high VALUES LESS THAN (100)", ("parted",)))
    for statement, names in steps:
        seen = len(pipeline.events("source.event"))
        server.execute(f"ALTER TABLE parted {statement}", database=database)
        resnapshotted(*names, seen=seen)

    def others_stream() -> None:
        pipeline.wait_for(lambda: _stopped(pipeline) == {f"{database}.space"}, runner, 60)
        server.execute(f"INSERT INTO `{database}`.other VALUES (2, 2)")
        name = f"{database}.other"
        pipeline.wait_for(lambda: any(e["tables"].get(name) for e in pipeline.events("epoch.committed")), runner, 60)

    seen = len(pipeline.events("source.event"))
    import_tablespace(server, database, others_stream)
    resnapshotted("space", seen=seen)
    server.execute(f"INSERT INTO `{database}`.space VALUES (3, 3)")
    pipeline.finish(runner)
    pipeline.run("caught-up")
    equal(server, pipeline, "parted", "plain", "space", "other")
    events = pipeline.events("source.event")
    assert {event["reason"] for event in events if event["kind"] == "resnapshotted"} == {WHY}
    assert not [event for event in events if event["table"] == f"{database}.other"]
    assert not _stopped(pipeline)
    assert any("IMPORT TABLESPACE" in event["statement"] for event in events)


def _stopped(pipeline: Pipeline) -> set[str]:
    """The tables that are stopped now."""
    states = {event["table"]: event["state"] for event in pipeline.events("table.state")}
    return {name for name, state in states.items() if state == "stopped"}


def test_a_new_cascade_raises_an_alert_until_it_is_gone(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """One that was there at the start does not. The alert survives the run. MySQL logs cascades since 9.6."""
    refers = "FOREIGN KEY (p) REFERENCES parent (id)"
    silent = server.flavor == "mariadb" or [int(n) for n in server.version.split(".")[:2]] < [9, 6]
    server.execute(f"CREATE TABLE `{database}`.parent (id INT PRIMARY KEY)")
    for name, action in (("old", "ON DELETE CASCADE"), ("new", "")):
        columns = f"id INT PRIMARY KEY, p INT, CONSTRAINT {name}_parent {refers} {action}"
        server.execute(f"CREATE TABLE {name} ({columns})", database=database)
    pipeline = new_pipeline(server, database, poll=0.2)
    runner = pipeline.start_streaming()
    server.execute(f"ALTER TABLE new ADD CONSTRAINT later {refers} ON UPDATE SET NULL", database=database)
    if silent:
        pipeline.wait_for(lambda: pipeline.events("alert.raised"), runner, 60)
    else:
        pipeline.wait_for(lambda: pipeline.events("source.event"), runner, 60)
        time.sleep(4)
    pipeline.finish(runner)
    runner = pipeline.start_streaming()
    server.execute("ALTER TABLE new DROP FOREIGN KEY later", database=database)
    if silent:
        pipeline.wait_for(lambda: pipeline.events("alert.cleared"), runner, 60)
    pipeline.finish(runner)
    found = [(e["event"], e["kind"], e["table"]) for e in pipeline.events("alert.raised", "alert.cleared")]
    name = f"{database}.new"
    assert found == ([("alert.raised", "cascade", name), ("alert.cleared", "cascade", name)] if silent else [])
    if silent:
        (raised,) = pipeline.events("alert.raised")
        assert "later" in raised["message"]
        assert f"tidemark verify SPEC --table {name} --repair" in raised["hint"]
        assert {e["table"] for e in pipeline.events("source.hidden")} == {name}


@on("mariadb")
def test_a_new_binlog_filter_raises_an_alert_until_it_is_gone(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """The server restarts with it while the pipeline runs."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, "d", poll=0.2)
    runner = pipeline.start_streaming()
    server.restart(binlog_ignore_db="d")
    pipeline.wait_for(lambda: pipeline.events("alert.raised"), runner, 60)
    assert pipeline.status()["alerts"][0]["kind"] == "binlog_filter"
    server.restart(binlog_ignore_db="")
    pipeline.wait_for(lambda: pipeline.events("alert.cleared"), runner, 60)
    found = [(e["event"], e["kind"]) for e in pipeline.events("alert.raised", "alert.cleared")]
    assert found == [("alert.raised", "binlog_filter"), ("alert.cleared", "binlog_filter")]
    pipeline.finish(runner)


def test_a_replica_that_does_not_log_what_it_applies_is_named(
    flavor: str, private_server: ServerFactory, new_pipeline: PipelineFactory
) -> None:
    """By the preflight: nothing that reads its binlog can follow it."""
    server = private_server(flavor, **({} if flavor == "mariadb" else {"log_replica_updates": 0}))
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, "d")

    def checked() -> str:
        report = json.loads(pipeline.command("check", "--json").stdout)
        (found,) = (check["outcome"] for check in report["checks"] if check["name"] == "replicated changes")
        return str(found)

    assert checked() == "ok", "it is no replica"
    if flavor == "mariadb":
        server.execute("SET GLOBAL gtid_slave_pos = '0-77-5'")
    else:
        server.execute("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1'")
    assert checked() == ("warn" if flavor == "mariadb" else "fail")


def test_transactions_that_are_not_logged_leave_no_gap_in_the_gtids(server: Server, database: str) -> None:
    """So gaps say nothing about them (docs/verification.md)."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    known = "SELECT @@gtid_executed" if server.flavor == "mysql" else "SELECT @@gtid_binlog_pos"
    with closing(server.connect(database=database)) as session, session.cursor() as cursor:
        found = []
        for logged in (1, 0, 1):
            cursor.execute(f"SET sql_log_bin = {logged}")
            cursor.execute("INSERT INTO t SELECT COUNT(*) FROM t")
            cursor.execute(known)
            found.append(int(re.split("[-:]", str(cursor.fetchone()[0]))[-1]))
    assert found[1:] == [found[0], found[0] + 1]


@on("mysql")
def test_a_look_that_hangs_does_not_hold_up_the_end(
    server: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is broken off, and nothing is reported."""
    sleep = f"SELECT SLEEP(60) AS {database}"
    monkeypatch.setattr(hidden_monitor, "filtered_databases", lambda connection, *_: query(connection, sleep))
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        source = SourceAccess(endpoint, describe(connection), "gtid")
    journal = Journal(tmp_path / "j.jsonl", "r")
    helpers = Helpers(journal)
    settings = Settings(host=server.host, user=USER, tables=(f"{database}.*",))
    drift = SourceDrift(Activity(), alerted=False)
    monitor = HiddenMonitor(
        source,
        journal,
        helpers,
        lambda: State(0, "l", "i", Position("b.000001", 4), 1),
        ReportedChanges([]),
        settings,
        drift,
    )
    while not server.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO = %s", (sleep,)):
        time.sleep(0.1)
    began = time.monotonic()
    monitor.close()
    assert time.monotonic() - began < 4
    assert not helpers.as_list()
