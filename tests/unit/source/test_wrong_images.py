"""Which columns MariaDB logs wrongly, by the texts of its catalog."""

from typing import Any

import pytest

from engine.decode.schema import WRONG_IMAGES, Column
from engine.source.wrong_images import with_wrong_images

NUMBER = ("id", "auto_increment", None)


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ([NUMBER, ("d", "VIRTUAL GENERATED", "`id` * 2")], {"d"}),
        ([NUMBER, ("d", "VIRTUAL GENERATED, INVISIBLE", "`ID` * 2")], {"d"}),
        ([("e", "VIRTUAL GENERATED", "`d` + 1"), ("d", "VIRTUAL GENERATED", "`id` * 2"), NUMBER], {"d", "e"}),
        ([NUMBER, ("n", "", None), ("d", "VIRTUAL GENERATED", "`n` * 2")], set()),
        ([NUMBER, ("d", "VIRTUAL GENERATED", "concat('`id`','it''s \\'`id`',`n`)")], set()),
        ([NUMBER, ("d", "STORED GENERATED", "`n` * 2"), ("e", "VIRTUAL GENERATED", "`d`")], set()),
        ([("i``d", "auto_increment", None), ("d", "VIRTUAL GENERATED", "`i````d` * 2")], {"d"}),
        ([("id", "", None), ("d", "VIRTUAL GENERATED", "`id` * 2")], set()),
        ([NUMBER, ("a", "VIRTUAL GENERATED", "`b`"), ("b", "VIRTUAL GENERATED", "`a`")], set()),
    ],
)
def test_which_columns(columns: list[tuple[str, str, Any]], wrong: set[str]) -> None:
    """Those that name a numbered column, or another such one; names in texts do not count."""
    rows = [dict(zip(("name", "extra", "expression"), one, strict=True)) for one in columns]
    marked = with_wrong_images([Column(name, "int") for name, _, _ in columns], rows)
    assert {column.name for column in marked if column.type == f"int{WRONG_IMAGES}"} == wrong
    assert all(column.type == "int" for column in marked if column.name not in wrong)
