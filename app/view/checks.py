"""The results of a preflight as a page shows them: what fails first, and what all of it comes to."""

from collections.abc import Sequence

from app.view import words
from app.view.draft import Outcome
from engine.source.preflight import Check, Preflight

_NAMED = 12


def shown(checks: Sequence[Check]) -> tuple[list[Check], list[Check], list[Check]]:
    """Failed, warned and passed checks; what is the same of several tables is said once."""
    failed, warned, passed = ([c for c in checks if c.outcome == outcome] for outcome in ("fail", "warn", "ok"))
    return _together(failed), _together(warned), _together(passed)


def _together(checks: Sequence[Check]) -> list[Check]:
    """The server's checks, then those of tables: more than one of a kind become one."""
    kinds: dict[str, list[Check]] = {}
    for check in checks:
        if check.table:
            kinds.setdefault(check.name.rpartition(": ")[2], []).append(check)
    return [*(check for check in checks if not check.table), *(_one(kind, some) for kind, some in kinds.items())]


def _one(kind: str, some: Sequence[Check]) -> Check:
    if len(some) == 1:
        return some[0]
    first = some[0]
    actual = f"so in {words.plural(len(some), 'table')}"
    if first.outcome != "ok":
        names = ", ".join(check.table for check in some[:_NAMED])
        actual = names + (f" and {len(some) - _NAMED:,} more" if len(some) > _NAMED else "")
        told = {check.actual for check in some}
        actual = f"{told.pop()}, in {actual}" if len(told) == 1 else actual
    fixes = dict.fromkeys(check.fix for check in some if check.fix)
    name = f"{words.plural(len(some), 'table')}: {kind}"
    return Check(name, first.outcome, first.expected, actual, first.why, "\n".join(fixes), first.table)


def outcome(found: Preflight) -> Outcome:
    """Fails when nothing could be captured; a table that cannot be captured stops alone, which is a warning."""
    failed = [check for check in found.checks if check.outcome == "fail"]
    everywhere = found.tables and len({check.table for check in failed}) == len(found.tables)
    if any(not check.table for check in failed) or everywhere:
        return "fail"
    return "warn" if failed or any(check.outcome == "warn" for check in found.checks) else "ok"


def headline(found: Preflight) -> str:
    """`All 12 checks passed`, `1 of 12 checks failed`, `2 warnings in 12 checks`."""
    of = words.plural(len(found.checks), "check")
    failed = sum(check.outcome == "fail" for check in found.checks)
    warned = sum(check.outcome == "warn" for check in found.checks)
    if failed:
        tail = f", {words.plural(warned, 'warning')}" if warned else ""
        alone = "" if outcome(found) == "fail" else "; the tables concerned stop alone"
        return f"{failed} of {of} failed{tail}{alone}"
    return f"{words.plural(warned, 'warning')} in {of}, nothing in the way" if warned else f"All {of} passed"
