"""The verbs that run and operate a pipeline."""

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import PreflightError, SpecError, TablesStoppedError
from engine.cli.command import (
    Chunks,
    JsonOption,
    Keys,
    LimitOption,
    Reason,
    SpecFile,
    app,
    guarded,
    known,
    opened,
    out,
    print_json,
    send,
    stored,
    to_runner,
)
from engine.cli.consoles import plain_console

if TYPE_CHECKING:
    from engine.source.preflight import Check


@app.command()
@guarded
def check(spec_file: SpecFile, *, as_json: JsonOption = False) -> None:
    """Verify everything a run needs from the spec, the source and the destination; print the SQL that fixes what is
    missing.
    """  # noqa: D205 - one sentence, as the reference has it
    from engine.capture.projection.projection_rules import as_read
    from engine.run.lifecycle.continuation_check import check_all, check_projections
    from engine.run.tables.membership_commands import members_in
    from engine.source.endpoint import at_source, endpoint_of
    from engine.source.grants import minimal_grants
    from engine.source.preflight import run_preflight
    from engine.source.preflight_text import print_checks

    written, directory = opened(spec_file)
    spec = at_source(written)
    members, removed = members_in(directory)
    endpoint, reads = endpoint_of(spec.source), partial(as_read, spec)
    result = run_preflight(
        endpoint, spec.source, spec.first_server_id(), reads, members, spec.table_rules(), spec.parallel_readers()
    )
    check_projections(spec, directory, result.tables, removed)
    included = sum(not glob.startswith("!") for glob in spec.source.tables)
    more = check_all(spec, directory, endpoint, result)
    result = replace(result, checks=[*_globs_failed(result.checks, included), *more])
    added = sorted(f"{database}.{table}" for database, table in members.also)
    grants = minimal_grants(spec.source.user, result.server, [*written.source.tables, *added])
    if as_json:
        print_json({"passed": result.passed, "checks": [c.as_dict() for c in result.checks], "grants": grants})
    else:
        print_checks(out, result, grants)
    if not result.passed:
        raise typer.Exit(PreflightError.exit_code)


def _globs_failed(checks: "list[Check]", included: int) -> "list[Check]":
    """The checks; those of globs fail if none of the `included` ones matches: a run keeps its earlier tables."""
    from engine.source.named_tables import INCLUSION

    if sum(one.name.startswith(INCLUSION) for one in checks) < included:
        return checks
    return [replace(one, outcome="fail") if one.name.startswith(INCLUSION) else one for one in checks]


