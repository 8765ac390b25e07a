"""The statements that grant what Tidemark needs."""

import pytest

from engine.source.connect import Server
from engine.source.grants import minimal_grants

SELECT = "GRANT SELECT ON {}.* TO 'tide'@'%';"


@pytest.mark.parametrize(
    ("globs", "databases"),
    [
        (["shop.orders", "shop.items", "!hr.*"], ["`shop`"]),
        (["s*.orders"], ["*"]),
        (["my.shop.orders"], ["`my`", "`my.shop`"]),
    ],
)
def test_select_is_granted_on_each_database_that_a_glob_may_mean(globs: list[str], databases: list[str]) -> None:
    """A server shows no tables on which the account has no privilege, so a missing database would be invisible."""
    server = Server("mysql", (8, 4, 3), "8.4.3", "uuid")
    *select, _ = minimal_grants("tide", server, globs)
    assert select == [SELECT.format(database) for database in databases]
