"""Errors of the server as ours."""

import re
from typing import NoReturn

import pymysql
import pytest

from engine.base.errors import BinlogOffError, PrivilegesMissingError, SourceLostError
from engine.source.connect import explain, query

SERVER = [
    (1381, "You are not using binary logging"),
    (1236, "Binary log is not open"),
]


@pytest.mark.parametrize(("number", "text"), SERVER)
def test_a_server_without_a_binlog_is_named(number: int, text: str) -> None:
    """Waiting cannot help: rows may change meanwhile. The error says what must be done."""
    error = explain(pymysql.err.OperationalError(number, text), "Reading the binlog")
    assert isinstance(error, BinlogOffError)
    assert "Start the server with log_bin." in error.hint
    assert "tidemark redump SPEC --all" in error.hint


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT 1 FROM `shop`.`orders` LIMIT 0", "The statement SELECT 1 FROM `shop`.`orders` LIMIT 0 failed: "),
        ("SHOW\n  BINARY LOGS", "The statement SHOW BINARY LOGS failed: "),
        ("SELECT name FROM people WHERE id > 7", "A statement failed: "),
        ("SELECT " + "a, " * 200 + "b FROM t", "A statement failed: "),
    ],
)
def test_a_statement_is_named_whole_or_not_at_all(sql: str, named: str) -> None:
    """A part of it says nothing. A condition may contain values of rows."""

    class Refusing:
        def cursor(self, _: object) -> NoReturn:
            raise pymysql.err.OperationalError(1142, "SELECT command denied")

    with pytest.raises(PrivilegesMissingError, match=re.escape(named)):
        query(Refusing(), sql)


def test_another_lost_position_is_not_taken_for_it() -> None:
    """Error 1236 has many causes."""
    error = explain(pymysql.err.OperationalError(1236, "Could not find first log file name"), "Reading the binlog")
    assert type(error) is SourceLostError
