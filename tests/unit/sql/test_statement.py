"""Which tables a statement may alter. What is not read to its end may have altered any."""

import pytest

from engine.sql.reader import StatementName
from engine.sql.statement import UNKNOWN as UNREAD
from engine.sql.statement import Effect, effect_of
from engine.sql.tokens import DEFAULT, UnreadableError, tokens

T: StatementName = ("", "t")


def effect(statement: str) -> Effect:
    """The effect of a statement in the default modes."""
    try:
        return effect_of(tokens(statement, DEFAULT))
    except UnreadableError:
        return UNREAD


HARMLESS = [
    "",
    "/* nothing */",
    "BEGIN",
    "XA COMMIT X'01',X'',1",
    "ALTER TABLE t AUTO_INCREMENT = 9, COMMENT 'DROP COLUMN a', ROW_FORMAT=DYNAMIC",
    "ALTER TABLE d.t ADD INDEX i (a, b(10) DESC) USING BTREE COMMENT 'x' INVISIBLE, ALGORITHM=INPLACE, LOCK=NONE",
    "ALTER TABLE t DROP CHECK c, ALTER a SET DEFAULT (1 + 2), ALTER b DROP DEFAULT",
    "ALTER TABLE t ADD PARTITION (PARTITION p3 VALUES LESS THAN (40))",
    "CREATE FULLTEXT INDEX i ON t (a)",
    "CREATE DEFINER=`root`@`%` PROCEDURE p() TRUNCATE TABLE t",
    "CREATE OR REPLACE ALGORITHM = MERGE DEFINER = CURRENT_USER() SQL SECURITY INVOKER VIEW v AS SELECT * FROM t",
    "ALTER DATABASE d CHARACTER SET latin1",
    "CREATE TEMPORARY TABLE t (a INT)",
    "DROP TEMPORARY TABLE IF EXISTS t",
    "SET STATEMENT max_statement_time = 9 FOR ALTER TABLE t COMMENT 'x'",
]
NAMED: dict[str, set[StatementName]] = {
    "TRUNCATE t": {T},
    "TRUNCATE TABLE `d`.`t` NOWAIT": {("d", "t")},
    "DROP TABLES IF EXISTS d . t, `u`, .v CASCADE": {("d", "t"), ("", "u"), ("", "v")},
    "RENAME TABLE t TO s, g WAIT 5 TO d.t": {T, ("", "s"), ("", "g"), ("d", "t")},
    "ALTER ONLINE TABLE t ADD COLUMN a INT": {T},
    "ALTER TABLE t RENAME AS d.s": {T, ("d", "s")},
    "ALTER TABLE t ADD a INT, RENAME s, ADD INDEX (a)": {T, ("", "s")},
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE d.s WITHOUT VALIDATION": {T, ("d", "s")},
    "ALTER TABLE t CONVERT PARTITION p TO TABLE s": {T, ("", "s")},
    "ALTER TABLE t CONVERT TABLE s TO PARTITION p VALUES LESS THAN (9)": {T, ("", "s")},
    "ALTER TABLE t CONVERT TO CHARACTER SET latin1": {T},
    "ALTER TABLE t ADD UNIQUE (a)": {T},
    "ALTER TABLE t ADD INDEX ((a + 1))": {T},
    "ALTER TABLE t ADD vector VECTOR(3)": {T},
    "ALTER TABLE t RENAME INDEX a TO b": {T},
    "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES x (id) ON DELETE SET NULL ON UPDATE CASCADE": {T},
    "ALTER TABLE t DROP FOREIGN KEY f": {T},
    "ALTER TABLE t ENGINE = InnoDB": {T},
    "ALTER TABLE t FORCE": {T},
    "CREATE UNIQUE INDEX i USING HASH ON d.t (a)": {("d", "t")},
    "CREATE INDEX i ON t ((a + 1))": {T},
    "CREATE INDEX i ON t (a, (a + 1))": {T},
    "DROP INDEX `PRIMARY` ON t": {T},
    "DROP INDEX i ON t": {T},
    "CREATE TABLE t (a INT DEFAULT 'RENAME x')": {T},
    "CREATE OR REPLACE TABLE t LIKE s": {T},
    "REPAIR TABLE t, d.s QUICK": {T, ("d", "s")},
    "/*!50000 TRUNCATE */ t": {T},
}
UNKNOWN = [
    "TRUNCATE",
    "TRUNCATE TABLE t, s",
    "DROP TABLE t s",
    "RENAME TABLE t",
    "ALTER TABLE t UNION = (a, b)",
    "ALTER TABLE t EXCHANGE PARTITION p",
    "ALTER DATABASE `#mysql50#d` UPGRADE DATA DIRECTORY NAME",
    "SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR TRUNCATE TABLE t",
    "SET STATEMENT `sql_mode` = 'ANSI_QUOTES' FOR TRUNCATE TABLE t",
    "TRUNCATE TABLE\u00a0t",
    "DROP DATABASE \u00a0d",
    "FROBNICATE TABLE t",
    "CREATE NOVELTY t",
]
NOT_UNDERSTOOD = [
    "ALTER TABLE t DROP PARTITION p",
    "ALTER TABLE t REORGANIZE PARTITION b INTO (PARTITION b VALUES IN (4))",
    "ALTER TABLE t MODIFY id INT NOT NULL AUTO_INCREMENT",
    "ALTER TABLE t COMMENT `x`",
    "ALTER TABLE t TRUNCATE PARTITION p",
    "ALTER TABLE t ADD COLUMN a INT DEFAULT 1",
    "ALTER TABLE t ADD COLUMN a INT NOVELTY",
    "ALTER TABLE t ADD COLUMN a INT GENERATED ALWAYS AS (b)",
    "ALTER TABLE t CHANGE a b INT",
    "ALTER TABLE t IMPORT TABLESPACE",
    "ALTER TABLE t ORDER BY a, b",
    "ALTER TABLE t ADD INDEX (a) NOVELTY",
    "ALTER TABLE t COMMENT",
    "ALTER TABLE t,",
    "ALTER IGNORE TABLE t ADD UNIQUE (a)",
]


