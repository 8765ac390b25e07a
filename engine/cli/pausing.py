"""The verbs `pause` and `resume`: of a pipeline, or of parts of its work."""

from pathlib import Path
from typing import Annotated, Any

import typer

from engine.base.errors import SpecError
from engine.cli.command import JsonOption, Reason, SpecFile, app, guarded, opened, send, stored, to_runner

OnlySnapshot = Annotated[bool, typer.Option("--snapshot", help="Only the snapshot, not the binlog.")]
SomeTables = Annotated[
    list[str] | None, typer.Option("--table", help="Only this table's snapshot (database.table); repeatable.")
]

SomeSinks = Annotated[list[str] | None, typer.Option("--sink", help="Only this further sink, by its name; repeatable.")]


def _captured(spec_file: Path, names: list[str]) -> list[str]:
    """The tables by the catalog's names. Raises SpecError for one that the pipeline has not."""
    from engine.base.errors import unknown_tables
    from engine.run.tables.membership_commands import members_in

    spec, directory = opened(spec_file)
    tables = stored(spec, directory, names)
    members, _ = members_in(directory)
    captured = {".".join(name) for name in members.also}
    if captured and (unknown := [name for name in tables if name not in captured]):
        raise unknown_tables(unknown, captured)
    return tables


def _pausing(
    spec_file: Path,
    verb: str,
    reason: str,
    table: list[str] | None,
    sink: list[str] | None,
    *,
    snapshot: bool,
    as_json: bool,
) -> None:
    from engine.spec.further_sinks import sink_named

    if sink:
        if snapshot or table:
            raise SpecError("Name sinks, tables or the snapshot: one of them.", detail="Nothing was changed.")
        spec = opened(spec_file)[0]
        names = [sink_named(spec.sink, spec.sinks, name).name for name in sink]
        send(spec_file, verb, {"sinks": names}, reason, as_json=as_json)
        return
    if not snapshot and not table:
        to_runner(spec_file, verb, reason, as_json=as_json)
        return
    arguments: dict[str, Any] = {"snapshot": True} if snapshot else {"tables": _captured(spec_file, table or [])}
    send(spec_file, verb, arguments, reason, as_json=as_json)


@app.command()
@guarded
def pause(
    spec_file: SpecFile,
    *,
    snapshot: OnlySnapshot = False,
    table: SomeTables = None,
    sink: SomeSinks = None,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Pause the pipeline until `resume`; or its snapshot, or further sinks, also across restarts."""
    _pausing(spec_file, "pause", reason, table, sink, snapshot=snapshot, as_json=as_json)


@app.command()
@guarded
def resume(
    spec_file: SpecFile,
    *,
    snapshot: OnlySnapshot = False,
    table: SomeTables = None,
    sink: SomeSinks = None,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Lift a pause, with the same options as `pause`; or retry an unreachable source or a full disk at once.

    With `--table`, Tidemark resnapshots a stopped table and reads parked chunks again. With `--sink`, a further sink
    that waits for its next try begins it at once.
    """
    _pausing(spec_file, "resume", reason, table, sink, snapshot=snapshot, as_json=as_json)
