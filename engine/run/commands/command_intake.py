"""Takes the files in the inbox, and hands each command to the component for its kind.

No file ends that: one that cannot be read, or that makes its parser fail, goes to `inbox/refused`.
"""

from contextlib import AbstractContextManager
from pathlib import Path

from engine.base.errors import SpecError
from engine.pipeline.disk import Disk
from engine.pipeline.inbox_access import require_writable
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.command_answers import CommandAnswers
from engine.run.commands.inbox import Command, Inbox, read_command, unfit, unreadable
from engine.run.commands.settings_commands import SettingsCommands
from engine.run.commands.state_commands import StateCommands


class CommandIntake:
    """The intake of one run. Thread-safe. pipeline: its name. lock: held while the inbox is used."""

    def __init__(
        self,
        pipeline: str,
        inbox: Inbox,
        answers: CommandAnswers,
        lock: AbstractContextManager[object],
        disk: Disk,
        tables: AcceptedCommands,
        settings: SettingsCommands,
        states: StateCommands,
    ) -> None:
        self._pipeline = pipeline
        self._inbox = inbox
        self._answers = answers
        self._lock = lock
        self._disk = disk
        self._tables = tables
        self._settings = settings
        self._states = states

    def begin(self) -> None:
        """Mark the current files as sent before this run was visible."""
        with self._lock:
            self._inbox.begin()

    def waiting(self) -> list[Command]:
        """The commands in the inbox, accepted or not."""
        with self._lock:
            return self._inbox.commands()

    def poll(self) -> None:
        """Take the files in the inbox. Unreadable files are refused; a file that cannot be moved is retried next time.

        Raises HelperError if a folder of the inbox cannot be written: no command is refused for that.
        """
        require_writable(self._inbox.folder, "All commands wait until it can be written. The pipeline continues.")
        with self._lock:
            for path in self._inbox.waiting():
                try:
                    self._take_file(path)
                except Exception as error:
                    if self._disk.takes(error):
                        raise
                    self._unreadable(path, error)

    def _unreadable(self, path: Path, error: Exception) -> None:
        """Refuse a file that cannot be taken for whatever reason, unless it is gone."""
        if path.exists() or path.is_symlink():
            why = f"The file cannot be taken as a command: {type(error).__name__}: {error}."
            self._answers.refuse(unreadable(path), why)

    def _take_file(self, path: Path) -> None:
        if self._inbox.retry(path):
            return
        try:
            command = read_command(path)
        except SpecError as error:
            self._answers.refuse(unreadable(path), error.message)
            return
        if why := unfit(command, self._inbox, self._pipeline):
            self._answers.refuse(command, why)
        elif parser := self._tables.parser(command):
            self._tables.take(command, parser)
        elif self._settings.takes(command):
            self._settings.take(command)
        else:
            self._states.take(command)
