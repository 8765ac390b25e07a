"""Every fault that a user can meet gives one clear error with its exit code, and does no harm."""

import json
import shutil
from collections.abc import Callable

import pytest

from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.every_type import statements
from tests.live.support.pipeline import Pipeline
from tests.servers import Server, create_user
from tests.support.mounts import mounted
from tests.support.patience import PATIENCE_S

_CASES = [
    ('tables = ["{database}.*"]', 'tablse = ["{database}.*"]', 2, "nearest known key is 'tables'"),
    ('tables = ["{database}.*"]', 'tables = ["orders"]', 2, "not of the form database.table"),
    ('tables = ["{database}.*"]', 'tables = ["nowhere.*"]', 2, "No table matches"),
    ('password_env = "TIDEMARK_TEST_PASSWORD"', 'password = "x"', 2, "The spec contains a password"),
    (
        'password_env = "TIDEMARK_TEST_PASSWORD"',
        'password_env = "NOT_SET"',
        2,
        "NOT_SET (source.password_env) is not set",
    ),
    ('user = "tidemark"', 'user = "nobody"', 3, "Check source.user, and the password"),
    ("port = {port}", "port = 1", 1, "Check source.host and source.port"),
    ('startup = "initial"', 'startup = "newest"', 2, "not a startup mode"),
]


@pytest.fixture
def pipeline(server: Server, database: str, new_pipeline: PipelineFactory) -> Pipeline:
    """A pipeline on one small table."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 1), (2, 2)")
    return new_pipeline(server, database, source='startup = "initial"')


def _with_a_table(server: Server) -> Server:
    """A private server with one empty table d.t."""
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    return server


@pytest.mark.parametrize(("good", "bad", "code", "says"), _CASES, ids=[case[3] for case in _CASES])
def test_one_clear_error(
    pipeline: Pipeline, server: Server, database: str, good: str, bad: str, code: int, says: str
) -> None:
    """Each fault ends `check` with its exit code and a sentence that leads to the mistake; the JSON has three parts."""
    names = {"database": database, "port": server.port}
    text = pipeline.spec.read_text()
    assert good.format(**names) in text
    pipeline.spec.write_text(text.replace(good.format(**names), bad.format(**names)))
    result = pipeline.command("check")
    assert result.returncode == code, result.stderr
    assert says in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    report = json.loads(pipeline.command("check", "--json").stdout)
    assert report["exit_code"] == code
    assert set(report) == {"error", "message", "detail", "hint", "exit_code"}


@pytest.mark.parametrize(
    ("grants", "fails"),
    [
        (["SELECT ON *.*", "REPLICATION CLIENT ON *.*"], "grant: REPLICATION SLAVE"),
        (["SELECT ON *.*", "REPLICATION SLAVE ON *.*"], "grant: binlog status"),
    ],
)
def test_a_missing_grant_is_named(pipeline: Pipeline, server: Server, grants: list[str], fails: str) -> None:
    """The preflight names the missing grant and prints the statement that adds it; `run` also ends with 3."""
    create_user(server, "poor", grants)
    pipeline.spec.write_text(pipeline.spec.read_text().replace('user = "tidemark"', 'user = "poor"'))
    result = pipeline.command("check", "--json")
    assert result.returncode == 3
    failed = [check for check in json.loads(result.stdout)["checks"] if check["outcome"] == "fail"]
    assert fails in [check["name"] for check in failed]
    assert all(check["fix"].startswith("GRANT REPLICATION SLAVE") for check in failed)
    assert pipeline.command("run", "--until", "snapshot").returncode == 3


def test_nothing_starts_that_can_be_refused(pipeline: Pipeline) -> None:
    """A read-only lake and a refused login end `check` and `run` before Spark is started."""
    with mounted(pipeline.folder / "lake", 1 << 20) as lake:
        lake.make_read_only()
        checked = pipeline.command("check", "--json")
        failed = [check for check in json.loads(checked.stdout)["checks"] if check["outcome"] == "fail"]
        assert (checked.returncode, [check["name"] for check in failed]) == (3, ["destination"])
        result = pipeline.command("run", "--until", "snapshot")
        assert result.returncode == 3
        assert f"{lake.folder}: Read-only file system" in result.stderr.replace("\n", "")
        assert "Traceback" not in result.stderr
        assert _steps(pipeline) == []
    pipeline.spec.write_text(pipeline.spec.read_text().replace('user = "tidemark"', 'user = "nobody"'))
    assert pipeline.command("run", "--until", "snapshot").returncode == 3
    assert _steps(pipeline) == ["preflight"]


def _steps(pipeline: Pipeline) -> list[str]:
    """The steps that the last run began."""
    found = read_runner(Directory(pipeline.home))
    assert found is not None
    return [step.step for step in found.startup]


def test_settings_that_would_lose_rows_are_refused(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Minimal row images and unsupported types fail the preflight, each with its remedy."""
    server = private_server(flavor, row_image="MINIMAL")
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.labels (id INT PRIMARY KEY, e ENUM('a') CHARACTER SET binary)")
    result = new_pipeline(server, "d").command("check", "--json")
    assert result.returncode == 3
    failed = {c["name"]: c for c in json.loads(result.stdout)["checks"] if c["outcome"] == "fail"}
    assert set(failed) == {"binlog_row_image", "d.labels: columns"}
    assert "SET " in failed["binlog_row_image"]["fix"]
    assert "ENUM in the binary character set" in failed["d.labels: columns"]["actual"]


