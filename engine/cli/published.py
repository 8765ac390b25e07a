"""The verb `read`."""

import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import SpecError
from engine.cli.command import SpecFile, app, err, guarded, opened

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("csv", "parquet", "arrow")


@app.command()
@guarded
def read(
    spec_file: SpecFile,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="database.table; with __changes at its end, its change log.", show_default=False
        ),
    ],
    *,
    as_of: Annotated[
        str, typer.Option("--as-of", help="A time such as 2026-01-31T09:30:00Z: the mirror as readers saw it then.")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="csv, parquet or arrow (the IPC stream).")] = "csv",
    out_file: Annotated[
        Path | None, typer.Option("--out", help="The file to write; by default, standard output.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of rows.")] = None,
    table_format: Annotated[
        str, typer.Option("--table-format", help="Which readers see it: those of delta, or those of iceberg.")
    ] = "delta",
) -> None:
    """Print the rows of a published table, unordered. Works for every mirror, while the pipeline runs.

    A table that is not copied yet lacks rows, or has none: a line on standard error says so, and how far the copy is.

    In CSV, NULL is an empty field and an empty text is "". Binary values are hexadecimal, lists are JSON.
    """
    from engine.explore.reading import opened as opened_table
    from engine.spec.sink_settings import TABLE_FORMATS

    if form not in FORMATS:
        raise SpecError(f"--format is {form}.", detail="Nothing was read.", hint=f"Give one of {', '.join(FORMATS)}.")
    if table_format not in TABLE_FORMATS:
        raise SpecError(
            f"--table-format is {table_format}.",
            detail="Nothing was read.",
            hint=f"Give one of {', '.join(TABLE_FORMATS)}.",
        )
    spec, directory = opened(spec_file)
    reading = opened_table(spec, directory, table, _time(as_of) if as_of else None, table_format)
    if reading.notice:
        err.print(reading.notice, style="yellow", markup=False)
    if out_file is None:
        write_as(form, reading.schema, reading.batches(limit), sys.stdout.buffer)
        return
    with out_file.open("wb") as file:
        write_as(form, reading.schema, reading.batches(limit), file)


def write_as(form: str, schema: "pa.Schema", batches: "Iterable[pa.Table]", file: IO[bytes]) -> None:
    """Write rows in one of the formats."""
    with _writer(form, schema, file) as writer:
        for batch in batches:
            writer.write_table(_texts(batch) if form == "csv" else batch)


def _writer(form: str, schema: "pa.Schema", file: IO[bytes]) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pc_csv
    import pyarrow.parquet as pq

    if form == "csv":
        return pc_csv.CSVWriter(file, _texts(schema.empty_table()).schema)
    return pa.ipc.new_stream(file, schema) if form == "arrow" else pq.ParquetWriter(file, schema, compression="zstd")


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise SpecError(
            f"--as-of is {text}, which is no time.",
            detail="Nothing was read.",
            hint="Give a time such as 2026-01-31T09:30:00Z.",
        ) from None


def _texts(rows: "pa.Table") -> "pa.Table":
    """The rows with binary values and lists as text."""
    import pyarrow as pa

    for n, column in enumerate(rows.columns):
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            rows = rows.set_column(n, rows.column_names[n], _text(column, bytes.hex))
        elif pa.types.is_list(column.type):
            rows = rows.set_column(n, rows.column_names[n], _text(column, str))
    return rows


def _text(column: "pa.ChunkedArray", text: Callable[[Any], str]) -> "pa.Array":
    import pyarrow as pa

    return pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.string())
