"""The schemas of an Iceberg table: each column has an identifier, by which readers know it in all versions.

Our data files have no identifiers, so readers find columns by name, as `schema.name-mapping.default` says. A name must
therefore mean one column in all versions that can be read. A column whose type becomes one that Iceberg cannot promote
gets another identifier, and versions before that can no longer be read: `Evolution.breaks`.

Source: Apache Iceberg table spec, "Schemas and Data Types", "Schema Evolution", "Column Projection".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.base.errors import IncompatibleColumnsError

_DECIMAL = re.compile(r"^decimal\((\d+), ?(\d+)\)$")


@dataclass(frozen=True)
class IcebergColumn:
    """A column. Any value may be NULL."""

    id: int
    name: str
    type: str
    """As in a schema's JSON, such as "long" or "decimal(20, 0)"."""

    def to_json(self) -> dict[str, Any]:
        """As a schema has it."""
        return {"id": self.id, "name": self.name, "required": False, "type": self.type}


@dataclass(frozen=True)
class IcebergSchema:
    """The columns of some versions."""

    id: int
    columns: tuple[IcebergColumn, ...]

    def to_json(self) -> dict[str, Any]:
        """As table metadata has it."""
        return {"type": "struct", "schema-id": self.id, "fields": [column.to_json() for column in self.columns]}


@dataclass(frozen=True)
class Evolution:
    """How a table gets other columns."""

    schema: IcebergSchema
    last_column_id: int
    breaks: bool = False
    """Whether a name means another column than before."""


def iceberg_type(kind: pa.DataType) -> str:  # noqa: PLR0911 - one line a type
    """The Iceberg type of an Arrow type. Raises IncompatibleColumnsError for one that Iceberg does not have."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) and pa.types.is_signed_integer(kind):
        return "long" if kind.bit_width > 32 else "int"
    if pa.types.is_float32(kind):
        return "float"
    if pa.types.is_float64(kind):
        return "double"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "binary"
    raise IncompatibleColumnsError(
        f"Iceberg has no type for {kind}.",
        detail="The Delta table is right; the Iceberg table has no version with this column.",
        hint='Exclude the column, or take "iceberg" out of sink.formats for this table.',
    )


def evolve(schemas: Sequence[IcebergSchema], last_column_id: int, wanted: pa.Schema) -> Evolution:
    """The schema with the wanted columns. schemas: those of all versions that can be read, the newest one last."""
    newest = {column.name: column for schema in schemas for column in schema.columns}
    columns, breaks = list[IcebergColumn](), False
    for field in wanted:
        before, kind = newest.get(field.name), iceberg_type(field.type)
        if before is not None and _promotes(before.type, kind):
            columns.append(IcebergColumn(before.id, field.name, kind))
            continue
        breaks = breaks or before is not None
        last_column_id += 1
        columns.append(IcebergColumn(last_column_id, field.name, kind))
    equal = next((one for one in reversed(schemas) if one.columns == tuple(columns)), None)
    number = max((one.id for one in schemas), default=-1) + 1
    return Evolution(equal or IcebergSchema(number, tuple(columns)), last_column_id, breaks)


def name_mapping(schemas: Sequence[IcebergSchema]) -> list[dict[str, Any]]:
    """`schema.name-mapping.default`: which column a name of a data file means."""
    columns = {column.name: column.id for schema in schemas for column in schema.columns}
    names = dict[int, list[str]]()
    for name, number in columns.items():
        names.setdefault(number, []).append(name)
    return [{"field-id": number, "names": of_column} for number, of_column in names.items()]


def _promotes(old: str, new: str) -> bool:
    """Whether readers of the new type can read files of the old one."""
    if old == new or (old, new) in {("int", "long"), ("float", "double")}:
        return True
    before, after = _DECIMAL.match(old), _DECIMAL.match(new)
    return bool(before and after and before[2] == after[2] and int(before[1]) <= int(after[1]))
