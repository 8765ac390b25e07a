"""The verb `verify`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base import clock
from engine.base.errors import DifferencesFoundError, NotComparedError, SpecError
from engine.base.exit_codes import DONE
from engine.base.text_grid import text_grid
from engine.base.wording import plural
from engine.cli.command import (
    Chunks,
    JsonOption,
    Keys,
    LimitOption,
    Reason,
    SpecFile,
    app,
    guarded,
    opened,
    out,
    print_json,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.verify.verdicts import Level, TableResult

_SHOWN = 20


@app.command()
@guarded
def verify(
    spec_file: SpecFile,
    *,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="A table (database.table); repeatable. By default, all.")
    ] = None,
    chunk: Chunks = "",
    limits: LimitOption = None,
    keys: Keys = "",
    sample: Annotated[str, typer.Option("--sample", help="Only a random share of the chunks, such as 5%.")] = "",
    level: Annotated[
        str,
        typer.Option(
            "--level", help="Compare row counts, or every row: counts or rows. (checksum is an alias of rows.)"
        ),
    ] = "rows",
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="iceberg: compare the rows that readers of Iceberg see. both: those of Delta; and files and deleted "
            "rows of each Iceberg table with the Delta table.",
        ),
    ] = "delta",
    sink: Annotated[
        str, typer.Option("--sink", help="Compare a further sink, by its name. By default, the first destination.")
    ] = "",
    repair: Annotated[
        bool, typer.Option("--repair", help="Redump the rows that differ, and verify them again.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 8 if something could not be compared; without it, with 0.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a report: HTML if the name ends with .html, else JSON.")
    ] = None,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Compare mirrors with the source, exactly, while both change.

    Exit code 6 if rows differ, or a repair could not be verified. What could not be compared is named; with --strict,
    the exit code is 8 then.

    It reads the source like a snapshot, under the same throttle, and changes no mirror unless it repairs. It needs no
    runner.
    """
    from engine.alerting.between_runs import report_verified
    from engine.base.allocators import return_freed_memory
    from engine.capture.redump_requests import arguments_of
    from engine.run.lifecycle.runner import run_pipeline
    from engine.verify.format_agreement import compare_formats
    from engine.verify.repair import Repair
    from engine.verify.report import report_of, write_report
    from engine.verify.scope import scope_of
    from engine.verify.verdicts import worst
    from engine.verify.verifier import Verifier

    return_freed_memory()
    spec, directory = opened(spec_file)
    chosen = _level(level)
    _check_format(form, repair=repair, sink=sink)
    verifier = Verifier(spec, directory, sink=sink, table_format="iceberg" if form == "iceberg" else "delta")
    started = clock.utc_text()
    try:
        arguments = arguments_of(stored(spec, directory, table or []), chunk, limits, keys)
        scope = scope_of(directory, verifier.committed.state(), arguments, sample)
        results = first_results = verifier.verify(scope, chosen, lambda result: None if as_json else _show(result))
        if repair and worst(results) == "diverged":
            run = partial(run_pipeline, spec, spec_file, "caught-up")
            catch_up = partial(_apart, directory.log, run) if out.is_terminal else run
            say = (lambda _: None) if as_json else partial(out.print, markup=False)
            results = Repair(spec, directory, verifier, catch_up, sink).repair(results, reason, say)
            for result in () if as_json else results:
                _show(result)
    finally:
        verifier.close()
    names = list(dict.fromkeys(result.table for result in results))
    if not sink and form != "iceberg":
        report_verified(spec, directory, names)
    formats = compare_formats(spec, directory, verifier.committed.state(), names) if form == "both" else []
    if report is not None:
        write_report(report, report_of(spec, results, started))
    if as_json:
        more = {"formats": [one.as_dict() for one in formats]} if form == "both" else {}
        print_json({"tables": [result.as_dict() for result in results], **more})
    for one in () if as_json else formats:
        for sentence in one.sentences():
            out.print(sentence, style="red" if one.differs else "", markup=False)
    code = _exit_code(first_results, results, strict=strict)
    raise typer.Exit(DifferencesFoundError.exit_code if any(one.differs for one in formats) else code)


def _level(name: str) -> "Level":
    from engine.verify.verdicts import LEVELS

    level = LEVELS.get(name)
    if level is None:
        raise SpecError(f"--level {name} is not known.", hint=f"Known: {', '.join(LEVELS)}.")
    return level


def _check_format(form: str, *, repair: bool, sink: str) -> None:
    from engine.verify.format_agreement import FORMATS

    if form not in FORMATS:
        raise SpecError(f"--format {form} is not known.", hint=f"Known: {', '.join(FORMATS)}.")
    if form == "iceberg" and (repair or sink):
        raise SpecError(
            f"--format iceberg cannot be combined with --{'repair' if repair else 'sink'}.",
            detail="Nothing was compared.",
            hint="The Iceberg tables follow the Delta tables of the first destination. Repair those, without --format.",
        )


def _apart(log: Path, run: "Callable[[], object]") -> None:
    """Run; what Spark and Java print goes to the log. An error is raised, and printed once the terminal is back."""
    from engine.status.own_terminal import own_terminal

    with own_terminal(log):
        run()


def _exit_code(results_before: "Sequence[TableResult]", results: "Sequence[TableResult]", *, strict: bool) -> int:
    """The exit code of a verification. results_before: before the repair; results: at the end."""
    from engine.verify.repair import unproven
    from engine.verify.verdicts import not_compared, worst

    if worst(results) == "diverged" or unproven(results_before, results):
        return DifferencesFoundError.exit_code
    return NotComparedError.exit_code if strict and not_compared(results) else DONE


def _show(result: "TableResult") -> None:
    through = f" through {result.position} (version {result.version})" if result.position else ""
    part = f", {result.scope}" if result.scope else ""
    why = f": {result.why}" if result.why else ""
    out.print(
        f"{result.table}{part}: {result.verdict}{through}, {plural(result.rows, 'row')}, {result.seconds:.1f} s{why}",
        markup=False,
    )
    if result.hint:
        out.print(result.hint, markup=False)
    if not result.differences:
        return
    grid = text_grid("kind", "key", "columns", "cause")
    for one in result.differences[:_SHOWN]:
        grid.add_row(one.kind, ", ".join(one.key), ", ".join(one.columns), one.cause)
    out.print(grid)
    if result.differences_total > _SHOWN:
        out.print(
            f"… {result.differences_total - _SHOWN:,} more; --json lists {len(result.differences):,}.", markup=False
        )
