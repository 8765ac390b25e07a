"""One table: its state and why, how fresh its destination is, its copy and its changes.

A table without changes looks like one that is stuck, and like one that nobody reads. So it is only called up to date
while the runner works, the lag is small and measured now, and neither the change log nor the mirror lacks an older
change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from app.common.view import words
from app.common.view.health import MERGE_WAITS_S, Layer, keeping_up_layer, lag_words, stale_since
from app.common.view.hints import others_continue
from app.common.view.runner_view import Runner
from app.live.view import chunk_counts
from engine.history.series import Lag
from engine.history.table_details import Changes, Flow, NewestTableState, StateCount
from engine.history.table_queries import TableProgress
from engine.journal.outage_causes import outage
from engine.journal.verification_summary import Unreadable
from engine.pipeline.state_words import SILENT_SPARK, RemovedFiles, table_state

PUBLISH_LATE_S = 30.0
"""A committed change that is not in the change log after this time is stuck. Usually it takes less than a second."""
MERGE_LATE_S = 60.0
"""The same for a merge, beyond the longest time for which merges are deferred."""
QUIET_S = 60.0
"""Without a change for this long, the page says since when."""
_STATES = {
    "copying": ("Copying", "blue"),
    "streaming": ("Streaming", "green"),
    "stopped": ("Stopped", "red"),
    "removed": ("Removed", "gray"),
}
VerdictLine = tuple[str, str, tuple[str, ...]]
"""Headline, colour and details of a layer."""


@dataclass(frozen=True)
class PageFacts:
    """What the page knows of a table."""

    table: str
    runner: Runner
    lag: Lag | None
    recent: Sequence[Lag]
    """The readings of the last minute, oldest first."""
    state: NewestTableState | None
    progress: TableProgress | None
    counts: Sequence[StateCount]
    flow: Flow
    copied: datetime | None
    """When the last copy was completed; None while the mirror is incomplete."""
    no_mirror: str
    """Why the table has a change log only; empty if it has a mirror."""
    paused: bool
    """Whether an operator paused its copy."""
    max_merge_delay_s: float
    others: bool = True
    """Whether other tables continue if this one stops."""
    is_in_database: bool = False
    """Whether its rows are in a database, which has neither a mirror beside a change log nor a change log alone."""
    broken: Unreadable | None = None
    """Why its mirror cannot be read; None if it can, as far as known."""

    @property
    def mirrored(self) -> bool:
        """Whether the table has a mirror."""
        return not self.no_mirror

    @property
    def shown_by(self) -> str:
        """What readers of the destination read."""
        if self.is_in_database:
            return "database"
        return "mirror" if self.mirrored else "change log"

    @property
    def word(self) -> str | None:
        """The state as in the journal."""
        return self.state.state if self.state else None

    @property
    def removed(self) -> bool:
        """Whether the table was removed from the pipeline."""
        return self.word == "removed"

    def chunks(self, state: str) -> int:
        """The number of chunks in a state."""
        return sum(one.chunks for one in self.counts if one.state == state)


def numbers_until(facts: PageFacts, now: datetime) -> datetime:
    """The time up to which the numbers are right: now, or the last reading if they are not current."""
    return stale_since(facts.runner, facts.lag, now) or now


def layers(facts: PageFacts, now: datetime) -> tuple[Layer, ...]:
    """The state of the table, how fresh its destination is, and its copy, if it is captured."""
    if facts.removed:
        return state_layer(facts, now), freshness_layer(facts, now)
    return state_layer(facts, now), freshness_layer(facts, now), copy_layer(facts, now)


def state_layer(facts: PageFacts, now: datetime) -> Layer:
    """The state; without a runner that responds, that of the runner, or grey, because nobody carries it out."""
    tip = "The table's state in the journal, and when it entered that state."
    if facts.state is None:
        detail = "its copy has not begun" if facts.progress and facts.progress.planned else "no run has planned it"
        return Layer("State", "Waiting", "gray", (detail,), tip)
    headline, colour = _STATES.get(facts.state.state, (facts.state.state.capitalize(), "gray"))
    details = [f"since {words.date_time(facts.state.since)}"]
    if facts.state.state in ("copying", "streaming"):
        until = stale_since(facts.runner, facts.lag, now)
        if not facts.runner.responds:
            seen = f"when last seen, {words.date_time(until)}" if until else "when last seen"
            headline = table_state(facts.state.state, facts.runner.shown_state).capitalize()
            colour = "red" if facts.runner.state in ("lost", "frozen") else "gray"
            details.insert(0, f"{facts.state.state} {seen}")
        elif (halt := _halt(facts)) is not None:
            headline, colour, (detail,) = halt
            details = [detail, f"{facts.state.state} {details[0]}"]
    elif facts.state.state == "stopped" and facts.runner.works and facts.others:
        details.append("the other tables continue")
    return Layer("State", headline, colour, tuple(details), tip)


def _halt(facts: PageFacts) -> VerdictLine | None:
    """What a table that is copied or streamed by a live runner waits for; None if it does not wait."""
    runner = facts.runner
    if runner.phase == "starting" and runner.shown_state != SILENT_SPARK:
        return "Starting", "gray", ("nothing is read yet",)
    if runner.away is not None:
        return "Waits for the source", runner.away.colour, (outage(runner.away.cause).replace("The", "the", 1),)
    if runner.unwritten:
        return runner.unwritten.words.headline, runner.unwritten.colour, (runner.unwritten.reason,)
    if runner.shown_state == SILENT_SPARK:
        return runner.style.label, "red", ("nothing is read until it answers",)
    whole = runner.state == "paused"
    if whole or (facts.paused and facts.word == "copying"):
        return "Paused", "violet", ("the pipeline is paused" if whole else "its copy is paused",)
    return None


def freshness_layer(facts: PageFacts, now: datetime) -> Layer:
    """Whether the destination has what the source has, and if not, what holds it up."""
    tip = (
        "A table is up to date if the runner works, the lag is small, the change log has all committed changes, the "
        "mirror has them too or gets them with the next merge, and nothing is known that makes it unreadable."
    )
    return Layer("Freshness", *_freshness(facts, now), tip)


def _freshness(facts: PageFacts, now: datetime) -> VerdictLine:
    if facts.state is not None and facts.state.state in ("stopped", "removed"):
        since = words.date_time(facts.state.since)
        if facts.state.state == "removed":
            return "No longer captured", "gray", (f"nothing published since {since}",)
        return "Stopped", "red", (f"nothing published since {since}", f"the {facts.shown_by} stays as it was")
    if facts.broken is not None:
        found_at = words.date_time(datetime.fromisoformat(facts.broken.at))
        return "Cannot be read", "red", (f"found {found_at}", "readers of the mirror fail")
    rules = (_without_runner, _unmeasured, _unpublished, _behind, _copying, _unmerged)
    return next((verdict for rule in rules if (verdict := rule(facts, now)) is not None), None) or _current(facts, now)


def _without_runner(facts: PageFacts, now: datetime) -> VerdictLine | None:
    """Nothing is read: there is no runner, it is paused, or the source is away."""
    runner = facts.runner
    last = f"changes after {words.date_time(stale_since(runner, facts.lag, now))} are unknown"
    if runner.away is not None:
        what = outage(runner.away.cause).replace("The", "the", 1)
        return "Not current", runner.away.colour, (what, last)
    if runner.unwritten:
        says = runner.unwritten.words
        return says.headline, runner.unwritten.colour, (f"lag {lag_words(runner, facts.lag, now)}", says.do)
    if runner.state == "paused":
        return "Paused", "violet", (f"lag {lag_words(runner, facts.lag, now)}", "resume the pipeline to catch up")
    if runner.responds:
        return None
    if runner.state in ("new", "starting"):
        return "Not measured yet", "gray", (f"the pipeline is {runner.style.label}",)
    colour = "gray" if runner.state == "ended" else "red"
    why = "the runner is stopped" if runner.state == "ended" else f"the {_lost(runner)}"
    return "Not current", colour, (why, last)


def _lost(runner: Runner) -> str:
    return {"lost": "runner is lost", "frozen": "runner does not respond"}.get(runner.state, "run failed")


def _unmeasured(facts: PageFacts, now: datetime) -> VerdictLine | None:
    if facts.lag is None:
        return "Not measured yet", "gray", ("the first reading follows two seconds after connecting",)
    if stale := stale_since(facts.runner, facts.lag, now):
        return "Not current", "gray", (f"the lag is not measured since {words.date_time(stale)}",)
    return None


def _unpublished(facts: PageFacts, now: datetime) -> VerdictLine | None:
    since = facts.flow.unpublished_since
    if since is None or _age_s(since, now) < PUBLISH_LATE_S:
        return None
    waits = f"committed changes wait for {_age(since, now)}"
    if facts.is_in_database:
        return "Stuck before the database", "red", (waits, "check the errors below, and the database")
    return "Stuck before the change log", "red", (waits, "check the errors below, and the destination's disk")


def _behind(facts: PageFacts, now: datetime) -> VerdictLine | None:
    """The pipeline is behind, or its lag is unknown, so this table may be behind too.

    Merges are left to `_unmerged`, which looks at this table alone.
    """
    lag = replace(facts.lag, mirror_age_s=None) if facts.lag else None
    layer = keeping_up_layer(facts.runner, lag, facts.recent, now)
    return None if layer.colour == "green" else (layer.headline, layer.colour, layer.details)


def _copying(facts: PageFacts, _now: datetime) -> VerdictLine | None:
    if facts.word == "streaming":
        return None
    if facts.state is None:
        return "Not copied yet", "gray", ("nothing is published",)
    until = f"the {facts.shown_by} is incomplete until then"
    if facts.mirrored and facts.flow.merged:  # a resnapshot leaves the mirror alone until its copy is complete
        until = "the mirror keeps its earlier copy until then"
    detail = f"{_chunks(facts)} read" if facts.progress and facts.progress.planned else "no chunk is planned"
    if facts.paused:
        return "Copy paused", "violet", (detail, "resume the table to continue")
    return "Being copied", "blue", (detail, until)


def waits_to_merge(facts: PageFacts, now: datetime) -> bool:
    """Whether a live runner has deferred merges of this table for long."""
    following = facts.word == "streaming" and facts.runner.works
    return following and _unmerged_s(facts, now) >= MERGE_WAITS_S


def _unmerged(facts: PageFacts, now: datetime) -> VerdictLine | None:
    waits = _unmerged_s(facts, now)
    if MERGE_WAITS_S <= waits < facts.max_merge_delay_s + MERGE_LATE_S:
        most = f"merged after {words.duration(facts.max_merge_delay_s)} at most"
        return "Waits to be merged", "orange", (f"published changes wait for {words.duration(round(waits))}", most)
    if waits < facts.max_merge_delay_s + MERGE_LATE_S:
        return None
    detail = f"published changes wait for {words.duration(round(waits))} to be merged"
    return "Stuck before the mirror", "red", (detail, "check the errors below, and the destination's disk")


def _unmerged_s(facts: PageFacts, now: datetime) -> float:
    """For how long the oldest change has waited for a merge.

    The runner measures it for the mirror that waits longest.
    """
    since = facts.flow.unmerged_since
    if since is None or not facts.mirrored:
        return 0.0
    measured_s = facts.lag.mirror_age_s if facts.lag else None
    return _age_s(since, now) if measured_s is None else min(_age_s(since, now), measured_s)


def _current(facts: PageFacts, now: datetime) -> VerdictLine:
    last, lag = facts.flow.committed, f"lag {lag_words(facts.runner, facts.lag, now)}"
    waits = _unmerged_s(facts, now)
    mirror = (f"mirror {words.duration(waits)} behind the change log",) if waits > 0 else ()
    copied = facts.progress.last_ended if facts.progress else None
    if last is None or (copied is not None and last < copied):
        return "Up to date", "green", ("no changes since the copy", lag)
    if _age_s(last, now) < QUIET_S:
        return "Up to date", "green", (f"last change {_age(last, now)} ago", lag, *mirror)
    return "Up to date", "green", (f"no changes since {words.date_time(last)}", lag, *mirror)


def copy_layer(facts: PageFacts, now: datetime) -> Layer:
    """The chunks that are read, and those that are parked."""
    tip = "Chunks read, of the expected number. A parked chunk failed too often; everything else continues."
    return Layer("Copy", *_copy(facts, now), tip)


def _copy(facts: PageFacts, now: datetime) -> VerdictLine:
    progress = facts.progress
    if progress is not None and progress.being_planned and facts.runner.works:
        return "Being planned", "blue", ("no chunk of this copy is known yet",)
    if progress is None or not progress.planned:
        return "No chunks", "gray", ("nothing is copied" if facts.word else "no chunk is planned",)
    read, rows = f"{_chunks(facts)} read", f"{words.count(progress.rows)} rows"
    if parked := facts.chunks("parked"):
        return f"{words.plural(parked, 'chunk')} parked", "red", (read, "resume the table to retry")
    if progress.copied:
        return "Copied", "green", (_chunks(facts), rows, f"until {words.date_time(progress.last_ended)}")
    headline, colour = "Copying", "blue"
    if facts.word == "stopped" or stale_since(facts.runner, facts.lag, now) or not facts.runner.responds:
        headline, colour = "Incomplete", "gray"
    elif facts.runner.unwritten:
        headline, colour = facts.runner.unwritten.words.headline, facts.runner.unwritten.colour
    elif facts.runner.state == "paused" or facts.paused:
        headline, colour = "Paused", "violet"
    elif progress.failed:
        headline, colour, rows = "Retrying", "orange", f"{words.plural(progress.failed, 'chunk')} failed"
    return headline, colour, (read, rows)


def _chunks(facts: PageFacts) -> str:
    assert facts.progress is not None
    return f"{chunk_counts.chunks_read(facts.progress)} {'chunk' if facts.progress.expected_chunks == 1 else 'chunks'}"


def stopped(facts: PageFacts) -> tuple[str, str, str] | None:
    """Why the table stopped, in three parts; None if it did not."""
    if facts.state is None or facts.state.state != "stopped":
        return None
    first, _, rest = (facts.state.reason or "The reason is in the journal of an earlier run.").partition("\n")
    stays = f"Nothing more of this table is published; its {facts.shown_by} stays as it was."
    meaning = f"{others_continue(works=facts.runner.works and facts.others)} {stays} {rest}"
    hint = facts.state.hint or "Fix the cause, then redump the table."
    return words.stop_sentence(facts.table, first), meaning.strip(), hint


def removed(facts: PageFacts, files: RemovedFiles | None) -> tuple[str, str, str] | None:
    """That the table was removed, what stays of it, and how it comes back; None if it was not removed.

    files: what becomes of its files, if that is known.
    """
    if facts.state is None or not facts.removed:
        return None
    files_of_it = f"Its files ({'mirror and change log' if facts.mirrored else 'change log'})"
    what = "Its rows" if facts.is_in_database else files_of_it
    stays = {
        "kept": f"{what} stay in the destination as they were then; nothing updates them.",
        "dropping": f"{what} are being deleted, as the command asked for.",
        "dropped": f"{what} were deleted, as the command asked for.",
        None: f"{what} stay in the destination, unless the command asked for their deletion.",
    }[files]
    since = words.date_time(facts.state.since)
    meaning = f"It is not captured any more and raises no alerts. {stays}"
    return (
        f"{facts.table} was removed from the pipeline at {since}.",
        meaning,
        "To capture it again, add it on the page Live, Tables.",
    )


def first_parked(facts: PageFacts) -> int | None:
    """The lowest number of a parked chunk."""
    return next((one.first for one in facts.counts if one.state == "parked"), None)


def flow_rows(facts: PageFacts, now: datetime) -> list[tuple[str, str]]:
    """The table's way from the source to the mirror, step by step."""
    flow = facts.flow
    published, merged = _newest(flow.published, facts.copied), _newest(flow.merged, facts.copied)
    rows = [
        ("Last change committed", _at(flow.committed, now)),
        ("Last published", _at(published, now)),
    ]
    if not facts.is_in_database:
        last = _at(merged, now) if facts.mirrored else f"no mirror: {facts.no_mirror}"
        rows.append(("Last merged into the mirror", last))
    if flow.unpublished_since is not None:
        rows.append(("Waits to be published", f"since {_at(flow.unpublished_since, now)}"))
    if facts.removed:
        return [row for row in rows if row[0] != "Waits to be published"]
    if _unmerged_s(facts, now) > 0:
        rows.append(("Waits to be merged", f"since {_at(flow.unmerged_since, now)}"))
    rows.append(("Lag of the pipeline", lag_words(facts.runner, facts.lag, now)))
    stale = stale_since(facts.runner, facts.lag, now)
    rows.append(("Last measured", _at(stale, now) if stale else _at(facts.lag.ts if facts.lag else None, now)))
    return rows


def _newest(*times: datetime | None) -> datetime | None:
    return max((at for at in times if at is not None), default=None)


def change_row(label: str, changes: Changes) -> dict[str, object]:
    """The changes in a time, by kind."""
    cells = {"Inserts": changes.inserts, "Updates": changes.updates, "Deletes": changes.deletes}
    cells |= {"Redumped": changes.redumped, "Entries": changes.changes}
    return {"Time": label, **{name: words.NOTHING if n is None else f"{n:,}" for name, n in cells.items()}}


def window_label(name: str, until: datetime, now: datetime) -> str:
    """`Last hour`; `Hour before 15:30:17 UTC` if the numbers are not current."""
    return f"Last {name}" if until == now else f"{name.capitalize()} before {words.time_of_day(until)}"


def _age_s(at: datetime, now: datetime) -> float:
    return max((now - at).total_seconds(), 0.0)


def _age(at: datetime, now: datetime) -> str:
    seconds = round(_age_s(at, now))
    return f"{seconds} s" if seconds < 10 else words.duration(seconds)


def _at(at: datetime | None, now: datetime) -> str:
    return words.NOTHING if at is None else f"{words.date_time(at)} · {_age(at, now)} ago"
