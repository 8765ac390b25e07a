"""Servers that keep names in lower case, and users who may open few connections: said before anything is captured."""

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from itertools import count

import pymysql
import pytest

from engine.spec.globs import folded
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline
from tests.live.support.source import numbers
from tests.servers import PASSWORD, Server, create_user
from tests.servers.users import GRANTS

PREFLIGHT_FAILED = 3


FOLDING_SPEC = """
[tables."SHOP.Customers"]
exclude = ["Secret"]
mask = ["mail"]
[tables."Shop.Größe"]
where = "id > 1"
"""


def test_globs_follow_a_server_that_disregards_case(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Every setting and every command names tables in any case, as with lower_case_table_names = 1.

    What is excluded stays out.
    """
    server = private_server(flavor, lower_case_table_names=1)
    _folds_as_the_server(server)
    server.execute("CREATE DATABASE Shop")
    for name in ("Orders", "Audit_Log", "Größe"):
        server.execute(f"CREATE TABLE Shop.`{name}` (id INT PRIMARY KEY)")
        server.execute(f"INSERT INTO Shop.`{name}` VALUES (1), (2), (3)")
    server.execute("CREATE TABLE Shop.Customers (id INT PRIMARY KEY, mail VARCHAR(9), secret INT)")
    server.execute("INSERT INTO Shop.Customers VALUES (1, 'a@b', 7)")
    pipeline = new_pipeline(
        server,
        "shop",
        tables=["SHOP.*", "!Shop.Audit_*"],
        snapshot='priority = ["Shop.GRÖSSE"]\ntables = { "Shop.Orders" = { chunk_rows = 1 } }',
        sink='tables = { "Shop.Cust*" = { mirror = "merge_on_read" } }',
        more=FOLDING_SPEC,
    )
    checks = json.loads(pipeline.command("check", "--json").stdout)["checks"]
    named = [one["name"] for one in checks if one["actual"] == "matches none"]
    assert named == ["snapshot.priority shop.grösse"]
    assert {t["table"]: len(t["chunks"]) for t in json.loads(pipeline.command("plan", "--json").stdout)["tables"]} == {
        "shop.customers": 1,
        "shop.größe": 1,
        "shop.orders": 3,
    }
    pipeline.run("caught-up")
    assert lake_table(pipeline.mirror("customers")).column_names[:2] == ["id", "mail"]
    assert lake_table(pipeline.mirror("gr%C3%B6%C3%9Fe"))["id"].to_pylist() == [2, 3]
    for verb, *arguments in (
        ("redump", "--table", "Shop.Orders", "--keys", "1"),
        ("add-table", "--table", "Shop.Audit_LOG"),
        ("pause", "--table", "Shop.Orders"),
        ("resume", "--table", "Shop.ORDERS"),
    ):
        sent = pipeline.command(verb, *arguments)
        assert sent.returncode == 0, sent.stdout + sent.stderr
    pipeline.run("caught-up")
    assert not pipeline.events("command.refused")
    found = {table["table"]: table["state"] for table in pipeline.status()["tables"]}
    assert found == dict.fromkeys(["shop.audit_log", "shop.customers", "shop.größe", "shop.orders"], "streaming")
    for verb in ("verify", "audit", "remove-table"):
        result = pipeline.command(verb, "--table", "Shop.Orders")
        assert result.returncode == 0, result.stdout + result.stderr


def _folds_as_the_server(server: Server) -> None:
    """For every character that a name may have, and a table of some that differ in newer Unicode."""
    characters = "".join(map(chr, [*range(1, 0xD800), *range(0xE000, 0x10000)]))
    ((lower,),) = server.execute("SELECT LOWER(CONVERT(%s USING utf8mb3) COLLATE utf8mb3_general_ci)", (characters,))
    assert [(a, b) for a, b in zip(map(folded, characters), lower, strict=True) if a != b] == []
    name = "xΣİÄẞȠⱠ"
    server.execute("CREATE DATABASE folding")
    server.execute(f"CREATE TABLE folding.`{name}` (id INT)")
    ((stored,),) = server.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'folding'")
    assert stored == folded(name)


def test_an_exclusion_in_another_case_is_refused_where_case_counts(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """It would exclude nothing, and a table that someone excluded would be captured."""
    server.execute(f"CREATE TABLE `{database}`.audit_log (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database, tables=[f"{database}.*", f"!{database}.Audit_*"])
    refused = pipeline.command("check")
    assert refused.returncode == PREFLIGHT_FAILED
    assert f"The nearest table is {database}.audit_log." in " ".join(refused.stdout.split())


@pytest.mark.soak
def test_few_connections_make_a_run_slower_and_not_stuck(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """With 2, check and run name the statement that gives more.

    With 3 and 6, a run copies and streams with fewer readers.
    """
    create_user(server, "few", GRANTS, PASSWORD)
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"CREATE TABLE `{database}`.names (name VARCHAR(20) PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.t {numbers(1, 1000)} k, 0 FROM n")
    server.execute(f"INSERT INTO `{database}`.names {numbers(1, 1000)} CONCAT('n', k), 0 FROM n")
    pipeline = new_pipeline(server, database, user="few", slots=4, chunk_rows=50, poll=0.1)
    server.execute("ALTER USER 'few'@'%' WITH MAX_USER_CONNECTIONS 2")
    for verb in ("check", "run"):
        refused = pipeline.command(verb)
        assert refused.returncode == PREFLIGHT_FAILED
        assert "ALTER USER 'few'@'%' WITH MAX_USER_CONNECTIONS 8;" in " ".join(
            (refused.stdout + refused.stderr).split()
        )
    server.execute("ALTER USER 'few'@'%' WITH MAX_USER_CONNECTIONS 3")
    assert "1 reader at once" in pipeline.command("plan").stdout
    assert pipeline.command("check").returncode == 0
    with Updates(server, database):
        pipeline.run("caught-up")
        server.execute("ALTER USER 'few'@'%' WITH MAX_USER_CONNECTIONS 6")
        assert pipeline.command("redump", "--all").returncode == 0
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.events("command.done"), runner)
    pipeline.finish(runner)
    assert [(e["allowed"], e["readers"]) for e in pipeline.events("source.connections")] == [(3, 1), (6, 2)]
    for name in ("t", "names"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))
    server.execute("DROP USER 'few'@'%'")


def test_a_run_that_is_refused_connections_goes_on(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Something else with the same account takes connections meanwhile.

    The run closes its own, and continues with few.
    """
    create_user(server, "less", GRANTS, PASSWORD)
    server.execute("ALTER USER 'less'@'%' WITH MAX_USER_CONNECTIONS 6")
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"CREATE TABLE `{database}`.names (name VARCHAR(20) PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.t {numbers(1, 1000)} k, 0 FROM n")
    for rows in (1000, 2000, 4000):
        server.execute(f"INSERT INTO `{database}`.t SELECT id + {rows}, v FROM `{database}`.t")
    server.execute(f"INSERT INTO `{database}`.names VALUES ('n1', 0)")
    pipeline = new_pipeline(server, database, user="less", chunk_rows=50, poll=0.1)
    with Updates(server, database), ExitStack() as others:
        runner = pipeline.start()
        pipeline.wait_for(lambda: pipeline.events("chunk.finished"), runner)
        taken = 0
        while taken < 3:
            with suppress(pymysql.err.OperationalError):  # the run has them all at the moment
                others.enter_context(closing(server.connect(user="less", password=PASSWORD)))
                taken += 1
        pipeline.wait_for(lambda: pipeline.events("source.connections"), runner, 60)
        pipeline.wait_for(lambda: set(states(pipeline).values()) == {"streaming"}, runner, 120)
    pipeline.finish(runner)
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"))
    server.execute("DROP USER 'less'@'%'")


def states(pipeline: Pipeline) -> dict[str, str]:
    """The last state of each table."""
    return {event["table"]: event["state"] for event in pipeline.events("table.state")}


class Updates:
    """Updates of rows of both tables, one after the other, until the block ends."""

    def __init__(self, server: Server, database: str) -> None:
        self._server, self._database = server, database
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _work(self) -> None:
        with closing(self._server.connect(database=self._database)) as connection, connection.cursor() as cursor:
            for number in count(1):
                if self._ends.wait(0.01):
                    return
                cursor.execute("UPDATE t SET v = v + 1 WHERE id = %s", (number % 1000 + 1,))
                cursor.execute("UPDATE names SET v = v + 1 WHERE name = %s", (f"n{number % 1000 + 1}",))
