"""The results of a preflight as a page shows them: what fails first, and what all of it comes to."""

from collections.abc import Sequence

from app.view import words
from app.view.draft import Outcome
from engine.source.preflight import Check, Preflight


def shown(checks: Sequence[Check]) -> tuple[list[Check], list[Check], list[Check]]:
    """Failed, warned and passed checks; of passed ones those of tables are one line a kind."""
    passed = [check for check in checks if check.outcome == "ok"]
    kinds: dict[str, list[Check]] = {}
    for check in passed:
        if check.table:
            kinds.setdefault(check.name.rpartition(": ")[2], []).append(check)
    of_tables = [
        Check(f"tables: {kind}", "ok", some[0].expected, f"so in {words.plural(len(some), 'table')}", some[0].why)
        for kind, some in kinds.items()
    ]
    return (
        [check for check in checks if check.outcome == "fail"],
        [check for check in checks if check.outcome == "warn"],
        [*(check for check in passed if not check.table), *of_tables],
    )


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
