"""One entry per MySQL type: its Arrow type, its two decoders and its preflight check.

`strings` has texts and their character sets, `labels` ENUM and SET, `temporal` DATE, DATETIME and TIMESTAMP, also zero
and invalid ones, `times` TIME and YEAR, `numbers` integers and floats, `decimals`, `bits`, `documents` JSON, `spatial`
and `addresses`.

To add a type, add one entry to the `TYPES` of one of these modules. A type with a binlog type code of its own also
needs its width in `decode.extents` and the size of its metadata in `decode.binlog_events`.
"""

from engine.base.errors import TableStoppedError, if_captured
from engine.decode.schema import WRONG_IMAGES, Column, Table
from engine.decode.types import addresses, bits, decimals, documents, labels, numbers, spatial, strings, temporal, times
from engine.decode.types.base import ValueType
from engine.decode.types.unread import UNREAD

_MODULES = (numbers, bits, decimals, temporal, times, strings, labels, documents, spatial, addresses)
TYPES: dict[str, ValueType] = {name: entry for module in _MODULES for name, entry in module.TYPES.items()}


def value_type(column: Column) -> ValueType:
    """The entry for a column's type. Raises TableStoppedError for a type that this version does not decode."""
    if column.unread:
        return UNREAD
    if _is_wrong(column):
        raise _wrong_images(column)
    entry = TYPES.get(column.type)
    fault = f"type {column.type.upper()}" if entry is None else entry.fault(column)
    if entry is None or fault:
        raise TableStoppedError(
            f"Column {column.name!r}: {fault} is not supported.",
            detail="The table is not copied: Tidemark never turns a value that it cannot decode exactly into NULL.",
            hint=f"Exclude the table, or convert the column to a supported type. {if_captured('…')}",
        )
    return entry


def fault(column: Column) -> str | None:
    """Why a column cannot be decoded, for the preflight; None if it can."""
    try:
        value_type(column)
    except TableStoppedError as error:
        return error.message
    return None


def has_wrong_images(table: Table) -> bool:
    """Whether a column that is read has wrong row images."""
    return any(_is_wrong(column) and not column.unread for column in table.columns)


def _is_wrong(column: Column) -> bool:
    return column.type.endswith(WRONG_IMAGES)


def _wrong_images(column: Column) -> TableStoppedError:
    return TableStoppedError(
        f"Column {column.name!r} is a generated column that refers to an AUTO_INCREMENT column: MariaDB's row images "
        "of it are wrong.",
        detail="The table is not copied. MariaDB computes the column before it assigns the number, so each INSERT "
        "would bring a wrong value into the lake.",
        hint="Exclude the column by `exclude` in the section of the table in the spec (tables.…), or drop it. "
        f"{if_captured('…')}",
    )
