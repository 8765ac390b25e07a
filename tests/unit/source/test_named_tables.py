"""Globs that match no table are named, with the nearest table."""

from engine.source.named_tables import unmatched_exclusions, unmatched_inclusions, unmatched_rules

TABLES = [("shop", "orders"), ("shop", "audit_log")]


def test_an_exclusion_in_another_case_is_an_error() -> None:
    """With lower_case_table_names = 1 it would exclude nothing, and the table would be captured."""
    assert not unmatched_exclusions(["shop.*", "!shop.audit_*"], TABLES)
    (wrong,) = unmatched_exclusions(["shop.*", "!Shop.Audit_*"], TABLES)
    assert (wrong[0], wrong[1], wrong[-1]) == (
        "exclusion !Shop.Audit_*",
        "fail",
        "The nearest table is shop.audit_log.",
    )


def test_an_exclusion_of_nothing_is_a_warning() -> None:
    """It may be there for tables to come."""
    (typo,) = unmatched_exclusions(["shop.*", "!shop.audit_lgo"], TABLES)
    assert (typo[1], typo[-1]) == ("warn", "The nearest table is shop.audit_log.")
    (other,) = unmatched_exclusions(["!elsewhere.x"], TABLES)
    assert other[-1] == "Remove it, or keep it for tables to come."
    assert not unmatched_exclusions(["Nothing.*"], TABLES)


def test_a_rule_for_no_table_is_a_warning() -> None:
    """Chunk settings, priorities and settings of the destination."""
    rules = {"snapshot.tables": ("shop.*",), "sink.tables": ("Shop.Orders", "shop.order_items")}
    found = unmatched_rules(rules, TABLES)
    assert [(name, outcome) for name, outcome, *_ in found] == [
        ("sink.tables Shop.Orders", "warn"),
        ("sink.tables shop.order_items", "warn"),
    ]
    assert found[0][-1] == "The nearest table is shop.orders."


def test_an_inclusion_of_nothing_is_a_warning() -> None:
    """With the nearest table; exclusions have findings of their own."""
    assert not unmatched_inclusions(["shop.*", "!nothing.*"], TABLES)
    ((name, outcome, *_, why, fix),) = unmatched_inclusions(["shop.ordres", "shop.audit_*"], TABLES)
    assert (name, outcome, fix) == ("tables shop.ordres", "warn", "The nearest table is shop.orders.")
    assert why.endswith("Tables of the pipeline that no glob matches stay captured.")


def test_an_inclusion_of_what_the_account_may_not_see_says_so() -> None:
    """A server shows no table without a privilege, so nobody knows whether there is one."""
    ((name, outcome, _, actual, why, fix),) = unmatched_inclusions(["late.*", "shop.*"], TABLES, ["late"])
    assert (name, outcome, actual) == ("tables late.*", "warn", "matches none that it may see")
    assert "only tables on which it has a privilege" in why
    assert fix.startswith("Grant SELECT on late")