def test_plan_and_status_keep_the_contract(pipeline: Pipeline, database: str) -> None:
    """`plan --json` and `status --json` have the documented fields."""
    plan = json.loads(pipeline.command("plan", "--json").stdout)
    (table,) = plan["tables"]
    fields = {"table", "approx_rows", "chunk_key", "min", "max", "distribution_factor", "strategy", "reason", "chunks"}
    assert set(table) >= fields
    assert table["table"] == f"{database}.t"
    assert table["chunks"] == [{"index": 0, "lower": None, "upper": None}]
    before = pipeline.status()
    assert (before["pipeline"], before["state"], before["tables"]) == ("shop", "never started", [])
    assert {"phase", "position", "lag_s", "lag_bytes", "runway_s", "epoch"} <= set(before)


def test_a_table_that_cannot_be_read_stops_alone(pipeline: Pipeline, server: Server, database: str) -> None:
    """A table with unreadable values, or a dropped one, stops with a named error; the others continue."""
    server.execute(f"CREATE TABLE `{database}`.bad (id INT PRIMARY KEY, d DATE)")
    statements(server, f"INSERT INTO `{database}`.bad VALUES (1, '2024-02-30')")()
    server.execute(f"CREATE TABLE `{database}`.dated (id INT PRIMARY KEY, d DATE)")
    server.execute(f"CREATE TABLE `{database}`.u (id INT PRIMARY KEY, v INT)")
    assert pipeline.command("run", "--until", "snapshot").returncode == 1  # `bad` cannot be copied
    server.execute(f"INSERT INTO `{database}`.u VALUES (1, 1)")
    day = f"INSERT INTO `{database}`.dated VALUES (1, '2024-02-28'), (2, '0000-00-00')"
    statements(server, "BEGIN", f"INSERT INTO `{database}`.t VALUES (4, 4)", day, "COMMIT")()
    server.execute(f"DROP TABLE `{database}`.u")
    server.execute(f"INSERT INTO `{database}`.t VALUES (3, 3)")
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 1
    assert f"{database}.u" in result.stderr.replace("\n", "")
    tables = {table["table"].rpartition(".")[2]: table for table in pipeline.status()["tables"]}
    stopped = dict.fromkeys(("bad", "dated", "u"), "stopped")
    assert {name: table["state"] for name, table in tables.items()} == {**stopped, "t": "streaming"}
    assert "'d' (DATE): the date 2024-02-30 does not exist" in tables["bad"]["error"]
    assert "'d' (DATE): the date 0000-00-00 does not exist" in tables["dated"]["error"]
    assert "was dropped or renamed" in tables["u"]["error"]
    assert pipeline.mirror("dated").exists()
    assert not lake_table(pipeline.mirror("dated")).num_rows  # nothing of the transaction that cannot be read whole
    glob = f"{database[:-1]}.*"
    pipeline.spec.write_text(pipeline.spec.read_text().replace(f'"{database}.*"', f'"{glob}"'))
    checked = pipeline.command("check", "--json")
    failed = [check for check in json.loads(checked.stdout)["checks"] if check["outcome"] == "fail"]
    assert checked.returncode == 3, "the tables of before do not make a typing error right"
    assert f"tables {glob}" in [check["name"] for check in failed]
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))


def test_a_dropped_table_without_a_key_needs_a_new_change_log(
    pipeline: Pipeline, server: Server, database: str
) -> None:
    """The stop says so, and the alert says what is true after a resume; what they say ends it."""
    make = f"CREATE TABLE `{database}`.k (v INT)"
    server.execute(make)
    pipeline.run("caught-up")
    server.execute(f"DROP TABLE `{database}`.k")
    assert pipeline.command("run", "--until", "caught-up").returncode == 1
    new_log = f"tidemark remove-table SPEC --table {database}.k --drop and, once it is removed, tidemark add-table SPEC"
    (alert,) = [one for one in pipeline.status()["alerts"] if one["kind"] == "table_stopped"]
    assert "was dropped" in alert["message"]
    assert new_log in alert["hint"]
    server.execute(make)
    server.execute(f"INSERT INTO `{database}`.k VALUES (7)")
    assert pipeline.command("resume", "--table", f"{database}.k").returncode == 0
    assert pipeline.command("run", "--until", "caught-up").returncode == 1
    (alert,) = [one for one in pipeline.status()["alerts"] if one["kind"] == "table_stopped"]
    assert "has no key, so it cannot be resnapshotted" in alert["message"]
    assert new_log in alert["hint"]
    for verb, more in (("remove-table", ["--drop"]), ("add-table", [])):
        assert pipeline.command(verb, "--table", f"{database}.k", *more).returncode == 0
        pipeline.run("caught-up")
    assert lake_table(pipeline.folder / "lake" / database / "k__changes")["v"].to_pylist() == [7]
    assert not [one for one in pipeline.status()["alerts"] if one["kind"] == "table_stopped"]


