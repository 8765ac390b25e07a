"""Continuous verification: a thread of the runner that compares mirrors with the source all the time, gently.

It takes the table whose comparison is the oldest, and of it the parts that were compared longest ago, as many as have some ten
thousand rows. Then it rests: so long that it reads for at most `verify.share` of the time, and that all rows together take about
`verify.period`. It reads under the copy's throttle, and not while the pipeline is paused, copies tables, or waits for its source.

It also writes to the journal what other processes have verified (`verify`, the console), so that alerts and metrics know it.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from engine import clock
from engine.directory import Directory
from engine.events import TableVerified
from engine.journal import Journal
from engine.ledger.state import State
from engine.plan.chunks import plan_from_dict
from engine.run.helpers import Helpers
from engine.run.verify.recorded import Recorder
from engine.run.verify.scope import Scope
from engine.run.verify.verifier import Verifier
from engine.settings import Spec
from engine.verifications import Summary, read_details, read_summaries
from engine.verify_settings import OFF

_LOOK_S = 2.0
_UNIT_ROWS = 50_000
"""Rows of a part of a table that are compared at once."""
_FIRST_ROWS_PER_S = 5_000.0
"""The pace at which tables are compared for the first time."""


@dataclass(frozen=True)
class Due:
    """What to compare next."""

    table: str
    chunks: tuple[int, ...]
    """Empty for the whole table."""


class ContinuousVerifier:
    """Verifies until it is closed. may_read: whether the pipeline leaves the source to it now."""

    def __init__(
        self, spec: Spec, directory: Directory, journal: Journal, helpers: Helpers, may_read: Callable[[], bool]
    ) -> None:
        self._spec, self._directory, self._journal, self._helpers = spec, directory, journal, helpers
        self._may_read = may_read
        self._known = {name: one["last"] for name, one in read_summaries(directory).items()}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="verifier", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a comparison that has begun is abandoned."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        verifier: Verifier | None = None
        rest_s, ended_s = 0.0, clock.monotonic_s()
        while not self._closing.wait(_LOOK_S):
            try:
                self._report()
                rested = clock.monotonic_s() - ended_s >= rest_s
                if self._spec.verify.period != OFF and rested and self._may_read():
                    verifier = verifier or Verifier(self._spec, self._directory, self._closing.is_set)
                    rest_s, ended_s = self._compare(verifier), clock.monotonic_s()
            except Exception as error:  # noqa: BLE001 - a helper's error must not end it
                self._helpers.failed("verifier", error)
                verifier = self._closed(verifier)
                rest_s, ended_s = 60.0, clock.monotonic_s()
            else:
                self._helpers.succeeded("verifier")
        self._closed(verifier)

    @staticmethod
    def _closed(verifier: Verifier | None) -> None:
        if verifier is not None:
            verifier.close()

    def _compare(self, verifier: Verifier) -> float:
        """Compare what is due. Returns the seconds to rest."""
        state, summaries = verifier.committed.state(), read_summaries(self._directory)
        due = self._due(state, summaries)
        if due is None:
            return 30.0
        began_s = clock.monotonic_s()
        scope = Scope(tables=(due.table,), chunks=due.chunks)
        recorder = Recorder(self._directory)
        result = verifier.table(due.table, scope, "rows")
        if self._closing.is_set():
            return 0.0
        verifier.record(recorder, result, scope)
        recorder.flush()
        took_s = clock.monotonic_s() - began_s
        first = due.table not in summaries or not summaries[due.table]["at"]
        rate = max(_rows(state) / self._spec.verify.period_s * 1.2, _FIRST_ROWS_PER_S if first else 1e-3)
        return max(
            took_s * (1 / self._spec.verify.share - 1), min(result.rows / rate, self._spec.verify.period_s) - took_s
        )

    def _due(self, state: State, summaries: Mapping[str, Summary]) -> Due | None:
        """What was compared longest ago; None if nothing can be compared, or all was compared within the period."""
        tables = [
            name
            for name, table in state.tables.items()
            if table.copied and not table.stopped and table.table.get("key")
        ]
        if not tables or not self._spec.source.copies:
            return None

        def age(name: str) -> str:
            one = summaries.get(name)
            if one is None or one["generation"] != state.tables[name].generation:
                return ""
            # One that cannot be compared is tried again in its turn.
            return one["at"] if one["at"] or one["compared"] else one["last"]

        name = min(tables, key=age)
        if age(name) > clock.utc_text(clock.utc_now() - timedelta(seconds=self._spec.verify.period_s)):
            return None
        return Due(name, self._chunks(name, state))

    def _chunks(self, name: str, state: State) -> tuple[int, ...]:
        """The chunks of a table that were compared longest ago; none if it is compared as a whole."""
        plan, parts = plan_from_dict(state.tables[name].plan), read_details(self._directory, name)
        listed = [part for part in parts["parts"] if part["chunk"] is not None]
        if not parts["complete"] or len(listed) < 2 or len(listed) != len(parts["parts"]):
            return ()
        most = max(_UNIT_ROWS // max(plan.chunk_rows, 1), 1)
        oldest = sorted(listed, key=lambda part: part["at"])[:most]
        return tuple(int(part["chunk"] or 0) for part in oldest)

    def _report(self) -> None:
        """Journal the results that are new."""
        for name, one in read_summaries(self._directory).items():
            if self._known.get(name) != one["last"]:
                self._known[name] = one["last"]
                self._journal.write(TableVerified(table=name, differences=one["differences"], summary=one))


def _rows(state: State) -> int:
    return sum(table.rows_read + table.changes_applied // 10 for table in state.tables.values())
