"""`tidemark audit`: compare change logs with the binlog by another decoder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from engine.base.durable import write_atomically
from engine.base.errors import DifferencesFoundError
from engine.cli.command import JsonOption, SpecFile, app, guarded, opened, out, print_json, stored


@app.command()
@guarded
def audit(
    spec_file: SpecFile,
    *,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE:OFFSET",
            help="Start of the range. By default, the earliest position that is provably right.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="FILE:OFFSET", help="End of the range. By default, the committed position."),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only this table (database.table); repeatable.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Compare only a random part of the binlog, of about 64 MiB.")
    ] = False,
    report: Annotated[Path | None, typer.Option("--report", help="Also write the whole result to this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare change logs with the source's binlog, row image by row image, with an independent decoder.

    Works while the pipeline runs, and writes nothing to the source. It is slow: a few thousand row images per second.
    Exit code 6 if it finds a difference.
    """
    from engine.audit.audit import audit as audited
    from engine.base.allocators import return_freed_memory

    return_freed_memory()
    spec, directory = opened(spec_file)
    tables = stored(spec, directory, table or ())
    result = audited(spec, directory, start=start, end=end, tables=tables, sample=sample)
    if report is not None:
        write_atomically(report, json.dumps(result.as_dict(), ensure_ascii=False, indent=1))
    if as_json:
        print_json(result.as_dict())
    else:
        for line in result.lines():
            out.print(line, markup=False, soft_wrap=True)
    if result.differences_total:
        raise typer.Exit(DifferencesFoundError.exit_code)
