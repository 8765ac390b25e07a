"""The identifiers of columns in Parquet files."""

import pyarrow as pa
import pytest

from engine.decode.field_ids import field_id, with_field_ids


@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("id", pa.int64(), 672_098_312),
        ("id", pa.string(), 1_015_729_715),
        ("price", pa.decimal128(10, 2), 585_835_195),
        ("größe", pa.timestamp("us", "UTC"), 1_011_321_563),
    ],
)
def test_an_identifier_never_changes(name: str, kind: pa.DataType, number: int) -> None:
    """Files of years ago have it, so this test must not be changed."""
    assert field_id(name, kind) == number
    assert 1 << 29 <= number < 1 << 30


def test_a_type_that_iceberg_promotes_keeps_the_identifier() -> None:
    """And any other type makes another column."""
    kept_pairs = [
        (pa.int8(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(30, 2)),
        (pa.string(), pa.large_string()),
        (pa.binary(), pa.large_binary()),
    ]
    assert all(field_id("c", before) == field_id("c", after) for before, after in kept_pairs)
    others = [pa.int32(), pa.float32(), pa.decimal128(5, 2), pa.decimal128(5, 3), pa.string(), pa.binary()]
    others += [pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
    assert len({field_id("c", one) for one in others}) == len(others)


def test_names_that_differ_by_case_are_two_columns() -> None:
    """Iceberg's names have cases."""
    assert field_id("a", pa.int32()) != field_id("A", pa.int32())


def test_a_file_has_no_identifier_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather none at all: then readers go by names."""
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    assert all(b"PARQUET:field_id" in field.metadata for field in with_field_ids(schema))
    monkeypatch.setattr("engine.decode.field_ids.field_id", lambda *_: 7)
    assert not any(field.metadata for field in with_field_ids(schema))
