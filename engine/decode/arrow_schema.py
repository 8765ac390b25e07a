"""Tables of the source as Arrow has them (docs/types.md)."""

import pyarrow as pa

from engine.decode.schema import Table
from engine.decode.types import value_type


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the table's rows (docs/types.md)."""
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
