"""The results of a preflight for the page: failures first, equal results of several tables as one, and a summary."""

from collections.abc import Sequence

from app.common.view import words
from app.common.view.draft import StepOutcome
from engine.source.preflight import Check, Preflight

_NAMED = 12
_FEW = 3
"""So many checks are named in the summary."""


def by_outcome(checks: Sequence[Check]) -> tuple[list[Check], list[Check], list[Check]]:
    """Failed, warned and passed checks; a check that several tables share appears once."""
    failures, warnings, passes = ([c for c in checks if c.outcome == outcome] for outcome in ("fail", "warn", "ok"))
    return _together(failures), _together(warnings), _together(passes)


def _together(checks: Sequence[Check]) -> list[Check]:
    """The server's checks, then one check per kind for all tables."""
    kinds: dict[str, list[Check]] = {}
    for check in checks:
        if check.table:
            kinds.setdefault(check.name.rpartition(": ")[2], []).append(check)
    return [*(check for check in checks if not check.table), *(_one(kind, some) for kind, some in kinds.items())]


def _one(kind: str, some: Sequence[Check]) -> Check:
    if len(some) == 1:
        return some[0]
    first = some[0]
    actual = f"ok in {words.plural(len(some), 'table')}"
    if first.outcome != "ok":
        actual = words.listing([check.table for check in some], _NAMED)
        actuals = {check.actual for check in some}
        actual = f"{actuals.pop()}, in {actual}" if len(actuals) == 1 else actual
    fixes = dict.fromkeys(check.fix for check in some if check.fix)
    name = f"{words.plural(len(some), 'table')}: {kind}"
    return Check(name, first.outcome, first.expected, actual, first.why, "\n".join(fixes), first.table)


def outcome(preflight: Preflight) -> StepOutcome:
    """A failure if nothing can be captured. If only some tables cannot, only they stop, which is a warning."""
    failures = [check for check in preflight.checks if check.outcome == "fail"]
    everywhere = preflight.tables and len({check.table for check in failures}) == len(preflight.tables)
    if any(not check.table for check in failures) or everywhere:
        return "fail"
    return "warn" if failures or any(check.outcome == "warn" for check in preflight.checks) else "ok"


def headline(preflight: Preflight) -> str:
    """`All 12 checks passed`, `1 of 12 checks failed: GRANT`, `2 warnings in 12 checks, none failed: …`."""
    of = words.plural(len(preflight.checks), "check")
    failures = sum(check.outcome == "fail" for check in preflight.checks)
    warnings = sum(check.outcome == "warn" for check in preflight.checks)
    if failures:
        tail = f", {words.plural(warnings, 'warning')}" if warnings else ""
        alone = "" if outcome(preflight) == "fail" else "; only the affected tables stop"
        return f"{failures} of {of} failed{tail}{alone}: {_names(preflight)}"
    return (
        f"{words.plural(warnings, 'warning')} in {of}, none failed: {_names(preflight)}"
        if warnings
        else f"All {of} passed"
    )


def _names(preflight: Preflight) -> str:
    """The first checks that failed or warned, so that a summary elsewhere says which."""
    failures, warnings, _ = by_outcome(preflight.checks)
    names = [check.name for check in (*failures, *warnings)]
    return words.listing(names, _FEW)
