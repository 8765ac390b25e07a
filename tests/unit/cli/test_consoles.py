"""The consoles of the command line."""

import io

from engine.base.text_grid import text_grid
from engine.cli.consoles import plain_console

TEXTS = ["Detail: [errno 2] No such file", "d.[red]t[/red]", ":key: of a table", "x" * 500, "7 words " * 60]


def test_a_pipe_gets_every_text_as_it_is() -> None:
    """Lines and cells: brackets and colons mean nothing, and nothing is cut or folded."""
    for text in TEXTS:
        lines, cells = io.StringIO(), io.StringIO()
        plain_console(lines).print(text)
        assert lines.getvalue() == f"{text.rstrip()}\n" or lines.getvalue() == f"{text}\n"
        grid = text_grid("table", "rows", "why", right=("rows",))
        grid.add_row(text, "1,000", text)
        plain_console(cells).print(grid)
        (_, row) = cells.getvalue().splitlines()
        assert row.count(text.strip()) == 2


def test_a_narrow_terminal_folds_texts_and_keeps_numbers() -> None:
    """Every character is there."""
    out = io.StringIO()
    console = plain_console(out)
    console.width = 40
    cells = ("a_database.a_table_with_a_long_name", "1,234,567", "verified 2026-11-27 03:31:05 UTC")
    grid = text_grid("table", "rows", "why", right=("rows",))
    grid.add_row(*cells)
    console.print(grid)
    heading, *rows = out.getvalue().splitlines()
    assert sorted("".join(rows).replace(" ", "")) == sorted("".join(cells).replace(" ", ""))
    assert "1,234,567" in rows[0]
    assert max(map(len, (heading, *rows))) <= 40
