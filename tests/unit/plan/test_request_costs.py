"""What a table's changes cost in a bucket."""

import pytest

from engine.plan.merge_costs import DAY_S, MergeCost
from engine.plan.request_costs import EPOCH, MERGES, StoreCost, month_text, requests_per_day
from engine.spec.store_prices import StorePrices

COST = MergeCost(0.0, 0.0, 10.0)


def test_a_table_that_changes_all_the_time_is_in_each_epoch_and_each_merge() -> None:
    """And one that does not costs nothing; a rare change costs an epoch and a merge each."""
    busy = requests_per_day("merge_on_read", 1e6, 0.5, COST)
    assert busy.puts == pytest.approx(2 * DAY_S * EPOCH.puts + DAY_S / 10 * MERGES["merge_on_read"].puts)
    assert requests_per_day("merge_on_read", 0.0, 0.5, COST) == StoreCost()
    rare = requests_per_day("copy_on_write", 10 / DAY_S, 0.5, COST)
    assert rare.gets == pytest.approx(10 * (EPOCH.gets + MERGES["copy_on_write"].gets), rel=1e-3)
    assert requests_per_day(None, 10 / DAY_S, 0.5, None).gets == pytest.approx(10 * EPOCH.gets, rel=1e-3)


def test_money_needs_prices() -> None:
    """Requests alone without them; deletions are free, and small amounts are not zero."""
    per_day = StoreCost(1_000_000, 500_000)
    assert month_text(per_day, 1e9, None) == "at most 1,000,000 puts and 500,000 gets a day"
    prices = StorePrices(puts_1000=0.005, gets_1000=0.0004, stored_gb_month=0.023, currency="EUR")
    assert month_text(per_day, 100e9, prices) == (
        "at most 1,000,000 puts and 500,000 gets a day: 156.00 EUR a month, and 2.30 EUR for storage, if the files "
        "were as large as the tables are on the source"
    )
    assert "less than 0.01 EUR for storage" in month_text(per_day, 1e3, prices)
