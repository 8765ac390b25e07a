"""Which captured tables a statement concerns, by the bytes and the settings that were logged."""

import pytest

from engine.capture.binlog.statements import LoggedStatement, affected_tables, read
from engine.decode.query_event import read_query
from engine.decode.schema import Column, Table
from tests.unit.support.wire import Binlog

LATIN1, GBK, ARMSCII8, UTF8MB4 = 8, 28, 32, 45
ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20


def table(name: str, database: str = "shop", generated: str = "") -> Table:
    """A captured table."""
    return Table(database, name, (Column("id", "int", nullable=False),), ("id",), generated=generated)


def logged(statement: str | bytes, *, collation: int = UTF8MB4, mode: int = 0) -> LoggedStatement:
    """A statement as it comes from the binlog."""
    log = Binlog(checksum=False)
    log.query(statement, collation=collation, mode=mode)
    query = read_query(log.payloads[-1][20:])
    effect, readable = read(query, mariadb=True)
    return LoggedStatement(0, query.database, query.statement, effect, readable, query.charset_known, query.raw)


def names(one: LoggedStatement, *tables: Table) -> set[str]:
    """The names of the tables that it concerns."""
    return {name.partition(".")[2] for name in affected_tables(one, tables)}


def test_a_name_is_compared_as_the_server_compares_it() -> None:
    """Exactly if there is such a table, else without case; MySQL replaces characters beyond U+FFFF."""
    assert names(logged("TRUNCATE T"), table("t")) == {"t"}
    assert names(logged("TRUNCATE T"), table("t"), table("T")) == {"T"}
    assert names(logged("TRUNCATE `t😀`"), table("t?")) == {"t?"}
    assert names(logged("DROP DATABASE `DİR`"), table("t", "dir"), table("u")) == {"t"}
    assert names(logged("DROP TABLE `shop\0`.`t`"), table("t")) == {"t"}


def test_a_prepared_statement_may_have_been_written_in_another_character_set() -> None:
    """It is logged with that of its execution. So a name counts in whichever it stands there."""
    for statement, collation in (("TRUNCATE `größe`".encode(), LATIN1), (b"TRUNCATE `gr\xf6\xdfe`", GBK)):
        assert names(logged(statement, collation=collation), table("größe"), table("other"), table("ähnlich")) == {
            "größe"
        }


@pytest.mark.parametrize(
    ("statement", "mode"),
    [
        (r"ALTER TABLE t COMMENT 'a\'', DROP COLUMN v, COMMENT ' -- '", NO_BACKSLASH_ESCAPES),
        (r"ALTER TABLE t COMMENT 'C:\dir\', COMMENT '# of items', DROP COLUMN a, ADD COLUMN a INT", 0),
        ('ALTER TABLE t COMMENT "a`", COMMENT "`, DROP COLUMN v"', ANSI_QUOTES | NO_BACKSLASH_ESCAPES),
    ],
)
def test_a_statement_that_other_modes_read_otherwise_is_unknown(statement: str, mode: int) -> None:
    """It may have been prepared under them. It concerns the tables that it mentions."""
    one = logged(statement, mode=mode)
    assert one.effect.alter is None or one.effect.alter.actions is None
    assert names(one, table("t"), table("u")) == {"t"}


def test_a_text_in_double_quotes_is_no_doubt() -> None:
    """As a name it would be no statement."""
    one = logged('ALTER TABLE t ADD COLUMN a INT COMMENT "x"')
    assert one.effect.alter is not None
    assert one.effect.alter.actions is not None


def test_what_is_not_text_in_its_character_set_is_unknown() -> None:
    """In armscii8 some bytes are quotes; a name with a byte that no character has may be any."""
    assert not logged(
        b"ALTER TABLE t COMMENT '\xff', DROP COLUMN v, COMMENT '\xff'", collation=ARMSCII8
    ).effect.is_complete
    assert not logged(b"TRUNCATE `\xff`").effect.is_complete
    assert names(logged(b"TRUNCATE `\xff`"), table("t"), table("größe")) == {"größe"}


def test_a_rebuild_concerns_generated_columns() -> None:
    """An ALTER TABLE all of them, OPTIMIZE and CREATE INDEX only stored ones."""
    tables = [table("t"), table("s", generated="stored"), table("v", generated="virtual")]
    for name in "tsv":
        expected = {name} if name != "t" else set()
        assert names(logged(f"ALTER TABLE {name} COMMENT 'x'"), *tables) == expected
    assert names(logged("OPTIMIZE TABLE t, s, v"), *tables) == {"s"}
    assert names(logged("CREATE INDEX i ON v (id)"), *tables) == set()