@app.command()
@guarded
def plan(
    spec_file: SpecFile,
    *,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Use the server's statistics only; read no table.")
    ] = False,
    types: Annotated[
        bool, typer.Option("--types", help="Only the types that columns get in databases; plan nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how tables will be split and why, how long the snapshot takes, and how mirrors are merged.

    Statistics that look outdated, as after a bulk load, are named with the statement that renews them.

    --json lists every chunk.
    """
    from engine.explore.declared_types import declared_types, types_grid
    from engine.plan.show import json_parts, text_table
    from engine.run.tables.membership_commands import members_in
    from engine.source.catalog import captured_tables
    from engine.source.connect import describe, open_connection
    from engine.source.connection_limits import few, limited_text, limits_of
    from engine.source.endpoint import endpoint_of
    from engine.spec.case_folding import spec_on

    spec, directory = opened(spec_file)
    connection = open_connection(endpoint_of(spec.source))
    try:
        spec = spec_on(spec, describe(connection).names)
        nulls, members = spec.source.invalid_dates == "null", members_in(directory)[0]
        tables = captured_tables(connection, spec.source.tables, members, null_dates=nulls)
        if types:
            declared = declared_types(spec, tables)
            if as_json:
                print_json({"types": [asdict(one) for one in declared]})
            else:
                out.print(types_grid(declared) if declared else "No destination of this pipeline is a database.")
        elif as_json:
            for part in json_parts(connection, tables, spec, exact=not estimate):
                sys.stdout.write(part)
        else:
            out.print(text_table(connection, tables, spec, exact=not estimate))
            own = limits_of(connection).own
            if few(own, spec.parallel_readers()) is not None:
                out.print(f"Connections: {limited_text(own)}.", markup=False)
    finally:
        connection.close()


@app.command()
@guarded
def run(
    spec_file: SpecFile,
    *,
    until: Annotated[str | None, typer.Option(help="When to end: snapshot or caught-up. By default, never.")] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait until no other runner has the pipeline, then take over.")
    ] = False,
    service: Annotated[
        bool,
        typer.Option("--service", help="For a service manager: exit with 0 after a stop, even if tables are stopped."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the pipeline: snapshot the tables that are not copied yet, then stream the binlog."""
    from engine.pipeline.directory import directory_of
    from engine.run.lifecycle.early_start import UNTIL, start_run
    from engine.spec.settings import load
    from engine.status.own_terminal import own_terminal
    from engine.status.terminal import Lines, Screen

    if until not in (None, *UNTIL):
        raise SpecError(
            f"--until {until} is not known.", hint=f"Known: {', '.join(UNTIL)}; without it the run never ends."
        )
    spec = load(spec_file)

    def waits(why: str) -> None:
        print_json({"standby": why}) if as_json else out.print(f"standing by: {why}", markup=False)

    def start(listener: "Callable[[Any], None]", starting: "Callable[[str], None] | None" = None) -> None:
        waiting = waits if standby else None
        try:
            start_run(spec, spec_file, until, listener, standby=waiting, starting=starting, as_json=as_json)
        except TablesStoppedError:
            if not service or until is not None:
                raise

    if as_json:
        start(print_json)
    elif out.is_terminal and not standby:
        log = directory_of(spec_file, spec.name).log
        with own_terminal(log) as terminal, Screen(plain_console(terminal), spec.name) as screen:
            start(screen.hear, screen.say)
    else:
        lines = Lines(out)
        start(lines.hear, lines.say)


@app.command()
@guarded
def status(spec_file: SpecFile, *, as_json: JsonOption = False) -> None:
    """Show what the pipeline is doing. Works without a runner too, and while the spec cannot be read."""
    from engine.status.status import status as status_of
    from engine.status.status_text import print_status

    pipeline = known(spec_file)
    spec = pipeline.spec
    now = status_of(pipeline.directory, spec.name, spec.verify, spec.sink, copies=spec.source.copies)
    now = replace(now, spec_fault=pipeline.notice or None)
    if as_json:
        print_json(now.to_json())
    else:
        print_status(out, now)


@app.command()
@guarded
def throttle(
    spec_file: SpecFile,
    settings: Annotated[
        list[str] | None, typer.Argument(help="Settings of [throttle] as TOML: max_rows_per_s=20000 readers=2")
    ] = None,
    *,
    reset: Annotated[bool, typer.Option("--reset", help="Return to the settings of the spec.")] = False,
    period: Annotated[
        str, typer.Option("--for", help="Revert to the previous settings after this time, such as 2h.")
    ] = "",
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Change how fast and when readers read, until the next change.

    Settings are those of `[throttle]`: max_rows_per_s=20000.
    """
    from engine.spec.throttle_settings import throttle_changes

    if bool(settings) == reset or (reset and period):
        raise SpecError("Say what to change: key=value, or --reset without --for.", detail="Nothing was changed.")
    changes = throttle_changes(opened(spec_file)[0].throttle, settings or (), period)
    send(spec_file, "throttle", {"reset": True} if reset else changes, reason, as_json=as_json)


@app.command()
@guarded
def stop(spec_file: SpecFile, *, reason: Reason = "", as_json: JsonOption = False) -> None:
    """Stop the runner. It first finishes and publishes the work in progress.

    If the runner is lost or has failed, this cancels a restart by the watchdog.
    """
    from engine.pipeline.command_file import send_command
    from engine.pipeline.runner_file import find_runner
    from engine.watch.stop_requests import restart_pending

    pipeline = known(spec_file)
    spec, directory = pipeline.spec, pipeline.directory
    if not restart_pending(directory, spec.watch, find_runner(directory)):
        to_runner(spec_file, "stop", reason, as_json=as_json)
        return
    identity = send_command(directory, "stop", reason=reason, pipeline=spec.name)
    if as_json:
        print_json({"id": identity, "verb": "stop", "waits_for_a_runner": False, "cancels_restart": True})
    else:
        out.print(
            f"No watchdog restarts the runner (command {identity}). To start it: tidemark run {spec_file}",
            markup=False,
        )


@app.command()
@guarded
def redump(
    spec_file: SpecFile,
    *,
    table: Annotated[list[str] | None, typer.Option("--table", help="A table (database.table); repeatable.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All tables; also restarts a pipeline whose position the source has purged.")
    ] = False,
    chunk: Chunks = "",
    limits: LimitOption = None,
    keys: Keys = "",
    request: Annotated[
        str,
        typer.Option(
            "--request",
            help='All of this as one JSON document, from a file or, with -, from standard input: {"tables": […], '
            '"chunks": […]}, "range" or "keys" instead of "chunks"; without "tables", all tables.',
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be read; send nothing.")] = False,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Read tables, or parts of one, again while the binlog keeps streaming, and correct the mirror.

    Without a runner, the command waits for the next one.
    """
    from engine.capture.redump_requests import arguments_from, arguments_of, check

    if request and (table or everything or chunk or limits or keys):
        raise SpecError("--request contains everything: give no tables and no parts with it.")
    if not request and bool(table) == everything:
        raise SpecError("Say which tables: --table database.table, once or more, or --all.")
    spec, directory = opened(spec_file)
    arguments = arguments_from(request) if request else arguments_of(table or [], chunk, limits, keys)
    if isinstance(arguments.get("tables"), list) and all(isinstance(name, str) for name in arguments["tables"]):
        arguments["tables"] = stored(spec, directory, arguments["tables"])
    if not dry_run:
        check(directory, arguments)
        send(spec_file, "redump", arguments, reason, as_json=as_json)
        return
    from engine.run.redump.preview import as_grid, preview

    affected = preview(directory, spec.sink, arguments)
    if as_json:
        print_json({"arguments": arguments, "tables": [one.as_dict() for one in affected]})
        return
    out.print(as_grid(affected))
    out.print("Nothing was sent.")


@app.command()
@guarded
def maintain(
    spec_file: SpecFile,
    *,
    table: Annotated[list[str] | None, typer.Option("--table", help="A table (database.table); repeatable.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show sizes and the steps that are due; send nothing.")
    ] = False,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Maintain tables in the destination now: rewrite small or half-deleted files, and delete old ones.

    By default, all tables.

    It changes no row, and the pipeline keeps running. The runner does the same by schedule. Without a runner, the
    command waits for the next one.
    """
    from engine.explore.destination_sizes import as_grid, conditions
    from engine.run.commands.maintain import check

    spec, directory = opened(spec_file)
    tables = stored(spec, directory, table or [])
    spec.sink.require_mirrors("Maintenance")
    if not dry_run:
        check(directory, tables)
        send(spec_file, "maintain", {"tables": tables}, reason, as_json=as_json)
        return
    table_conditions = conditions(spec, directory, tables)
    if as_json:
        print_json({"tables": [one.as_dict() for one in table_conditions]})
    else:
        out.print(as_grid(table_conditions), "Nothing was sent.", sep="\n")


@app.command()
@guarded
def merge(
    spec_file: SpecFile,
    *,
    table: Annotated[list[str] | None, typer.Option("--table", help="A table (database.table); repeatable.")] = None,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Merge pending changes into the mirrors now, however expensive the merges are. By default, for all tables.

    The runner merges by schedule and defers expensive merges. Without a runner, the command waits for the next one.
    """
    from engine.run.commands.maintain import check

    spec, directory = opened(spec_file)
    tables = stored(spec, directory, table or [])
    spec.sink.require_mirrors("A merge")
    check(directory, tables)
    send(spec_file, "merge", {"tables": tables}, reason, as_json=as_json)


@app.command()
@guarded
def bundle(
    spec_file: SpecFile,
    *,
    out_file: Annotated[Path | None, typer.Option("--out", help="The zip to write; by default NAME-TIME.zip.")] = None,
    with_values: Annotated[
        bool, typer.Option("--with-values", help="Include chunk bounds and keys, which contain row values.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Collect diagnostics in a zip: spec, status, checks, journals and log, without secrets."""
    from engine.base import clock
    from engine.status.support_bundle import write_bundle

    spec, directory = opened(spec_file)
    file = out_file or Path(f"{spec.name}-{clock.utc_now():%Y%m%dT%H%M%S}.zip")
    made = write_bundle(spec, spec_file, directory, file, with_values=with_values)
    if as_json:
        print_json(made.as_dict())
        return
    for name, size in made.parts:
        out.print(f"{size:>12,}  {name}", markup=False)
    out.print(f"{made.file}: look through it before you share it (README.txt lists its content).", markup=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def console(context: typer.Context) -> None:
    """Start the console. All options are passed to Streamlit, such as --server.port 8080."""
    command = [sys.executable, "-m", "app.serve", *context.args]
    os.execv(sys.executable, command)  # noqa: S606 - the console takes the place of this process


NamedTables = Annotated[list[str], typer.Option("--table", help="A table (database.table); repeatable.")]


@app.command("add-table")
@guarded
def add_table(spec_file: SpecFile, *, table: NamedTables, reason: Reason = "", as_json: JsonOption = False) -> None:
    """Start capturing tables, whether or not the spec's globs match them. Others keep streaming meanwhile.

    Adds all the named tables, or none. Does not change the spec. Without a runner, the command waits for the next one.
    """
    _change(spec_file, "add-table", {"tables": table}, reason, as_json=as_json)


@app.command("remove-table")
@guarded
def remove_table(
    spec_file: SpecFile,
    *,
    table: NamedTables,
    drop: Annotated[bool, typer.Option("--drop", help="Also delete their mirrors and change logs.")] = False,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Stop capturing tables. Their mirrors and change logs stay as they are, unless --drop is given.

    The tables stay removed until you add them again, even if the spec's globs match them. Without a runner, the command
    waits for the next one.
    """
    _change(spec_file, "remove-table", {"tables": table, "drop": drop}, reason, as_json=as_json)


def _change(spec_file: Path, verb: str, arguments: dict[str, Any], reason: str, *, as_json: bool) -> None:
    from engine.run.tables.membership_commands import check

    spec, directory = opened(spec_file)
    arguments["tables"] = stored(spec, directory, arguments["tables"])
    check(directory, verb, arguments)
    send(spec_file, verb, arguments, reason, as_json=as_json)
