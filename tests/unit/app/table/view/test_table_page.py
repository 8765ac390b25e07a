"""The page of a table distinguishes fresh, quiet, stuck and lost, and never shows an old number as current."""

from dataclasses import replace

import pytest

from app.common.view.runner_view import Away, Runner
from app.common.view.write_words import Unwritten
from app.table.view import table_page
from app.table.view.table_page import PageFacts, copy_layer, flow_rows, freshness_layer, state_layer, waits_to_merge
from engine.history.series import Lag
from engine.history.table_details import Changes, Flow, NewestTableState, StateCount
from engine.history.table_queries import TableProgress
from engine.journal.verification_summary import Unreadable
from engine.pipeline.state_words import RemovedFiles
from tests.unit.app.support import NOW, ago, frozen_runner, growing, lag, runner, table

FLOW = Flow(ago(3), ago(3), ago(2), None, None)
STREAMING = NewestTableState("streaming", ago(600), None, None)
STOPPED = NewestTableState("stopped", ago(90), "d.t was dropped.\nIt had 3 rows.", "Use remove-table.")
LOST = replace(runner("lost", alive=False), last_seen=ago(7200))
OLD = replace(lag(0.4), ts=ago(7200))


def facts(
    *,
    state: NewestTableState | None = STREAMING,
    flow: Flow = FLOW,
    by: Runner | None = None,
    reading: Lag | None = None,
    recent: tuple[Lag, ...] = (),
    progress: TableProgress | None = None,
    parked: int = 0,
    paused: bool = False,
    no_mirror: str = "",
) -> PageFacts:
    """A table that streams and is up to date, apart from what is given."""
    counts = [StateCount("published", 4, 0)] + ([StateCount("parked", parked, 7)] if parked else [])
    return PageFacts(
        table="d.t",
        runner=by or runner(),
        lag=reading or lag(0.4),
        recent=recent,
        state=state,
        progress=progress or table(4, 4, rows=1000),
        counts=counts,
        flow=flow,
        copied=ago(600) if state is STREAMING else None,
        no_mirror=no_mirror,
        paused=paused,
        max_merge_delay_s=300.0,
    )


def fresh(found: PageFacts) -> tuple[str, str, str]:
    """Headline, colour and first detail of the freshness layer."""
    layer = freshness_layer(found, NOW)
    return layer.headline, layer.colour, layer.details[0]


def test_a_table_with_recent_changes_is_up_to_date() -> None:
    """The last change, by its age."""
    assert fresh(facts()) == ("Up to date", "green", "last change 3 s ago")
    assert "lag 0.4 s" in freshness_layer(facts(), NOW).details


def test_a_quiet_table_is_up_to_date_and_says_since_when() -> None:
    """The runner works and the lag is small, so the source has no changes either."""
    quiet = facts(flow=Flow(ago(7200), ago(7200), ago(7199), None, None))
    assert fresh(quiet) == ("Up to date", "green", "no changes since 2026-01-31 13:30:17 UTC")
    never = facts(flow=Flow(None, ago(600), None, None, None))
    assert fresh(never) == ("Up to date", "green", "no changes since the copy")


def test_a_quiet_table_of_a_lost_runner_is_not_up_to_date() -> None:
    """Nobody knows whether it had changes. What was a number of now gets its time."""
    quiet = facts(flow=Flow(ago(9000), ago(9000), ago(9000), None, None), by=LOST, reading=OLD)
    assert fresh(quiet) == ("Not current", "red", "the runner is lost")
    assert freshness_layer(quiet, NOW).details[1] == "changes after 2026-01-31 13:30:17 UTC are unknown"
    assert table_page.numbers_until(quiet, NOW) == ago(7200)
    rows = dict(flow_rows(quiet, NOW))
    assert rows["Lag of the pipeline"] == "up to 2 h"
    assert rows["Last measured"] == "2026-01-31 13:30:17 UTC · 2 h ago"
    layer = state_layer(quiet, NOW)
    assert (layer.headline, layer.colour) == ("Runner lost", "red")
    assert layer.details[0] == "streaming when last seen, 2026-01-31 13:30:17 UTC"


