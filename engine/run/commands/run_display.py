"""What `runner.json` shows of a run, put together from the components that know it."""

from engine.base.errors import ErrorRecord
from engine.pipeline.disk import Disk
from engine.pipeline.helpers import Helpers
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.heartbeat import Activity, Heartbeat
from engine.run.commands.operator_settings import OperatorSettings
from engine.run.commands.runner_state import RunnerState
from engine.run.commands.state_commands import StateCommands


class RunDisplay:
    """Writes the heartbeat of one run."""

    def __init__(
        self,
        heartbeat: Heartbeat,
        activity: Activity,
        state: RunnerState,
        disk: Disk,
        helpers: Helpers,
        settings: OperatorSettings,
        tables: AcceptedCommands,
        states: StateCommands,
    ) -> None:
        self._heartbeat = heartbeat
        self._activity = activity
        self._state = state
        self._disk = disk
        self._helpers = helpers
        self._settings = settings
        self._tables = tables
        self._states = states
        self._shown_outages: tuple[object, object] = (None, None)

    @property
    def is_outdated(self) -> bool:
        """Whether the source or a store went away or came back since the last heartbeat."""
        return (self._activity.away, self._disk.outage) != self._shown_outages

    def show(self) -> None:
        """Rewrite `runner.json`. A full disk only makes the heartbeat stale."""
        self._helpers.guard("runner.json", self.beat)

    def show_end(self, error: ErrorRecord | None) -> None:
        """As `show`, at the end of the run. error: why it failed."""
        self._helpers.guard("runner.json", lambda: self.beat(error))

    def beat(self, error: ErrorRecord | None = None) -> None:
        """Rewrite `runner.json`. Raises OSError."""
        self._shown_outages = (self._activity.away, self._disk.outage)
        commands = sorted([*self._tables.open, *self._states.open], key=lambda command: command.since_s)
        self._heartbeat.beat(
            self._activity,
            self._disk.outage,
            state="paused" if self._disk.reason and self._state.running else self._state.name,
            reason=self._state.reason if self._state.paused else "",
            stop=self._state.stop_requested,
            helpers=self._helpers.as_list(),
            controls=self._settings.controls.as_dict(),
            commands=[{"id": command.identity, "verb": command.verb} for command in commands],
            error=None if error is None else error.to_json(),
        )
