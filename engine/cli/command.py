"""What all verbs of the command line have in common.

The app, common options, exit codes, output, and sending commands.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine import __version__
from engine.base.errors import SpecError, TidemarkError
from engine.base.redaction import redact
from engine.base.wording import sentences
from engine.cli.consoles import plain_console

if TYPE_CHECKING:
    from engine.cli.known_pipeline import KnownPipeline
    from engine.pipeline.directory import Directory
    from engine.spec.settings import Spec

_PIPE_CLOSED = 141
"""The exit code that shells give to a program whose reader is gone: 128 + SIGPIPE."""
app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
out, err = plain_console(), plain_console(stderr=True)

SpecFile = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC", help="The pipeline's spec, a TOML file, or the URL of its state.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Reason = Annotated[str, typer.Option(help="The reason, for the journal.")]
Chunks = Annotated[str, typer.Option("--chunk", help="Chunks of the table's last snapshot, by number: 3,7")]
LimitOption = Annotated[
    tuple[str, str] | None,
    typer.Option("--range", help='LOWER UPPER of the chunk key, as `plan --json` prints them; "" is an open end.'),
]
Keys = Annotated[
    str,
    typer.Option("--keys", help="Rows by primary key: k1,k2, or a file with a key per line; several columns as JSON."),
]


def _version(shows_version: bool) -> None:
    if shows_version:
        out.print(f"tidemark {__version__}", markup=False)
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Tidemark copies MySQL and MariaDB tables into a Delta lakehouse and keeps them in sync."""


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """Turn our errors into exit codes, printed as text or JSON as requested."""

    @wraps(verb)
    def run(*args: Any, **options: Any) -> None:
        sys.excepthook = _show_unexpected
        try:
            if "spec_file" in options:
                from engine.pipeline.remote_state.spec_url import local_spec

                options["spec_file"] = local_spec(options["spec_file"])
            verb(*args, **options)
        except TidemarkError as error:
            if options.get("as_json"):
                print(json.dumps({**error.as_dict(), "exit_code": error.exit_code}))  # noqa: T201
            else:
                _show_error(error)
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError:  # `tidemark read … | head`: the reader has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_PIPE_CLOSED) from None

    return run


def _show_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error as Python does, but without secrets: its text may contain anything."""
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def _show_error(error: TidemarkError) -> None:
    err.print(f"error: {error.message}", style="bold red", markup=False)
    for part in (error.detail, error.hint):
        if part:
            err.print(part, markup=False)


def opened(spec_file: Path) -> "tuple[Spec, Directory]":
    """A pipeline's spec and its directory, which follows the bucket if the pipeline's state is in one."""
    from engine.pipeline.directory import directory_of
    from engine.pipeline.remote_state.operator_copy import follow, refresh
    from engine.pipeline.remote_state.place import note_state
    from engine.spec.settings import load

    spec = load(spec_file)
    directory = directory_of(spec_file, spec.name)
    note_state(directory, spec.state)
    refresh(directory)
    follow(directory, spec.state)
    return spec, directory


def known(spec_file: Path) -> "KnownPipeline":
    """The pipeline of a spec file, by its newest run if the spec cannot be read. Raises SpecError."""
    from engine.cli.known_pipeline import known_pipeline

    return known_pipeline(spec_file)


def stored(spec: "Spec", directory: "Directory", names: Sequence[str]) -> list[str]:
    """The tables as the catalog names them, where the server disregards case.

    Asks it only about names that the ledger lacks.

    A name that means no table stays as it is, and so do all if the source does not answer: what reads them names the
    fault.
    """
    from engine.run.tables.membership_commands import members_in
    from engine.source.catalog import list_tables
    from engine.source.connect import describe, open_connection
    from engine.source.endpoint import endpoint_of

    members, _ = members_in(directory)
    full_names = {".".join(name) for name in members.also | members.without}
    if set(names) <= full_names:
        return list(names)
    with suppress(TidemarkError), closing(open_connection(endpoint_of(spec.source))) as connection:
        rule = describe(connection).names
        existing = full_names | {".".join(name) for name in list_tables(connection)} if rule.folds else full_names
        return [rule.stored(name, existing) for name in names]
    return list(names)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False, default=str))  # noqa: T201


def to_runner(spec_file: Path, verb: str, reason: str, *, as_json: bool) -> None:
    """Send a command that only a live runner can execute, also while the spec cannot be read.

    Raises SpecError without a runner.
    """
    from engine.pipeline.runner_file import find_runner

    pipeline = known(spec_file)
    directory = pipeline.directory
    runner = find_runner(directory)
    if runner is None or not runner.alive:
        raise SpecError(
            f"There is no runner to {verb} this pipeline.",
            detail="Nothing was changed.",
            hint=f"Start one: tidemark run {spec_file}",
        )
    if pipeline.notice:
        err.print(pipeline.notice, style="yellow", markup=False)
    _send(directory, pipeline.spec, spec_file, verb, {}, reason, as_json=as_json)


def send(spec_file: Path, verb: str, arguments: dict[str, Any], reason: str, *, as_json: bool) -> None:
    """Put a command into the inbox; without a runner it waits for the next one."""
    spec, directory = opened(spec_file)
    _send(directory, spec, spec_file, verb, arguments, reason, as_json=as_json)


def _send(
    directory: "Directory",
    spec: "Spec",
    spec_file: Path,
    verb: str,
    arguments: dict[str, Any],
    reason: str,
    *,
    as_json: bool,
) -> None:
    from engine.pipeline.command_file import send_command
    from engine.pipeline.runner_file import find_runner

    identity = send_command(directory, verb, reason=reason, arguments=arguments, pipeline=spec.name)
    runner = find_runner(directory)
    waits = runner is None or not runner.alive
    if as_json:
        print_json({"id": identity, "verb": verb, "waits_for_a_runner": waits})
    elif waits:
        out.print(f"The next run will do it (command {identity}): tidemark run {spec_file}", markup=False)
    else:
        assert runner is not None
        out.print(f"{verb} was sent to runner {runner.pid} on {runner.host} (command {identity}).", markup=False)
        if runner.frozen is not None:
            out.print(sentences(runner.frozen.message, runner.frozen.hint), style="red", markup=False)
