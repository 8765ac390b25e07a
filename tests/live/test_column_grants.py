"""A user who may SELECT only some columns.

The others are named with the GRANT, and the table is not resnapshotted each time.
"""

import json
import signal
from contextlib import closing

from engine.source.catalog import read_tables
from engine.source.connect import Endpoint, open_connection
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import PASSWORD, Server, create_user
from tests.support.patience import PATIENCE_S

USER = "part"
LOG = ["REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"]


def hint(pipeline: Pipeline, name: str) -> str:
    """What to do about a stopped table; empty if it is not stopped."""
    found = {t["table"]: t for t in pipeline.status()["tables"]}[f"{pipeline.database}.{name}"]
    alerts = [e for e in pipeline.events("alert.raised") if e["table"] == found["table"]]
    return str(alerts[-1]["hint"]) if found["state"] == "stopped" and alerts else ""


def test_the_missing_columns_are_known(server: Server, database: str) -> None:
    """By name where the server shows it, else by number; also the last ones, and those of a role.

    SELECT on the table is enough.
    """
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, a INT, b INT, c INT INVISIBLE, e INT, f INT)")
    columns = {
        "(id, a, e)": "column 3, column 4",
        "(id, a, b, e, f)": "column 4",
        "(id, a, b, c, e)": "columns after 'e'",
        "(id, a, b, c, e, f)": "",
        "": "",
    }
    for granted, expected in columns.items():
        create_user(server, USER, [f"SELECT {granted} ON `{database}`.t"])
        with closing(open_connection(Endpoint(server.host, server.port, USER, PASSWORD))) as connection:
            (table,) = read_tables(connection, [(database, "t")])
        assert table.unfit.partition(": ")[2] == expected, granted
        assert table.remedy == (f"GRANT SELECT ON `{database}`.`t` TO '{USER}'@'%';" if expected else "")
    create_user(server, USER, [f"SELECT (id) ON `{database}`.t", f"INSERT (a) ON `{database}`.t"])
    with closing(open_connection(Endpoint(server.host, server.port, USER, PASSWORD))) as connection:
        (table,) = read_tables(connection, [(database, "t")])
    assert [column.name for column in table.columns] == ["id"]
    assert "'a'" in table.unfit


def test_the_table_stops_with_the_grant_and_streams_after_it(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Check, plan and run name the columns and the GRANT. After the GRANT, the hint brings the table back."""
    for name in ("part", "whole"):
        server.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, a INT, b INT)")
        server.execute(f"INSERT INTO `{database}`.{name} VALUES (1, 1, 1), (2, 2, 2)")
    create_user(server, USER, [*LOG, f"SELECT (id, a) ON `{database}`.part", f"SELECT ON `{database}`.whole"])
    pipeline = new_pipeline(server, database, user=USER)
    grant = f"GRANT SELECT ON `{database}`.`part` TO '{USER}'@'%';"
    checked = json.loads(pipeline.command("check", "--json").stdout)["checks"]
    (failed,) = [c for c in checked if c["outcome"] == "fail"]
    assert (failed["table"], failed["fix"]) == (f"{database}.part", grant)
    assert "columns after 'a'" in failed["actual"]
    planned = {t["table"]: t for t in json.loads(pipeline.command("plan", "--json").stdout)["tables"]}
    assert grant in planned[f"{database}.part"]["reason"]

    runner = pipeline.start()
    pipeline.wait_for(lambda: any(e["state"] == "streaming" for e in pipeline.events("table.state")), runner)
    pipeline.wait_for(lambda: hint(pipeline, "part"), runner)
    assert grant in hint(pipeline, "part")
    for n in range(3, 9):
        for name in ("part", "whole"):
            server.execute(f"INSERT INTO `{database}`.{name} VALUES ({n}, {n}, {n})")
    server.execute(grant)
    assert pipeline.command("redump", "--table", f"{database}.part").returncode == 0
    pipeline.wait_for(lambda: not hint(pipeline, "part"), runner)
    server.execute(f"UPDATE `{database}`.part SET b = b + 1")
    pipeline.finish(runner)
    for name in ("part", "whole"):
        assert_equal(source_table(server, database, name), pipeline.mirror(name))


def test_a_hidden_new_column_stops_the_table_once(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """With grants on each column, a new column is hidden.

    The table stops with the GRANT, and is not copied at each change.
    """
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, a INT)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 1)")
    create_user(server, USER, [*LOG, f"SELECT (id, a) ON `{database}`.t"])
    pipeline = new_pipeline(server, database, user=USER)
    runner = pipeline.start_streaming()
    server.execute(f"ALTER TABLE `{database}`.t ADD COLUMN b INT DEFAULT 3")
    for n in range(2, 12):
        server.execute(f"INSERT INTO `{database}`.t VALUES ({n}, {n}, {n})")
    pipeline.wait_for(lambda: hint(pipeline, "t"), runner)
    assert "GRANT SELECT ON" in hint(pipeline, "t")
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(timeout=PATIENCE_S) == 1
    assert [e["kind"] for e in pipeline.events("source.event")] == ["stopped"]
