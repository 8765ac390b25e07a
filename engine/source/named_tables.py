"""Globs of a spec that match no table, with the nearest name. Pure.

Globs follow the server's rule for names (`globs.NameRule`). Where case counts, `!Shop.Audit_*` excludes nothing of
`shop`: a table that someone meant to exclude would be captured. Such a glob is an error.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from engine.decode.schema import TableName
from engine.spec.globs import matches

Finding = tuple[str, Literal["ok", "warn", "fail"], str, str, str, str]
"""Name, outcome, what was expected, what was found, why it matters, and the fix."""

INCLUSION = "tables "
"""The beginning of the names of `unmatched_inclusions`."""
_CASE = " Case counts on this server."


def unmatched_exclusions(globs: Sequence[str], tables: Sequence[TableName]) -> list[Finding]:
    """An error for each exclusion that would match in another case.

    Also returns a warning for each other exclusion that matches nothing.

    tables: all that the user may see.
    """
    findings: list[Finding] = []
    for glob in (glob.removeprefix("!") for glob in globs if glob.startswith("!")):
        if any(matches(glob, *name) for name in tables):
            continue
        near, in_other_case = _nearest(glob, tables)
        why = "Tables that it was meant to exclude would be captured." + _CASE * in_other_case
        fix = f"The nearest table is {near}." if near else "Remove it, or keep it for tables to come."
        outcome: Literal["warn", "fail"] = "fail" if in_other_case else "warn"
        findings.append((f"exclusion !{glob}", outcome, "matches a table", "matches none", why, fix))
    return findings


def unmatched_inclusions(
    globs: Sequence[str], tables: Sequence[TableName], hidden_databases: Collection[str] = ()
) -> list[Finding]:
    """A warning for each glob that includes nothing.

    hidden_databases: of globs in which the account may read no table: whether there is one, nobody sees.
    """
    findings: list[Finding] = []
    for glob in (glob for glob in globs if not glob.startswith("!")):
        if any(matches(glob, *name) for name in tables):
            continue
        if (database := glob.partition(".")[0]) in hidden_databases:
            why = "A server shows an account only tables on which it has a privilege. So its tables are not captured."
            fix = f"Grant SELECT on {database}, if it has tables: the statements are below."
            findings.append((f"{INCLUSION}{glob}", "warn", "matches a table", "matches none that it may see", why, fix))
            continue
        near, in_other_case = _nearest(glob, tables)
        why = "It captures no table. Tables of the pipeline that no glob matches stay captured." + _CASE * in_other_case
        fix = f"The nearest table is {near}." if near else "Correct it, or keep it for tables to come."
        findings.append((f"{INCLUSION}{glob}", "warn", "matches a table", "matches none", why, fix))
    return findings


def unmatched_rules(rules: Mapping[str, Sequence[str]], tables: Sequence[TableName]) -> list[Finding]:
    """A warning for each glob of a setting that matches no captured table."""
    findings: list[Finding] = []
    for setting, globs in rules.items():
        for glob in globs:
            if any(matches(glob, *name) for name in tables):
                continue
            near, in_other_case = _nearest(glob, tables)
            why = "The setting applies to no captured table." + _CASE * in_other_case
            fix = f"The nearest table is {near}." if near else "Remove it, or keep it for tables to come."
            findings.append((f"{setting} {glob}", "warn", "matches a captured table", "matches none", why, fix))
    return findings


def _nearest(glob: str, tables: Sequence[TableName]) -> tuple[str, bool]:
    """The nearest table, empty if none is near, and whether the glob matches it in another case."""
    folded = [".".join(name) for name in tables if matches(glob.casefold(), name[0].casefold(), name[1].casefold())]
    if folded:
        return folded[0], True
    names = {".".join(name).casefold(): ".".join(name) for name in tables}
    near = difflib.get_close_matches(glob.casefold(), names, 1)
    return (names[near[0]] if near else ""), False
