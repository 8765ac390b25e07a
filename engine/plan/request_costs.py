"""Estimates the requests to a bucket that a table's changes cause. Pure.

An epoch with changes of the table takes EPOCH, a merge MERGES: counted with small files
(`tests/live/test_requests.py`). An epoch comes every `poll_interval_s` at the earliest, a merge at the period of
`plan.merge_costs`. Changes are assumed to be independent of each other, so an epoch of `s` seconds has some with a
probability of `1 - exp(-s × rate)`. Changes in bursts need fewer requests.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.plan.merge_costs import DAY_S, MergeCost
from engine.spec.sink_settings import Merging
from engine.spec.store_prices import MONTH_DAYS, StorePrices, money


@dataclass(frozen=True)
class StoreCost:
    """Requests, or requests a day."""

    puts: float = 0.0
    """PUT and LIST."""
    gets: float = 0.0
    """GET and HEAD."""

    def __add__(self, other: "StoreCost") -> "StoreCost":
        return StoreCost(self.puts + other.puts, self.gets + other.gets)

    def times(self, number: float) -> "StoreCost":
        """So many of them."""
        return StoreCost(self.puts * number, self.gets * number)


EPOCH = StoreCost(2, 2)
"""Of a table that changes in an epoch: its file and its commit."""
MERGES: Mapping[Merging, StoreCost] = {"copy_on_write": StoreCost(2, 10), "merge_on_read": StoreCost(3, 11)}


def requests_per_day(merging: Merging | None, changes_per_s: float, poll_s: float, cost: MergeCost | None) -> StoreCost:
    """Requests a day of a table that changes at a rate. cost: of its merges; None without a mirror."""
    requests = EPOCH.times(_times(changes_per_s, poll_s))
    if merging is None or cost is None:
        return requests
    return requests + MERGES[merging].times(_times(changes_per_s, cost.period_s))


def _times(changes_per_s: float, period_s: float) -> float:
    """How many of a day's periods have changes."""
    return DAY_S / period_s * -math.expm1(-period_s * changes_per_s)


def month_text(per_day: StoreCost, stored_bytes: float, prices: StorePrices | None) -> str:
    """`at most 12k puts and 3k gets a day: 1.80 USD a month, and 0.23 USD for storage`."""
    text = f"at most {per_day.puts:,.0f} puts and {per_day.gets:,.0f} gets a day"
    if prices is None:
        return text
    requests = prices.of_requests(per_day.puts, per_day.gets) * MONTH_DAYS
    storage = money(prices.of_month(stored_bytes), prices.currency)
    return (
        f"{text}: {money(requests, prices.currency)} a month, and {storage} for storage, if the files were as large as "
        "the tables are on the source"
    )
