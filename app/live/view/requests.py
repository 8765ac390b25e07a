"""Requests to buckets as tables, and what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from app.common.view import words
from engine.history.request_queries import RequestSums
from engine.spec.store_prices import MONTH_DAYS, StorePrices, money


@dataclass
class _Sum:
    puts: int = 0
    lists: int = 0
    gets: int = 0
    deletes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def add(self, one: RequestSums) -> None:
        self.puts += one.puts
        self.lists += one.lists
        self.gets += one.gets
        self.deletes += one.deletes
        self.sent_bytes += one.sent_bytes
        self.received_bytes += one.received_bytes

    def cells(self) -> dict[str, Any]:
        return {
            "Puts": f"{self.puts:,}",
            "Lists": f"{self.lists:,}",
            "Gets": f"{self.gets:,}",
            "Deletes": f"{self.deletes:,}",
            "Sent": words.size(self.sent_bytes),
            "Received": words.size(self.received_bytes),
        }

    def price(self, prices: StorePrices) -> float:
        return prices.of_requests(self.puts + self.lists, self.gets, self.received_bytes)


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
    by_day = dict[date, _Sum]()
    for one in requests:
        by_day.setdefault(one.day, _Sum()).add(one)
    whole_days = [day for day in by_day if day < now.astimezone(UTC).date()]
    of_day = max(whole_days or by_day)
    by_place = dict[tuple[str, str], _Sum]()
    for one in requests:
        if one.day == of_day:
            by_place.setdefault((one.place, one.table), _Sum()).add(one)
    ordered = sorted(by_place.items(), key=lambda item: (not item[0][1], -item[1].puts - item[1].lists - item[1].gets))
    return Costs(
        [_day(day, total, epochs.get(day, 0), prices) for day, total in sorted(by_day.items(), reverse=True)],
        [_place(*place, total, prices) for place, total in ordered],
        of_day,
        _month(by_day[of_day], prices, stored_bytes, whole=bool(whole_days)),
    )


def _day(day: date, total: _Sum, epochs: int, prices: StorePrices | None) -> dict[str, Any]:
    number = total.puts + total.lists + total.gets + total.deletes
    cells = {"Day": f"{day:%Y-%m-%d}", "Epochs": f"{epochs:,}", **total.cells()}
    cells["Per epoch"] = f"{number / epochs:,.1f}" if epochs else words.NOTHING
    return cells if prices is None else {**cells, "Cost": money(total.price(prices), prices.currency)}


def _place(place: str, table: str, total: _Sum, prices: StorePrices | None) -> dict[str, Any]:
    name = table or _OTHERS.get(place, place)
    if table and place not in _OTHERS:
        name = f"{table} ({place})"
    cells = {"Table": name, **total.cells()}
    return (
        cells
        if prices is None
        else {**cells, "Cost per month": money(total.price(prices) * MONTH_DAYS, prices.currency)}
    )


def _month(total: _Sum, prices: StorePrices | None, stored_bytes: int | None, *, whole: bool) -> str:
    if prices is None:
        return ""
    basis = "at the rate of the last whole day" if whole else "if every day were as today so far"
    requests = f"requests {money(total.price(prices) * MONTH_DAYS, prices.currency)} a month, {basis}"
    if stored_bytes is None:
        return requests
    stored = money(prices.of_month(stored_bytes), prices.currency)
    return f"{requests} · {words.size(stored_bytes)} stored {stored} a month"
