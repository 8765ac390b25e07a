"""The results of a preflight."""

from app.wizard.view import checks
from engine.decode.schema import Table
from engine.source.connect import Server
from engine.source.preflight import Check, Preflight


def check(outcome: str, table: str = "", name: str = "log_bin") -> Check:
    """A check's result."""
    return Check(name, outcome, "this", "that", "because", table=table)  # type: ignore[arg-type]


SERVER = Server("mysql", (9, 7, 4), "9.7.4", "uuid")
TABLES = [Table("d", "a", (), ()), Table("d", "b", (), ())]


def test_a_preflight_fails_if_nothing_can_be_captured() -> None:
    """If only one table cannot, only it stops."""
    server = Preflight([check("fail"), check("ok", "d.a")], SERVER, TABLES)
    assert (checks.outcome(server), checks.headline(server)) == ("fail", "1 of 2 checks failed: log_bin")
    one = Preflight([check("fail", "d.a"), check("ok", "d.b"), check("warn")], SERVER, TABLES)
    assert checks.outcome(one) == "warn"
    assert checks.headline(one) == "1 of 3 checks failed, 1 warning; only the affected tables stop: log_bin, log_bin"
    every = Preflight([check("fail", "d.a"), check("fail", "d.b")], SERVER, TABLES)
    assert checks.outcome(every) == "fail"
    good = Preflight([check("ok")], SERVER, [])
    assert (checks.outcome(good), checks.headline(good)) == ("ok", "All 1 check passed")


def test_equal_checks_of_tables_are_grouped() -> None:
    """Five checks of a thousand tables are five rows."""
    passed = [check("ok", "d.a", "d.a: key"), check("ok", "d.b", "d.b: key"), check("ok")]
    assert [(c.name, c.actual) for c in checks.by_outcome(passed)[2]] == [
        ("log_bin", "that"),
        ("2 tables: key", "ok in 2 tables"),
    ]
