"""The verbs that keep runners alive: `watch` and `service`."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from engine.base.errors import SpecError
from engine.cli.command import JsonOption, SpecFile, app, err, guarded, opened, out, print_json


@app.command()
@guarded
def watch(
    home: Annotated[
        Path | None,
        typer.Argument(
            metavar="[HOME]", help="The folder that has the pipelines; by default $TIDEMARK_HOME, else ~/.tidemark."
        ),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Watch the runners of all pipelines in a folder.

    A runner that is lost raises an alert, and is restarted if its spec asks for it.
    The console does the same while it runs. Several watchdogs can watch the same folder. Runners keep running when a
    watchdog ends.
    """
    from engine.pipeline.remote_state.host_pipelines import pipelines_in, usual_folder
    from engine.watch.background import watch as watch_all

    folder = usual_folder() if home is None else home.expanduser().absolute()
    if not folder.is_dir():
        raise SpecError(
            f"{folder} is no folder.", detail="Nothing is watched.", hint="Give the folder that has the pipelines."
        )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())

    def report(pipeline: str, what: str) -> None:
        print_json({"pipeline": pipeline, "what": what}) if as_json else out.print(
            f"{pipeline}: {what}", markup=False, soft_wrap=True
        )

    if not as_json:
        names = ", ".join(one.root.name for one in pipelines_in(folder)) or "no pipeline yet"
        out.print(f"Watching {folder}: {names}", markup=False, soft_wrap=True)
    watch_all(lambda: pipelines_in(folder), report, ended)


@app.command()
@guarded
def service(spec_file: SpecFile) -> None:
    """Print a systemd unit that runs the pipeline: restarts after failures, clean stops, secrets from a file."""
    from engine.cli.systemd_unit import unit_of

    spec, directory = opened(spec_file)
    print(unit_of(spec, spec_file, directory), end="")  # noqa: T201 - for a file
    if spec.watch.restart != "never":
        err.print(
            'The spec has watch.restart = "on-failure": '
            "let either systemd or the watchdog restart the runner, not both.",
            markup=False,
            soft_wrap=True,
        )
