"""The figure of distribution factors."""

from dataclasses import replace

from app.common.view import factor
from engine.history.table_queries import NewestPlan
from tests.unit.app.support import plan


def test_the_figure_has_the_tables_outside_the_bounds_and_the_largest() -> None:
    """5 000 rows would be as tall as a house."""
    plans = [replace(plan(10, name=f"t{n}"), distribution_factor=1.0, approx_rows=n) for n in range(100)]
    plans.append(replace(plan(10, name="sparse"), distribution_factor=5000.0, approx_rows=1))
    names = [one.table for one in factor.figure_plans(plans, 0.05, 1000)]
    assert names[:3] == ["sparse", "t99", "t98"]
    assert len(names) == factor.MOST


def test_a_factor_outside_the_bounds_has_its_own_marker() -> None:
    """Its symbol differs, not only its colour; a table without a factor is not drawn."""

    def factored(name: str, value: float | None) -> NewestPlan:
        return replace(plan(10, name=name), distribution_factor=value)

    plans = [factored("a", 1.0), factored("b<c>", 5000.0), factored("c", None)]
    markup = factor.figure(factor.figure_plans(plans, 0.05, 1000), 0.05, 1000)
    assert '<i class="mark" style="left:' in markup
    assert '<i class="mark outside" style="left:' in markup
    assert markup.count('class="mark') == 2
    assert "b&lt;c&gt;" in markup
    assert "<c>" not in markup
