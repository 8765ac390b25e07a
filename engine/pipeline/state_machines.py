"""The states of a runner, a table and a chunk as transition tables: state, event, next state.

START is the state before something exists. Code asks the table before it changes a state, so that an illegal transition
never passes unnoticed. `python -m engine.pipeline.state_machines` prints the diagrams in docs/architecture.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.base.errors import TidemarkError

START = ""
COMMANDS = ("pause", "resume", "stop")
"""The events that an operator can cause."""


class IllegalEventError(TidemarkError):
    """An event that the current state does not allow; the message names both."""


@dataclass(frozen=True)
class Machine:
    """A state machine: the transitions of one kind of object."""

    name: str
    transitions: Mapping[str, Mapping[str, str]]
    """The next state, by state and event."""

    def after(self, state: str, event: str) -> str:
        """The next state. Raises IllegalEventError."""
        following = self.transitions[state].get(event)
        if following is None:
            allowed = ", ".join(one for one in self.transitions[state] if one in COMMANDS) or "nothing"
            raise IllegalEventError(
                f"{event!r} is not possible while the {self.name} is {state or 'not there'}.",
                hint=f"Possible now: {allowed}.",
            )
        return following

    def after_all(self, state: str, events: Iterable[str]) -> str:
        """The state after several events. Raises IllegalEventError."""
        for event in events:
            state = self.after(state, event)
        return state

    def diagram(self) -> str:
        """The table as a Mermaid state diagram."""
        lines = ["stateDiagram-v2"]
        for state, events in self.transitions.items():
            lines += [f"    {state or '[*]'} --> {following}: {event}" for event, following in events.items()]
            lines += [] if events else [f"    {state} --> [*]"]
        return "\n".join(lines)


PIPELINE = Machine(
    "pipeline",
    {
        START: {"launched": "starting"},
        "starting": {"started": "running", "stop": "stopping", "end": "ended"},
        "running": {"pause": "paused", "stop": "stopping", "end": "ended"},
        "paused": {"resume": "running", "stop": "stopping", "end": "ended"},
        "stopping": {"started": "stopping", "stop": "stopping", "end": "ended"},
        "ended": {},
    },
)
"""`run.state` in the journal, `state` in runner.json. A stop that arrives while Spark starts stays in effect
afterwards."""

TABLE = Machine(
    "table",
    {
        START: {"planned": "copying", "streaming only": "streaming", "refused": "stopped"},
        "copying": {
            "copied": "streaming",
            "altered": "copying",
            "resnapshotted": "copying",
            "streaming restarted": "streaming",
            "stopped": "stopped",
            "removed": "removed",
        },
        "streaming": {
            "altered": "streaming",
            "resnapshotted": "copying",
            "streaming restarted": "streaming",
            "stopped": "stopped",
            "removed": "removed",
        },
        "stopped": {
            "resnapshotted": "copying",
            "streaming restarted": "streaming",
            "stopped": "stopped",
            "removed": "removed",
        },
        "removed": {
            "planned": "copying",
            "streaming only": "streaming",
            "resnapshotted": "copying",
            "streaming restarted": "streaming",
            "dropped": "removed",
        },
    },
)
"""`table.state` in the journal, `state` in `status`. Streaming only, streaming restarted: in a pipeline that copies
nothing (`source.startup`). Stopped: not read until it is resnapshotted. Dropped: the published data of a removed table
is deleted. A removed table that is added again is planned, or resnapshotted into the data that was kept."""

CHUNK = Machine(
    "chunk",
    {
        START: {"split": "waiting"},
        "waiting": {"assigned": "reading", "dropped": "dropped"},
        "reading": {
            "split": "reading",
            "finished": "finished",
            "failed": "failed",
            "put back": "waiting",
            "dropped": "dropped",
        },
        "failed": {"assigned": "reading", "parked": "parked", "dropped": "dropped"},
        "parked": {"tried again": "waiting", "dropped": "dropped"},
        "finished": {"committed": "published", "lost": "waiting", "dropped": "dropped"},
        "published": {},
        "dropped": {},
    },
)
"""As the console names them. Put back: its group ended before its turn. Split: larger than planned, so it was read up
to a nearer bound and the rest is split again. Parked: it failed too often by itself (`run.snapshot.parking`). Dropped:
its table stopped, or is being resnapshotted."""

MACHINES = (PIPELINE, TABLE, CHUNK)


def after(state: str, event: str) -> str:
    """The runner's next state. Raises IllegalEventError."""
    return PIPELINE.after(state, event)


if __name__ == "__main__":
    print("\n\n".join(f"```mermaid\n{machine.diagram()}\n```" for machine in MACHINES))  # noqa: T201
