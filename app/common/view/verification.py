"""What the console shows of a pipeline's verification.

The fourth light, the tables, their parts and the rows that differ.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.common.view import words
from app.common.view.health import Layer
from app.common.view.hints import for_console
from app.common.view.runner_view import Runner
from engine.base.wording import rows_differ
from engine.journal.outage_causes import outage, over_when, unwritten
from engine.journal.sentences import audited
from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline.table_verdict import (
    LABELS,
    LACKS,
    MISMATCHED,
    STOPPED,
    WRITTEN,
    TableFacts,
    Verdict,
    VerificationState,
    verdict_of,
)
from engine.pipeline.verification_records import Details, Difference, LastAudit, PartState
from engine.pipeline.verifications import RESNAPSHOTTED, stale_at_s
from engine.spec.verify_settings import OFF, Verify

_TIP = (
    "Whether the mirrors equal the source, by comparing rows. The age is that of the part compared longest ago. "
    "The page Verify shows each table."
)
_URGENT = (WRITTEN, STOPPED.removeprefix("it is "), STOPPED, LACKS, MISMATCHED)
"""Reasons that an operator must know, shortened or not."""
_NAMED = 3
"""At most so many tables are named in a sentence."""


@dataclass(frozen=True)
class VerifiedTable:
    """The verification of one table."""

    table: str
    verdict: Verdict
    summary: Summary | None

    @property
    def state(self) -> VerificationState:
        """The state of its verdict."""
        return self.verdict.state

    @property
    def why(self) -> str:
        """The reason as a clause; empty if none is needed."""
        return self.verdict.why

    @property
    def at(self) -> datetime | None:
        """When its oldest part was verified; None if some part never was."""
        return datetime.fromisoformat(self.summary.at) if self.summary and self.summary.at else None

    @property
    def broken(self) -> Unreadable | None:
        """Why its mirror cannot be read, and what to do; None if it can, as far as known."""
        return self.verdict.broken

    @property
    def label(self) -> str:
        """Its verdict in words."""
        return self.verdict.label

    @property
    def differences(self) -> int:
        """Rows that differ."""
        return self.verdict.differences


@dataclass(frozen=True)
class ComparedTable:
    """One table of `verify --json`."""

    table: str
    verdict: str
    rows: int = 0
    differences_total: int = 0
    why: str = ""
    hint: str = ""
    at: str = ""


def outcome(tables: Sequence[ComparedTable], ended: str, now: Sequence[VerifiedTable] = ()) -> list[tuple[str, str]]:
    """The sentences about a verification that somebody asked for, with their colours.

    ended: when it ended. now: the tables as they are now. A result is left out if the table has a newer one, whoever
    asked for that. So is the reason why a mirror could not be compared, if a resnapshot has replaced the mirror since.
    """
    sentences = []
    since = {one.table: one.summary.last for one in now if one.summary}
    compared_tables = [one for one in tables if one.verdict in ("verified", "diverged") or one.rows]
    if compared_tables:
        of = compared_tables[0].table if len(compared_tables) == 1 else words.plural(len(compared_tables), "table")
        rows = words.count(sum(one.rows for one in compared_tables))
        total = sum(one.differences_total for one in compared_tables)
        differing = _names([one for one in compared_tables if one.differences_total])
        where = f" in {differing}" if len(compared_tables) > 1 else ""
        what = f"{rows_differ(total)}{where}" if total else "no row differs"
        sentences.append(("red" if total else "green", f"Compared {rows} rows of {of} at {ended}: {what}."))
    moot = {one.table for one in now if one.why == RESNAPSHOTTED}
    open_ones = [one for one in tables if one.table not in moot and since.get(one.table, "") <= one.at]
    sentences += [
        ("red", f"Cannot be verified at {ended}: {one.table}: {one.why}. {for_console(one.hint)}")
        for one in open_ones
        if one.hint
    ]
    for verdict, colour, what in (
        ("lagging", "orange", "Could not be verified"),
        ("unverifiable", "gray", "Cannot be verified"),
    ):
        if some := [one for one in open_ones if one.verdict == verdict and not one.hint]:
            sentences.append((colour, f"{what} at {ended}: {_names(some)}: {some[0].why}."))
    return sentences


def _names(tables: Sequence[ComparedTable]) -> str:
    """The first names of tables: `a, b, c and 2 more tables`."""
    more = f" and {words.plural(len(tables) - _NAMED, 'more table')}" if len(tables) > _NAMED else ""
    return ", ".join(one.table for one in tables[:_NAMED]) + more


def tables_of(facts: Mapping[str, TableFacts], verify: Verify, now: datetime) -> list[VerifiedTable]:
    """The tables of a pipeline, those that need an operator first, then the ones that were verified longest ago."""
    tables = [
        VerifiedTable(name, verdict_of(one, verify.period_s, now.timestamp()), one.summary)
        for name, one in facts.items()
    ]
    order = {state: n for n, state in enumerate(("broken", "diverged", "written", "stale", "unverifiable", "verified"))}

    def place(one: VerifiedTable) -> tuple[int, str, str]:
        state = "broken" if one.broken else "written" if one.why == WRITTEN else one.state
        return order[state], one.summary.at if one.summary else "", one.table

    return sorted(tables, key=place)


def steady_until_s(tables: Sequence[VerifiedTable], verify: Verify) -> float:
    """When the first of these states changes by its age, without a verification.

    Seconds since 1970; infinite if none does.
    """
    oldest = min((one.summary.at for one in tables if one.summary and one.state == "verified"), default=None)
    return math.inf if oldest is None else stale_at_s(oldest, verify.period_s)


def layer(tables: Sequence[VerifiedTable], now: datetime, *, current: bool = True, continuous: bool = False) -> Layer:
    """The fourth light.

    It is green only if every table that can be verified is, and the mirrors follow the source now. It is red if rows
    differ, or if a mirror cannot be read, since its readers fail too. It is blue until all rows were compared once.

    current: whether the mirrors follow the source; if not, the verdicts are those of the past. continuous: whether the
    runner compares tables by itself.
    """
    able = [one for one in tables if one.state != "unverifiable"]
    rows = sum(one.differences for one in tables)
    broken_tables = [one for one in tables if one.broken]
    notes = list[str]()
    if unable := sum(one.state == "unverifiable" and not one.broken for one in tables):
        notes.append(f"{words.plural(unable, 'table')} cannot be verified")
    unreadable = f"{words.plural(len(broken_tables), 'mirror')} cannot be read"
    if rows:
        more = [unreadable, *notes] if broken_tables else notes
        return Layer("Data", rows_differ(rows), "red", (_where(tables), *more), _TIP)
    if broken_tables:
        of = broken_tables[0].table if len(tables) > 1 else "resnapshot the table if files are gone"
        return Layer("Data", unreadable, "red", (of, *notes), _TIP)
    if not able:
        return _unable(tables, notes)
    verified_count = sum(one.state == "verified" for one in tables)
    if verified_count < len(able):
        headline = f"{verified_count:,} of {len(able):,} verified" if verified_count else LABELS["stale"]
        if not any((one.summary and one.summary.last) or one.why in _URGENT for one in able):
            headline = "Not verified yet"
            whys = ["no row was compared yet" if len(able) == 1 else f"{len(able):,} tables"]
        elif current and continuous and (progress := _first_progress(able)):
            return Layer("Data", "Verifying", "blue", (progress, *notes), _TIP)
        else:
            whys = _stale(able)
        return Layer("Data", headline, "gray", (*whys, *notes), _TIP)
    oldest = min(one.at for one in able if one.at is not None)
    colour = "green" if current else "gray"
    return Layer(
        "Data", LABELS["verified"], colour, (f"within the last {words.duration(_age_s(oldest, now))}", *notes), _TIP
    )


def _unable(tables: Sequence[VerifiedTable], notes: Sequence[str]) -> Layer:
    """The light of tables that cannot be compared; there may be none yet."""
    if not tables:
        return Layer("Data", LABELS["stale"], "gray", ("no table was compared yet",), _TIP)
    return Layer("Data", LABELS["unverifiable"], "gray", (tables[0].why,) if len(tables) == 1 else tuple(notes), _TIP)


def _first_progress(tables: Sequence[VerifiedTable]) -> str:
    """How far the first comparison of all rows is.

    Empty if something else is the reason that tables are not verified.
    """
    stale = [one for one in tables if one.state == "stale"]
    if any(one.why in _URGENT or (one.summary and one.summary.at) for one in stale):
        return ""
    if len(tables) == 1 and (only := tables[0].summary) and only.parts:
        return f"{only.compared:,} of {words.plural(only.parts, 'part')} compared so far"
    return f"{len(tables) - len(stale):,} of {words.plural(len(tables), 'table')} compared so far"


def _where(tables: Sequence[VerifiedTable]) -> str:
    """In how many tables rows differ; of a single table, how: `2 missing, 1 different`."""
    (first, *others) = [one for one in tables if one.differences]
    if len(tables) > 1 or first.summary is None or others:
        return f"in {words.plural(1 + len(others), 'table')}"
    return ", ".join(f"{count:,} {kind}" for kind, count in first.summary.by_kind.items())


def _stale(tables: Sequence[VerifiedTable]) -> list[str]:
    """Why tables are stale, with the number of each: first what an operator must know, then the most frequent.

    Together they count every stale table.
    """
    if len(tables) == 1:
        return [_reason(tables[0].verdict)]
    whys = Counter(_short(one.why) for one in tables if one.state == "stale")
    by_urgency = sorted(whys.items(), key=lambda item: (item[0] not in _URGENT, -item[1]))
    top, rest = by_urgency[:_NAMED], sum(count for _, count in by_urgency[_NAMED:])
    others = [f"{words.plural(rest, 'table')}: other reasons"] if rest else []
    return [*(f"{words.plural(count, 'table')}: {why}" for why, count in top), *others]


def _reason(verdict: Verdict) -> str:
    """The reason, and since when it holds."""
    since = f" since {words.date_time(datetime.fromisoformat(verdict.since))}" if verdict.since else ""
    return f"{_short(verdict.why)}{since}"


def _short(why: str) -> str:
    """The reason without its subject, which the light and the row name."""
    return why.removeprefix("it was ").removeprefix("it is ")


def _age_s(at: datetime, now: datetime) -> float:
    return round(max((now - at).total_seconds(), 0.0))


def none_differ(one: VerifiedTable) -> str:
    """What is known of a table without differences."""
    if one.broken:
        return "The mirror of this table cannot be read, so its rows cannot be compared."
    if one.state == "unverifiable":
        return f"The rows of this table cannot be compared: {one.why}."
    if one.summary is None or not one.summary.last:
        return "This table was not compared with its source yet."
    if one.why == WRITTEN:
        return (
            "Another program has changed this mirror since its rows were compared. *Verify this table* compares them "
            "all now; *Repair* then fixes those that differ."
        )
    return "No row of this table is known to differ. Rows that differ are listed here, and *Repair* fixes them."


def schedule(verify: Verify) -> str:
    """How often the runner verifies, in words."""
    if verify.period == OFF:
        return "Only on request: continuous verification is off (`verify.period`)."
    return (
        f"The runner compares every row about every {words.duration(verify.period_s)}, the oldest first. "
        f"It reads for at most {verify.share:.0%} of the time."
    )


def audits(verify: Verify, last: LastAudit | None, now: datetime) -> str:
    """How often the runner audits the change logs, and its last audit, in words."""
    if verify.audit_s is None:
        rule = "Change logs are audited only on request (`verify.audit`)."
    else:
        rule = f"The runner audits a random part of the change logs about every {words.duration(verify.audit_s)}."
    if last is None:
        return rule
    return f"{rule} Last audit {words.duration(_age_s(datetime.fromisoformat(last.at), now))} ago: {audited(last)}."


def table_rows(tables: Sequence[VerifiedTable]) -> list[dict[str, Any]]:
    """Rows of the list of tables."""
    return [
        {
            "State": one.label,
            "Table": one.table,
            "Compared": one.at,
            "Rows": words.count(one.summary.rows) if one.summary and _compared(one.summary) else words.NOTHING,
            "Parts": _parts(one.summary),
            "Position": (one.summary.position or words.NOTHING) if one.summary else words.NOTHING,
            "Version": _version(one.summary),
            "Took": words.duration(one.summary.seconds) if one.summary and _compared(one.summary) else words.NOTHING,
            "Why": _reason(one.verdict)[:1].upper() + _reason(one.verdict)[1:],
        }
        for one in tables
    ]


def _compared(summary: Summary | None) -> bool:
    """Whether anything of the current snapshot was compared."""
    return summary is not None and summary.compared > 0


def _parts(summary: Summary | None) -> str:
    if summary is None or not summary.parts:
        return words.NOTHING
    return f"{summary.compared:,} of {summary.parts:,}"


def _version(summary: Summary | None) -> str:
    return words.NOTHING if summary is None or summary.version is None else f"{summary.version:,}"


def difference_rows(details: Details) -> list[dict[str, Any]]:
    """Rows of the list of differences."""
    return [
        {
            "Kind": one.kind.capitalize(),
            "Key": key_text(one),
            "Chunk": words.NOTHING if one.chunk is None else f"{one.chunk:,}",
            "Columns": ", ".join(one.columns),
            "Likely cause": one.cause,
        }
        for one in details.differences
    ]


def key_text(difference: Difference) -> str:
    """The key of a difference: `17`, or `de, 5`."""
    return ", ".join(difference.key)


def side_by_side(difference: Difference) -> list[dict[str, str]]:
    """Both rows of a difference, a line per column; columns that differ are marked."""
    source, mirror = difference.source, difference.mirror
    names = dict.fromkeys([*(source or {}), *(mirror or {})])
    differing = set(difference.columns)
    return [
        {
            "": "≠" if name in differing or source is None or mirror is None else "",
            "Column": name,
            "Source": "no row" if source is None else value_text(source.get(name)),
            "Mirror": "no row" if mirror is None else value_text(mirror.get(name)),
        }
        for name in names
    ]


def value_text(value: Any) -> str:
    """A value as text; NULL apart from the text "NULL"."""
    return "NULL" if value is None else str(value)


def part_cells(parts: Sequence[PartState], most: int) -> list[tuple[str, str, float | None, int]]:
    """Cells of the heat map: label, hover text, age as seconds since 1970 (None: never), differences.

    At most `most` cells: neighbours are one cell, with the oldest age and the sum of the differences.
    """
    step = max(-(-len(parts) // most), 1)
    cells = []
    for first in range(0, len(parts), step):
        some = parts[first : first + step]
        ats = [part.at for part in some]
        oldest = None if "" in ats else datetime.fromisoformat(min(ats)).timestamp()
        differences = sum(part.differences for part in some)
        numbers = [part.chunk for part in some if part.chunk is not None]
        label = "the table" if not numbers else f"chunk {min(numbers):,}" if len(some) == 1 else f"{len(some):,} chunks"
        rows = sum(part.rows for part in some)
        cells.append((label, f"{words.count(rows)} rows", oldest, differences))
    return cells


def wait(runner: Runner) -> str:
    """Why nothing can be compared now, and until when; empty if something can, as far as is known.

    A comparison needs the source and the destination's store. A full disk does not keep it from reading.
    """
    if runner.away is not None:
        cause = runner.away.cause
        return f"{outage(cause)}, so nothing can be compared. {over_when(cause)}, the buttons work again."
    if runner.unwritten is not None and runner.unwritten.cause != "disk":
        one = runner.unwritten
        return f"{unwritten(one.cause)}, so nothing can be compared until {one.until}."
    return ""
