"""The survey of a source, as the console's table picker shows it, with no more grants than documented."""

from contextlib import closing
from dataclasses import replace

import pytest

from engine.source.connect import Endpoint, describe, open_connection
from engine.source.hidden_changes import unlogged_cascades
from engine.source.preflight import run_preflight, server_preflight
from engine.source.survey import survey
from engine.spec.settings import Source
from tests.live.support.known_positions import ServerFactory
from tests.servers import FLAVORS, PASSWORD, USER, Server


def test_a_survey_sees_keys_sizes_and_cascades(server: Server, database: str) -> None:
    """It names foreign keys whose cascades the server does not log."""
    for table in (
        "parent (id INT PRIMARY KEY)",
        "child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
        "strict (id INT PRIMARY KEY, p INT COMMENT 'ON DELETE CASCADE', FOREIGN KEY (p) REFERENCES parent (id))",
        "heap (a INT)",
    ):
        server.execute(f"CREATE TABLE `{database}`.{table}")
    server.execute(f"INSERT INTO `{database}`.parent VALUES (1), (2)")
    server.execute(f"ANALYZE TABLE `{database}`.parent")
    with closing(open_connection(Endpoint(server.host, server.port, USER, PASSWORD))) as connection:
        who = describe(connection)
        found = {one.table.name: one for one in survey(connection, who) if one.table.database == database}
        older = who if who.flavor == "mariadb" else replace(who, version=(8, 0, 14))
        names = [(database, name) for name in found]
        assert unlogged_cascades(connection, older, names) == {f"{database}.child": ("child_ibfk_1",)}
    assert list(found) == ["child", "heap", "parent", "strict"]
    assert (found["parent"].statistics.rows, found["parent"].statistics.engine) == (2, "InnoDB")
    assert (found["child"].table.key, found["heap"].table.key) == (("id",), ())
    silent = who.flavor == "mariadb" or who.version < (9, 6)
    assert {name: bool(one.cascades) for name, one in found.items() if one.cascades} == (
        {"child": True} if silent else {}
    )


def test_a_server_is_checked_before_any_table_is_chosen(server: Server) -> None:
    """The check works without any table."""
    source = Source(host=server.host, port=server.port, user=USER, tables=("nothing.nowhere",))
    result = server_preflight(Endpoint(server.host, server.port, USER, PASSWORD), source, 1_000_000)
    assert result.passed
    assert not any(check.table for check in result.checks)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_changes_that_the_binlog_lacks_are_foreseen(flavor: str, private_server: ServerFactory) -> None:
    """A filter that leaves out a captured database fails the preflight; an unlogged cascade is a warning."""
    server = private_server(flavor, binlog_ignore_db="dark")
    for name in ("dark", "light"):
        server.execute(f"CREATE DATABASE {name}")
        server.execute(f"CREATE TABLE {name}.parent (id INT PRIMARY KEY)")
        server.execute(
            f"CREATE TABLE {name}.child (id INT PRIMARY KEY, p INT,"
            f" FOREIGN KEY (p) REFERENCES {name}.parent (id) ON DELETE CASCADE)"
        )
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    for tables, outcome, actual in (
        (("light.*",), "ok", "none is left out"),
        (("*.parent", "*.child"), "fail", "left out: dark"),
    ):
        source = Source(host=server.host, port=server.port, user=USER, tables=tables)
        result = run_preflight(endpoint, source, 1_000_000)
        checks = {check.name: check for check in result.checks}
        assert (checks["binlog filters"].outcome, checks["binlog filters"].actual) == (outcome, actual)
        cascades = checks["cascades"]
        silent = flavor == "mariadb" or result.server.version < (9, 6)
        assert cascades.outcome == ("warn" if silent else "ok")
        assert ("light.child" in cascades.actual) == silent
