"""The states of a pipeline's runner, of a table and of a chunk, as tables of transitions: state, event, following state.

START stands for what is not there yet. Code that changes one of these states asks the table first, so that what the tables do not
allow never happens unseen. The diagrams in docs/architecture.md are printed from them: `python -m engine.run.state_machines`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import TidemarkError

START = ""


class IllegalEventError(TidemarkError):
    """An event came that the state does not allow; the message names both."""


@dataclass(frozen=True)
class Machine:
    """The states of one kind of thing."""

    name: str
    transitions: Mapping[str, Mapping[str, str]]
    """By state and event, the state that follows."""

    def after(self, state: str, event: str) -> str:
        """The state that follows. Raises IllegalEventError."""
        following = self.transitions[state].get(event)
        if following is None:
            allowed = ", ".join(self.transitions[state]) or "none"
            raise IllegalEventError(
                f"{event!r} is not possible while the {self.name} is {state or 'not there'}.",
                hint=f"Possible now: {allowed}.",
            )
        return following

    def after_all(self, state: str, events: Iterable[str]) -> str:
        """The state that follows on several events. Raises IllegalEventError."""
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
"""`run.state` in the journal, `state` in runner.json. A stop that comes while Spark starts outlives the start."""

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
"""`table.state` in the journal, `state` in `status`. Followed, and streaming restarted: by a pipeline that copies nothing
(`source.startup`). A stopped table is read no more until it is resnapshotted. Dropped: what was published of a
removed table is gone. A removed table that is added again is planned, or resnapshotted into what was kept of it."""

CHUNK = Machine(
    "chunk",
    {
        START: {"cut": "waiting"},
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
"""As the console calls them. Put back: its group broke off before its turn. Split: it was larger than planned, and is read up
to a nearer bound; the rest is split again. Parked: it failed too often by itself (`run.snapshot.parking`), until it is tried again.
Dropped: its table stopped, or is resnapshotted."""

MACHINES = (PIPELINE, TABLE, CHUNK)


def after(state: str, event: str) -> str:
    """The state of the pipeline's runner that follows. Raises IllegalEventError."""
    return PIPELINE.after(state, event)


def table_events(before: str, change: Mapping[str, Any]) -> list[str]:
    """The events that an epoch's record has for one table, in their order. before: its state, START when it is planned here."""
    events = []
    if before == START or "planned" in change:
        if "stopped" in change:
            return ["refused"]
        return ["streaming only" if change.get("chunks") else "planned"]
    if "altered" in change:
        events.append("altered")
    if "resnapshot" in change:
        events.append("streaming restarted" if change["resnapshot"].get("since") else "resnapshotted")
    if "copied" in change:
        events.append("copied")
    if "stopped" in change:
        events.append("stopped")
    return events + [event for event in ("removed", "dropped") if event in change]


if __name__ == "__main__":
    print("\n\n".join(f"```mermaid\n{machine.diagram()}\n```" for machine in MACHINES))  # noqa: T201
