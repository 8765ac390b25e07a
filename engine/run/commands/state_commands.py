"""The commands pause, resume and stop, which change the state of the run that their sender saw."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

from engine.base.wording import sentences
from engine.pipeline.disk import Disk
from engine.pipeline.state_machines import IllegalEventError, after
from engine.run.commands.command_answers import CommandAnswers, UnansweredCommand
from engine.run.commands.heartbeat import Activity
from engine.run.commands.inbox import Command, Inbox
from engine.run.commands.runner_state import RunnerState
from engine.run.source_loss.outage import OutageTracker


class StateCommands:
    """Takes these commands, and answers them once their effect is there. Thread-safe.

    run: this run. restarted: lost runs that a watchdog continues with this one; a stop for one of them is for this run.
    lock: of the inbox.
    """

    def __init__(
        self,
        run: str,
        restarted: Collection[str],
        inbox: Inbox,
        answers: CommandAnswers,
        lock: AbstractContextManager[object],
        state: RunnerState,
        activity: Activity,
        disk: Disk,
        away: OutageTracker,
    ) -> None:
        self._run = run
        self._restarted = restarted
        self._inbox = inbox
        self._answers = answers
        self._lock = lock
        self._state = state
        self._activity = activity
        self._disk = disk
        self._away = away
        self._open: dict[str, tuple[UnansweredCommand, Path]] = {}

    @property
    def open(self) -> list[UnansweredCommand]:
        """The commands without an answer, for the heartbeat."""
        return [command for command, _ in list(self._open.values())]

    def take(self, command: Command) -> None:
        """Carry out or refuse a command."""
        if why := self._not_for_this_run(command):
            self._answers.refuse(command, why)
        elif command.identity not in self._open:
            self._change(command)

    def _not_for_this_run(self, command: Command) -> str:
        """Why a command is not for this run; "" if it is. No clock decides.

        A command names the run that its sender saw. One that names none, written by hand or by an earlier version, is
        for this run unless it was in the inbox before this run was visible.
        """
        if not command.names_run:
            return "It was sent before this run began." if self._inbox.is_older(command.path) else ""
        if command.run == self._run or (command.verb == "stop" and command.run in self._restarted):
            return ""
        meant = f"it is for run {command.run}" if command.run else "no run was there"
        return f"It was sent before this run began: {meant}."

    def _change(self, command: Command) -> None:
        """Change the state of the run.

        The command's file stays in the inbox until it is done; otherwise the next run refuses it.
        """
        verb = str(command.verb)
        if verb == "resume" and self._state.running and (self._disk.reason or self._activity.away):
            self._try_now()
            self._answers.accept_done(command)
            return
        try:
            after(self._state.name, verb)
        except IllegalEventError as error:
            self._answers.refuse(command, sentences(error.message, error.hint))
            return
        self._open[command.identity] = self._answers.accept(command), command.path
        self._state.apply(verb, command.sender)

    def _try_now(self) -> None:
        """End the wait for room on the disk, or for the source, as far as waiting is all that this runner does."""
        if self._disk.reason:
            self._disk.probe_now()
        self._away.try_now()
        self._state.wake()

    def done(self, verb: str) -> None:
        """Answer the open commands of this verb as done."""
        with self._lock:
            finished = [one for one in self._open.values() if one[0].verb == verb]
            for command, path in finished:
                del self._open[command.identity]
                self._answers.done_with_state(command, path)

    def answer_lifted(self) -> None:
        """Answer pauses and resumes as done if nothing is paused, including pauses lifted before they took effect."""
        with self._lock:
            if self._state.running:
                self.done("pause")
                self.done("resume")
