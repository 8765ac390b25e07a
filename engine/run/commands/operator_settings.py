"""What operators have set, and the throttle in force.

Both are kept in `controls.json` and in the journal, and changed by commands.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

from engine.base import clock
from engine.base.errors import SpecError, unknown_tables
from engine.journal import Journal
from engine.journal.events import RunControls
from engine.ledger.state import State
from engine.pipeline.controls import Controls, load_controls, save_controls
from engine.pipeline.directory import Directory
from engine.spec.throttle_settings import FOR, Throttle, end_of_throttle, throttled


class OperatorSettings:
    """The settings of one run. `controls` has those in force."""

    def __init__(
        self,
        directory: Directory,
        journal: Journal,
        lock: AbstractContextManager[object],
        spec: Throttle,
        changed: Callable[[Throttle], None],
        sinks: Collection[str] = (),
    ) -> None:
        """lock: of the inbox. spec: the spec's throttle, which operators may override. sinks: the further ones' names.

        changed: receives the throttle in force, now and on each change.

        Raises SpecError if the saved settings cannot be read.
        """
        self._directory = directory
        self._journal = journal
        self._lock = lock
        self._spec = spec
        self.changed = changed
        self._sinks = sinks
        self.controls = load_controls(directory)
        if not {*self.controls.sinks} <= {*sinks}:  # they have left: a later one of the name is another one
            self.controls = replace(self.controls, sinks=tuple(one for one in self.controls.sinks if one in sinks))
            save_controls(directory, self.controls)
        self.announce()

    def announce(self) -> None:
        """Pass the throttle in force on."""
        self.changed(throttled(self._spec, self.controls.throttle))

    def save(self, controls: Controls) -> None:
        """Put settings in force. Raises OSError, and then those before stay."""
        save_controls(self._directory, controls)
        self.controls = controls
        self._journal.write(RunControls(**controls.as_dict()))

    def after(self, verb: str, arguments: Any, state: State | None) -> Controls | None:
        """The settings after a throttle, pause or resume. state: the committed one; None: unknown yet.

        Returns None while an unknown state decides. Raises SpecError.
        """
        if not isinstance(arguments, dict):
            raise SpecError("Its arguments are no object.")
        if verb == "throttle":
            return self._throttled(arguments)
        match arguments:
            case {"sinks": [*sinks]} if sinks:
                self._require_sinks({str(name) for name in sinks})
                return self.controls.paused(arguments, pause=verb == "pause")
        tables = arguments.get("tables")
        if not arguments.get("snapshot") and not (tables and isinstance(tables, list)):
            raise SpecError("It does not say what to pause or resume: snapshot, or a list of tables or of sinks.")
        if tables:
            if state is None:
                return None
            if unknown := sorted({str(name) for name in tables} - set(state.tables)):
                raise unknown_tables(unknown, state.tables)
        return self.controls.paused(arguments, pause=verb == "pause")

    def _require_sinks(self, names: set[str]) -> None:
        if unknown := sorted(names - set(self._sinks)):
            raise SpecError(
                f"The pipeline has no further sink {', '.join(unknown)}.",
                hint=f"It has {', '.join(self._sinks)}." if self._sinks else "It has none.",
            )

    def _throttled(self, arguments: Mapping[str, Any]) -> Controls:
        if arguments.get("reset"):
            return self.controls.unthrottled()
        changes = {name: value for name, value in arguments.items() if name != FOR}
        throttled(self._spec, {**self.controls.throttle, **changes})
        return self.controls.throttled(changes, end_of_throttle(arguments.get(FOR), clock.utc_now()))

    def end_throttle(self) -> None:
        """Return to the settings before a throttle whose time is over."""
        with self._lock:
            if (controls := self.controls.at(clock.utc_text())) != self.controls:
                self.save(controls)
                self.announce()

    def pauses(self, table: str) -> bool:
        """Whether operators have paused the copy of a table."""
        return self.controls.pausing(table)

    def pauses_sink(self, name: str) -> bool:
        """Whether operators have paused a further sink."""
        return name in self.controls.sinks

    def forget(self, table: str) -> None:
        """Remove the pause of a removed table."""
        with self._lock:
            if table in self.controls.tables:
                with suppress(OSError):  # a full disk: the pause of a removed table is harmless
                    self.save(self.controls.paused({"tables": [table]}, pause=False))
