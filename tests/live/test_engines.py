"""Tables whose rows are elsewhere are refused by name, with the reason.

At the start, and when they become such tables.
"""

import json
import signal
from contextlib import closing, suppress
from typing import Any

import pymysql
import pytest

from engine.source.catalog import list_tables, read_tables
from engine.source.connect import open_connection
from engine.source.preflight import refused
from tests.conftest import DatabaseFactory, ServerFactory
from tests.live.conftest import PipelineFactory
from tests.live.support.both_decoders import endpoint_of
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline, Runner
from tests.servers import NEWEST, Server
from tests.support.depth import on
from tests.support.patience import PATIENCE_S

REFUSED = {
    "merged": ("(id INT, v INT) ENGINE = MERGE UNION = (part1, `part``2`) INSERT_METHOD = LAST", "its parts"),
    "sheet": ("(id INT NOT NULL, v INT NOT NULL) ENGINE = CSV", "text file"),
    "hole": ("(id INT PRIMARY KEY, v INT) ENGINE = BLACKHOLE", "keeps no rows"),
    "federated": (
        "(id INT PRIMARY KEY, v INT) ENGINE = FEDERATED CONNECTION = 'mysql://root@127.0.0.1:{port}/{database}/remote'",
        "another server",
    ),
    "spider": ('(id INT PRIMARY KEY, v INT) ENGINE = SPIDER COMMENT = \'host "127.0.0.1", port "1"\'', "other servers"),
}
"""Definitions, and what the reason says."""
OWN = ("InnoDB", "MyISAM", "MEMORY", "ARCHIVE", "Aria")


def make(server: Server, database: str, name: str, definition: str) -> bool:
    """Create a table. False if the server does not have its engine."""
    with suppress(pymysql.err.MySQLError):
        filled = definition.replace("{port}", str(server.port)).replace("{database}", database)
        server.execute(f"CREATE TABLE {name} {filled}", database=database)
        return True
    return False


@pytest.mark.parametrize("release", ["mysql", "mariadb", NEWEST])
def test_each_engine_is_refused_with_its_reason(
    server_with: ServerFactory, new_database: DatabaseFactory, release: str
) -> None:
    """Also the parts of a MERGE table, and an engine that nobody knows; tables with rows of their own are not."""
    if release == NEWEST:
        plugins = "ha_blackhole;ha_federatedx;ha_spider;ha_archive"
        server = server_with("mariadb", release=NEWEST, plugin_load_add=plugins, plugin_maturity="unknown")
    else:
        server = server_with(release, **({"federated": True} if release == "mysql" else {}))
    database = new_database(server)
    for name in ("part1", "`part``2`", "apart"):
        server.execute(f"CREATE TABLE {name} (id INT, v INT) ENGINE = MyISAM", database=database)
    server.execute("CREATE TABLE remote (id INT PRIMARY KEY, v INT)", database=database)
    made = {name for name, (definition, _) in REFUSED.items() if make(server, database, name, definition)}
    own = {engine.lower() for engine in OWN if make(server, database, engine.lower(), f"(id INT) ENGINE = {engine}")}
    missing = {"mysql": {"spider"}, "mariadb": {"hole", "federated", "spider"}, NEWEST: set[str]()}
    assert made == REFUSED.keys() - missing[release]
    assert own >= {"innodb", "myisam", "memory"}
    with closing(open_connection(endpoint_of(server))) as connection:
        names = [name for name in list_tables(connection) if name[0] == database]
        errors = {name.partition(".")[2]: error for name, error in refused(read_tables(connection, names)).items()}
    assert errors.keys() == {*made, "part1", "part`2"}
    for name in made:
        assert REFUSED[name][1] in errors[name].message
    assert f"a part of the MERGE table {database}.merged" in errors["part`2"].message
    assert all("InnoDB" not in error.hint and "Exclude" in error.hint for error in errors.values())


def states(pipeline: Pipeline) -> dict[str, tuple[str, str]]:
    """State and error of each table in `status`, by its name without the database."""
    return {
        t["table"].partition(".")[2]: (t["state"], json.dumps(t.get("error") or ""))
        for t in pipeline.status()["tables"]
    }


