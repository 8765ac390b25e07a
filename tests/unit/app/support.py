"""Records of `engine.history`, with defaults for the fields that a test does not need."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.common.view.draft import Draft, first_spec
from app.common.view.runner_view import Runner
from engine.base.clock import utc_text
from engine.base.errors import ErrorRecord
from engine.history.chunk_queries import Read
from engine.history.series import Epoch, Lag
from engine.history.table_queries import NewestPlan, TableProgress
from engine.history.timeline_queries import Moment
from engine.pipeline.frozen_runner import FrozenRunner

NOW = datetime(2026, 1, 31, 15, 30, 17, tzinfo=UTC)
AT = "2026-01-31T15:30:17Z"
"""The same instant as text."""


def ago(seconds: float) -> datetime:
    """An instant before `NOW`."""
    return NOW - timedelta(seconds=seconds)


def read(
    started_ago: float,
    ended_ago: float,
    rows: int = 1000,
    *,
    chunk: int = 0,
    reader: str = "r1",
    attempt: int = 0,
    size: int = 0,
) -> Read:
    """A chunk that was read in an interval."""
    return Read(reader, "host", 7, "d.t", chunk, ago(started_ago), ago(ended_ago), rows, 100, attempt, size)


def lag(seconds: float | None, size: int | None = 1000, runway_s: float | None = 86_400.0, age: float = 1.0) -> Lag:
    """A reading of the lag."""
    return Lag(ago(age), seconds, size, runway_s, "bin.000001:10", "bin.000001:20")


def epoch(age: float, changes: int) -> Epoch:
    """An epoch."""
    return Epoch(ago(age), 1, "bin.000001:10", changes, changes, 0.1, 0.1)


def moment(age: float, event: str, label: str = "", text: str | None = None, **more: Any) -> Moment:
    """An event of the timeline, in the run `r` unless another is given."""
    usual: dict[str, Any] = {"run": "r", "seq": int(1000 - age), "table": None, "id": "", "since": None}
    return Moment(ts=ago(age), event=event, label=label, text=text, **(usual | more))


def table(chunks: int, done: int, rows: int = 0, approx: int | None = 1000, name: str = "d.t") -> TableProgress:
    """A table with this many chunks published."""
    waiting = chunks - done
    return TableProgress(
        name, "snapshotting", None, None, approx, chunks, None, True, waiting, 0, 0, 0, done, rows, 0, None, None
    )


def growing(chunks: int, done: int, estimated: int | None, name: str = "d.g") -> TableProgress:
    """A table of which `chunks` chunks are planned so far and `done` are published."""
    return table(chunks, done, name=name)._replace(estimated_chunks=estimated, complete=False)


def plan(chunks: int, estimated: int | None = None, *, complete: bool = True, name: str = "d.t") -> NewestPlan:
    """A plan with this many known chunks."""
    return NewestPlan(
        name, NOW, 100, "id", "1", "9", 1.0, "even", "because", chunks, 10, estimated, complete, chunks - 1
    )


def runner(
    state: str = "running", *, alive: bool = True, error: ErrorRecord | None = None, exit_code: int | None = None
) -> Runner:
    """A runner in a state."""
    return Runner(state, "snapshot", 0.5, alive, "host", 7, None, ago(60), ago(0.5), error, exit_code)


def frozen_runner(*, stopped: bool = True) -> Runner:
    """A runner that has sent no heartbeat for 91 s. stopped: by a signal; otherwise it hangs."""
    process = FrozenRunner(7, "host", utc_text(ago(91)), stopped)
    return replace(runner("frozen"), heartbeat_age_s=91.0, last_seen=ago(91), frozen=process)


def draft(**more: Any) -> Draft:
    """A draft that can be launched."""
    spec = first_spec()
    spec["source"]["tables"] = ["shop.*"]
    return Draft("0123abcd", {**spec, "name": "shop"}, **more)
