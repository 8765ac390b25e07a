"""Positions as single numbers."""

from engine.capture.position_order import orders_of, pack, unpack


def test_positions_as_numbers() -> None:
    """In order, beyond 4 GiB too."""
    texts = ["b.000001:5000000000", "b.000001:5000000000", "b.000002:4"]
    orders = orders_of(texts)
    assert orders == [pack(1, 5_000_000_000)] * 2 + [pack(2, 4)]
    assert orders[1] < orders[2]
    assert [unpack(order) for order in orders[1:]] == [(1, 5_000_000_000), (2, 4)]
