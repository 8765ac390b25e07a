"""Requests by day and table, with what they cost."""

from datetime import UTC, date, datetime

from app.live.view.requests import Costs, costs
from engine.history.request_queries import RequestSums
from engine.spec.store_prices import StorePrices

TODAY, YESTERDAY = date(2026, 3, 2), date(2026, 3, 1)
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
REQUESTS = [
    RequestSums(YESTERDAY, "sink", "", 0, 1000, 0, 0, 0, 0),
    RequestSums(YESTERDAY, "sink", "shop.a", 1000, 0, 5000, 10, 2_000_000, 1_000_000_000),
    RequestSums(YESTERDAY, "sink", "shop.b", 4000, 0, 5000, 10, 2_000_000, 0),
    RequestSums(YESTERDAY, "files", "shop.b", 10, 0, 0, 0, 0, 0),
    RequestSums(TODAY, "sink", "shop.a", 5, 0, 5, 0, 10, 0),
    RequestSums(TODAY, "state", "", 7, 0, 0, 0, 0, 0),
]
PRICES = StorePrices(puts_1000=0.005, gets_1000=0.0004, stored_gb_month=0.02, received_gb=0.1)


def test_requests_are_shown_by_day_and_by_table() -> None:
    """The newest day first; the tables of the last whole day, the busiest first."""
    shown = costs(REQUESTS, {YESTERDAY: 1000}, None, None, NOW)
    assert [row["Day"] for row in shown.days] == ["2026-03-02", "2026-03-01"]
    assert shown.days[1] == {
        "Day": "2026-03-01",
        "Epochs": "1,000",
        "Puts": "5,010",
        "Lists": "1,000",
        "Gets": "10,000",
        "Deletes": "20",
        "Sent": "4 MB",
        "Received": "1 GB",
        "Per epoch": "16.0",
    }
    assert shown.days[0]["Per epoch"] == "—"
    assert [row["Table"] for row in shown.tables] == ["shop.b", "shop.a", "shop.b (files)", "Whole destination"]
    assert shown.of_day == YESTERDAY
    assert shown.sentence == ""
    assert costs([], {}, None, None, NOW) == Costs()


def test_prices_make_money() -> None:
    """By day, by table and month, and for what is stored."""
    shown = costs(REQUESTS, {}, PRICES, 500_000_000_000, NOW)
    assert shown.days[1]["Cost"] == "0.13 USD"
    assert shown.tables[1]["Cost per month"] == "3.21 USD"
    assert shown.sentence == (
        "requests 4.02 USD a month, at the rate of the last whole day · 500 GB stored 10.00 USD a month"
    )
    today = costs(REQUESTS[4:], {}, PRICES, None, NOW)
    assert today.sentence == "requests less than 0.01 USD a month, if every day were as today so far"
    assert [row["Table"] for row in today.tables] == ["shop.a", "State of the pipeline"]
