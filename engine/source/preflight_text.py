"""The preflight's result as text: what is wrong first, each kind once, then how much is right.

`check --json` has every check.
"""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from engine.base.wording import plural
from engine.source.preflight import Check, Preflight

_MOST_TABLES = 10
"""Of the tables with the same fault, as many are listed."""
_LABELS = {"fail": Text("FAIL", "red"), "warn": Text("warn", "yellow")}


def print_checks(out: Console, result: Preflight, grants: Sequence[str]) -> None:
    """Print what is not ok and what to do about it, how many checks are ok, and the rights that are needed."""
    for outcome, label in _LABELS.items():
        for group in _groups(check for check in result.checks if check.outcome == outcome):
            _print_group(out, label, group)
    right = [check for check in result.checks if check.outcome == "ok"]
    of_tables = sum(bool(check.table) for check in right)
    tables = f"{plural(of_tables, 'check')} of {plural(len(result.tables), 'table')}"
    out.print(f"ok: {plural(len(right) - of_tables, 'check')} of the server, {tables}.", highlight=False)
    out.print("\nAll rights that Tidemark ever needs (never LOCK TABLES, RELOAD, SUPER or any right to write):")
    for grant in grants:
        out.print(f"  {grant}", markup=False)


def _print_group(out: Console, label: Text, group: Sequence[Check]) -> None:
    """Print checks of one kind: one of the server, or that of all tables with the fault."""
    first = group[0]
    kind = _kind(first)
    out.print(Text.assemble(label, f" {kind}", f": {plural(len(group), 'table')}" if first.table else ""))
    out.print(f"  expected: {first.expected}\n  {first.why}", markup=False, highlight=False)
    for check in group[:_MOST_TABLES]:
        out.print(f"  {check.table or 'actual'}: {check.actual}", markup=False, highlight=False)
        fix = (check.fix or "Nothing to do.").replace("\n", "\n    ")
        out.print(f"    {fix}", markup=False, highlight=False)
    if len(group) > _MOST_TABLES:
        out.print(f"  and {plural(len(group) - _MOST_TABLES, 'more table')}; --json lists them.", highlight=False)
    out.print()


def _groups(checks: Iterable[Check]) -> list[list[Check]]:
    """The checks by kind and reason, in the order in which each first occurs."""
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((_kind(check), check.why), []).append(check)
    return list(groups.values())


def _kind(check: Check) -> str:
    return check.name.removeprefix(f"{check.table}: ") if check.table else check.name
