"""Columns of every supported type with values, bounds first, for the tests of both decoders."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from engine.decode.schema import Column, Table
from tests.unit.support.cells import latin1

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_UNDEFINED = "\x81\x8d\x8f\x90\x9d"


def _encodes(character: str) -> bool:
    try:
        latin1(character)
    except UnicodeEncodeError:
        return False
    return True


LATIN1_CHARACTERS = "".join(c for c in map(chr, range(0x20, 0x2200)) if c in _UNDEFINED or _encodes(c))
_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def _integers(column: Column) -> st.SearchStrategy[int]:
    bits = _BITS[column.type]
    low, high = (0, 2**bits - 1) if column.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.sampled_from([low, high, 0, 1]) | st.integers(low, high)


def _decimals(column: Column) -> st.SearchStrategy[Decimal]:
    most = 10**column.precision - 1
    whole = st.sampled_from([0, 1, -1, most, -most]) | st.integers(-most, most)
    return whole.map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -column.scale)))


def _instants(low: datetime, high: datetime, digits: int) -> st.SearchStrategy[datetime]:
    step = 10 ** (6 - digits)
    naive = st.sampled_from([low, high]) | st.datetimes(low, high) | st.datetimes(low, high).map(_midnight)
    return naive.map(lambda v: max(v.replace(microsecond=v.microsecond // step * step), low))


def _midnight(value: datetime) -> datetime:
    return value.replace(hour=0, minute=0, second=0, microsecond=0)


def _datetimes(column: Column) -> st.SearchStrategy[datetime]:
    return _instants(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), column.fraction)  # noqa: DTZ001


def _timestamps(column: Column) -> st.SearchStrategy[datetime]:
    first = datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001
    last = datetime(2038, 1, 19, 3, 14, 7, 999999)  # noqa: DTZ001
    return _instants(first, last, column.fraction).map(lambda v: v.replace(tzinfo=UTC))


def _floats(column: Column) -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False, width=32 if column.type == "float" else 64)


def _texts(column: Column) -> st.SearchStrategy[str]:
    if column.charset == "latin1":
        return st.text(LATIN1_CHARACTERS, max_size=12)
    if column.type == "char":
        return _TEXT.map(lambda text: text.rstrip(" "))
    return _TEXT


def _binaries(column: Column) -> st.SearchStrategy[bytes]:
    if column.type == "binary":
        return st.binary(max_size=column.length).map(lambda b: b.ljust(column.length, b"\0"))
    return st.binary(max_size=20) | st.sampled_from([b"", b"\0", b"\0\0", b"\xff" * 9])


def _times(column: Column) -> st.SearchStrategy[str]:
    longest = (838 * 3600 + 59 * 60 + 59) * 1_000_000
    step = 10 ** (6 - column.fraction)

    def text(us: int) -> str:
        seconds, fraction = divmod(abs(us), 1_000_000)
        digits = f".{fraction:06d}"[: column.fraction + 1] if column.fraction else ""
        sign = "-" if us < 0 else ""
        return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"

    chosen = st.sampled_from([0, longest, -longest, 1, -1, -1_000_000, 360_000_000_000]) | st.integers(
        -longest, longest
    )
    return chosen.map(lambda us: text(abs(us) // step * step * (-1 if us < 0 else 1)) if abs(us) >= step else text(0))


def _bits(column: Column) -> st.SearchStrategy[bool | bytes]:
    if column.precision == 1:
        return st.booleans()
    width = (column.precision + 7) // 8
    return st.integers(0, 2**column.precision - 1).map(lambda n: n.to_bytes(width, "big"))


def _labels(column: Column) -> st.SearchStrategy[str]:
    if column.type == "enum":
        return st.sampled_from(["", *column.labels])
    chosen = st.lists(st.sampled_from(column.labels), unique=True)
    return chosen.map(lambda members: ",".join(label for label in column.labels if label in members))


MAKERS: list[tuple[dict[str, Any], Callable[[Column], st.SearchStrategy[Any]]]] = [
    *(({"type": name, "unsigned": unsigned}, _integers) for name in _BITS for unsigned in (False, True)),
    ({"type": "float"}, _floats),
    ({"type": "double"}, _floats),
    *(
        ({"type": "decimal", "precision": p, "scale": s}, _decimals)
        for p, s in ((1, 0), (5, 2), (4, 4), (9, 0), (10, 9), (18, 0), (18, 18), (19, 1), (27, 9), (38, 0), (38, 10))
    ),
    *(({"type": "decimal", "precision": p, "scale": s}, _decimals) for p, s in ((38, 38), (39, 0), (65, 30), (65, 0))),
    ({"type": "date"}, lambda _: st.dates(date(1, 1, 1), date(9999, 12, 31))),
    *(({"type": "datetime", "fraction": digits}, _datetimes) for digits in range(7)),
    *(({"type": "timestamp", "fraction": digits}, _timestamps) for digits in range(7)),
    *(({"type": "time", "fraction": digits}, _times) for digits in range(7)),
    ({"type": "year"}, lambda _: st.just(0) | st.integers(1901, 2155)),
    *(({"type": "bit", "precision": bits}, _bits) for bits in (1, 5, 8, 9, 63, 64)),
    ({"type": "enum", "labels": ("a", "b,c", "d'e", "ü"), "charset": "utf8mb4"}, _labels),
    ({"type": "enum", "labels": tuple(f"label {n}" for n in range(300)), "charset": "utf8mb4"}, _labels),
    *(
        ({"type": "set", "labels": tuple(f"m{n}" for n in range(count)), "charset": "utf8mb4"}, _labels)
        for count in (1, 8, 9, 20, 30, 33, 64)
    ),
    ({"type": "geometry"}, lambda _: st.binary(min_size=4, max_size=40)),
    ({"type": "vector"}, lambda _: st.lists(st.floats(width=32, allow_nan=False), max_size=5)),
    ({"type": "uuid"}, lambda _: st.uuids().map(str) | st.just("12340000-0000-0000-0000-000000000000")),
    (
        {"type": "inet4"},
        lambda _: st.ip_addresses(v=4).map(str) | st.sampled_from(["0.0.0.0", "10.0.0.0"]),  # noqa: S104
    ),
    (
        {"type": "inet6"},
        lambda _: st.sampled_from(["::", "::1", "1::", "::ffff:1.2.3.4", "1::2:0:3:0:4", "a:b:c:d:e:f:1:2"]),
    ),
    ({"type": "char", "length": 48, "charset": "utf8mb4"}, _texts),
    ({"type": "char", "length": 1020, "charset": "utf8mb4"}, _texts),
    ({"type": "char", "length": 12, "charset": "latin1"}, _texts),
    ({"type": "varchar", "length": 255, "charset": "utf8mb4"}, _texts),
    ({"type": "varchar", "length": 256, "charset": "utf8mb3"}, _texts),
    ({"type": "varchar", "length": 20, "charset": "latin1"}, _texts),
    *(({"type": f"{size}text", "charset": "utf8mb4"}, _texts) for size in ("tiny", "", "medium", "long")),
    ({"type": "text", "charset": "latin1"}, _texts),
    ({"type": "binary", "length": 16}, _binaries),
    ({"type": "binary", "length": 255}, _binaries),
    ({"type": "varbinary", "length": 40}, _binaries),
    *(({"type": f"{size}blob"}, _binaries) for size in ("tiny", "", "medium", "long")),
]


@st.composite
def tables(draw: st.DrawFn, most: int = 9) -> tuple[Table, st.SearchStrategy[list[Any]]]:
    """A table with random columns, and a strategy for its rows, NULLs anywhere."""
    chosen = draw(st.lists(st.sampled_from(MAKERS), min_size=1, max_size=most))
    columns = tuple(Column(f"c{n}", **facts) for n, (facts, _) in enumerate(chosen))
    cells = [st.none() | maker(column) for column, (_, maker) in zip(columns, chosen, strict=True)]
    row = st.tuples(*cells).map(list)
    return Table("shop", "orders", columns, ("c0",)), row


def expected(column: Column, value: Any) -> Any:
    """The value that Arrow returns for this one."""
    if value is None:
        return None
    if column.type == "bigint" and column.unsigned:
        return Decimal(value)
    if column.type == "float":
        return float(np.float32(value))
    if column.type == "decimal" and column.precision > 38:
        return f"{value:.{column.scale}f}"
    return value
