"""Storage engines by name, and the parts of a MERGE table."""

import pytest

from engine.source.engines import OWN, unfit_engine, union_of

MERGE = "CREATE TABLE `m` (\n  `id` int\n) ENGINE=MRG_MyISAM DEFAULT CHARSET=utf8mb4 INSERT_METHOD=LAST UNION=({})"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ("`a`", [("d", "a")]),
        ("`a`,`b`", [("d", "a"), ("d", "b")]),
        ("`x`.`a`,`b`", [("x", "a"), ("d", "b")]),
        ("`a``,``.b`,`o.p`.`)`", [("d", "a`,`.b"), ("o.p", ")")]),
    ],
)
def test_the_parts_of_a_merge_table_are_read(parts: str, expected: list[tuple[str, str]]) -> None:
    """Names with quotes, commas and dots, with and without a database."""
    assert union_of(MERGE.format(parts), "d") == expected


def test_a_merge_table_may_have_no_parts() -> None:
    """A comment that looks like a list of parts comes before it."""
    assert union_of("CREATE TABLE `m` (`id` int) ENGINE=MRG_MyISAM", "d") == []
    assert union_of(MERGE.format("`a`").replace(" INSERT", " COMMENT=' UNION=(`z`)' INSERT"), "d") == [("d", "a")]


def test_only_engines_with_rows_of_their_own_are_captured() -> None:
    """An engine that nobody knows is refused, and named."""
    assert not any(map(unfit_engine, (*OWN, "InnoDB", "MyISAM", None)))
    assert "keeps no rows" in unfit_engine("BLACKHOLE")
    assert unfit_engine("Mystery").startswith("a table of the engine Mystery: nothing ensures")