@pytest.mark.parametrize("by", [runner(), LOST])
def test_a_mirror_that_cannot_be_read_is_not_up_to_date(by: Runner) -> None:
    """Whatever the pipeline does: readers fail. That the table stopped is more urgent."""
    broken: Unreadable = Unreadable(
        at="2026-01-31T15:20:00Z", why="its mirror cannot be read: gone", hint="", chunks=[]
    )
    found = replace(facts(by=by), broken=broken)
    assert fresh(found) == ("Cannot be read", "red", "found 2026-01-31 15:20:00 UTC")
    assert fresh(replace(found, state=STOPPED))[0] == "Stopped"


def test_a_resnapshot_is_published_like_a_change() -> None:
    """The copy that replaced the mirror is newer than any change."""
    copied = replace(facts(flow=Flow(ago(900), ago(900), ago(890), None, None)), copied=ago(60))
    rows = dict(flow_rows(copied, NOW))
    assert rows["Last published"] == rows["Last merged into the mirror"] == "2026-01-31 15:29:17 UTC · 1 min ago"
    assert rows["Last change committed"].endswith("15 min ago")


@pytest.mark.parametrize(
    ("by", "shown"),
    [
        (runner("ended", alive=False), ("Not current", "gray", "the runner is stopped")),
        (runner("failed", alive=False), ("Not current", "red", "the run failed")),
        (runner("new", alive=False), ("Not measured yet", "gray", "the pipeline is not started")),
        (runner("starting", alive=False), ("Not measured yet", "gray", "the pipeline is starting")),
        (runner("paused"), ("Paused", "violet", "lag 0.4 s")),
        (
            replace(runner("paused"), unwritten=Unwritten("disk", "disk full (log)", "", None, 1)),
            ("Waits for room", "red", "lag 0.4 s"),
        ),
        (
            replace(runner(), away=Away(ago(48), 5, ago(-30), "m", None)),
            ("Not current", "orange", "the source is unreachable"),
        ),
    ],
)
def test_what_keeps_a_table_from_being_read_is_named(by: Runner, shown: tuple[str, str, str]) -> None:
    """None of these is "no changes"."""
    assert fresh(facts(by=by)) == shown


def test_a_reading_that_stopped_is_not_current() -> None:
    """The runner is alive but measures no more."""
    silent = facts(reading=lag(0.4, age=60))
    assert fresh(silent) == ("Not current", "gray", "the lag is not measured since 2026-01-31 15:29:17 UTC")
    unmeasured = replace(facts(), lag=None)
    assert fresh(unmeasured)[:2] == ("Not measured yet", "gray")
    assert dict(flow_rows(unmeasured, NOW))["Last measured"] == "—"


def test_a_lag_that_grows_is_not_up_to_date() -> None:
    """The pipeline is behind, and so may be the table; it is falling behind or catching up."""
    assert fresh(facts(reading=lag(90.0), recent=(lag(60.0, age=60),)))[:2] == ("Falling behind", "red")
    assert fresh(facts(reading=lag(60.0), recent=(lag(90.0, age=60),)))[:2] == ("Catching up", "orange")
    assert fresh(facts(reading=lag(None)))[:2] == ("Unknown", "gray")


def test_a_change_that_is_not_published_is_stuck() -> None:
    """Not before half a minute, as the publisher needs a moment."""
    waits = Flow(ago(100), ago(300), ago(300), ago(100), ago(100))
    assert fresh(facts(flow=waits)) == (
        "Stuck before the change log",
        "red",
        "committed changes wait for 1 min 40 s",
    )
    assert fresh(facts(flow=replace(waits, unpublished_since=ago(5), unmerged_since=ago(5))))[1] == "green"
    assert dict(flow_rows(facts(flow=waits), NOW))["Waits to be published"].startswith("since 2026-01-31 15:28:37")


