"""Copy on write or merge on read: what each would cost for the tables of a new pipeline, as rows of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.common.view import words
from engine.base.errors import TidemarkError
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.plan.mirror_labels import LABELS
from engine.plan.mirrors import (
    EXCLUDED,
    MirrorAdvice,
    age,
    counted_in,
    mirror_advice,
    mirror_of,
    per_day,
    rate_number,
)
from engine.source.change_rates import ChangeRates
from engine.spec.sink_settings import Merging, Sink


@dataclass(frozen=True)
class MirrorLine:
    """A table with the chosen and the recommended way of merging."""

    table: str
    merging: Merging | None
    """None for a table without a key, which has no mirror."""
    advice: MirrorAdvice


def mirror_lines(
    tables: Sequence[Table], plans: Mapping[str, Plan | TidemarkError], rates: ChangeRates, sink: Sink
) -> list[MirrorLine]:
    """The tables that can be planned.

    First those where the choice is not the recommended one, then by changes a second.
    """
    lines = []
    for table in tables:
        plan = plans[table.full_name]
        if isinstance(plan, Plan):
            advice = mirror_advice(sink, table, plan, rates)
            lines.append(MirrorLine(table.full_name, mirror_of(sink, table, plan), advice))
    return sorted(lines, key=lambda line: (line.merging == line.advice.recommended, -_changes(line), line.table))


def _changes(line: MirrorLine) -> float:
    return line.advice.rate.changes_per_s if line.advice.rate else 0.0


def mirror_row(line: MirrorLine) -> dict[str, Any]:
    """The cells of a row. Unknown numbers are `—`."""
    advice, rate = line.advice, line.advice.rate
    why = f"Changes are unknown: {advice.unknown}" if advice.unknown else advice.reason
    return {
        "Table": line.table,
        "Inserts/s": _per_s(rate.inserts_per_s if rate else None),
        "Updates/s": _per_s(rate.updates_per_s if rate else None),
        "Deletes/s": _per_s(rate.deletes_per_s if rate else None),
        **{LABELS[merging].capitalize(): _cost(advice, merging) for merging in EXCLUDED},
        "Chosen": LABELS[line.merging],
        "Recommended": LABELS[advice.recommended],
        "Why": why,
    }


def _per_s(rate: float | None) -> str:
    return words.NOTHING if rate is None else rate_number(rate)


def _cost(advice: MirrorAdvice, merging: Merging) -> str:
    cost = advice.costs.get(merging)
    return words.NOTHING if cost is None else f"{per_day(cost)} · {age(cost)}"


def measured(rates: ChangeRates) -> str:
    """What the numbers are based on, or why there are none."""
    if rates.unknown:
        return f"Changes a second are unknown, so the size alone decides: {rates.unknown}"
    return f"{counted_in(rates)} The figures assume random keys: bytes written, and the age that the mirror reaches."


def readers() -> str:
    """The readers that each way excludes."""
    parts = [f"{LABELS[merging]} excludes {' and '.join(out) or 'no reader'}" for merging, out in EXCLUDED.items()]
    return f"Readers: {'; '.join(parts)}."
