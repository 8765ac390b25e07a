"""What the decoders know of a table: its columns, in the server's order."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column as the server's catalogue describes it.

    type: information_schema's DATA_TYPE, in lower case. length: octets (CHARACTER_OCTET_LENGTH) for texts and binaries.
    precision, scale: of DECIMAL. fraction: digits after the second, 0 to 6. charset: of texts, None for binaries.
    """

    name: str
    type: str
    nullable: bool = True
    unsigned: bool = False
    length: int = 0
    precision: int = 0
    scale: int = 0
    fraction: int = 0
    charset: str | None = None


@dataclass(frozen=True)
class Table:
    """A table of the source with its columns and its identity.

    key: the columns that identify a row, in index order: the primary key, else a unique key without nullable columns;
    empty when there is neither.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def as_dict(self) -> dict[str, Any]:
        """For the ledger; `table_from_dict` is the inverse."""
        return asdict(self)


def table_from_dict(record: Mapping[str, Any]) -> Table:
    """The inverse of `Table.as_dict`."""
    columns = tuple(Column(**column) for column in record["columns"])
    return Table(record["database"], record["name"], columns, tuple(record["key"]))


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the table's rows (DESIGN 12)."""
    from engine.decode.types import value_type

    return pa.schema([pa.field(c.name, value_type(c).arrow(c), c.nullable) for c in table.columns])
