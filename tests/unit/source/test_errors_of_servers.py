"""Errors of the server as ours."""

import pymysql
import pytest

from engine.base.errors import BinlogOffError, SourceLostError
from engine.source.connect import explain

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


def test_another_lost_position_is_not_taken_for_it() -> None:
    """Error 1236 has many causes."""
    error = explain(pymysql.err.OperationalError(1236, "Could not find first log file name"), "Reading the binlog")
    assert type(error) is SourceLostError
