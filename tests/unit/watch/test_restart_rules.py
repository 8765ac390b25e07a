"""When a runner is started again, and when it is not."""

from dataclasses import replace

import pytest

from engine.base.errors import ERRORS, ErrorRecord
from engine.pipeline.runner_record import RunnerRecord
from engine.spec.watch_settings import Watch
from engine.watch.restart_rules import after_code, asked_to_stop, death_of, delay_s, limit_reached, not_mendable

ALIVE = RunnerRecord("running", "r1", 7, "h", alive=True, heartbeat="2026-01-31T09:30:00.000000Z")
LOST = replace(ALIVE, alive=False)


def _ended(error: str, *, stop: bool = False) -> RunnerRecord:
    return replace(LOST, state="ended", error=ErrorRecord(error, "It broke."), stop=stop)


def test_only_an_end_that_nobody_asked_for_is_a_death() -> None:
    """A run that lives, has never been, ended well, or was stopped, is none."""
    well = replace(LOST, state="ended")
    assert [death_of(one) for one in (None, ALIVE, well, _ended("TidemarkError", stop=True))] == [None] * 4
    lost, failed = death_of(LOST), death_of(_ended("SparkLostError"))
    assert lost is not None
    assert failed is not None
    assert (lost.lost, lost.why) == (True, "the runner was lost")
    assert (failed.lost, failed.why) == (False, "the run failed: It broke.")


def test_a_runner_that_was_killed_while_it_stopped_was_asked_to_stop() -> None:
    """It is lost, and stays down."""
    killed = replace(LOST, state="stopping")
    assert death_of(killed) is not None
    assert asked_to_stop(killed)
    assert not asked_to_stop(LOST)


@pytest.mark.parametrize("error", ERRORS)
def test_a_restart_helps_only_after_exit_code_1(error: str) -> None:
    """Other codes mean that an operator must act first, and so do four errors with code 1."""
    death = death_of(_ended(error))
    assert death is not None
    needs_operator = error in ("LedgerError", "NewerFormatError", "TablesStoppedError", "ChunksParkedError")
    code = ERRORS[error].exit_code
    if code in (6, 8):  # of commands, not of runs
        return
    assert bool(not_mendable(death)) == (code != 1 or needs_operator)
    assert bool(after_code(code)) == (code != 1)


def test_pauses_double_up_to_a_limit_and_so_does_their_number() -> None:
    """The limit of the hour is named."""
    settings = Watch(first_delay_s=5, longest_delay_s=60, max_restarts_per_hour=6)
    assert [delay_s(settings, n) for n in range(6)] == [5, 10, 20, 40, 60, 60]
    assert delay_s(settings, 5000) == 60
    assert limit_reached(settings, 5) == ""
    assert limit_reached(settings, 6) == "it was restarted 6 times within an hour"
    assert Watch().restart == "never"
