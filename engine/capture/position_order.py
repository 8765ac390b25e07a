"""Positions of the binlog as single numbers, which order as the positions of one server do."""

from collections.abc import Iterable

_OFFSET_BITS = 40


def pack(file_number: int, offset: int) -> int:
    """A position as one number."""
    return file_number << _OFFSET_BITS | offset


def unpack(order: int) -> tuple[int, int]:
    """The inverse of `pack`."""
    return order >> _OFFSET_BITS, order & ((1 << _OFFSET_BITS) - 1)


def orders_of(positions: Iterable[str]) -> list[int]:
    """The texts of `_tm_position` as `pack` numbers. Consecutive images often have the same one."""
    orders: dict[str, int] = {}
    out = []
    for text in positions:
        order = orders.get(text)
        if order is None:
            file, _, offset = text.rpartition(":")
            order = orders[text] = pack(int(file.rpartition(".")[2]), int(offset))
        out.append(order)
    return out
