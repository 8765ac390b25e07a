"""Schema evolution of the destination: columns are added or widened, never dropped."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from engine.base.errors import IncompatibleColumnsError
from engine.capture.batches import batches
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import conformed, image_schema
from engine.decode.schema import Table


def mirror_schema(table: Table) -> pa.Schema:
    """The source's columns, all nullable, and `_tm_seq` of the change that wrote the row; NULL for rows of a chunk."""
    return pa.schema([*image_schema(table), pa.field("_tm_seq", pa.int64())])


def united(held: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The held columns, with wanted types that are wider, plus the wanted columns that are missing."""
    known = [
        wanted.field(f.name) if f.name in wanted.names and _widens(f.type, wanted.field(f.name).type) else f
        for f in held
    ]
    return pa.schema([*known, *(f for f in wanted if f.name not in held.names)])


def check_evolution(table: str, held: pa.Schema, wanted: pa.Schema) -> None:
    """Raises IncompatibleColumnsError when a held column cannot become the wanted one without losing values."""
    spelled = {name.casefold(): name for name in held.names}
    for field in wanted:
        if spelled.get(field.name.casefold(), field.name) != field.name:
            other = spelled[field.name.casefold()]
            raise IncompatibleColumnsError(
                f"{table}: column {field.name!r} differs by case alone from {other!r}, which its change log has.",
                detail="Delta tables cannot have both. What is published is right up to the change of the table.",
                hint=f"Resnapshot it, which begins a new change log: tidemark redump SPEC --table {table}",
            )
        if field.name in held.names and not _widens(held.field(field.name).type, field.type):
            raise IncompatibleColumnsError(
                f"{table}: column {field.name!r} is now {field.type}, which its change log, where it is "
                f"{held.field(field.name).type}, cannot become.",
                detail="What is published is right up to the change of the table; nothing after it was published.",
                hint=f"Resnapshot it, which begins a new change log: tidemark redump SPEC --table {table}",
            )


def _widens(held: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the wanted type contains every value of the held type."""
    if held == wanted:
        return True
    if pa.types.is_string(wanted):  # bytes may not be text
        return not (pa.types.is_binary(held) or pa.types.is_nested(held))
    if pa.types.is_integer(held):
        digits = {8: 3, 16: 5, 32: 10, 64: 19}[held.bit_width]
        if pa.types.is_integer(wanted):
            return bool(wanted.bit_width > held.bit_width)
        return bool(pa.types.is_decimal(wanted) and wanted.precision - wanted.scale >= digits)
    if pa.types.is_decimal(held) and pa.types.is_decimal(wanted):
        grown = wanted.precision - wanted.scale >= held.precision - held.scale
        return bool(grown and wanted.scale >= held.scale)
    return bool(pa.types.is_float32(held) and pa.types.is_float64(wanted))


def schema_of(delta: DeltaTable) -> pa.Schema:
    """The columns of a Delta table."""
    return pa.schema(delta.schema().to_arrow())


def lacks(delta: DeltaTable, wanted: pa.Schema) -> bool:
    """Whether a Delta table lacks any of the columns."""
    held = schema_of(delta)
    return any(field.name not in held.names for field in wanted)


def widened(folder: Path, file: DataFile, schema: pa.Schema, bounded: Sequence[str]) -> list[DataFile]:
    """Rewrite a data file with wider types, because not every Delta reader widens while it reads."""
    with pq.ParquetFile(folder / file.name) as held, FileWriter(folder, "changes", schema, bounded) as writer:
        for _, rows in batches(held):
            writer.write(conformed(rows, schema))
        return writer.close()
