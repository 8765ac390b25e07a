"""What the heartbeat says of a run."""

from pathlib import Path

from engine.journal import Journal
from engine.journal.events import DiskFreed, Event, RunState, SourceBack
from engine.run.commands.heartbeat import Activity, note_continuations


def test_the_time_since_which_a_run_reads_is_noted(tmp_path: Path) -> None:
    """After its start, a pause, an outage and a full disk; a pause itself is none."""
    activity, journal = Activity(), Journal(tmp_path / "r.jsonl", "r")
    note_continuations(activity, journal)

    def after(event: Event) -> bool:
        activity.continued = None
        journal.write(event)
        return activity.continued is not None

    assert not after(RunState(state="paused"))
    assert after(RunState(state="running"))
    assert after(SourceBack(since="2026-01-31T15:30:17.000000Z", seconds=3.0))
    assert after(DiskFreed(attempts=2, duration_s=3.0))
    journal.close()