def test_a_change_that_is_not_merged_is_stuck_when_merges_are_not_put_off_any_longer() -> None:
    """The runner measures the age of the mirror that lacks the oldest change, so no mirror is older."""
    waits = Flow(ago(2), ago(2), ago(900), None, ago(400))
    late = facts(flow=waits, reading=replace(lag(0.4), mirror_age_s=400.0))
    assert fresh(late) == ("Stuck before the mirror", "red", "published changes wait for 6 min 40 s to be merged")
    soon = facts(flow=waits, reading=replace(lag(0.4), mirror_age_s=200.0))
    assert fresh(soon) == ("Waits to be merged", "orange", "published changes wait for 3 min 20 s")
    assert waits_to_merge(soon, NOW)
    short = facts(flow=waits, reading=replace(lag(0.4), mirror_age_s=20.0))
    assert fresh(short)[1] == "green"
    assert not waits_to_merge(short, NOW)
    assert "mirror 20 s behind the change log" in freshness_layer(short, NOW).details
    assert "Waits to be merged" in dict(flow_rows(soon, NOW))
    merged = facts(flow=waits, reading=replace(lag(0.4), mirror_age_s=0.0))
    assert freshness_layer(merged, NOW).details == ("last change 2 s ago", "lag 0.4 s")
    keyless = facts(flow=waits, reading=replace(lag(0.4), mirror_age_s=400.0), no_mirror="the table has no key")
    assert fresh(keyless)[1] == "green"
    assert dict(flow_rows(keyless, NOW))["Last merged into the mirror"] == "no mirror: the table has no key"


def test_a_table_in_a_database_has_neither_a_mirror_nor_a_change_log() -> None:
    """Its rows are there, and its words say so."""
    there = replace(facts(no_mirror="the destination keeps none"), is_in_database=True)
    assert there.shown_by == "database"
    assert "Last merged into the mirror" not in dict(flow_rows(there, NOW))
    assert fresh(replace(there, state=STOPPED))[0] == "Stopped"
    late = replace(there, flow=Flow(ago(100), ago(200), None, ago(100), None))
    assert fresh(late)[0] == "Stuck before the database"


def test_a_table_whose_destination_has_no_mirrors_is_its_change_log() -> None:
    """No word is said of a mirror, but that there is none."""
    none = "the destination keeps none"
    stopped = facts(state=STOPPED, no_mirror=none)
    assert freshness_layer(stopped, NOW).details[-1] == "the change log stays as it was"
    assert "; its change log stays as it was" in (table_page.stopped(stopped) or ("", "", ""))[1]
    copied = facts(state=replace(STREAMING, state="copying"), no_mirror=none)
    assert freshness_layer(copied, NOW).details[-1] == "the change log is incomplete until then"
    assert dict(flow_rows(copied, NOW))["Last merged into the mirror"] == f"no mirror: {none}"


def test_a_stopped_table_has_its_reason_in_three_parts_whoever_runs() -> None:
    """What happened, what it means for its data, and what to do."""
    for by in (runner(), LOST):
        found = facts(state=STOPPED, by=by, reading=OLD if by is LOST else None)
        assert fresh(found) == ("Stopped", "red", "nothing published since 2026-01-31 15:28:47 UTC")
        assert state_layer(found, NOW).colour == "red"
        message, meaning, hint = table_page.stopped(found) or ("", "", "")
        assert message == "d.t stopped: d.t was dropped."
        assert meaning.endswith("its mirror stays as it was. It had 3 rows.")
        assert ("The other tables continue." in meaning) == (by is not LOST), "nothing continues without a runner"
        assert ("the other tables continue" in state_layer(found, NOW).details) == (by is not LOST)
        assert hint == "Use remove-table."
    alone = replace(facts(state=STOPPED), others=False)
    assert "continue" not in str((table_page.stopped(alone), state_layer(alone, NOW).details))
    unknown = table_page.stopped(facts(state=replace(STOPPED, reason=None, hint=None)))
    assert unknown is not None
    assert "journal of an earlier run" in unknown[0]
    assert "redump" in unknown[2]
    assert table_page.stopped(facts()) is None


