"""The tables that a statement writes to, from its text; in doubt, all tables."""

import pytest

from engine.capture.binlog.written_tables import UNKNOWN, WrittenTables, written_by

TABLES = {
    "INSERT INTO t VALUES (1)": {("d", "t")},
    "INSERT INTO E.`T x` (a) VALUES (1)": {("e", "t x")},
    "insert ignore into t select * from b": {("d", "t")},
    "INSERT DELAYED t VALUES (1)": {("d", "t")},
    "INSERT HIGH_PRIORITY IGNORE INTO t SET a = 1": {("d", "t")},
    "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2": {("d", "t")},
    "INSERT INTO t PARTITION (p0) VALUES (1)": {("d", "t")},
    "REPLACE INTO t VALUES (1)": {("d", "t")},
    "REPLACE LOW_PRIORITY t (a) SELECT a FROM b": {("d", "t")},
    "UPDATE t SET a = 1 WHERE id IN (SELECT id FROM b)": {("d", "t"), ("d", "b")},
    "UPDATE LOW_PRIORITY IGNORE t AS x SET a = 1": {("d", "t")},
    "UPDATE a, e.b SET a.x = b.y WHERE a.i = b.i": {("d", "a"), ("e", "b")},
    "UPDATE a JOIN (SELECT * FROM c) q ON a.i = q.i SET a.x = 1": {("d", "a"), ("d", "c")},
    "WITH q AS (SELECT 1) UPDATE t, q SET t.a = 1": {("d", "t"), ("d", "q")},
    "DELETE FROM t WHERE id = 3 ORDER BY id LIMIT 1": {("d", "t")},
    "DELETE QUICK FROM t WHERE id = 3": {("d", "t")},
    "DELETE a FROM a JOIN b USING (i)": {("d", "a"), ("d", "b")},
    "DELETE FROM a, b USING a JOIN b JOIN c": {("d", "a"), ("d", "b"), ("d", "c")},
    "LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ',' (a, b)": {("d", "t")},
    "LOAD DATA INFILE 'x' INTO TABLE `t` FIELDS ENCLOSED BY '' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' (`id`)": {
        ("d", "t")
    },
    "LOAD DATA INFILE 'INTO TABLE z' REPLACE INTO TABLE `e`.`t`": {("e", "t")},
    'UPDATE "t" SET a = 1': {("d", "t")},
    "CALL p(1)": set(),
    "SELECT f(1)": set(),
}

UNCLEAR = [
    "SET STATEMENT max_statement_time = 1 FOR INSERT INTO t VALUES (1)",
    "INSERT INTO t VALUES ('\ufffd')",
    "UPDATE SET WHERE",
    "INSERT INTO t VALUES (1); DELETE FROM b",
    "TRUNCATE t",
    "LOAD XML INFILE 'x' INTO TABLE t ROWS IDENTIFIED BY '<INTO TABLE z' ; INTO TABLE y",
    "",
    "INSERT INTO t VALUES ('open",
    "INSERT INTO t\ufffd VALUES (1)",
]


@pytest.mark.parametrize("statement", TABLES)
def test_the_tables_of_a_statement(statement: str) -> None:
    """By database and name."""
    written = written_by(statement, "D")
    assert not written.is_unknown
    assert set(written.tables) == TABLES[statement]


@pytest.mark.parametrize("statement", UNCLEAR)
def test_what_is_not_understood_is_unknown(statement: str) -> None:
    """Then it may write to any table."""
    assert written_by(statement, "d") == UNKNOWN


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("CALL p", {"p"}),
        ("CALL e.`P q`(1, f(2))", {"p q", "f"}),
        ("DO f(1)", {"f"}),
        ("SELECT e.f(1), G (2)", {"f", "g"}),
        ("INSERT INTO t VALUES (e.f(2)) ON DUPLICATE KEY UPDATE a = `g`(1)", {"f", "g"}),
        ("UPDATE t SET a = days(1) WHERE h(2)", {"days", "h"}),
        ("LOAD DATA INFILE 'x' INTO TABLE t SET a = f(@b)", {"f"}),
    ],
)
def test_routines_that_may_be_called(statement: str, names: set[str]) -> None:
    """Every name in front of a parenthesis."""
    assert set(written_by(statement, "d").routines) >= names


def test_statements_of_one_transaction_are_taken_together() -> None:
    """The union of what they write to."""
    both = written_by("INSERT INTO a VALUES (1)", "d") | written_by("CALL p", "d")
    assert (both.tables, set(both.routines) >= {"p"}, both.is_unknown) == ((("d", "a"),), True, False)
    assert (both | UNKNOWN).is_unknown
    assert WrittenTables() | both == both
