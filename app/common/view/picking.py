"""The table picker. The globs of the spec are the selection, a click edits them, and each table shows its risks."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.common.view import words
from engine.decode.schema import Table
from engine.plan.keys import own_key
from engine.plan.strategy import decide
from engine.source.preflight import table_checks
from engine.source.survey import Surveyed
from engine.spec.globs import EXACT, NameRule, escaped, matches, select_tables
from engine.spec.settings import ProjectionRules, Snapshot

PickedTable = tuple[str, str]
Tone = Literal["red", "orange", "gray"]

ICONS: dict[Tone, str] = {"red": ":material/error:", "orange": ":material/warning:", "gray": ":material/info:"}
"""An icon for each colour, worst first."""
SLOW_BYTES_S, FAST_BYTES_S = 8e6, 40e6
"""The range of one reader's speed on common hardware, used until the plan has measured it."""


@dataclass(frozen=True)
class Badge:
    """A risk of a table."""

    label: str
    tone: Tone
    """Red if the table cannot be captured, orange if something is lost or slow, gray for information."""
    meaning: str
    fix: str = ""
    """What to do: SQL or a sentence."""


@dataclass(frozen=True)
class Rule:
    """A glob of the spec."""

    glob: str
    tables: int
    """How many tables it matches."""
    decides: int
    """For how many tables it is the last match, which decides."""


@dataclass(frozen=True)
class Totals:
    """The totals of the selected tables, from the server's estimates."""

    tables: int
    of: int
    """How many tables there are."""
    rows: int
    size: int
    """In bytes."""
    chunks: int
    seconds: tuple[float, float] | None
    """The shortest and the longest expected time; None if there is nothing to copy."""


def exactly(database: str, table: str) -> str:
    """A glob that selects this table only."""
    return f"{escaped(database)}.{escaped(table)}"


def toggled(
    globs: Sequence[str],
    everything: Sequence[PickedTable],
    names: Collection[PickedTable],
    *,
    on: bool,
    rule: NameRule = EXACT,
) -> list[str]:
    """The globs after selecting or clearing these tables; all other tables stay as they are.

    A whole database gets one glob.

    rule: how the server compares names.
    """
    counts = Counter(database for database, _ in names)
    whole = [d for d, count in Counter(database for database, _ in everything).items() if 1 < count == counts[d]]
    for database in whole:
        globs = database_toggled(globs, everything, database, on=on, rule=rule)
    before = set(select_tables(rule.globs(globs), everything))
    wrong = {name for name in names if (name in before) != on}
    own = {exactly(*name) for name in wrong}
    new_globs = [glob for glob in globs if glob.removeprefix("!") not in own]
    selection = set(select_tables(rule.globs(new_globs), everything))
    sign = "" if on else "!"
    new_globs += [sign + exactly(*name) for name in everything if name in wrong and (name in selection) != on]
    return _simplified(new_globs, everything, rule)


def database_toggled(
    globs: Sequence[str], everything: Sequence[PickedTable], database: str, *, on: bool, rule: NameRule = EXACT
) -> list[str]:
    """The globs after selecting or clearing a whole database, including tables that are created later."""
    theirs = [name for name in everything if name[0] == database]
    head = f"{escaped(database)}."
    new_globs = [glob for glob in globs if not glob.removeprefix("!").startswith(head)]
    selection = set(select_tables(rule.globs(new_globs), everything))
    if any((name in selection) != on for name in theirs) or (on and not theirs):
        new_globs.append(f"{'' if on else '!'}{head}*")
    return _simplified(new_globs, everything, rule)


def _simplified(globs: Sequence[str], everything: Sequence[PickedTable], rule: NameRule) -> list[str]:
    """Remove repeated globs (the last one decides) and leading exclusions; empty if nothing is selected."""
    if not select_tables(rule.globs(globs), everything):
        return []
    unique_globs = list(dict.fromkeys(reversed(globs)))[::-1]
    return unique_globs[next(n for n, glob in enumerate(unique_globs) if not glob.startswith("!")) :]


def glob_rules(globs: Sequence[str], everything: Sequence[PickedTable], rule: NameRule = EXACT) -> list[Rule]:
    """Each glob with its effect."""
    last: dict[PickedTable, int] = {}
    counts = [0] * len(globs)
    for number, glob in enumerate(rule.globs(globs)):
        for name in everything:
            if matches(glob.removeprefix("!"), *name):
                last[name] = number
                counts[number] += 1
    deciding = list(last.values())
    return [Rule(glob, counts[number], deciding.count(number)) for number, glob in enumerate(globs)]


def with_glob(globs: Sequence[str], glob: str, *, on: bool) -> list[str]:
    """The globs with one added at the end, where it decides; unchanged unless it has the form database.table."""
    database, dot, table = glob.partition(".")
    if not (database and dot and table) or table.startswith(".") or re.search(r"[\s!]", database):
        return list(globs)
    new_glob = glob if on else f"!{glob}"
    return [*(one for one in globs if one.removeprefix("!") != glob), new_glob]