def test_a_removed_table_is_not_late() -> None:
    """Nobody waits for it."""
    gone = facts(state=NewestTableState("removed", ago(90), None, None))
    assert fresh(gone)[:2] == ("No longer captured", "gray")
    assert [layer.title for layer in table_page.layers(gone, NOW)] == ["State", "Freshness"]
    assert not {"Lag of the pipeline", "Waits to be published"} & {name for name, _ in table_page.flow_rows(gone, NOW)}


@pytest.mark.parametrize(
    ("files", "stays"),
    [("kept", "stay in the destination"), ("dropping", "are being"), ("dropped", "were"), (None, "unless")],
)
def test_a_removed_table_says_since_when_and_what_stays(files: RemovedFiles | None, stays: str) -> None:
    """Whether its files are there is known from the ledger alone."""
    assert table_page.removed(facts(), files) is None
    found = table_page.removed(facts(state=NewestTableState("removed", ago(90), None, None)), files)
    assert found is not None
    assert found[0].startswith("d.t was removed from the pipeline at ")
    assert stays in found[1]


def test_a_table_that_is_copied_says_how_far() -> None:
    """And whether its mirror is in use meanwhile."""
    copying = NewestTableState("copying", ago(90), None, None)
    first = facts(state=copying, progress=table(10, 4, rows=400), flow=Flow(None, ago(3), None, None, None))
    assert fresh(first) == ("Being copied", "blue", "4 of 10 chunks read")
    assert freshness_layer(first, NOW).details[1] == "the mirror is incomplete until then"
    again = facts(state=copying, progress=table(10, 4, rows=400))
    assert freshness_layer(again, NOW).details[1] == "the mirror keeps its earlier copy until then"
    assert copy_layer(again, NOW).headline == "Copying"
    held = facts(state=copying, progress=table(10, 4, rows=400), paused=True)
    assert (fresh(held)[0], copy_layer(held, NOW).headline) == ("Copy paused", "Paused")
    assert state_layer(held, NOW).colour == "violet"
    dead = facts(state=copying, progress=growing(10, 4, 40), by=LOST, reading=OLD)
    assert (copy_layer(dead, NOW).headline, copy_layer(dead, NOW).colour) == ("Incomplete", "gray")
    assert copy_layer(dead, NOW).details[0] == "4 of about 40 chunks read"
    retrying = table(10, 4)._replace(failed=2)
    assert copy_layer(facts(state=copying, progress=retrying), NOW).headline == "Retrying"


def test_parked_chunks_are_red_with_the_first_to_link_to() -> None:
    """They need an operator, also in a table that has no runner."""
    found = facts(parked=2)
    assert (copy_layer(found, NOW).headline, copy_layer(found, NOW).colour) == ("2 chunks parked", "red")
    assert table_page.first_parked(found) == 7
    assert table_page.first_parked(facts()) is None


def test_a_copy_that_is_complete_stays_complete() -> None:
    """It does not get old."""
    assert copy_layer(facts(by=LOST, reading=OLD), NOW).headline == "Copied"
    assert copy_layer(facts(progress=table(0, 0)), NOW).headline == "No chunks"


@pytest.mark.parametrize("chunks", [0, 7])
def test_a_copy_that_is_being_planned_is_not_done(chunks: int) -> None:
    """A new table has no chunk yet, and those of a resnapshotted one belong to its copy before."""
    progress = table(chunks, chunks)._replace(state="copying")
    assert copy_layer(facts(progress=progress), NOW).headline == "Being planned"
    assert copy_layer(facts(progress=progress, by=LOST), NOW).headline in ("No chunks", "Incomplete")


