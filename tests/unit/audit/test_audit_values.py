"""The common form of values: what the package returns and what the change log has become equal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.audit.audit_limits import LIMITS
from engine.audit.audit_values import UNSURE, Unsure, ours, shown, theirs
from engine.decode.schema import Column

NAIVE = datetime(2026, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001 - as the package returns it


class Greek:
    """A server that knows two texts."""

    def texts(self, charset: str, values: Sequence[bytes]) -> Mapping[bytes, str | Unsure]:
        return {value: {b"\xe1": "α", b"\0" * 15 + b"\1": "::1"}.get(value, UNSURE) for value in values}


def of_package(column: Column, value: Any, why: str = "null") -> tuple[Any, Counter[str]]:
    """A value from the package, and what it counts."""
    limits: Counter[str] = Counter()
    (found,) = theirs(column, [value], [{column.name: why}], Greek(), limits)
    return found, +limits


def of_log(column: Column, value: Any, kind: pa.DataType) -> Any:
    """A value from the change log."""
    return ours(column, pa.chunked_array([pa.array([value], kind)]), Counter())[0]


@pytest.mark.parametrize(
    ("column", "package", "log", "kind"),
    [
        (Column("c", "int"), 7, 7, pa.int32()),
        (Column("c", "bigint", unsigned=True), 2**64 - 1, Decimal(2**64 - 1), pa.decimal128(20, 0)),
        (Column("c", "bit", precision=1), "1", True, pa.bool_()),
        (Column("c", "bit", precision=9), "100000001", b"\1\1", pa.binary()),
        (Column("c", "decimal"), Decimal("1.50"), Decimal("1.50"), pa.decimal128(9, 2)),
        (Column("c", "decimal", precision=65), Decimal("1.5"), "1.50", pa.string()),
        (Column("c", "float"), 0.5, 0.5, pa.float32()),
        (Column("c", "double"), -0.0, -0.0, pa.float64()),
        (Column("c", "date"), date(1969, 12, 31), date(1969, 12, 31), pa.date32()),
        (
            Column("c", "datetime"),
            NAIVE,
            NAIVE,
            pa.timestamp("us"),
        ),
        (
            Column("c", "timestamp"),
            NAIVE,
            NAIVE.replace(tzinfo=UTC),
            pa.timestamp("us", "UTC"),
        ),
        (Column("c", "time"), -timedelta(hours=838, minutes=59, seconds=59), "-838:59:59", pa.string()),
        (Column("c", "time"), timedelta(seconds=1, microseconds=500_000), "00:00:01.5", pa.string()),
        (Column("c", "year"), 2026, 2026, pa.int32()),
        (Column("c", "varchar", charset="utf8mb4"), "ü".encode(), "ü", pa.string()),
        (Column("c", "varchar", charset="utf8mb4"), "", "", pa.string()),
        (Column("c", "varchar", charset="latin1"), b"\x80\x81\xe9", "€\x81é", pa.string()),
        (Column("c", "varchar", charset="greek"), b"\xe1", "α", pa.string()),
        (Column("c", "binary", length=4), b"a", b"a\0\0\0", pa.binary()),
        (Column("c", "varbinary"), "", b"", pa.binary()),
        (Column("c", "enum", charset="utf8mb4"), "a", "a", pa.string()),
        (Column("c", "set", charset="utf8mb4"), {"b", "a"}, "a,b", pa.string()),
        (Column("c", "json"), {b"a": [1, 2.5, None, b"x", True]}, '{"a": [1, 2.5, null, "x", true]}', pa.string()),
        (Column("c", "json"), Decimal("1.10"), "1.10", pa.string()),
        (Column("c", "uuid"), b"\1", "01000000-0000-0000-0000-000000000000", pa.string()),
        (Column("c", "inet4"), b"\1\2", "1.2.0.0", pa.string()),
        (Column("c", "inet6"), b"\0" * 15 + b"\1", "::1", pa.string()),
    ],
)
def test_equal_values_are_equal(column: Column, package: Any, log: Any, kind: pa.DataType) -> None:
    """In the common form, NULL too."""
    found, limits = of_package(column, package)
    assert found == of_log(column, log, kind)
    assert not isinstance(found, Unsure)
    assert not limits
    assert of_package(column, None)[0] is None
    assert of_log(column, None, kind) is None


@pytest.mark.parametrize(
    ("column", "package", "log", "kind"),
    [
        (Column("c", "double"), 0.0, -0.0, pa.float64()),
        (Column("c", "json"), True, "1", pa.string()),
        (Column("c", "json"), {b"a": 1}, '{"a": 2}', pa.string()),
        (Column("c", "json"), 1, "1.0", pa.string()),
        (Column("c", "set", charset="utf8mb4"), {"a"}, "a,b", pa.string()),
        (Column("c", "time"), timedelta(seconds=1), "00:00:01.5", pa.string()),
    ],
)
def test_other_values_differ(column: Column, package: Any, log: Any, kind: pa.DataType) -> None:
    """However alike they are."""
    assert not of_package(column, package)[0] == of_log(column, log, kind)  # noqa: SIM201 - as it is compared


@pytest.mark.parametrize(
    ("column", "package", "why", "limit"),
    [
        (Column("c", "year"), 1900, "null", "year_zero"),
        (Column("c", "time"), -timedelta(seconds=1, microseconds=1), "null", "negative_time"),
        (Column("c", "date"), None, "out of date range", "date_out_of_range"),
        (Column("c", "datetime"), None, "out of datetime2 range", "date_out_of_range"),
        (Column("c", "timestamp"), datetime(1970, 1, 1), "null", "zero_timestamp"),  # noqa: DTZ001
        (Column("c", "enum", charset="latin1", labels=("é",)), "", "null", "labels"),
        (Column("c", "set", charset="cp1251", labels=("a",)), {"a"}, "null", "labels"),
        (Column("c", "json"), [datetime(2026, 1, 1)], "null", "json_opaque"),  # noqa: DTZ001
        (Column("c", "varchar", charset="utf8mb4"), b"\xff", "null", "text"),
        (Column("c", "varchar", charset="greek"), b"\xff", "null", "text"),
    ],
)
def test_what_the_package_decodes_wrongly_is_counted(column: Column, package: Any, why: str, limit: str) -> None:
    """It equals everything."""
    found, limits = of_package(column, package, why)
    assert found == "anything" or found == ["anything"]  # noqa: PLR1714 - it equals everything
    assert limits == {limit: 1}
    assert limit in LIMITS


def test_an_empty_set_is_not_null() -> None:
    """The package returns None for both, and says why."""
    column = Column("c", "set", charset="utf8mb4")
    assert of_package(column, None, "empty set")[0] == frozenset() == of_log(column, "", pa.string())


def test_values_as_text() -> None:
    """As the report shows them."""
    assert shown(Column("c", "date"), 0) == "1970-01-01"
    assert shown(Column("c", "datetime"), 1_500_000) == "1970-01-01 00:00:01.500000"
    assert [shown(None, value) for value in (None, b"a", frozenset(("b", "a")), 1)] == ["NULL", "x'61'", "a,b", "1"]


def test_the_limits_are_documented() -> None:
    """Each with its proof."""
    page = (Path(__file__).parents[3] / "docs" / "correctness.md").read_text(encoding="utf-8")
    for limit in LIMITS.values():
        assert f"| {limit.what} | {limit.value} | {limit.server} | {limit.library} |" in page
