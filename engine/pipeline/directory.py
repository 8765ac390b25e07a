"""A pipeline's directory: the paths of its files, and the small protocols that use them.

    <directory>/pipeline.toml          the spec
                ledger/                committed state (engine.ledger)
                journal/<run>.jsonl    events (engine.journal.events), and further parts of them (engine.journal.parts)
                inbox/<id>.json        pending commands; an event with the same id accepts or refuses each
                inbox/withdrawn/       commands that were withdrawn before a run took them
                                       (engine.pipeline.command_queue)
                runner.json            the runner's pid, heartbeat and Spark UI address, rewritten every second
                controls.json          operators' settings: pauses of tables, limits
                runner.lock            held by the runner while it lives
                runner.log             the runner's output, if the console or a service started it
                alerts.json            the active alerts; exists only if there are any; outlives a run
                acknowledged/          who acknowledged which alert (engine.alerting.acknowledgements)
                silences/              which alerts are not sent for some time (engine.alerting.silences)
                parked.json            the parked chunks; exists only if there are any; outlives a run
                watchdog.json          what the watchdog knows of a runner that is gone (engine.watch.record)
                verify/                the verification of each table, and mirrors that others changed (`verifications`)
                maintenance/           known-tables.json and what else a runner can find again: the key index, and when
                                       files became unused
                space.json             the destination's sizes, and the forecast of its disk
                standby/               the runners that stand by (engine.pipeline.saved_lists)
                watchdog.lock          held by the one watchdog that acts (engine.watch)

If a spec file is called `pipeline.toml`, its folder is the pipeline's directory. Otherwise the directory is next to the
spec file, named after the pipeline. Files appear by atomic rename, so a reader never sees half of one.
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from engine.base import clock
from engine.journal.parts import runs_in

_RUN = "%Y%m%dT%H%M%S"


@dataclass(frozen=True)
class Directory:
    """The paths of one pipeline."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "pipeline.toml"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger"

    @property
    def journals(self) -> Path:
        return self.root / "journal"

    @property
    def inbox(self) -> Path:
        return self.root / "inbox"

    @property
    def runner(self) -> Path:
        return self.root / "runner.json"

    @property
    def controls(self) -> Path:
        return self.root / "controls.json"

    @property
    def lock(self) -> Path:
        return self.root / "runner.lock"

    @property
    def log(self) -> Path:
        return self.root / "runner.log"

    @property
    def alerts(self) -> Path:
        return self.root / "alerts.json"

    @property
    def watchdog(self) -> Path:
        return self.root / "watchdog.json"

    @property
    def verifications(self) -> Path:
        return self.root / "verify"

    @property
    def maintenance(self) -> Path:
        return self.root / "maintenance"

    @property
    def known_tables(self) -> Path:
        return self.maintenance / "known-tables.json"

    @property
    def space(self) -> Path:
        return self.root / "space.json"

    @property
    def parked(self) -> Path:
        return self.root / "parked.json"

    def journal(self, run: str) -> Path:
        """The first part of a run's journal."""
        return self.journals / f"{run}.jsonl"


def directory_of(spec_file: Path, name: str) -> Directory:
    """The directory of the pipeline `name` whose spec is `spec_file`."""
    spec_file = spec_file.absolute()
    return Directory(spec_file.parent if spec_file.name == "pipeline.toml" else spec_file.parent / name)


def new_run(directory: Directory) -> str:
    """The id of a new run: the time and a random suffix.

    Ids sort in the order of the runs. If the clock was set back, the time is one second after the newest run's.
    """
    newest = next(reversed(runs_in(directory.journals)), "")
    now = clock.utc_now()
    with suppress(ValueError):
        now = max(now, datetime.strptime(newest[:15], _RUN).replace(tzinfo=UTC) + timedelta(seconds=1))
    return f"{now:{_RUN}}-{secrets.token_hex(3)}"