def test_a_table_without_a_state_waits() -> None:
    """It is planned, or not even that."""
    found = facts(state=None, progress=table(4, 0), flow=Flow(None, None, None, None, None))
    assert state_layer(found, NOW).details == ("its copy has not begun",)
    assert fresh(found)[0] == "Not copied yet"
    assert state_layer(replace(found, progress=None), NOW).details == ("no run has planned it",)
    assert copy_layer(replace(found, progress=None), NOW).headline == "No chunks"


def test_a_window_ends_with_the_last_reading() -> None:
    """An hour without a runner is not an hour without changes."""
    assert table_page.window_label("hour", NOW, NOW) == "Last hour"
    assert table_page.window_label("hour", ago(60), NOW) == "Hour before 15:29:17 UTC"
    assert table_page.window_label("24 hours", ago(60), NOW) == "24 hours before 15:29:17 UTC"


def test_changes_of_unknown_kinds_are_not_zero() -> None:
    """Journals of earlier versions have only the sum."""
    assert table_page.change_row("Last hour", Changes(1500, 1000, 200, 100)) == {
        "Time": "Last hour",
        "Inserts": "1,000",
        "Updates": "200",
        "Deletes": "100",
        "Redumped": "0",
        "Entries": "1,500",
    }
    assert table_page.change_row("Last hour", Changes(4, None, None, None))["Inserts"] == "—"


def test_a_table_that_waits_is_not_streaming() -> None:
    """What it waits for is its state, in the colour of that; since when it streams is a detail."""
    starting = state_layer(facts(by=replace(runner("running"), phase="starting")), NOW)
    assert (starting.headline, starting.colour) == ("Starting", "gray")
    assert starting.details[1].startswith("streaming since")
    paused = state_layer(facts(by=runner("paused")), NOW)
    assert (paused.headline, paused.colour) == ("Paused", "violet")


def test_a_table_waits_for_room_on_a_full_disk() -> None:
    """Nobody paused it, so the page names the disk and offers no resume."""
    full = replace(runner("paused"), unwritten=Unwritten("disk", "disk full (log: no space)", "", None, 1))
    state = state_layer(facts(by=full), NOW)
    assert (state.headline, state.colour, state.details[0]) == ("Waits for room", "red", "disk full (log: no space)")
    copying = facts(by=full, state=NewestTableState("copying", ago(60), None, None), progress=table(10, 4, rows=400))
    assert (copy_layer(copying, NOW).headline, copy_layer(copying, NOW).colour) == ("Waits for room", "red")


def test_a_table_of_a_frozen_runner_is_not_current() -> None:
    """It does not stream, whatever the journal says, and its copy does not continue."""
    found = facts(by=frozen_runner(), reading=lag(0.4, age=91), progress=table(4, 2, rows=1000))
    state, copy = state_layer(found, NOW), copy_layer(found, NOW)
    assert (state.headline, state.colour) == ("Not responding", "red")
    assert state.details[0] == "streaming when last seen, 2026-01-31 15:28:46 UTC"
    assert fresh(found) == ("Not current", "red", "the runner does not respond")
    assert (copy.headline, copy.colour) == ("Incomplete", "gray")


@pytest.mark.parametrize("phase", ["starting", "streaming"])
def test_a_table_does_not_stream_while_spark_does_not_answer(phase: str) -> None:
    """The state is the one that Live shows, also while the run starts."""
    silent = replace(runner(), phase=phase, silent_spark=True)
    state = state_layer(facts(by=silent), NOW)
    assert (state.headline, state.colour) == ("Spark does not answer", "red")
    assert state.details[1].startswith("streaming since")


def test_a_table_of_a_stopped_pipeline_does_not_stream() -> None:
    """Nor does it of one that starts: the word is the one that Live shows."""
    stopped = state_layer(facts(by=runner("ended", alive=False)), NOW)
    assert (stopped.headline, stopped.colour) == ("Not running", "gray")
    starting = state_layer(facts(by=runner("starting", alive=False)), NOW)
    assert (starting.headline, starting.colour) == ("Starting", "gray")
