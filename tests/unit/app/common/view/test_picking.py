"""The table picker: clicks edit the globs, and change exactly what was clicked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.common.view import picking
from engine.decode.schema import Column, Index, Table
from engine.source.catalog import Statistics
from engine.source.survey import Surveyed
from engine.spec.globs import EXACT, NameRule, select_tables
from engine.spec.settings import ProjectionRules, Snapshot, Source

NAMES = st.lists(
    st.tuples(
        st.sampled_from(["shop", "crm", "a*", "b[1]"]),
        st.sampled_from(["t", "u", "v*", "w?", "x[y]", "log_1", "log_2"]),
    ),
    min_size=1,
    unique=True,
)
GLOBS = st.lists(
    st.sampled_from(["*.*", "shop.*", "!Shop.log_*", "crm.t", "!*.u", "*.log_?", "!shop.t", "shop.t", "!crm.*"]),
    max_size=5,
)


RULES = st.sampled_from([NameRule(), NameRule(1), NameRule(2)])


def chosen(globs: list[str], everything: list[picking.PickedTable], rule: NameRule = EXACT) -> set[picking.PickedTable]:
    """The tables that the engine would capture."""
    return set(select_tables(rule.globs(globs), everything))


@given(NAMES, GLOBS, st.data(), st.booleans(), RULES)
def test_a_click_changes_what_was_clicked_and_nothing_else(
    names: list[picking.PickedTable], globs: list[str], data: st.DataObject, on: bool, rule: NameRule
) -> None:
    """For any globs, any characters in names, and any server."""
    clicked = set(data.draw(st.lists(st.sampled_from(names), min_size=1)))
    after = picking.toggled(globs, names, clicked, on=on, rule=rule)
    before = chosen(globs, names, rule)
    assert chosen(after, names, rule) == (before | clicked if on else before - clicked)
    if after:
        Source(host="h", user="u", tables=tuple(after))


@given(NAMES, GLOBS, st.booleans(), st.data(), RULES)
def test_a_whole_database_is_one_glob(
    names: list[picking.PickedTable], globs: list[str], on: bool, data: st.DataObject, rule: NameRule
) -> None:
    """It includes tables that are created later."""
    database = data.draw(st.sampled_from(sorted({name[0] for name in names})))
    after = picking.database_toggled(globs, names, database, on=on, rule=rule)
    theirs = {name for name in names if name[0] == database}
    before = chosen(globs, names, rule)
    assert chosen(after, names, rule) == (before | theirs if on else before - theirs)


def test_clicks_keep_the_globs_short() -> None:
    """Two opposite clicks change nothing; a whole database is one glob; nothing selected is no glob."""
    names = [("shop", "a"), ("shop", "b"), ("crm", "c"), ("crm", "d")]
    one = picking.toggled(["shop.*"], names, {("shop", "a")}, on=False)
    assert one == ["shop.*", "!shop.a"]
    assert picking.toggled(one, names, {("shop", "a")}, on=True) == ["shop.*"]
    assert picking.toggled([], names, set(names), on=True) == ["shop.*", "crm.*"]
    assert picking.toggled(["shop.*", "crm.*"], names, set(names), on=False) == []
    assert picking.database_toggled(["shop.a", "!shop.b"], names, "shop", on=True) == ["shop.*"]


def test_rules_count_the_tables_they_decide() -> None:
    """A later match overrides an earlier one."""
    names = [("shop", "a"), ("shop", "b"), ("shop", "audit")]
    found = picking.glob_rules(["shop.*", "!shop.audit"], names)
    assert [(rule.glob, rule.tables, rule.decides) for rule in found] == [("shop.*", 3, 2), ("!shop.audit", 1, 1)]


@pytest.mark.parametrize("glob", ["shop", "shop.", ".x", "a b.c", "!a.b", "a..b"])
def test_an_invalid_glob_is_not_added(glob: str) -> None:
    """The spec would refuse it."""
    assert picking.with_glob(["shop.*"], glob, on=True) == ["shop.*"]


def test_an_added_glob_decides() -> None:
    """Also if it, or its opposite, was there already."""
    assert picking.with_glob(["a.*", "b.*"], "a.*", on=True) == ["b.*", "a.*"]
    assert picking.with_glob(["a.*", "b.*"], "a.*", on=False) == ["b.*", "!a.*"]
    assert picking.with_glob([], "*.*_20??", on=True) == ["*.*_20??"]


def surveyed(key: Column | None, *more: Column, rows: int = 1000, **facts: object) -> Surveyed:
    """A table with this key."""
    columns = (*((key,) if key else ()), *more)
    names = (key.name,) if key else ()
    indexes = (Index("PRIMARY", names),) if key else ()
    table = Table("shop", "t", columns, names, indexes=indexes, **facts)  # type: ignore[arg-type]
    return Surveyed(table, Statistics(rows, 100, rows * 100, "InnoDB"))


ID = Column("id", "int", nullable=False, precision=10)


def labels(one: Surveyed, rules: ProjectionRules | None = None) -> list[tuple[str, str]]:
    """The labels and tones of a table's badges."""
    table = picking.projected(one.table, rules) if rules else None
    return [(badge.label, badge.tone) for badge in picking.badges(one, table)]


def test_each_risk_has_its_badge() -> None:
    """Tables that cannot be split or captured.

    No key, a text key in a collation, a key without ranges, an engine without transactions, a type that is not decoded.
    """
    text = Column("sku", "varchar", nullable=False, length=80, charset="utf8mb4", collation="utf8mb4_general_ci")
    enum = Column("s", "enum", nullable=False, labels=("a",), charset="utf8mb4", collation="utf8mb4_bin")
    assert labels(surveyed(ID)) == []
    assert labels(surveyed(None, ID)) == [("no key", "orange")]
    assert labels(surveyed(text)) == [("text key", "gray")]
    assert labels(surveyed(enum)) == [("one chunk", "orange")]
    assert labels(surveyed(ID, transactional=False)) == [("no transactions", "orange")]
    assert labels(surveyed(ID, Column("x", "mystery"))) == [("cannot be captured", "red")]


def test_a_column_outside_the_projection_is_no_risk() -> None:
    """Its type does not matter; a key column cannot be left out."""
    odd = surveyed(ID, Column("x", "mystery"))
    assert labels(odd, ProjectionRules(exclude=("x",))) == []
    assert labels(odd, ProjectionRules(columns=("id",))) == []
    assert [c.name for c in picking.projected(odd.table, ProjectionRules(exclude=("id", "x"))).columns if c.unread] == [
        "x"
    ]


def test_totals_are_of_the_selected_tables() -> None:
    """Rows, bytes, chunks and a wide estimate of the time."""
    one = surveyed(ID, rows=10_000_000)
    total = picking.totals([one], ["shop.*"], Snapshot(), 2)
    assert (total.tables, total.of, total.rows, total.size, total.chunks) == (1, 1, 10_000_000, 10**9, 60)
    line = picking.totals_line(total, 2)
    assert (
        line == "1 of 1 table · about 10M rows · 1 GB · about 60 chunks · 12 s to 1 min 2 s with 2 readers; "
        "the plan measures it"
    )
    assert picking.totals_line(picking.totals([one], [], Snapshot(), 2), 2) == "None of 1 table is chosen"


def test_the_tree_is_by_database_and_shows_the_selection() -> None:
    """In the format of the component."""
    one = surveyed(ID)
    ((database, tables),) = picking.tree([one], picking.risks([one]), ["shop.*"], {})
    assert (database, tables) == ("shop", [["t", 1, 1000, 100_000, "id", "InnoDB", []]])
