"""The verb `catalog`."""

from typing import Annotated

import typer

from engine.cli.command import JsonOption, SpecFile, app, guarded, opened, out, print_json


@app.command()
@guarded
def catalog(
    spec_file: SpecFile,
    *,
    tables: Annotated[
        list[str] | None, typer.Option("--table", metavar="TABLE", help="Of these tables alone, as database.table.")
    ] = None,
    engines: Annotated[
        list[str] | None,
        typer.Option(
            "--engine", metavar="ENGINE", help="Of spark, duckdb, trino, clickhouse, athena, snowflake, bigquery."
        ),
    ] = None,
    prints: Annotated[bool, typer.Option("--print", help="Print them, which is all that the command does.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Print statements with which other engines read the tables: as Delta tables, and as Iceberg tables if they are."""
    from engine.explore.engine_statements import engine_statements

    spec, directory = opened(spec_file)
    statements = engine_statements(spec, directory, tables or (), engines or ())
    if as_json:
        print_json([one.as_dict() for one in statements])
        return
    for one in statements if prints else ():
        trial = "" if one.is_tried else " (by the engine's documentation, not tried)"
        out.print(f"-- {one.table}, {one.engine}, {one.format}{trial}", style="dim", markup=False)
        if one.note:
            out.print(f"-- {one.note}", style="dim", markup=False)
        out.print(one.text, markup=False, soft_wrap=True)
