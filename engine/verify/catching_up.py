"""Waits until a mirror has the changes that a comparison replayed for it.

An exact comparison brings the mirror's rows to the source's position with the binlog (`settling`). So it proves that
the mirror is right as of its own position, not that it will ever get what it lacks: its destination may take nothing. A
live runner proves nothing either. Only a mirror that has reached the compared position is `verified`.
"""

from collections.abc import Callable

from engine.base import clock
from engine.capture.landing import MirrorReader
from engine.ledger.state import TableState
from engine.pipeline.controls import load_controls
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import find_runner
from engine.pipeline.runner_record import RunnerRecord
from engine.source.positions import Position
from engine.spec.settings import Spec
from engine.verify.mirror_at import CommittedEpochs
from engine.verify.verdicts import Incomparable

_LOOK_S = 0.5
_EPOCH_S = 30.0
"""Seconds for an epoch to be read, committed and merged, apart from the intervals that the spec sets."""


def patience_s(spec: Spec) -> float:
    """How long a mirror may take until it has a change, if everything works."""
    epoch_s = spec.poll_interval_s + (spec.max_epoch_interval_s or spec.sink.merge_interval_s) + _EPOCH_S
    return epoch_s + spec.sink.merge_interval_s + spec.sink.max_merge_delay_s


def why_behind(
    committed: CommittedEpochs,
    directory: Directory,
    table: str,
    reader: MirrorReader,
    reached: Position,
    limit_s: float,
    ended: Callable[[], bool],
) -> str:
    """Why a mirror does not get to a position, as a clause; "" once it has reached it. Waits for at most `limit_s`.

    ended: whether to abandon the wait. Raises Incomparable.
    """
    until_s = clock.monotonic_s() + limit_s
    while True:
        if why := _why_never(committed.state(fresh=True).tables.get(table)):
            return why
        at = committed.mirror(table, reader)
        at.mirror.release()
        if at.position.order >= reached.order:
            return ""
        if why := _why_not_now(find_runner(directory)):
            return why
        if committed.sink and committed.sink in load_controls(directory).sinks:
            return "the sink is paused, and lacks the last changes"
        if ended():
            raise Incomparable("lagging", "the comparison was abandoned")
        if clock.monotonic_s() >= until_s:
            return f"the mirror has not got the last changes for {limit_s:,.0f} s"
        clock.sleep(_LOOK_S)


def _why_never(table_state: TableState | None) -> str:
    """Why the mirror will not get its changes by merges."""
    if table_state is None or table_state.stopped:
        return "it has stopped meanwhile"
    if table_state.due:
        return "its destination lacks changes, and it will be resnapshotted"
    return "" if table_state.copied else "it is being resnapshotted"


def _why_not_now(runner: RunnerRecord | None) -> str:
    """Why nobody brings it the changes."""
    if runner is None or not runner.alive:
        return "no runner is alive, and the mirror lacks the last changes"
    if runner.frozen is not None:
        return "the runner does not respond, and the mirror lacks the last changes"
    return "" if runner.state == "running" else f"the runner is {runner.state}, and the mirror lacks the last changes"
