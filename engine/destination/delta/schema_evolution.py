"""Schema evolution of the destination: columns are added or widened, never dropped."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable

from engine.base.errors import IncompatibleColumnsError
from engine.base.wording import shell_word
from engine.capture.batches import batches, parquet_file
from engine.capture.files import DataFile, FileWriter
from engine.decode.arrow_schema import conformed, image_schema
from engine.decode.schema import TM_SEQ, Table
from engine.store.folder import Folder


def mirror_schema(table: Table) -> pa.Schema:
    """The source's columns, all nullable, and `_tm_seq` of the change that wrote the row; NULL for rows of a chunk."""
    return pa.schema([*image_schema(table), pa.field(TM_SEQ, pa.int64())])


def unite(old_schema: pa.Schema, new_schema: pa.Schema) -> pa.Schema:
    """The held columns, with wanted types that are wider, plus the wanted columns that are missing."""
    columns = [
        new_schema.field(f.name) if f.name in new_schema.names and _widens(f.type, new_schema.field(f.name).type) else f
        for f in old_schema
    ]
    return pa.schema([*columns, *(f for f in new_schema if f.name not in old_schema.names)])


def check_evolution(table: str, old_schema: pa.Schema, new_schema: pa.Schema) -> None:
    """Raises IncompatibleColumnsError when a held column cannot become the wanted one without losing values."""
    spellings = {name.casefold(): name for name in old_schema.names}
    for field in new_schema:
        if spellings.get(field.name.casefold(), field.name) != field.name:
            other = spellings[field.name.casefold()]
            raise IncompatibleColumnsError(
                f"{table}: column {field.name!r} differs by case alone from {other!r}, which its change log has.",
                detail="Delta tables cannot have both. What is published is right up to the change of the table.",
                hint=f"Resnapshot it, which begins a new change log: tidemark redump SPEC --table {shell_word(table)}",
            )
        if field.name in old_schema.names and not _widens(old_schema.field(field.name).type, field.type):
            raise IncompatibleColumnsError(
                f"{table}: column {field.name!r} is now {field.type}, which its change log, where it is "
                f"{old_schema.field(field.name).type}, cannot become.",
                detail="What is published is right up to the change of the table; nothing after it was published.",
                hint=f"Resnapshot it, which begins a new change log: tidemark redump SPEC --table {shell_word(table)}",
            )


def _widens(old_type: pa.DataType, new_type: pa.DataType) -> bool:
    """Whether the wanted type contains every value of the held type."""
    if old_type == new_type:
        return True
    if pa.types.is_string(new_type):  # bytes may not be text
        return not (pa.types.is_binary(old_type) or pa.types.is_nested(old_type))
    if pa.types.is_integer(old_type):
        digits = {8: 3, 16: 5, 32: 10, 64: 19}[old_type.bit_width]
        if pa.types.is_integer(new_type):
            return bool(new_type.bit_width > old_type.bit_width)
        return bool(pa.types.is_decimal(new_type) and new_type.precision - new_type.scale >= digits)
    if pa.types.is_decimal(old_type) and pa.types.is_decimal(new_type):
        holds_digits = new_type.precision - new_type.scale >= old_type.precision - old_type.scale
        return bool(holds_digits and new_type.scale >= old_type.scale)
    return bool(pa.types.is_float32(old_type) and pa.types.is_float64(new_type))


def schema_of(delta: DeltaTable) -> pa.Schema:
    """The columns of a Delta table."""
    return pa.schema(delta.schema().to_arrow())


def lacks(delta: DeltaTable, schema: pa.Schema) -> bool:
    """Whether a Delta table lacks any of the columns."""
    columns = schema_of(delta)
    return any(field.name not in columns.names for field in schema)


def rewrite_wider(folder: Folder, file: DataFile, schema: pa.Schema, bounded_columns: Sequence[str]) -> list[DataFile]:
    """Rewrite a data file with wider types, because not every Delta reader widens while it reads."""
    with (
        folder.open(file.name) as source,
        parquet_file(source) as old_file,
        FileWriter(folder, "changes", schema, bounded_columns) as writer,
    ):
        for _, rows in batches(old_file):
            writer.write(conformed(rows, schema))
        return writer.close()
