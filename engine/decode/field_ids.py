"""The identifiers of columns in Parquet files, by which readers of Iceberg find them whatever they are called.

Readers' tasks, merges and maintenance write files of a table, some of them before anything else of it exists. So an
identifier is computed: from the column's name, and from what its type can become under Iceberg's rules. A column keeps
it for life; one whose type changes otherwise is another column.
"""

import hashlib

import pyarrow as pa

_FIRST = 1 << 29
"""Identifiers are below 2³⁰, so that other programs can add columns with higher ones."""
_KEY = b"PARQUET:field_id"


def field_id(name: str, kind: pa.DataType) -> int:
    """The identifier of a column: at least 2²⁹ and below 2³⁰. Two columns of a table rarely have the same."""
    digest = hashlib.sha256(f"{name}\0{_family(kind)}".encode()).digest()
    return _FIRST + int.from_bytes(digest[:4], "big") % _FIRST


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """The schema for a Parquet file. Without identifiers if two columns would have the same."""
    ids = [field_id(field.name, field.type) for field in schema]
    if len(set(ids)) < len(ids):
        return schema
    pairs = zip(schema, ids, strict=True)
    return pa.schema([field.with_metadata({_KEY: str(number).encode()}) for field, number in pairs])


def _family(kind: pa.DataType) -> str:  # noqa: PLR0911 - one line a family
    """The types that a column's type can become, and that one itself.

    Source: Apache Iceberg table spec, "Schema Evolution".
    """
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "floating"
    if pa.types.is_decimal(kind):
        return f"decimal {kind.scale}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "binary"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return str(kind)
