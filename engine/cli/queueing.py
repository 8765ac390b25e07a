"""`tidemark queue` and `tidemark withdraw`: the commands that wait for a runner."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.wording import utc_time
from engine.cli.command import JsonOption, Reason, SpecFile, app, guarded, opened, out, print_json

if TYPE_CHECKING:
    from engine.pipeline.command_queue import Waiting


@app.command()
@guarded
def queue(spec_file: SpecFile, *, as_json: JsonOption = False) -> None:
    """List the commands that a run has not answered yet: who sent what, when and why. Works without a runner."""
    from engine.pipeline.command_queue import waiting_commands

    _, directory = opened(spec_file)
    commands = waiting_commands(directory)
    if as_json:
        print_json({"commands": [asdict(one) for one in commands]})
    elif not commands:
        out.print("No command waits.")
    for one in () if as_json else commands:
        out.print(_line(one), markup=False, soft_wrap=True)


@app.command("withdraw")
@guarded
def withdraw_commands(
    spec_file: SpecFile,
    identities: Annotated[
        list[str], typer.Argument(metavar="ID...", help="The commands, by the ids that `queue` lists.")
    ],
    *,
    reason: Reason = "",
    as_json: JsonOption = False,
) -> None:
    """Withdraw commands that no run has accepted yet.

    No run carries out a withdrawn command, even if it starts meanwhile.
    """
    from engine.pipeline.command_queue import withdraw

    _, directory = opened(spec_file)
    done = [withdraw(directory, identity, reason=reason) for identity in identities]
    if as_json:
        print_json({"withdrawn": [asdict(one) for one in done]})
    for one in () if as_json else done:
        out.print(f"Withdrawn: {_line(one)}", markup=False, soft_wrap=True)


def _line(one: "Waiting") -> str:
    why = f": {one.reason}" if one.reason else ""
    note = f" ({one.note})" if one.note else ""
    return f"{one.id}  {one.verb} {one.what}, sent by {one.actor or 'unknown'} at {utc_time(one.sent)}{why}{note}"