@pytest.mark.parametrize("statement", HARMLESS)
def test_a_harmless_statement_alters_no_table(statement: str) -> None:
    """It is read to its end, or its first words decide. Generated columns may be computed again."""
    assert effect(statement).kind in ("nothing", "rebuilds")


@pytest.mark.parametrize("statement", NAMED)
def test_a_statement_alters_the_tables_that_it_names(statement: str) -> None:
    """And no others."""
    found = effect(statement)
    assert (found.kind, set(found.tables), found.is_complete) == ("alters", NAMED[statement], True)


@pytest.mark.parametrize("statement", UNKNOWN)
def test_a_statement_that_is_not_read_to_its_end_may_alter_any_table(statement: str) -> None:
    """The catalog is asked."""
    assert not effect(statement).is_complete


@pytest.mark.parametrize("statement", NOT_UNDERSTOOD)
def test_an_action_that_is_not_known_makes_the_alter_unknown(statement: str) -> None:
    """The table is known, what happens to its rows is not."""
    found = effect(statement)
    assert found.alter is not None
    assert (found.alter.actions, set(found.tables), found.is_complete) == (None, {T}, True)


def test_a_dropped_database_takes_its_tables_with_it() -> None:
    """So does one that MariaDB replaces."""
    for statement in ("DROP SCHEMA IF EXISTS d", "CREATE OR REPLACE DATABASE d"):
        assert effect(statement).databases == ("d",)


def test_a_write_is_no_definition() -> None:
    """What it reaches is found elsewhere (`capture.binlog.written_tables`)."""
    for statement in (
        "INSERT INTO t VALUES (1)",
        "WITH x AS (SELECT 1) SELECT 1",
        "SET STATEMENT a = 1 FOR DELETE FROM t",
        "ANALYZE FORMAT=JSON DELETE FROM t",
        "CREATE TABLE x AS SELECT f()",
        "CREATE TEMPORARY TABLE x SELECT f()",
        "CREATE TABLE x AS SELECT f()",
        "CREATE TEMPORARY TABLE x SELECT f()",
    ):
        assert effect(statement).kind == "writes"
