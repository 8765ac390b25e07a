"""The commands that change settings which outlive a run: throttle; pause and resume of tables, snapshot and sinks."""

from collections.abc import Callable, Collection, Iterable

from engine.base.errors import SpecError
from engine.base.wording import sentences
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.command_answers import CommandAnswers
from engine.run.commands.inbox import Command
from engine.run.commands.operator_settings import OperatorSettings
from engine.run.commands.resumption import Resumption, to_resume


class SettingsCommands:
    """Saves the settings first, then answers. retry_parked: retries the parked chunks of tables (None: of all).

    Not thread-safe: the caller holds the lock of the inbox.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        tables: AcceptedCommands,
        answers: CommandAnswers,
        retry_parked: Callable[[Iterable[str] | None], None],
        retry_sinks: Callable[[Collection[str]], None],
    ) -> None:
        """retry_sinks: has further sinks try again at once."""
        self._settings = settings
        self._tables = tables
        self._answers = answers
        self._retry_parked = retry_parked
        self._retry_sinks = retry_sinks

    def takes(self, command: Command) -> bool:
        """Whether it is a command of this kind. A pause or resume without arguments is of the whole run."""
        return command.verb == "throttle" or (command.verb in ("pause", "resume") and bool(command.arguments))

    def take(self, command: Command) -> None:
        """Carry out or refuse a command; later if an unknown state decides."""
        verb, arguments = str(command.verb), command.arguments
        if self._tables.holds(command.identity):
            return
        try:
            controls = self._settings.after(verb, arguments, self._tables.state())
        except SpecError as error:
            self._answers.refuse(command, sentences(error.message, error.hint))
            return
        if controls is None or not self._answers.claimed(command):
            return
        self._settings.save(controls)
        self._settings.announce()
        if "sinks" in arguments:
            self._retry_sinks(controls.sinks_of(arguments))
        elif verb == "resume":
            self._retry_parked(None if arguments.get("snapshot") else arguments["tables"])
            if self._resumes_tables(command):
                return
        self._answers.accept_done(command)

    def _resumes_tables(self, command: Command) -> bool:
        """Whether a resume must resnapshot tables. It is then answered once the ledger has that."""
        names, state = command.arguments.get("tables") or (), self._tables.state()
        tables = to_resume(names, state.tables) if names and state else ()
        if tables:
            self._tables.add(command, Resumption(command.identity, command.path, tables))
        return bool(tables)
