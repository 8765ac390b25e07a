"""The preflight's result as text."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid

from engine.source.preflight import Preflight


def print_checks(out: Console, result: Preflight, grants: Sequence[str]) -> None:
    """Print each check, what to do about those that are not ok, and the rights that are needed."""
    grid = Grid("", "check", "expected", "actual", box=None, pad_edge=False)
    for c in result.checks:
        grid.add_row(
            {"ok": "ok", "warn": "[yellow]warn[/]", "fail": "[red]FAIL[/]"}[c.outcome], c.name, c.expected, c.actual
        )
    out.print(grid)
    for c in result.checks:
        if c.outcome != "ok":
            out.print(f"\n{c.name}: {c.why}\n  {c.fix or 'Nothing to do.'}", markup=False)
    out.print("\nAll rights that Tidemark ever needs (never LOCK TABLES, RELOAD, SUPER or any right to write):")
    for grant in grants:
        out.print(f"  {grant}", markup=False)
