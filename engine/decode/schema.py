"""What the decoders know of a table: its columns, in the server's order."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

_DATES = ("date", "datetime", "timestamp")


@dataclass(frozen=True)
class Column:
    """One column as the server's catalogue describes it.

    type: information_schema's DATA_TYPE, in lower case. length: octets (CHARACTER_OCTET_LENGTH) for texts and binaries.
    precision, scale: of DECIMAL; precision alone: bits of BIT. fraction: digits after the second, 0 to 6. charset: of texts, None
    for binaries; collation with it. labels: of ENUM and SET. null_dates: whether dates that do not exist are NULL (else they stop
    the table). tells_apart: whether it identifies rows or bounds chunks; no code of it may become "?". unread: whether it is
    passed over.
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
    collation: str | None = None
    labels: tuple[str, ...] = ()
    null_dates: bool = False
    tells_apart: bool = False
    unread: bool = False


@dataclass(frozen=True)
class Index:
    """An index by which ranges of whole columns can be read, in its order; descending: all of it."""

    name: str
    columns: tuple[str, ...]
    descending: bool = False


@dataclass(frozen=True)
class Table:
    """A table of the source with its columns and its identity.

    key: the columns that identify a row, in index order: the primary key, else a unique key without nullable columns;
    empty when there is neither. transactional: whether a consistent snapshot holds for it (MyISAM and its like have none). unfit:
    why its row images cannot be followed although its columns could, or empty. indexes: those that chunks can be cut by, that of
    `key` first. clustered: the columns that the engine keeps behind those of every index, when they are known.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    transactional: bool = True
    unfit: str = ""
    indexes: tuple[Index, ...] = ()
    clustered: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def with_null_dates(self, null_dates: bool) -> "Table":
        """The table whose dates that do not exist are NULL, or errors; those of the key, which tells rows apart, always errors."""
        columns = (
            replace(c, null_dates=null_dates and c.name not in self.key) if c.type in _DATES else c
            for c in self.columns
        )
        return replace(self, columns=tuple(columns))

    def identified_by(self, names: Iterable[str]) -> "Table":
        """The table with its key and these columns marked as those that identify rows and bound chunks."""
        identifying = {*self.key, *names}
        return replace(self, columns=tuple(replace(c, tells_apart=c.name in identifying) for c in self.columns))

    def as_dict(self) -> dict[str, Any]:
        """For the ledger; `table_from_dict` is the inverse."""
        return asdict(self)


def table_from_dict(record: Mapping[str, Any]) -> Table:
    """The inverse of `Table.as_dict`."""
    columns = tuple(Column(**{**column, "labels": tuple(column.get("labels", ()))}) for column in record["columns"])
    indexes = tuple(Index(**{**index, "columns": tuple(index["columns"])}) for index in record["indexes"])
    names = {name: tuple(record[name]) for name in ("key", "clustered")}
    return Table(**{**record, "columns": columns, "indexes": indexes, **names})


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the table's rows (DESIGN 12)."""
    from engine.decode.types import value_type

    return pa.schema(
        [pa.field(c.name, value_type(c).arrow(c), c.nullable or c.null_dates or c.unread) for c in table.columns]
    )


def image_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the table's row images: that of its rows, every column nullable."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table)])


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as this schema has them: columns that they lack are NULL, narrower ones are widened."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def same_columns(a: Table, b: Table) -> bool:
    """Whether two tables have the same columns and the same key; what was set for reading them does not count."""
    return a.key == b.key and _bare(a) == _bare(b)


def _bare(table: Table) -> list[Column]:
    return [replace(column, null_dates=False, tells_apart=False) for column in table.columns]
