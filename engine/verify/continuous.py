"""Continuous verification: a thread of the runner that compares mirrors with the source all the time, gently.

It takes the table whose comparison is the oldest, and of it the chunks that were compared longest ago: about 50 000
rows, or a hundredth of the table if that is more. A table that is not compared by chunks, because its key has an
order that only the server knows, is compared as a whole. Then it rests: so long that it reads for at most
`verify.share` of the time, and that all rows together take about `verify.period`. A table whose mirror another
program has changed, or that could not be read, does not wait for its turn. The first such change of a mirror ends the
rest, too: later ones only once its rows are proved, so that a program which always writes does not keep the verifier
reading. The verifier reads under the copy's throttle, and not while the pipeline is paused, copies tables, works off
a backlog, or waits for its source.

It also writes to the journal what other processes have verified (`verify`, the console), so that alerts and metrics
know it.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from engine.base import clock
from engine.base.errors import ConnectionLimitError
from engine.capture.redump_requests import bound_from
from engine.journal import Journal
from engine.journal.verification_events import TableVerified
from engine.journal.verification_summary import Summary
from engine.ledger.state import State, TableState
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import Helpers
from engine.pipeline.saved_lists import read_alerts
from engine.pipeline.verification_records import Details, ForeignChanges, PartState
from engine.pipeline.verifications import (
    mirror_logs_changed,
    read_details,
    read_mirror_logs,
    read_summaries,
    save,
    summaries_changed,
    unreadable,
    was_compared,
)
from engine.plan.chunks import Plan, Range, plan_from_dict
from engine.spec.settings import Spec
from engine.spec.sink_settings import is_read_back
from engine.spec.verify_settings import OFF, Verify
from engine.verify.mirror_at import CommittedEpochs
from engine.verify.recorded import Recorder, cover, forgotten, planned
from engine.verify.scope import Scope
from engine.verify.table_check import NumberedRange
from engine.verify.verifier import Verifier

_LOOK_S = 2.0
_UNIT_ROWS = 50_000
"""Rows of a part of a table that are compared at once."""
_UNITS = 100
"""A table has at most about as many units: its parts are saved after each."""
_SOON_ROWS_PER_S = 5_000.0
"""The pace at which tables are compared that were never compared, or that do not wait for their turn."""
_TABLE_ROWS = 1_000
"""A comparison costs as much as so many rows, besides its rows."""
_VERIFIED_AGAIN = ("diverged", "mirror_unreadable")
"""The alerts that a verification clears."""
_UNREADABLE_S = 10.0
"""So long after a mirror could not be read, the next look at it is due: its alert clears soon after it can be read."""
_AHEAD = 1.2
"""How much faster than the period asks for, because of interruptions."""


class Rests(NamedTuple):
    """How long to rest after a comparison."""

    long_s: float
    short_s: float
    """If a table does not wait for its turn."""


class ContinuousVerifier:
    """Verifies until it is closed. may_read: whether the pipeline leaves the source to it now."""

    def __init__(
        self,
        spec: Spec,
        directory: Directory,
        journal: Journal,
        helpers: Helpers,
        may_read: Callable[[], bool],
        *,
        few_connections: bool = False,
    ) -> None:
        """few_connections: it keeps none from one comparison to the next."""
        self._few = few_connections
        self._spec = spec
        self._directory = directory
        self._journal = journal
        self._helpers = helpers
        self._may_read = may_read
        self._changed = 0.0
        self._logs_changed = 0.0
        self._summaries = dict[str, Summary]()
        self._foreign: Mapping[str, ForeignChanges] = {}
        self._hurried = False
        self._noticed = frozenset[str]()  # the written mirrors for which a rest was ended
        self._journaled = known_at_start(directory)
        self._committed = CommittedEpochs(directory.ledger)
        self._enabled = spec.verify.period != OFF and is_read_back(spec.sink)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="verifier", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a comparison that has begun is abandoned."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        verifier: Verifier | None = None
        rests, ended_s = Rests(0.0, 0.0), clock.monotonic_s()
        while not self._closing.wait(_LOOK_S):
            try:
                self._report()
                rested = clock.monotonic_s() - ended_s >= (rests.short_s if self._waiting() else rests.long_s)
                rested = rested or bool(self._unnoticed())
                if self._enabled and rested and self._may_read():
                    verifier = verifier or Verifier(self._spec, self._directory, self._must_stop, self._committed)
                    rests, ended_s = self._compare(verifier), clock.monotonic_s()
                    verifier = self._closed(verifier) if self._few else verifier
            except ConnectionLimitError:  # it is the run's turn
                verifier = self._closed(verifier)
                rests, ended_s = Rests(30.0, 30.0), clock.monotonic_s()
            except Exception as error:  # noqa: BLE001 - a helper's error must not end it
                self._helpers.failed("verifier", error)
                verifier = self._closed(verifier)
                rests, ended_s = Rests(60.0, 60.0), clock.monotonic_s()
            else:
                self._helpers.succeeded("verifier")
        self._closed(verifier)

    def _must_stop(self) -> bool:
        """Whether to abandon a comparison: a large table takes hours, and operators pause the pipeline at once."""
        return self._closing.is_set() or not self._may_read()

    @staticmethod
    def _closed(verifier: Verifier | None) -> None:
        if verifier is not None:
            verifier.close()

    def _waiting(self) -> list[str]:
        """The tables that do not wait for their turn."""
        if not self._foreign and not any(one.unreadable for one in self._summaries.values()):
            return []
        return hurried(self._committed.state(), self._summaries, self._foreign)

    def _unnoticed(self) -> frozenset[str]:
        """The written mirrors that wait to be compared, and for which no rest was ended yet."""
        return frozenset(self._foreign).intersection(self._waiting()) - self._noticed

    def _compare(self, verifier: Verifier) -> Rests:
        """Compare what is due."""
        if self._unnoticed():
            self._hurried = False  # it is compared in this turn
        self._noticed = frozenset(self._foreign)
        state, summaries = verifier.committed.state(), read_summaries(self._directory)
        forget_replaced(self._directory, state, summaries)
        name = self._next(state, summaries) if self._spec.source.copies else None
        if name is None:
            return Rests(30.0, 30.0)
        ranges = self._ranges(verifier, name, state, summaries.get(name))
        began_s = clock.monotonic_s()
        scope = Scope(tables=(name,), chunks=tuple(one.chunk for one in ranges if one.chunk is not None), ranges=ranges)
        recorder = Recorder(self._directory)
        result = verifier.table(name, scope, "rows")
        if self._closing.is_set() or (result.verdict == "lagging" and self._must_stop()):
            return Rests(0.0, 0.0)  # it was abandoned, and says nothing about the table
        verifier.record(recorder, result, scope)
        recorder.flush()
        first = name not in summaries or not summaries[name].at
        took_s = clock.monotonic_s() - began_s
        long_s, short_s = (rest_s(self._spec.verify, state, result.rows, took_s, soon=soon) for soon in (first, True))
        return Rests(long_s, short_s)

    def _next(self, state: State, summaries: Mapping[str, Summary]) -> str | None:
        """The table to compare.

        Every other turn is the oldest's: a program that always writes must not hold up other tables.
        """
        first = [] if self._hurried else hurried(state, summaries, self._foreign)
        self._hurried = bool(first)
        return first[0] if first else oldest(state, summaries)

    def _ranges(
        self, verifier: Verifier, name: str, state: State, earlier: Summary | None
    ) -> tuple[NumberedRange, ...]:
        """The chunks of a table that could not be read, or were compared longest ago.

        None if it is compared as a whole.
        """
        details = read_details(self._directory, name)
        if not details.complete or not cover(details.parts) or (earlier is not None and not earlier.compared):
            summary, details = planned(earlier, details, verifier.ranges(name), state.tables[name].generation)
            save(self._directory, {name: summary}, [details])
        broken = unreadable(earlier, state.tables[name].generation)
        return due_ranges(details.parts, plan_from_dict(state.tables[name].plan), broken.chunks if broken else ())

    def _report(self) -> None:
        """Read what is new, and journal new results."""
        logs_changed, changed = mirror_logs_changed(self._directory), summaries_changed(self._directory)
        if logs_changed != self._logs_changed:
            self._foreign = read_mirror_logs(self._directory).foreign
            self._logs_changed = logs_changed
        state = self._committed.state()
        if changed == self._changed:
            forget_replaced(
                self._directory, state, self._summaries
            )  # at once: a table that is read again has no old verdict
            return
        tables = state.tables
        self._summaries = read_summaries(self._directory)
        self._changed = changed
        for name, one in self._summaries.items():
            current = name in tables and tables[name].generation == one.generation
            if current and self._journaled.get(name) != one.last:
                self._journaled[name] = one.last
                self._journal.write(TableVerified(table=name, differences=one.differences, summary=one))


def known_at_start(directory: Directory) -> dict[str, str]:
    """The results that a run need not journal, by table: when it was compared.

    Alerts and metrics must know the rows that differ, and that those of an alert do not differ any more: the table may
    have been repaired while no runner was alive.
    """
    alerted = set[object]()
    with suppress(ValueError, OSError, TypeError, KeyError):  # somebody may have damaged it
        alerted = {alert.table for alert in read_alerts(directory) if alert.kind in _VERIFIED_AGAIN}
    return {
        name: one.last
        for name, one in read_summaries(directory).items()
        if not one.differences and one.unreadable is None and name not in alerted
    }


def forget_replaced(directory: Directory, state: State, summaries: dict[str, Summary]) -> None:
    """Save that tables which were resnapshotted or removed since are not verified any more: they may be added again."""
    replaced = dict[str, Summary]()
    for name, one in summaries.items():
        table_state = state.tables.get(name)
        if (table_state is None and (one.differences or one.compared)) or (
            table_state is not None and one.generation != table_state.generation
        ):
            replaced[name] = forgotten(one, one.generation if table_state is None else table_state.generation)
    if replaced:
        # What differed in the replaced mirror says nothing about the new one.
        save(directory, replaced, [Details(name) for name in replaced])
        summaries.update(replaced)


def due_ranges(parts: Sequence[PartState], plan: Plan, broken: Collection[int] = ()) -> tuple[NumberedRange, ...]:
    """The chunks that were compared longest ago; none if the table is not compared by chunks.

    broken: those that could not be read. They come first, and together: that the mirror can be read needs all of them.
    Their bounds are those saved: the journals keep them for `journal.retention` only.
    """
    chunks = [part for part in parts if part.chunk is not None]
    if len(chunks) < 2 or len(chunks) < len(parts):
        return ()
    most = max(_UNIT_ROWS // max(plan.chunk_rows, 1), len(chunks) // _UNITS, 1)
    due = [part for part in chunks if part.chunk in broken]
    due = due or sorted(chunks, key=lambda part: (part.at, part.chunk or 0))[:most]
    return tuple(
        NumberedRange(part.chunk, Range(bound_from(part.lower, plan), bound_from(part.upper, plan))) for part in due
    )


def oldest(state: State, summaries: Mapping[str, Summary]) -> str | None:
    """The table that was compared longest ago, of those that can be; None if there is none."""

    def age(name: str) -> str:
        one = summaries.get(name)
        if one is None:
            return ""
        # One that could not be compared waits for its turn, or no other table would ever be compared.
        return one.last if one.verdict in ("lagging", "unverifiable") else one.at

    return min((name for name, table in state.tables.items() if _comparable(table)), key=age, default=None)


def hurried(state: State, summaries: Mapping[str, Summary], foreign: Mapping[str, ForeignChanges]) -> list[str]:
    """The tables that do not wait for their turn: mirrors that could not be read, and those that were written to."""
    before = clock.utc_text(clock.utc_now() - timedelta(seconds=_UNREADABLE_S))
    broken = [
        name
        for name, one in summaries.items()
        if name in state.tables
        and _comparable(state.tables[name])
        and unreadable(one, state.tables[name].generation)
        and one.last < before
    ]
    return [*sorted(broken, key=lambda name: summaries[name].last), *written(state, summaries, foreign)]


def written(state: State, summaries: Mapping[str, Summary], foreign: Mapping[str, ForeignChanges]) -> list[str]:
    """The tables whose mirrors another program has changed since they were compared.

    The one compared longest ago is first.
    """

    def waits(name: str) -> bool:
        one = summaries.get(name)
        if name not in state.tables or not _comparable(state.tables[name]):
            return False
        unverifiable = one is not None and one.verdict == "unverifiable"
        return not unverifiable and not was_compared(one, foreign[name].version)

    return sorted(filter(waits, foreign), key=lambda name: summaries[name].last if name in summaries else "")


def _comparable(table: TableState) -> bool:
    return table.copied and not table.stopped and bool(table.table.get("key"))


def rest_s(verify: Verify, state: State, rows: int, took_s: float, *, soon: bool) -> float:
    """The seconds to rest after a comparison of so many rows.

    soon: whether that table was never compared as a whole, or another one does not wait for its turn.
    """
    tables = state.tables.values()
    work = sum(table.rows_read + _TABLE_ROWS for table in tables)
    rate = work / verify.period_s * _AHEAD
    pause_s = (rows + _TABLE_ROWS) / max(rate, _SOON_ROWS_PER_S if soon else 0.0)
    return max(took_s * (1 / verify.share - 1), pause_s - took_s)
