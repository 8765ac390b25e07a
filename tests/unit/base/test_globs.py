"""Which tables are new to a pipeline."""

from engine.globs import new_matches


def test_what_matches_and_is_not_known_is_new() -> None:
    """Known tables are those that the pipeline has or had. The work tables of a schema change of one of them are not new."""
    known = {("d", "a"), ("d", "removed")}
    names = ("a", "b", "removed", "audit", "_a_gho", "_a_ghc", "_a_del", "_a_old", "__a_new", "_b_gho", "a_new", "_new")
    found = new_matches(["d.*", "!d.audit"], [*(("d", name) for name in names), ("x", "a")], known)
    assert found == [("d", "b"), ("d", "_b_gho"), ("d", "a_new"), ("d", "_new")]
