"""`tidemark backup` and `tidemark restore`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from engine.base.wording import listing, plural
from engine.cli.command import JsonOption, SpecFile, app, guarded, opened, out, print_json


@app.command()
@guarded
def backup(
    spec_file: SpecFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup to write, a zip.", show_default=False)],
    *,
    as_json: JsonOption = False,
) -> None:
    """Back up the ledger and the version of every table in the destination. Works while the pipeline runs."""
    from engine.backup.backup import write_backup

    spec, directory = opened(spec_file)
    made = write_backup(spec, directory, file)
    if as_json:
        print_json(made.as_dict())
        return
    tables = plural(made.tables, "table")
    out.print(f"{made.file}: epoch {made.epoch}, position {made.position}, {tables} by version.", markup=False)
    out.print("The rows stay in the destination: do not vacuum what those versions need.")


@app.command()
@guarded
def restore(
    spec_file: SpecFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup to restore.", show_default=False)],
    *,
    as_json: JsonOption = False,
) -> None:
    """Restore the ledger, and roll every table in the destination back to its version in the backup.

    The runner must be stopped.
    """
    from engine.backup.backup import restore as put_back

    spec, directory = opened(spec_file)
    made = put_back(spec, directory, file)
    if as_json:
        print_json(made.as_dict())
    else:
        at = f"epoch {made.epoch}, position {made.position}"
        out.print(f"Restored {file}. The ledger is at {at}; the next run continues there.", markup=False)
        if made.later_tables:
            out.print(_later(made.later_tables, spec.sink.path), markup=False)


def _later(tables: Sequence[str], lake: str | Path) -> str:
    """What to do about tables that joined after a backup."""
    return (
        f"Joined after the backup, so not in the ledger any more: {listing(tables, 20)}. Move the folders of these "
        f"tables out of {lake}, and the next run copies them again. Until then, they stop, and the others continue."
    )
