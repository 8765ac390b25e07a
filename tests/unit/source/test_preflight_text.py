"""The text of `check`: what is wrong first, what is right as a count."""

from io import StringIO

from rich.console import Console

from engine.decode.schema import Column, Table
from engine.source.connect import Server
from engine.source.preflight import Check, Preflight, table_checks
from engine.source.preflight_text import print_checks

SERVER = Server("mysql", (9, 7, 0), "9.7.0", "uuid")
OK = Check("version", "ok", "new", "newer", "why")
WARN = Check("tls", "warn", "verified", "not", "Others could read it.", "Set tls.")


def printed(tables: list[Table]) -> str:
    """What is printed for these tables."""
    checks = [OK, WARN, *(check for table in tables for check in table_checks(table))]
    text = StringIO()
    print_checks(Console(file=text, width=200), Preflight(checks, SERVER, tables), ["GRANT SELECT ON *.* TO 'u'@'%';"])
    return text.getvalue()


def table(name: str, kind: str = "int", key: tuple[str, ...] = ("id",)) -> Table:
    """A table with one column."""
    return Table("shop", name, (Column("id", kind),), key)


def test_thousands_of_tables_are_a_count() -> None:
    """Two thousand good tables take no more lines than one."""
    many = printed([table(f"t{n}") for n in range(2000)])
    assert len(many.splitlines()) == len(printed([table("t")]).splitlines()) < 20
    assert "ok: 1 check of the server, 10,000 checks of 2,000 tables." in many


def test_what_is_wrong_comes_first_and_each_kind_once() -> None:
    """Failures before warnings; ten tables of a kind with their fixes, and how many more there are."""
    faulty = [table(f"bad{n}", "mystery") for n in range(12)]
    keyless = [table(f"log{n}", key=()) for n in range(3)]
    text = printed([*(table(f"t{n}") for n in range(50)), *keyless, *faulty])
    order = [
        text.index(part) for part in ("FAIL columns: 12 tables", "warn tls", "warn key: 3 tables", "ok: ", "GRANT")
    ]
    assert order == sorted(order)
    assert text.count("FAIL") == 1
    assert "shop.bad9: " in text
    assert "shop.bad10: " not in text
    assert "and 2 more tables; --json lists them." in text
    assert all(f"ALTER TABLE `shop`.`log{n}` ADD PRIMARY KEY" in text for n in range(3))
