"""The schemas of an Iceberg table: each column has an identifier, by which readers know it in all versions.

Our data files have the identifiers too (`decode.field_ids`). Those of earlier versions of Tidemark and of other
programs have none: in them readers find columns by name, as `schema.name-mapping.default` says. A name must therefore
mean one column in all versions that can be read. When the type of a column becomes one that Iceberg cannot promote,
versions before that can no longer be read: `Evolution.breaks`.

Source: Apache Iceberg table spec, "Schemas and Data Types", "Schema Evolution", "Column Projection".
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.base.errors import IncompatibleColumnsError
from engine.decode.field_ids import field_id

_DECIMAL = re.compile(r"^decimal\((\d+), ?(\d+)\)$")

_ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


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


def arrow_type(kind: str) -> pa.DataType:
    """The inverse of `iceberg_type`, of the widest type that it maps to this one. Raises ValueError for others."""
    if decimal := _DECIMAL.match(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if kind not in _ARROW_TYPES:
        raise ValueError(f"a column of type {kind}")
    return _ARROW_TYPES[kind]


def evolve(schemas: Sequence[IcebergSchema], last_column_id: int, wanted: pa.Schema) -> Evolution:
    """The schema with the wanted columns. schemas: those of all versions that can be read, the newest one last.

    Raises IncompatibleColumnsError for a column that Iceberg cannot have.
    """
    newest = {column.name: column for schema in schemas for column in schema.columns}
    columns = tuple(IcebergColumn(field_id(one.name, one.type), one.name, iceberg_type(one.type)) for one in wanted)
    breaks = any(not _promotes(newest[column.name].type, column.type) for column in columns if column.name in newest)
    _check_ids([*(() if breaks else newest.values()), *columns])
    equal = next((one for one in reversed(schemas) if one.columns == columns), None)
    number = max((one.id for one in schemas), default=-1) + 1
    last_column_id = max([last_column_id, *(column.id for column in columns)])
    return Evolution(equal or IcebergSchema(number, columns), last_column_id, breaks)


def has_ids_of_files(schema: IcebergSchema) -> bool:
    """Whether a schema has the identifiers that our data files have."""
    try:
        return all(column.id == field_id(column.name, arrow_type(column.type)) for column in schema.columns)
    except ValueError:
        return False


def _check_ids(columns: Iterable[IcebergColumn]) -> None:
    """Raises IncompatibleColumnsError if two columns have one identifier."""
    names = dict[int, str]()
    for column in columns:
        other = names.setdefault(column.id, column.name)
        if other != column.name:
            raise IncompatibleColumnsError(
                f"The columns {other} and {column.name} would have the same identifier in Iceberg.",
                detail="The Delta table is right; the Iceberg table has no version with this column.",
                hint='Exclude the column, or take "iceberg" out of sink.formats for this table.',
            )


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
