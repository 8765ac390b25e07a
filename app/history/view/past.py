"""Runs as rows of the history."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.common.view.health import EXIT_CODES
from app.common.view.runner_view import error_of
from engine.history.runs import Run, RunTotals


@dataclass(frozen=True)
class PastRun:
    """One run, with the totals of its journal."""

    pipeline: str
    run: str
    started: datetime
    duration_s: float
    """Until its end, its last event, or now."""
    outcome: str
    reason: str
    """Why it ended, or who asked for its current state."""
    rows: int
    rows_s: float | None
    """Rows per second while chunks were read; None if there were none."""
    chunks: int
    changes: int
    errors: int

    @property
    def id(self) -> str:
        """The pipeline and the run. A run's id alone is unique within its pipeline."""
        return f"{self.pipeline}/{self.run}"


def past(
    runs: Sequence[Run], totals: Mapping[tuple[str, str], RunTotals], alive: Collection[str], now: datetime
) -> list[PastRun]:
    """The runs, newest first. alive: the pipelines with a live runner, whose newest run is under way and not lost."""
    pipelines: set[str] = set()
    lines = []
    for run in runs:
        newest = run.pipeline not in pipelines
        pipelines.add(run.pipeline)
        lines.append(_line(run, totals.get((run.pipeline, run.run)), now, under_way=newest and run.pipeline in alive))
    return lines


def _line(run: Run, did: RunTotals | None, now: datetime, *, under_way: bool) -> PastRun:
    running = run.ended is None and under_way
    how, errors = outcome(run, running=running), did.errors if did else 0
    ended = run.ended or (now if running else run.last_event)
    return PastRun(
        pipeline=run.pipeline,
        run=run.run,
        started=run.started,
        duration_s=(ended - run.started).total_seconds(),
        outcome=how,
        reason=reason(run, running=running),
        rows=did.rows if did else 0,
        rows_s=did.rows / did.read_s if did and did.read_s else None,
        chunks=did.chunks if did else 0,
        changes=did.changes if did else 0,
        errors=max(errors, 1) if how == "failed" else errors,
    )


def outcome(run: Run, *, running: bool) -> str:
    """How the run ended, in a word or two."""
    if run.ended is None:
        return (run.state or "running") if running else "lost"
    return "failed" if run.exit_code and run.outcome != "stopped" else run.outcome or "ended"


def reason(run: Run, *, running: bool) -> str:
    """Why the run ended: the error, or the person who stopped it."""
    if run.ended is None and not running:
        return "the heartbeat stopped"
    if (error := error_of(run.error)) is not None and error.message:
        return error.message
    if run.exit_code:
        return EXIT_CODES.get(run.exit_code, f"exit code {run.exit_code}")
    if not run.reason:
        return ""
    return f"by {run.reason}" if run.ended else f"{run.state} by {run.reason}"
