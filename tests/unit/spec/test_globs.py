"""Which tables globs select, on servers of each kind, and which tables are new to a pipeline."""

from hypothesis import given
from hypothesis import strategies as st

from engine.spec.globs import EXACT, NameRule, folded, matches, new_matches, select_tables

LETTERS = st.text("abXYZäÄΣςİi*?_", min_size=1, max_size=6)


def test_what_matches_and_is_not_known_is_new() -> None:
    """Known tables are those that the pipeline has or had.

    The work tables of a schema change of one of them are not new.
    """
    known = {("d", "a"), ("d", "removed")}
    names = ("a", "b", "removed", "audit", "_a_gho", "_a_ghc", "_a_del", "_a_old", "__a_new", "_b_gho", "a_new", "_new")
    found = new_matches(["d.*", "!d.audit"], [*(("d", name) for name in names), ("x", "a")], known)
    assert found == [("d", "b"), ("d", "_b_gho"), ("d", "a_new"), ("d", "_new")]


@given(LETTERS, LETTERS, LETTERS, LETTERS)
def test_a_server_that_folds_names_disregards_case(database: str, table: str, head: str, tail: str) -> None:
    """With 1, the catalog has lower case; with 2, names as they were given."""
    glob, meant = f"{head}.{tail}", folded(f"{head}.{tail}")
    expected = matches(meant, folded(database), folded(table))
    assert matches(NameRule(1).glob(glob), folded(database), folded(table)) == expected
    assert matches(NameRule(2).glob(glob), database, table) == expected
    assert EXACT.glob(glob) == glob


def test_classes_disregard_case_too() -> None:
    """Ranges, negations, and the characters that stand for themselves at the ends of a class."""
    names = [("Shop", table) for table in ("Ax", "bx", "Cx", "-x", "]x", "!x")]
    for glob, chosen in (
        ("shop.[A-b]X", ["Ax", "bx"]),
        ("SHOP.[!a-B]x", ["Cx", "-x", "]x", "!x"]),
        ("shop.[a-]x", ["Ax", "-x"]),
        ("shop.[]c]x", ["Cx", "]x"]),
        ("shop.[c!]x", ["Cx", "!x"]),
    ):
        assert [table for _, table in select_tables([NameRule(2).glob(glob)], names)] == chosen
        stored = [("shop", table.lower()) for _, table in names]
        assert [t for _, t in select_tables([NameRule(1).glob(glob)], stored)] == [t.lower() for t in chosen]
    assert select_tables(NameRule(2).globs(["shop.*", "!shop.[A-C]*"]), names) == names[3:]


def test_a_name_means_the_one_that_the_server_would_find() -> None:
    """Where case counts, a name in another case is another table."""
    names = ["shop.orders", "shop.ä"]
    assert [NameRule(1).stored(name, names) for name in ("Shop.Orders", "SHOP.Ä")] == names
    assert EXACT.stored("Shop.Orders", names) == "Shop.Orders"
    assert NameRule(2).stored("shop.x", names) == "shop.x"
    assert NameRule(2).stored("SHOP.A", ["shop.a", "Shop.A"]) == "SHOP.A"
