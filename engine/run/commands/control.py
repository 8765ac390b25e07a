"""Operator control of a run: commands, signals, pauses, settings, and the heartbeat.

`control_of` puts it together. Its parts go, each on its own, to the components that need them.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from engine.base.log_rotation import rotate
from engine.journal import Journal
from engine.journal.expiry import HourlyExpiry
from engine.pipeline.directory import Directory
from engine.pipeline.disk import Disk
from engine.pipeline.helpers import Helpers
from engine.pipeline.store_watch import StoreWatch
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.command_answers import CommandAnswers
from engine.run.commands.command_intake import CommandIntake
from engine.run.commands.control_thread import ControlThread
from engine.run.commands.heartbeat import Activity, Heartbeat
from engine.run.commands.inbox import Inbox
from engine.run.commands.operator_settings import OperatorSettings
from engine.run.commands.run_display import RunDisplay
from engine.run.commands.runner_state import RunnerState
from engine.run.commands.settings_commands import SettingsCommands
from engine.run.commands.state_commands import StateCommands
from engine.run.commands.table_command import Parser
from engine.run.source_loss.outage import OutageTracker
from engine.spec.throttle_settings import Throttle
from engine.store.folder import Folder


@dataclass(frozen=True)
class Control:
    """The control of one run."""

    activity: Activity
    state: RunnerState
    away: OutageTracker
    disk: Disk
    helpers: Helpers
    settings: OperatorSettings
    tables: AcceptedCommands
    states: StateCommands
    intake: CommandIntake
    thread: ControlThread


@dataclass(frozen=True)
class ControlOptions:
    """What a run's control depends on besides its directory and journal."""

    name: str = ""
    """The pipeline's name."""
    throttle: Throttle = field(default_factory=Throttle)
    """The spec's throttle; operators may override it."""
    journal_retention_s: float | None = None
    """The age after which journals are deleted; None: never."""
    folders: Sequence[Path | Folder] = ()
    """Where the run writes besides its own directory."""
    parsers: Mapping[str, Parser] = field(default_factory=dict)
    """Parsers of table commands, by verb."""
    in_turn: Collection[str] = ()
    """Verbs whose commands are parsed only after the previous one is answered."""
    throttle_changed: Callable[[Throttle], None] = lambda _: None
    """Receives the effective throttle, now and on each change."""
    retry_parked: Callable[[Iterable[str] | None], None] = lambda _: None
    """Retries the parked chunks of tables (None: of all)."""
    chores: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """Called with each heartbeat, by the name under which a failure is reported."""
    sinks: Collection[str] = ()
    """The names of the further sinks."""
    restarted: Collection[str] = ()
    """Lost runs that a watchdog continues with this one; a stop for one of them is for this run."""


def control_of(directory: Directory, journal: Journal, options: ControlOptions | None = None) -> Control:
    """The control of one run. Its thread starts with `thread.start`. Raises SpecError for unreadable settings."""
    options = options or ControlOptions()
    lock = threading.RLock()
    activity = Activity()
    state = RunnerState(journal, lock)

    def disk_freed(reason: str) -> None:
        """Parked chunks may have failed for lack of room."""
        options.retry_parked(None)
        state.disk_freed(reason)

    settings = OperatorSettings(directory, journal, lock, options.throttle, options.throttle_changed, options.sinks)
    disk = Disk([directory.root, *options.folders], journal, state.disk_full, disk_freed)
    helpers = Helpers(journal, disk)
    away = OutageTracker(journal, activity.show_outage, state.wake)
    inbox = Inbox(directory.inbox)
    answers = CommandAnswers(inbox, journal)
    tables = AcceptedCommands(answers, lock, options.parsers, options.in_turn)
    states = StateCommands(journal.run, options.restarted, inbox, answers, lock, state, activity, disk, away)
    of_settings = SettingsCommands(settings, tables, answers, options.retry_parked, activity.retry_sinks)
    intake = CommandIntake(options.name, inbox, answers, lock, disk, tables, of_settings, states)
    heartbeat = Heartbeat(directory, journal.run)
    display = RunDisplay(heartbeat, activity, state, disk, helpers, settings, tables, states)
    state.listeners.append(display.show)
    chores: dict[str, Callable[[], object]] = {
        "runner.log": partial(rotate, directory.log),
        "store watch": StoreWatch(disk, helpers).look,
        "journal retention": HourlyExpiry(directory.journals, journal.run, options.journal_retention_s).step,
        **options.chores,
    }
    thread = ControlThread(journal, state, intake, settings, away, helpers, display, chores)
    return Control(activity, state, away, disk, helpers, settings, tables, states, intake, thread)
