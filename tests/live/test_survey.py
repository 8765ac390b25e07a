"""The survey of a source, as the console's table picker shows it, with no more grants than documented."""

from contextlib import closing

from engine.settings import Source
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.preflight import server_preflight
from engine.source.survey import survey
from tests.servers import PASSWORD, USER, Server


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
