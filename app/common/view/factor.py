"""The distribution factor of each table, against the bounds within which the key is split evenly.

The figure is markup: it is there at once, where a chart waits for a library of megabytes.
"""

import html
import math
from collections.abc import Sequence

from app.common.view import words
from app.common.view.status_style import HEX
from engine.history.table_queries import NewestPlan

MOST = 20
"""More tables would make the figure taller than a screen."""
_MOST_TICKS = 10
_STYLE = f"""<style>
.factors {{ display: grid; grid-template-columns: fit-content(32%) 1fr; font-size: 0.8rem; line-height: 1.75rem; }}
.factors > span {{ padding-right: 0.75rem; overflow: hidden; text-overflow: ellipsis; \
white-space: nowrap; text-align: right; }}
.factors > div {{ position: relative; height: 1.75rem; }}
.factors i {{ font-style: normal; }}
.factors .within {{ position: absolute; height: 100%; border: 0 dotted {HEX["green"]}; border-width: 0 1px; background:
 color-mix(in srgb, {HEX["green"]} 12%, transparent); }}
.factors .at {{ position: absolute; transform: translateX(-50%); white-space: nowrap; }}
.factors .mark {{ position: absolute; top: 0; transform: translateX(-0.35em); white-space: nowrap; }}
.factors .mark::before {{ content: "●"; margin-right: 0.4em; color: {HEX["green"]}; }}
.factors .mark.outside::before {{ content: "✕"; color: {HEX["orange"]}; }}
.factors .note {{ opacity: 0.8; }}
</style>"""


def figure_plans(plans: Sequence[NewestPlan], lower: float, upper: float) -> list[NewestPlan]:
    """The tables for the figure: first those outside the bounds, then by rows."""
    candidates = [plan for plan in plans if plan.distribution_factor and plan.distribution_factor > 0]
    candidates.sort(key=lambda plan: (lower <= (plan.distribution_factor or 0) <= upper, -(plan.approx_rows or 0)))
    return candidates[:MOST]


def figure(plans: Sequence[NewestPlan], lower: float, upper: float) -> str:
    """HTML with one line per table on a logarithmic axis: a mark at its factor, and a band between the bounds.

    plans: with a factor above 0.
    """
    factors = [plan.distribution_factor or 1.0 for plan in plans]
    axis = _Axis(min([lower, *factors]) / 3, max([upper, *factors]) * 8)  # the number is on the right of its mark
    band = f'<i class="within" style="left:{axis.percent(lower)};right:{axis.percent(upper, right=True)}"></i>'
    notes = "".join(f'<i class="at note" style="left:{axis.percent(at)}">{at:g}</i>' for at in (lower, upper))
    ticks = "".join(f'<i class="at note" style="left:{axis.percent(tick)}">{tick:g}</i>' for tick in axis.ticks())
    lines = "".join(
        _line(plan, value, f"{axis.percent(value)}", band, inside=lower <= value <= upper)
        for plan, value in zip(plans, factors, strict=True)
    )
    alt = f"Distribution factor of each table against {lower:g} to {upper:g}"
    about = "distribution factor: (max − min + 1) / rows"
    return (
        f'{_STYLE}<div class="factors" role="group" aria-label="{alt}"><span></span><div>{notes}</div>{lines}'
        f'<span class="note">{about}</span><div>{ticks}</div></div>'
    )


def _line(plan: NewestPlan, value: float, left: str, band: str, *, inside: bool) -> str:
    name, text = html.escape(plan.table), f"{value:.4g}"
    why = html.escape(f"{plan.table}: {text}\n{plan.strategy or words.NOTHING}: {plan.reason or words.NOTHING}")
    mark = f'<i class="mark{"" if inside else " outside"}" style="left:{left}">{text}</i>'
    return f'<span title="{why}">{name}</span><div title="{why}">{band}{mark}</div>'


class _Axis:
    """A logarithmic axis."""

    def __init__(self, low: float, high: float) -> None:
        self._low = math.log10(low)
        self._high = math.log10(high)

    def percent(self, value: float, *, right: bool = False) -> str:
        """Where a value is, from the left or the right."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return f"{100 * (1 - share if right else share):.2f}%"

    def ticks(self) -> list[float]:
        """Powers of ten."""
        powers = range(math.ceil(self._low), math.floor(self._high) + 1)
        return [10.0**power for power in powers[:: -(-len(powers) // _MOST_TICKS) or 1]]