def projected(table: Table, rules: ProjectionRules) -> Table:
    """The table with `unread` set on the columns that the projection leaves out. Key columns are always published."""
    if rules.columns is None and rules.exclude is None:
        return table
    only = None if rules.columns is None else {*map(str.lower, rules.columns)}
    without = {*map(str.lower, rules.exclude or ())}

    def left_out(name: str) -> bool:
        low = name.lower()
        return name not in table.key and (low in without or (only is not None and low not in only))

    columns = tuple(replace(c, unread=left_out(c.name) and c.type != "json") for c in table.columns)
    return replace(table, columns=columns)


def badges(one: Surveyed, table: Table | None = None) -> list[Badge]:
    """The risks of a table, worst first. table: the table after projection."""
    table = table or one.table
    risks = [
        Badge("cannot be captured", "red", f"{check.actual.rstrip('.')}. {check.why}", check.fix)
        for check in table_checks(table)
        if check.outcome == "fail"
    ]
    warnings = {check.name.rpartition(": ")[2]: check for check in table_checks(table) if check.outcome == "warn"}
    if check := warnings.get("key"):
        risks.append(Badge("no key", "orange", check.why, check.fix))
    if check := warnings.get("engine"):
        risks.append(Badge("no transactions", "orange", check.why, check.fix))
    if one.cascades:
        meaning = (
            f"Foreign keys ({', '.join(one.cascades)}) change or delete its rows without an event in this server's "
            "binlog: such changes are not captured."
        )
        risks.append(Badge("cascade", "orange", meaning, "Delete child rows with explicit statements."))
    return risks + _key_badges(table)


def _key_badges(table: Table) -> list[Badge]:
    if not table.key:
        return []
    key = own_key(table)
    if key is None:
        return [Badge("one chunk", "orange", "Its key cannot be read by ranges, so the whole table is one chunk.")]
    first = key.columns[0]
    if first.type in ("char", "varchar") and not (first.collation or "").endswith("_bin"):
        meaning = f"The key {first.name} is text in {first.collation}: the server finds its chunks, which is slower."
        return [Badge("text key", "gray", meaning)]
    return []


def risks(tables: Sequence[Surveyed]) -> dict[str, list[Badge]]:
    """The badges of each table without a projection.

    Computed once per survey, because it is the slow part of the tree.
    """
    return {one.table.full_name: badges(one) for one in tables}


def tree(
    tables: Sequence[Surveyed],
    risks_by_table: Mapping[str, list[Badge]],
    globs: Sequence[str],
    projections: Mapping[str, ProjectionRules],
) -> list[tuple[str, list[list[Any]]]]:
    """For the picker: each database with its tables: name, chosen, rows, bytes, key, engine, badges.

    risks_by_table: the result of `risks`. projections: the rules of tables that have a projection.
    """
    everything = [(one.table.database, one.table.name) for one in tables]
    selection = set(select_tables(globs, everything))
    tables_by_database: dict[str, list[list[Any]]] = {}
    for one in tables:
        table, rules = one.table, projections.get(one.table.full_name)
        found_risks = badges(one, projected(table, rules)) if rules else risks_by_table[table.full_name]
        parts = [[badge.label, badge.tone, badge.meaning] for badge in found_risks]
        tables_by_database.setdefault(table.database, []).append(
            [
                table.name,
                int((table.database, table.name) in selection),
                one.statistics.rows,
                one.statistics.data_bytes,
                ", ".join(table.key),
                one.statistics.engine,
                parts,
            ]
        )
    return list(tables_by_database.items())


def totals(tables: Sequence[Surveyed], globs: Sequence[str], snapshot: Snapshot, readers: int) -> Totals:
    """The totals of the selected tables, from statistics alone."""
    everything = {(one.table.database, one.table.name): one for one in tables}
    some = [everything[name] for name in select_tables(globs, everything)]
    plain = snapshot.model_copy(update={"chunk_key": {}, "tables": {}})
    chunks = sum(decide(one.table, one.statistics, None, plain).estimated_chunks for one in some)
    size = sum(one.statistics.data_bytes for one in some)
    busy = max(min(readers, chunks), 1)
    seconds = (size / FAST_BYTES_S / busy, size / SLOW_BYTES_S / busy) if size else None
    return Totals(len(some), len(everything), sum(one.statistics.rows for one in some), size, chunks, seconds)


def totals_line(one: Totals, readers: int) -> str:
    """`12 of 214 tables · about 48M rows · 9.3 GB · about 560 chunks · …`."""
    if not one.tables:
        return f"None of {words.plural(one.of, 'table')} is chosen"
    parts = [
        f"{one.tables:,} of {words.plural(one.of, 'table')}",
        f"about {words.count(one.rows)} rows",
        words.size(one.size),
        f"about {words.plural(one.chunks, 'chunk')}",
    ]
    if one.seconds:
        low, high = one.seconds
        span = "some seconds" if high < 10 else f"{words.duration(low)} to {words.duration(high)}"
        parts.append(f"{span} with {words.plural(readers, 'reader')}; the plan measures it")
    return " · ".join(parts)
