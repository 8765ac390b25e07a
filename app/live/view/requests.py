"""Requests to buckets as tables, and what they cost."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from app.common.view import words
from engine.history.request_queries import RequestSums
from engine.spec.store_prices import MONTH_DAYS, StorePrices, money
from engine.store.requests import RequestCounts


def _counts(one: RequestSums) -> RequestCounts:
    return RequestCounts(one.puts, one.lists, one.gets, one.deletes, one.sent_bytes, one.received_bytes)


def _cells(total: RequestCounts) -> dict[str, Any]:
    return {
        "Puts": f"{total.puts:,}",
        "Lists": f"{total.lists:,}",
        "Gets": f"{total.gets:,}",
        "Deletes": f"{total.deletes:,}",
        "Sent": words.size(total.sent_bytes),
        "Received": words.size(total.received_bytes),
    }


def _price(total: RequestCounts, prices: StorePrices) -> float:
    return prices.of_requests(total.puts + total.lists, total.gets, total.received_bytes)


@dataclass(frozen=True)
class Costs:
    """What a page shows."""

    days: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """A row for each day, the newest first."""
    tables: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """A row for each table of the newest whole day, the most requests first; then what belongs to no table."""
    of_day: date | None = None
    """The day of `tables`."""
    sentence: str = ""
    """What a month costs at the rate of that day; empty without prices."""


_OTHERS = {"sink": "Whole destination", "state": "State of the pipeline"}


def costs(
    requests: Sequence[RequestSums],
    epochs: Mapping[date, int],
    prices: StorePrices | None,
    stored_bytes: int | None,
    now: datetime,
) -> Costs:
    """Requests by day and by table. stored_bytes: what the destination's files have; None if that is not read yet."""
    if not requests:
        return Costs()
    by_day = defaultdict[date, RequestCounts](RequestCounts)
    for one in requests:
        by_day[one.day] += _counts(one)
    whole_days = [day for day in by_day if day < now.astimezone(UTC).date()]
    of_day = max(whole_days or by_day)
    by_place = defaultdict[tuple[str, str], RequestCounts](RequestCounts)
    for one in requests:
        if one.day == of_day:
            by_place[one.place, one.table] += _counts(one)
    ordered = sorted(by_place.items(), key=lambda item: (not item[0][1], -item[1].puts - item[1].lists - item[1].gets))
    return Costs(
        [_day(day, total, epochs.get(day, 0), prices) for day, total in sorted(by_day.items(), reverse=True)],
        [_place(*place, total, prices) for place, total in ordered],
        of_day,
        _month(by_day[of_day], prices, stored_bytes, whole=bool(whole_days)),
    )


def _day(day: date, total: RequestCounts, epochs: int, prices: StorePrices | None) -> dict[str, Any]:
    cells = {"Day": f"{day:%Y-%m-%d}", "Epochs": f"{epochs:,}", **_cells(total)}
    cells["Per epoch"] = f"{total.number / epochs:,.1f}" if epochs else words.NOTHING
    return cells if prices is None else {**cells, "Cost": money(_price(total, prices), prices.currency)}


def _place(place: str, table: str, total: RequestCounts, prices: StorePrices | None) -> dict[str, Any]:
    name = table or _OTHERS.get(place, place)
    if table and place not in _OTHERS:
        name = f"{table} ({place})"
    cells = {"Table": name, **_cells(total)}
    return (
        cells
        if prices is None
        else {**cells, "Cost per month": money(_price(total, prices) * MONTH_DAYS, prices.currency)}
    )


def _month(total: RequestCounts, prices: StorePrices | None, stored_bytes: int | None, *, whole: bool) -> str:
    if prices is None:
        return ""
    basis = "at the rate of the last whole day" if whole else "if every day were as today so far"
    requests = f"requests {money(_price(total, prices) * MONTH_DAYS, prices.currency)} a month, {basis}"
    if stored_bytes is None:
        return requests
    stored = money(prices.of_month(stored_bytes), prices.currency)
    return f"{requests} · {words.size(stored_bytes)} stored {stored} a month"
