"""Arrow schemas of source tables (docs/types.md)."""

import pyarrow as pa

from engine.decode.schema import Table
from engine.decode.types import value_type


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the table's rows (docs/types.md)."""
    return pa.schema(
        [pa.field(c.name, value_type(c).arrow(c), c.nullable or c.null_dates or c.unread) for c in table.columns]
    )


def image_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the table's row images: as for its rows, but with every column nullable."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table)])


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows converted to this schema: missing columns are NULL, narrower ones are widened."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
