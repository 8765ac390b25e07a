"""Which statements keep every value of every row; in doubt, none does."""

from dataclasses import replace

import pytest

from engine.decode.schema import Column, Table
from engine.run.tables.ddl import keeps_rows
from engine.sql.alter import Alter
from engine.sql.statement import effect_of
from engine.sql.tokens import DEFAULT, UnreadableError, tokens

BEFORE = Table(
    "shop",
    "t",
    (
        Column("id", "int", nullable=False),
        Column("v", "int"),
        Column("name", "varchar", length=80, charset="utf8mb4"),
        Column("state", "enum", labels=("new", "old")),
    ),
    ("id",),
)
EXTRA = Column("extra", "int")


def columns(*changed: Column, without: str = "") -> Table:
    """The table with some columns replaced, added at the end, or left out."""
    by_name = {c.name: c for c in BEFORE.columns if c.name != without} | {c.name: c for c in changed}
    return replace(BEFORE, columns=tuple(by_name.values()))


KEEPS = [
    ("ALTER TABLE t ADD COLUMN extra INT", columns(EXTRA)),
    (
        "ALTER TABLE `shop`.`t` ADD extra INT NULL DEFAULT NULL COMMENT 'x', ALGORITHM=INSTANT, LOCK=NONE",
        columns(EXTRA),
    ),
    ("ALTER TABLE t DROP COLUMN v", columns(without="v")),
    ("ALTER TABLE t DROP v, ADD extra INT", columns(EXTRA, without="v")),
    ("ALTER TABLE t MODIFY name VARCHAR(99)", columns(replace(BEFORE.columns[2], length=396))),
    (
        "ALTER TABLE t MODIFY state ENUM('new','old','gone')",
        columns(Column("state", "enum", labels=("new", "old", "gone"))),
    ),
    ("ALTER TABLE t MODIFY name VARCHAR(99) DEFAULT 'x' COMMENT 'y'", columns(replace(BEFORE.columns[2], length=396))),
    ("ALTER TABLE t CHANGE name name VARCHAR(99)", columns(replace(BEFORE.columns[2], length=396))),
    ("ALTER TABLE t MODIFY v INT DEFAULT 4", BEFORE),
    ("ALTER TABLE t MODIFY v INT AFTER name", replace(BEFORE, columns=tuple(BEFORE.columns[n] for n in (0, 2, 1, 3)))),
    ("ALTER TABLE t MODIFY v INT FIRST", replace(BEFORE, columns=tuple(BEFORE.columns[n] for n in (1, 0, 2, 3)))),
    ("ALTER TABLE t ADD (extra INT, more TEXT), ROW_FORMAT=DYNAMIC", columns(EXTRA, Column("more", "text"))),
    ("ALTER TABLE t ADD extra TIMESTAMP NULL", columns(Column("extra", "timestamp"))),
    ("ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT", BEFORE),
    ("ALTER TABLE t RENAME INDEX a TO b, ALTER INDEX b INVISIBLE, DROP FOREIGN KEY f, DROP CHECK c", BEFORE),
    ("ALTER TABLE t ADD CONSTRAINT c CHECK (v > 0) NOT ENFORCED, ADD UNIQUE KEY u (v), DROP KEY u", BEFORE),
    ("ALTER TABLE t DROP CONSTRAINT c, AUTO_INCREMENT = 9, COMMENT = 'x', DEFAULT CHARSET utf8mb4", BEFORE),
    ("ALTER TABLE t ADD INDEX (v), DROP INDEX x", BEFORE),
    ("ALTER TABLE t ENGINE=InnoDB, COMMENT='x'", BEFORE),
    ("ALTER TABLE t ALTER COLUMN v SET DEFAULT 4", BEFORE),
    ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (v) REFERENCES x (id)", BEFORE),
    ("ALTER TABLE t ADD PARTITION (PARTITION p3 VALUES LESS THAN (40))", BEFORE),
]
CHANGES = [
    ("TRUNCATE t", BEFORE),
    ("DROP TABLE t", BEFORE),
    ("RENAME TABLE t TO s, g TO t", BEFORE),
    ("CREATE OR REPLACE TABLE t (id INT)", BEFORE),
    ("", columns(EXTRA)),
    ("ALTER TABLE t ADD COLUMN extra INT DEFAULT 5", columns(EXTRA)),
    ("ALTER TABLE t ADD COLUMN extra INT NOT NULL", columns(replace(EXTRA, nullable=False))),
    ("ALTER TABLE t ADD COLUMN extra INT AS (v + 1)", columns(EXTRA)),
    ("ALTER TABLE t ADD COLUMN extra TIMESTAMP", columns(Column("extra", "timestamp"))),
    # The catalog has changed since.
    ("ALTER TABLE t ADD COLUMN extra INT", columns(EXTRA, Column("later", "int"))),
    ("ALTER TABLE t ADD COLUMN extra INT", BEFORE),
    ("ALTER TABLE t ADD COLUMN v INT", BEFORE),
    ("ALTER TABLE t ADD COLUMN back INT", columns(Column("back", "int"))),
    ("ALTER TABLE t ADD COLUMN extra INT", replace(columns(EXTRA), key=("v",))),
    ("ALTER TABLE t MODIFY v BIGINT", columns(Column("v", "bigint"))),
    ("ALTER TABLE t MODIFY v INT UNSIGNED", columns(Column("v", "int", unsigned=True))),
    ("ALTER TABLE t MODIFY name VARCHAR(9)", columns(replace(BEFORE.columns[2], length=36))),
    (
        "ALTER TABLE t MODIFY name VARCHAR(99) CHARACTER SET latin1",
        columns(Column("name", "varchar", length=99, charset="latin1")),
    ),
    (
        "ALTER TABLE t MODIFY state ENUM('old','new','gone')",
        columns(Column("state", "enum", labels=("old", "new", "gone"))),
    ),
    ("ALTER TABLE t MODIFY v INT AFTER name", BEFORE),
    ("ALTER TABLE t MODIFY v INT AFTER name", replace(BEFORE, columns=tuple(BEFORE.columns[n] for n in (2, 0, 1, 3)))),
    ("ALTER TABLE t DROP v, ADD v INT", BEFORE),
    ("ALTER TABLE t MODIFY v INT NOT NULL", columns(Column("v", "int", nullable=False))),
    ("ALTER TABLE t MODIFY v INT AS (id + 1)", BEFORE),
    ("ALTER TABLE t MODIFY name CHAR(80)", columns(replace(BEFORE.columns[2], type="char"))),
    ("ALTER TABLE t CHANGE v V INT", columns(Column("V", "int"), without="v")),
    ("ALTER TABLE t ENGINE = BLACKHOLE", BEFORE),
    ("ALTER TABLE t MODIFY id INT NOT NULL AUTO_INCREMENT", BEFORE),
    ("ALTER TABLE t COMMENT 'x'", replace(BEFORE, generated="virtual")),
    ("ALTER TABLE t DISCARD TABLESPACE", BEFORE),
    ("ALTER TABLE t DROP INDEX x", replace(BEFORE, key=("v",))),
    ("ALTER TABLE t CHANGE v w INT", columns(Column("w", "int"), without="v")),
    ("ALTER TABLE t RENAME COLUMN v TO w", columns(Column("w", "int"), without="v")),
    ("ALTER TABLE t DROP PARTITION p1", BEFORE),
    ("ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE x", BEFORE),
    ("ALTER TABLE t CONVERT TO CHARACTER SET latin1", BEFORE),
    ("ALTER TABLE t ADD COLUMN extra INT, RENAME TO u", columns(EXTRA)),
    ("ALTER IGNORE TABLE t ADD UNIQUE (v)", BEFORE),
    ("ALTER TABLE t ADD extra INT; DELETE FROM t", columns(EXTRA)),
]