def test_a_purged_position_ends_with_4(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """If the server has purged the committed position, the run ends with 4 and explains the consequences."""
    server = _with_a_table(private_server(flavor))
    pipeline = new_pipeline(server, "d")
    pipeline.run("snapshot")
    for _ in range(2):
        server.execute("INSERT INTO d.t SELECT COALESCE(MAX(id), 0) + 1 FROM d.t")
        server.execute("FLUSH BINARY LOGS")
    server.purge_binlogs()
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4
    assert "no longer has the binlog file" in result.stderr


def test_a_reset_while_running_ends_with_4(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """If the binlog is reset under a running pipeline, the run ends with 4 instead of waiting for changes."""
    server = _with_a_table(private_server(flavor))
    for number in range(50):
        server.execute("INSERT INTO d.t VALUES (%s)", (number,))
    pipeline = new_pipeline(server, "d")
    runner = pipeline.start_streaming()
    server.execute("RESET MASTER" if flavor == "mariadb" else "RESET BINARY LOGS AND GTIDS")
    assert runner.wait(timeout=PATIENCE_S) == 4
    assert pipeline.status()["state"] == "failed"


def test_a_restart_of_the_server_is_waited_for(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """When the server is killed and comes back, the run reports its retries, continues and ends equal."""
    server = private_server(flavor)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO d.t VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, "d")
    runner = pipeline.start_streaming()
    server.kill()
    pipeline.wait_for(lambda: pipeline.events("source.away"), runner)
    server.restart()
    server.execute("UPDATE d.t SET v = 3 WHERE id = 1")
    server.execute("FLUSH BINARY LOGS")
    server.execute("INSERT INTO d.t VALUES (3, 3)")
    pipeline.wait_for(lambda: sum(e["changes"] for e in pipeline.events("epoch.committed")) >= 3, runner)
    pipeline.stop(runner)
    assert_equal(source_table(server, "d", "t"), pipeline.mirror("t"))


def test_another_server_ends_with_4(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """A spec that suddenly names another server is refused with 4, even if that one has tables of the same names."""
    first, second = (
        private_server(flavor),
        private_server(flavor, **({"server-id": 4711} if flavor == "mariadb" else {})),
    )
    for server in (first, second):
        _with_a_table(server)
    pipeline = new_pipeline(first, "d")
    pipeline.run("snapshot")
    pipeline.spec.write_text(pipeline.spec.read_text().replace(f"port = {first.port}", f"port = {second.port}"))
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 4
    assert "another server" in result.stderr


def test_a_lost_destination_is_not_filled_with_half(pipeline: Pipeline) -> None:
    """If the mirror's folder is gone, the run refuses to create one without the copied rows."""
    pipeline.run("snapshot")
    pipeline.mirror("t").rename(pipeline.folder / "away")
    result = pipeline.command("run", "--until", "caught-up")
    assert result.returncode == 7
    assert "is gone" in " ".join(result.stderr.split())
    (pipeline.folder / "away").rename(pipeline.mirror("t"))
    pipeline.run("caught-up")


def test_a_run_is_not_done_while_its_last_changes_are_not_published(
    pipeline: Pipeline, server: Server, database: str
) -> None:
    """The lake is restored and lacks epochs whose files are gone.

    A run without new changes repairs it before it is done.
    """
    pipeline.run("caught-up")
    shutil.copytree(pipeline.folder / "lake", pipeline.folder / "older", symlinks=True)
    server.execute(f"UPDATE `{database}`.t SET v = v + 100")
    pipeline.run("caught-up")
    shutil.rmtree(pipeline.folder / "lake")
    (pipeline.folder / "older").rename(pipeline.folder / "lake")
    pipeline.run("caught-up")
    assert "MissingFilesError" in {e["error"] for e in pipeline.events("error")}
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))


def test_a_server_that_takes_over_the_address_is_recognised(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """If a server with another history answers at the same address during a run, none of its changes is published."""
    server, other = _with_a_table(private_server(flavor)), _with_a_table(private_server(flavor))
    pipeline = new_pipeline(server, "d")
    runner = pipeline.start_streaming()
    server.stop()
    other.stop()
    other.port = server.port
    other.launch()
    for number in range(60):
        other.execute("INSERT INTO d.t VALUES (%s)", (number,))
    assert runner.wait(timeout=PATIENCE_S) == 4
    assert sum(e["changes"] for e in pipeline.events("epoch.committed")) == 0
