"""Why writes that are logged as statements resnapshot tables, and what ends that."""

from engine.source.connect import Server
from engine.source.statement_writes import cause_of

MYSQL = Server("mysql", (9, 7, 0), "9.7.0", "uuid")


def test_the_server_s_format_is_named_with_the_statement_that_sets_it_for_good() -> None:
    """The account sees triggers and views: no grant is asked for."""
    cause = cause_of(MYSQL, "MIXED", "tide@%", whole=True)
    assert cause.reason.endswith("because binlog_format is MIXED, not ROW")
    assert "SET PERSIST binlog_format = 'ROW';" in cause.remedy
    assert "GRANT" not in cause.remedy


def test_without_the_grants_every_table_is_concerned_and_the_grants_are_named() -> None:
    """Also when only a session has another format than the server."""
    cause = cause_of(MYSQL, "ROW", "tide@%", whole=False)
    assert "the session that wrote had another binlog_format" in cause.reason
    assert "may have reached every table" in cause.reason
    assert cause.remedy.endswith("GRANT SELECT, TRIGGER, SHOW VIEW ON *.* TO 'tide'@'%';")