def alter_of(statement: str) -> Alter | None:
    """What the statement does, in the default modes. One that is harmless to every table does nothing."""
    try:
        effect = effect_of(tokens(statement, DEFAULT))
    except UnreadableError:
        return None
    return Alter(("", "t"), ()) if effect.kind in ("nothing", "rebuilds") and effect.alter is None else effect.alter


def test_a_double_that_is_declared_again_may_be_rounded() -> None:
    """The catalog shows DOUBLE(22,0) like DOUBLE."""
    table = replace(BEFORE, columns=(*BEFORE.columns, Column("f", "double", precision=22)))
    assert not keeps_rows(table, table, alter_of("ALTER TABLE t MODIFY f DOUBLE(22,0)"), earlier_names=[])
    assert keeps_rows(table, table, alter_of("ALTER TABLE t MODIFY v INT"), earlier_names=[])


@pytest.mark.parametrize(("statement", "after"), KEEPS, ids=[s for s, _ in KEEPS])
def test_what_keeps_rows_is_recognised(statement: str, after: Table) -> None:
    """New columns are NULL everywhere, the others keep their values."""
    assert keeps_rows(BEFORE, after, alter_of(statement), earlier_names=["id", "v", "name", "state", "back"])


@pytest.mark.parametrize(("statement", "after"), CHANGES, ids=[s for s, _ in CHANGES])
def test_anything_else_may_change_rows(statement: str, after: Table) -> None:
    """Also what cannot be parsed, and what the catalog contradicts."""
    assert not keeps_rows(BEFORE, after, alter_of(statement), earlier_names=["id", "v", "name", "state", "back"])
