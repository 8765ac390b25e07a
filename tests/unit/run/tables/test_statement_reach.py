"""The tables that a statement may write: the closure over triggers, foreign keys, views and routines."""

import pytest

from engine.capture.binlog.written_tables import UNKNOWN, WrittenTables
from engine.run.tables.statement_reach import reached
from engine.source.programs import Programs

NAMES = ("a", "b", "c", "e", "log", "parent", "child", "grandchild", "v", "w")
PROGRAMS = Programs(
    whole=True,
    tables=frozenset(("d", n) for n in (*NAMES, "merged")),
    forwarding=frozenset({("d", "merged")}),
    views={("d", "v"): "select `d`.`b`.`id` from `d`.`b`", ("d", "w"): "select 1 from `d`.`v`", ("d", "hidden"): None},
    triggers={
        ("d", "a"): ("BEGIN INSERT INTO b VALUES (NEW.id); UPDATE v SET x = 1; END",),
        ("d", "c"): ("CALL p(NEW.id)",),
        ("d", "e"): (None,),
    },
    referring={("d", "parent"): frozenset({("d", "child")}), ("d", "child"): frozenset({("d", "grandchild")})},
    routines={
        "p": ("BEGIN INSERT INTO log VALUES (f(1)); END",),
        "f": ("RETURN (SELECT MAX(id) FROM parent)",),
        "dynamic": ("BEGIN PREPARE s FROM @x; EXECUTE s; END",),
        "twice": ("INSERT INTO a VALUES (1)", "DELETE FROM c"),
        "itself": ("CALL itself()",),
    },
)


@pytest.mark.parametrize(
    ("tables", "routines", "names"),
    [
        (["b"], [], "b"),
        (["a"], [], "a b v"),
        (["v"], [], "v b"),
        (["w"], [], "w v b"),
        (["c"], [], "c log parent child grandchild"),
        (["parent"], [], "parent child grandchild"),
        (["grandchild"], [], "grandchild"),
        ([], ["p"], "log parent child grandchild"),
        ([], ["twice"], "a b v c log parent child grandchild"),
        ([], ["itself"], ""),
        (["log"], ["concat", "unheard_of"], "log"),
        (["not_captured_at_all"], [], "not_captured_at_all"),
    ],
)
def test_the_closure(tables: list[str], routines: list[str], names: str) -> None:
    """Until no table is added."""
    found = reached(PROGRAMS, WrittenTables(tuple(("d", t) for t in tables), tuple(routines)))
    assert found == frozenset(("d", name) for name in names.split())


@pytest.mark.parametrize(
    "written",
    [
        UNKNOWN,
        WrittenTables((("d", "e"),)),
        WrittenTables((("d", "hidden"),)),
        WrittenTables((("d", "merged"),)),
        WrittenTables(routines=("dynamic",)),
    ],
)
def test_a_statement_of_unknown_effect_may_write_to_any_table(written: WrittenTables) -> None:
    """A hidden body, dynamic SQL, an engine that passes writes on."""
    assert reached(PROGRAMS, written) is None


def test_without_the_grants_nothing_is_believed() -> None:
    """An empty catalog may be one without grants."""
    assert reached(Programs(whole=False), WrittenTables((("d", "b"),))) is None
