"""The decoders' view of a table: its columns, in the server's order."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

# The columns of a change log besides the table's own:
TM_KIND = "_tm_kind"
"""The kind of a change, one of `KINDS`."""
TM_TS = "_tm_ts"
"""When the source committed it (UTC)."""
TM_POSITION = "_tm_position"
"""Its place in the binlog, `file:offset`."""
TM_SEQ = "_tm_seq"
"""The total order of the changes of a table."""
TM_TX = "_tm_tx"
"""The GTID of its transaction, if there is one."""
TM_REDUMP = "_tm_redump"
"""The command that redumped the row; NULL for changes."""
KINDS = ("+I", "-U", "+U", "-D")
"""The text of each kind of change, by its number."""
_DATES = ("date", "datetime", "timestamp")
TableName = tuple[str, str]
"""Database and table."""


WRONG_IMAGES = " with wrong row images"
"""Behind the type of a column whose row images are wrong (`source.wrong_images`)."""


@dataclass(frozen=True)
class Column:
    """One column, as described in the server's catalog."""

    name: str
    type: str
    """`information_schema`'s DATA_TYPE, in lower case."""
    nullable: bool = True
    unsigned: bool = False
    length: int = 0
    """Bytes of texts and binaries (CHARACTER_OCTET_LENGTH)."""
    precision: int = 0
    scale: int = 0
    """`precision` and `scale` of a DECIMAL; for a BIT, `precision` is its number of bits."""
    fraction: int = 0
    """Digits of fractional seconds, 0 to 6."""
    charset: str | None = None
    """The character set of a text; None for binaries, as is the collation."""
    collation: str | None = None
    labels: tuple[str, ...] = ()
    """The labels of an ENUM or SET."""
    null_dates: bool = False
    """Whether invalid dates become NULL; otherwise they stop the table."""
    tells_apart: bool = False
    """Whether it identifies rows or bounds chunks. No character of it may become "?"."""
    unread: bool = False
    """Whether readers skip it."""


@dataclass(frozen=True)
class Index:
    """An index that supports range reads over whole columns, in its order."""

    name: str
    columns: tuple[str, ...]
    descending: bool = False
    """Whether all its columns are in descending order."""


@dataclass(frozen=True)
class Table:
    """A source table with its columns and its identity."""

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns that identify a row, in index order: the primary key, else a unique key without nullable columns;
    empty if there is neither."""
    transactional: bool = True
    """Whether a consistent snapshot covers it. MyISAM and similar tables have none."""
    unfit: str = ""
    """Why its rows or row images cannot be captured although its columns could be decoded; empty if they can."""
    indexes: tuple[Index, ...] = ()
    """The indexes that can split the table into chunks, that of `key` first."""
    clustered: tuple[str, ...] = ()
    """The columns that the engine appends to every index, if known."""
    remedy: str = ""
    """The statement that makes an unfit table fit, if there is one."""
    generated: str = ""
    """"stored" if it has a stored generated column, "virtual" if it only has virtual ones, else empty."""

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def with_null_dates(self, null_dates: bool) -> "Table":
        """The table with invalid dates as NULL, or as errors.

        In the key, which identifies rows, they are always errors.
        """
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
        """The record for the ledger; `table_from_dict` is the inverse."""
        record = asdict(self)
        if not self.remedy:  # earlier versions do not know it
            del record["remedy"]
        return record


def table_from_dict(record: Mapping[str, Any]) -> Table:
    """The inverse of `Table.as_dict`."""
    columns = tuple(Column(**{**column, "labels": tuple(column.get("labels", ()))}) for column in record["columns"])
    indexes = tuple(Index(**{**index, "columns": tuple(index["columns"])}) for index in record["indexes"])
    names = {name: tuple(record[name]) for name in ("key", "clustered")}
    generated = record.get("generated", "stored")  # records of older versions do not say it
    return Table(**{**record, "columns": columns, "indexes": indexes, "generated": generated, **names})


def same_columns(a: Table, b: Table) -> bool:
    """Whether two tables have the same columns and the same key, ignoring settings for reading them."""
    return a.key == b.key and _bare(a) == _bare(b)


def _bare(table: Table) -> list[Column]:
    return [
        replace(column, null_dates=False, tells_apart=False, type=column.type.removesuffix(WRONG_IMAGES))
        for column in table.columns
    ]
