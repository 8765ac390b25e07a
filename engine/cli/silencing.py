"""`tidemark silence`: send no alerts for some time, with a reason."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import SpecError
from engine.base.wording import utc_time
from engine.cli.command import JsonOption, Reason, SpecFile, app, guarded, opened, out, print_json

if TYPE_CHECKING:
    from engine.alerting.silences import Silence


@app.command()
@guarded
def silence(
    spec_file: SpecFile,
    *,
    period: Annotated[str, typer.Option("--for", help="Duration from now, such as 2h or 30m.")] = "",
    kind: Annotated[str, typer.Option("--kind", help="Only alerts of this kind, such as lag. By default, all.")] = "",
    table: Annotated[
        str, typer.Option("--table", help="Only alerts of tables that match this glob, such as 'shop.*'.")
    ] = "",
    end: Annotated[str, typer.Option("--end", metavar="ID", help="End this silence now.")] = "",
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Send no alerts to any route for some time, with a reason. Without options, list the silences in force.

    Alerts stay visible everywhere. The silence ends by itself; alerts that have not cleared by then are sent.
    Works without a runner too.
    """
    from engine.alerting.silences import add_silence, end_silence, silences

    _, directory = opened(spec_file)
    if end and (period or kind or table):
        raise SpecError("--end takes no other options.", detail="Nothing was changed.", hint="Give only its ID.")
    if not period and (kind or table or reason) and not end:
        raise SpecError("Say for how long.", detail="Nothing was changed.", hint="For example --for 2h.")
    if end:
        _show([end_silence(directory, end)], "Ended", as_json=as_json)
    elif period:
        _show([add_silence(directory, period, reason, kind=kind, table=table)], "Silenced", as_json=as_json)
    else:
        in_force = silences(directory)
        _show(in_force, "Silenced", as_json=as_json)
        if not in_force and not as_json:
            out.print("No silence is in force.")


def _show(silences: "list[Silence]", verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"silences": [asdict(one) for one in silences]})
    for one in () if as_json else silences:
        text = f"{verb}: {one.what} until {utc_time(one.until)}, by {one.actor}: {one.reason} (silence {one.id})"
        out.print(text, markup=False, soft_wrap=True)
