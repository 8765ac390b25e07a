"""The words for the state of a pipeline and of its tables."""

from app.common.view.status_style import PIPELINE
from engine.pipeline.state_words import STATES, shown_state, table_state


def test_no_table_streams_while_its_pipeline_does_not() -> None:
    """A table that stopped has stopped whatever its pipeline does."""
    assert table_state("streaming", "running") == "streaming"
    assert table_state("streaming", "table_stopped") == "streaming"
    assert table_state("streaming", "lost") == "runner lost"
    assert table_state("streaming", "frozen") == "not responding"
    assert table_state("copying", "away") == "source unreachable"
    assert table_state("streaming", "full") == "disk full"
    assert table_state("streaming", "ended") == "not running"
    assert table_state("streaming", "failed") == "not running", "the run failed, not the table"
    assert table_state("stopped", "lost") == "stopped"


def test_an_outage_and_a_full_disk_are_states_of_their_own() -> None:
    """The console has a style for each word."""
    assert shown_state("running", away="unreachable", unwritten="full") == "away"
    assert shown_state("running", away="login", unwritten=None) == "refused"
    assert shown_state("running", away="privileges", unwritten=None) == "privileges"
    assert shown_state("starting", away=None, unwritten=None, silent_spark=True) == "silent_spark"
    assert shown_state("paused", away=None, unwritten="full") == "full"
    assert shown_state("paused", away=None, unwritten="read_only") == "read_only"
    assert shown_state("paused", away=None, unwritten="forbidden") == "forbidden"
    assert shown_state("paused", away=None, unwritten="store_away") == "store_away"
    assert shown_state("paused", away=None, unwritten="store_refused") == "store_refused"
    assert shown_state("paused", away=None, unwritten=None) == "paused"
    assert shown_state("running", away=None, unwritten=None, silent_spark=True) == "silent_spark"
    assert shown_state("running", away="unreachable", unwritten=None, silent_spark=True) == "away"
    assert shown_state("paused", away=None, unwritten=None, silent_spark=True) == "paused", "it reads nothing anyway"
    assert table_state("streaming", "silent_spark") == "Spark does not answer"
    assert {key: style.label for key, style in PIPELINE.items()} == STATES
