"""The figure of distribution factors."""

from dataclasses import replace

from app.view import factor
from engine.history.table_queries import Plan
from tests.unit.app.support import plan


def test_a_factor_outside_the_bounds_has_its_own_marker() -> None:
    """Its symbol differs, not only its colour; a table without a factor is not drawn."""

    def factored(name: str, value: float | None) -> Plan:
        return replace(plan(10, name=name), distribution_factor=value)

    found = factor.figure([factored("a", 1.0), factored("b", 5000.0), factored("c", None)], 0.05, 1000)
    assert found["data"][0]["y"] == ["a", "b"]
    assert found["data"][0]["marker"]["symbol"] == ["circle", "x"]
