"""How a table's mirror will be merged, and which way is recommended, as shown before anything is copied."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.base.wording import count, duration
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.plan.merge_costs import MergeCost, merge_cost
from engine.source.change_rates import ChangeRate, ChangeRates
from engine.spec.sink_settings import AUTO_BYTES, Merging, Sink

EXCLUDED: dict[Merging, tuple[str, ...]] = {
    "copy_on_write": (),
    "merge_on_read": (
        "Delta readers without deletion vectors",
        (
            "exports through PyArrow: deltalake's to_pyarrow_table, to_pyarrow_dataset and to_pandas, "
            "Polars with use_pyarrow"
        ),
    ),
}
"""The readers that cannot read a mirror (docs/destinations.md)."""
_FRESH_S = 60.0
"""A mirror that is younger is fresh enough, whatever the other way achieves."""
_LITTLE_BYTES = 10e9
"""Bytes written per day that are acceptable, whatever the other way writes."""
_AGE_TIMES, _BYTES_TIMES = 2, 10
"""Copy on write may cost so many times as much as merge on read."""


@dataclass(frozen=True)
class MirrorAdvice:
    """What each way of merging would cost for a table, and which one is recommended."""

    recommended: Merging | None
    """None without a mirror: the table has no key, or the destination keeps none."""
    reason: str
    """The reason, in one sentence."""
    rate: ChangeRate | None = None
    """None if it is unknown."""
    unknown: str = ""
    """Why the rate is unknown; empty otherwise."""
    window_s: float = 0.0
    """The seconds of binlog that the rate was measured in."""
    costs: Mapping[Merging, MergeCost] = field(default_factory=dict)
    """Empty if the rate is unknown, or the table has no mirror."""

    def as_dict(self) -> dict[str, Any]:
        """For `plan --json`. Unknown numbers are null."""
        changes = None
        if self.rate is not None:
            changes = {
                "inserts_per_s": round(self.rate.inserts_per_s, 3),
                "updates_per_s": round(self.rate.updates_per_s, 3),
                "deletes_per_s": round(self.rate.deletes_per_s, 3),
                "bytes_per_s": round(self.rate.bytes_per_s),
                "window_s": round(self.window_s, 1),
            }
        unknown = {"bytes_per_day": None, "mirror_age_s": None}
        ways: dict[str, Any] = {
            merging: {
                **(self.costs[merging].as_dict() if merging in self.costs else unknown),
                "excluded_readers": list(excluded),
            }
            for merging, excluded in EXCLUDED.items()
        }
        return {
            "changes": changes,
            "changes_unknown": self.unknown or None,
            **ways,
            "recommended": self.recommended,
            "reason": self.reason,
        }


def mirror_of(sink: Sink, table: Table, plan: Plan) -> Merging | None:
    """How changes will be merged; None without a mirror: the table has no key, or the destination keeps none."""
    if not (table.key and sink.has_mirrors):
        return None
    return sink.merging(table.database, table.name, plan.approx_bytes)


def decided(sink: Sink, table: Table, plan: Plan) -> Plan:
    """The plan with the decision about the mirror, as the ledger keeps it."""
    return replace(plan, mirror=mirror_of(sink, table, plan))


def mirror_advice(sink: Sink, table: Table, plan: Plan, rates: ChangeRates) -> MirrorAdvice:
    """Compare the two ways for a table, and recommend one."""
    rate = rates.rates.get(table.full_name)
    unknown = rates.why_unknown(table.full_name) if rate is None else ""
    if not table.key:
        return MirrorAdvice(None, "It has no key, so it has no mirror.", rate, unknown, rates.window_s)
    if not sink.has_mirrors:
        return MirrorAdvice(None, "The destination keeps no mirrors.", rate, unknown, rates.window_s)
    planned, why = _planned(sink, table, plan)
    if rate is None:
        return MirrorAdvice(planned, f"{why}. Its changes are unknown.", None, unknown)
    costs: dict[Merging, MergeCost] = {
        merging: merge_cost(merging, plan.approx_rows, plan.approx_bytes, rate, sink) for merging in EXCLUDED
    }
    if not rate.changes_per_s:
        reason = f"{why}. Nothing changed in {duration(rates.window_s)}."
        return MirrorAdvice(planned, reason, rate, "", rates.window_s, costs)
    on_write, on_read = costs["copy_on_write"], costs["merge_on_read"]
    if faults := _faults(on_write, on_read):
        reason = f"Copy on write would {', and '.join(faults)}."
        return MirrorAdvice("merge_on_read", reason, rate, "", rates.window_s, costs)
    also = (
        "every reader can read it" if planned == "copy_on_write" else "copy on write would do too, if a reader needs it"
    )
    reason = f"{why}. At that rate, it writes {per_day(costs[planned])}; {also}."
    return MirrorAdvice(planned, reason, rate, "", rates.window_s, costs)


def _planned(sink: Sink, table: Table, plan: Plan) -> tuple[Merging, str]:
    """How the spec merges the table, which is recommended unless it costs too much, and why."""
    chosen = sink.merging(table.database, table.name, plan.approx_bytes)
    small = plan.approx_bytes < AUTO_BYTES
    if chosen != ("copy_on_write" if small else "merge_on_read"):
        return chosen, "The spec says so"
    return chosen, f"By its size ({'less than' if small else 'at least'} {AUTO_BYTES >> 20} MiB)"


def _faults(on_write: MergeCost, on_read: MergeCost) -> list[str]:
    """What speaks against copy on write; empty if nothing does."""
    faults = []
    if on_write.bytes_per_day > max(_LITTLE_BYTES, _BYTES_TIMES * on_read.bytes_per_day):
        times = on_write.bytes_per_day / max(on_read.bytes_per_day, 1.0)
        faults.append(f"write {per_day(on_write)}, {times:,.0f} times as much")
    if on_write.mirror_age_s > max(_FRESH_S, _AGE_TIMES * on_read.mirror_age_s):
        faults.append(f"make the mirror {age(on_write)} old instead of {age(on_read)}")
    return faults


def counted_in(rates: ChangeRates) -> str:
    """Over which time the changes were counted, and what that means for the costs."""
    window = duration(rates.window_s)
    return (
        f"Changes were counted in the last {window} of binlog. Costs are estimates for a whole day at that rate: "
        "after a one-time load they are too high, after a quiet hour too low."
    )


def per_day(cost: MergeCost) -> str:
    """`1.2 GB a day`."""
    text = count(cost.bytes_per_day)
    number, unit = (text[:-1], text[-1].upper()) if text[-1].isalpha() else (text, "")
    return f"{number} {unit}B a day"


def age(cost: MergeCost) -> str:
    """The age of the mirror, such as `12 s`."""
    return duration(cost.mirror_age_s)


def rate_text(rate: ChangeRate) -> str:
    """`1.2k: 1k inserts, 200 updates`, per second; `0` without changes."""
    parts = (("inserts", rate.inserts_per_s), ("updates", rate.updates_per_s), ("deletes", rate.deletes_per_s))
    named = ", ".join(f"{rate_number(value)} {name}" for name, value in parts if value)
    return f"{rate_number(rate.changes_per_s)} ({named})" if named else "0"


def rate_number(value: float) -> str:
    """A number of changes per second, with two digits if there are few."""
    return count(value) if value >= 10 else f"{value:.2g}"
