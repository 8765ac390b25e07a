"""Which declared types have every value of another one."""

import pytest

from engine.destination.database.type_widening import is_wider


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        ("smallint", "integer", True),
        ("tinyint", "bigint", True),
        ("bigint", "int", False),
        ("bigint", "numeric(20,0)", True),
        ("bigint", "numeric(20,2)", False),
        ("int", "double", False),
        ("numeric(10,2)", "numeric(12,4)", True),
        ("numeric(10,2)", "numeric(11,4)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("varchar(10)", "varchar(20)", True),
        ("varchar(20)", "varchar(10)", False),
        ("varchar(20)", "longtext", True),
        ("varbinary(20)", "longblob", True),
        ("varbinary(20)", "longtext", False),
        ("longtext", "varchar(20)", False),
        ("datetime(0)", "datetime(6)", True),
        ("datetime(0)", "timestamp(6)", False),
        ("real", "double precision", True),
        ("date", "timestamp", False),
        ("text", "integer", False),
    ],
)
def test_widening(before: str, after: str, is_one: bool) -> None:
    """What is not one is resnapshotted."""
    assert is_wider(before, after) == is_one
