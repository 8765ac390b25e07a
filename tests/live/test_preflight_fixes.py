"""The SQL that `check` prints is run word by word, and `check` finds nothing to do any more."""

import json
from collections.abc import Callable
from typing import Any

from tests.live.conftest import PipelineFactory
from tests.live.support.pipeline import Pipeline
from tests.servers import PASSWORD, Server, create_user

WRONG = {"binlog_format": "STATEMENT", "row_image": "MINIMAL", "row_metadata": "MINIMAL"}
KEY = "(…)"
"""What the statement leaves to an operator: the columns of the key."""


def test_every_statement_of_check_is_enough(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Faults of settings, rights and tables.

    Settings of the binlog, grants, SELECT on columns, the limit on connections, a table without a key, and one of
    MyISAM.
    """
    server = private_server(flavor, **WRONG)
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.keyless (id INT NOT NULL) ENGINE = InnoDB")
    server.execute("CREATE TABLE d.plain (id INT PRIMARY KEY) ENGINE = MyISAM")
    server.execute("CREATE TABLE d.part (id INT PRIMARY KEY, a INT) ENGINE = InnoDB")
    create_user(server, "poor", ["SELECT ON d.keyless", "SELECT ON d.plain", "SELECT (id) ON d.part"], PASSWORD)
    server.execute("ALTER USER 'poor'@'%' WITH MAX_USER_CONNECTIONS 3")
    pipeline = new_pipeline(server, "d", user="poor")
    names = set[str]()
    while found := statements(pipeline):
        assert not names & found.keys(), "a statement did not help"
        names |= found.keys()
        for statement in dict.fromkeys(found.values()):
            server.execute(statement.replace(KEY, "(id)"))
    assert names == {
        "binlog_format",
        "binlog_row_image",
        "binlog_row_metadata",
        "grant: binlog status",
        "grant: REPLICATION SLAVE",
        "connections of the user",
        "d.keyless: key",
        "d.plain: engine",
        "d.part: images",
    }
    assert [check["name"] for check in checks(pipeline) if check["outcome"] != "ok"] == []


def statements(pipeline: Pipeline) -> dict[str, str]:
    """By check, the SQL that fixes it."""
    return {check["name"]: check["fix"] for check in checks(pipeline) if check["fix"].endswith(";")}


def checks(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The results of `check`."""
    found: list[dict[str, Any]] = json.loads(pipeline.command("check", "--json").stdout)["checks"]
    return found
