"""The grants of an account as facts, and how two sets of facts differ."""

from engine.source.source_facts import Change, Facts, changes, databases_without_select, grants


def test_grants_are_read_by_what_they_are_on() -> None:
    """Of both servers. The hash of a password is left out."""
    assert grants(
        [
            "GRANT SELECT, REPLICATION SLAVE ON *.* TO `tidemark`@`%`",
            "GRANT BACKUP_ADMIN ON *.* TO `tidemark`@`%` WITH GRANT OPTION",
            "GRANT SELECT (`id`, `v`) ON `shop`.`orders` TO `tidemark`@`%`",
            "GRANT `reader`@`%` TO `tidemark`@`%`",
        ]
    ) == {
        "*.*": "SELECT, REPLICATION SLAVE, BACKUP_ADMIN, GRANT OPTION",
        "`shop`.`orders`": "SELECT (`id`, `v`)",
        "roles": "`reader`@`%`",
    }
    line = "GRANT SELECT, BINLOG MONITOR ON *.* TO `tidemark`@`%` IDENTIFIED BY PASSWORD '*49A94A9F42EBDA23'"
    assert grants([line]) == {"*.*": "SELECT, BINLOG MONITOR"}


def test_databases_whose_tables_the_account_cannot_see_are_named() -> None:
    """By SHOW GRANTS. A role may permit anything."""
    globs = ["shop.*", "sho*.orders", "!crm.*"]
    lost: Facts = {("grant", "*.*"): "USAGE", ("grant", "`performance_schema`.*"): "SELECT", ("setting", "a"): "SELECT"}
    assert databases_without_select(lost, globs) == ["sho*", "shop"]
    for on, privileges in (
        ("*.*", "SELECT, REPLICATION SLAVE"),
        ("*.*", "ALL PRIVILEGES"),
        ("roles", "`reader`@`%`"),
        ("`shop`.*", "SELECT"),
        ("`s%`.*", "SELECT"),
        ("`shop`.`orders`", "SELECT (`id`)"),
    ):
        assert databases_without_select({("grant", on): privileges}, globs) == [], on
    escaped: Facts = {("grant", "`a\\_b`.*"): "SELECT"}
    assert databases_without_select(escaped, ["a_b.*", "other.*"]) == ["other"]


def test_what_differs_is_named_with_both_values() -> None:
    """What one side lacks is none there, which is not the empty text."""
    before: Facts = {("setting", "a"): "1", ("setting", "b"): "", ("setting", "c"): "x"}
    after: Facts = {("setting", "a"): "1", ("setting", "b"): "2", ("grant", "*.*"): "SELECT"}
    assert changes(before, after) == (
        Change("grant", "*.*", "none", "SELECT"),
        Change("setting", "b", "''", "2"),
        Change("setting", "c", "x", "none"),
    )