def stopped(pipeline: Pipeline, runner: Runner, *names: str) -> None:
    """Wait until the journal says that the tables are stopped."""

    def state(name: str) -> Any:
        found = [e["state"] for e in pipeline.events("table.state") if e["table"] == f"{pipeline.database}.{name}"]
        return found[-1] if found else ""

    pipeline.wait_for(lambda: all(state(name) == "stopped" for name in names), runner)


def test_such_a_table_stops_and_the_others_go_on(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """At the start, by ALTER, as a part of a new MERGE table, and over a restart. The hint brings the part back."""
    for name in ("one", "two", "three", "four"):
        server.execute(f"CREATE TABLE {name} (id INT NOT NULL PRIMARY KEY, v INT) ENGINE = MyISAM", database=database)
        server.execute(f"INSERT INTO {name} VALUES (1, 1)", database=database)
    server.execute("CREATE TABLE own (id INT PRIMARY KEY, v INT)", database=database)
    merge = "CREATE TABLE {} (id INT NOT NULL, v INT, KEY (id)) ENGINE = MERGE UNION = ({}) INSERT_METHOD = LAST"
    server.execute(merge.format("m1", "one"), database=database)
    pipeline = new_pipeline(server, database)

    checked = json.loads(pipeline.command("check", "--json").stdout)
    failed = {c["table"]: c for c in checked["checks"] if c["outcome"] == "fail"}
    assert failed.keys() == {f"{database}.one", f"{database}.m1"}
    assert not any("InnoDB" in c["fix"] for c in checked["checks"] if c["table"] in failed)
    planned = {t["table"].partition(".")[2]: t for t in json.loads(pipeline.command("plan", "--json").stdout)["tables"]}
    assert planned["m1"]["chunks"] == planned["one"]["chunks"] == []
    assert "not captured: a table of the engine MRG_M" in planned["m1"]["reason"]
    assert "not captured: a part of the MERGE table" in planned["one"]["reason"]
    assert "not captured" in pipeline.command("plan").stdout

    runner = pipeline.start()
    stopped(pipeline, runner, "one", "m1")
    pipeline.wait_for(lambda: states(pipeline)["own"][0] == "streaming", runner)
    server.execute("ALTER TABLE four ENGINE = MERGE", database=database)
    server.execute(merge.format("m2", "two"), database=database)
    server.execute("INSERT INTO m2 VALUES (2, 2)", database=database)
    stopped(pipeline, runner, "two", "four", "m2")
    assert "a part of the MERGE table" in states(pipeline)["two"][1]
    server.execute("DROP TABLE m2", database=database)
    assert pipeline.command("redump", "--table", f"{database}.two").returncode == 0
    pipeline.wait_for(lambda: states(pipeline)["two"][0] == "streaming", runner)
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(timeout=PATIENCE_S) == 1, "the exit code says that tables are stopped"
    assert_equal(source_table(server, database, "two"), pipeline.mirror("two"))

    server.execute(merge.format("m3", "three"), database=database)
    server.execute("INSERT INTO own VALUES (7, 7)", database=database)
    assert pipeline.command("run", "--until", "caught-up").returncode == 1
    found = states(pipeline)
    assert {name for name, (state, _) in found.items() if state == "streaming"} == {"two", "own"}
    assert "a part of the MERGE table" in found["three"][1]
    assert_equal(source_table(server, database, "own"), pipeline.mirror("own"))


@on("mariadb")
def test_a_table_that_gets_versions_stops_with_that_reason(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """It was not dropped. Without them it is resnapshotted, as the hint says."""
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 1)")
    pipeline = new_pipeline(server, database, poll=0.2)
    runner = pipeline.start_streaming()
    server.execute(f"ALTER TABLE {database}.t ADD SYSTEM VERSIONING")
    stopped(pipeline, runner, "t")
    (_, error) = states(pipeline)["t"]
    assert "is a table of the kind SYSTEM VERSIONED now" in error
    (hint,) = [event["hint"] for event in pipeline.events("table.state") if event["state"] == "stopped"]
    assert hint.startswith("If it becomes an ordinary table again, it is copied and streamed.")
    server.execute(f"ALTER TABLE {database}.t DROP SYSTEM VERSIONING")
    server.execute(f"INSERT INTO {database}.t VALUES (2, 2)")
    pipeline.wait_for(lambda: states(pipeline)["t"][0] == "streaming", runner)
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
