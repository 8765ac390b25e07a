"""Helper threads beside the coordinator: their errors are reported, and end neither the helper nor the run.

A helper is anything that can fail without the pipeline: the inbox thread, the lag monitor, the health check, the
metrics server, the journal file and its listeners. Each catches everything, calls `failed` with its name, and
continues. The first failure writes an `error` event of kind HelperError, raises an alert (`helper_failed`) and adds a
line to `status`; later ones are counted. A helper has recovered after `CALM_S` without an error, so that one that fails
every other time reports it once.
"""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from engine.base import clock
from engine.base.errors import HelperError, TidemarkError
from engine.base.wording import sentences
from engine.journal import Journal
from engine.journal.events import ErrorReported, HelperRecovered
from engine.pipeline.disk import Disk

CALM_S = 10.0
"""Seconds without an error before a helper counts as recovered."""
SPARK = "Spark"
"""Not a thread that fails, but what one asks: it does not answer (`run.monitors.spark_monitor`)."""
_MEANINGS = {
    "inbox": "Commands may wait until it works again.",
    "runner.json": "`status` and the console see an old heartbeat until it works again.",
    "monitor": "Lag and retention left are not measured until it works again, so their alerts are silent.",
    "health": "The source's load and its replicas are not watched until it works again.",
    "verifier": "Tables are not verified continuously until it works again.",
    "hidden changes": "Other settings of the source, new cascades, binlog filters and tables are not noticed until it "
    "works again.",
    "blocked reads": "Reads that wait for a lock on the source are not named until it works again.",
    "mirrors": "Changes of mirrors by other programs are not noticed until it works again.",
    "audit": "Change logs are not audited until it works again.",
    "metrics": "Metrics cannot be scraped until it works again.",
    "journal": "Events are kept in memory until the file can be written.",
}
_SINK_MEANING = "It gets what it lacks when it can be written again; the ledger keeps that."
_DEFAULT_MEANING = "It misses events until it works again."


@dataclass
class HelperFailure:
    """A failing helper."""

    helper: str
    error: str
    message: str
    since: str
    """When it began to fail: UTC text."""
    errors: int = 1
    """Errors since then."""
    hint: str = ""
    """What to do; empty if only trying again helps."""


class Helpers:
    """The helpers of one run. Thread-safe, but do not call it while holding a listener's lock."""

    def __init__(self, journal: Journal, disk: Disk | None = None) -> None:
        self._journal = journal
        self._disk = disk or Disk((), journal)
        self._lock = threading.Lock()
        self._failing: dict[str, HelperFailure] = {}
        self._last_s: dict[str, float] = {}
        self._failing_since_s: dict[str, float] = {}

    def failed(self, helper: str, error: BaseException) -> None:
        """Record a helper's error. `Disk` handles a full disk."""
        if self._disk.takes(error):
            self._disk.failed(helper, error)
            return
        named = _named(helper, error)
        with self._lock:
            failure, self._last_s[helper] = self._failing.get(helper), clock.monotonic_s()
            if failure is not None:
                failure.errors += 1
                return
            self._failing_since_s[helper] = self._last_s[helper]
            hint = error.hint if isinstance(error, TidemarkError) else ""
            since = clock.utc_text()
            self._failing[helper] = HelperFailure(helper, type(error).__name__, named.message, since, hint=hint)
        self._journal.write(ErrorReported.of(named, attempt=1, helper=helper))

    def succeeded(self, helper: str) -> None:
        """Record that a helper worked."""
        self._disk.succeeded(helper)
        if helper not in self._failing:
            return
        with self._lock:
            now_s = clock.monotonic_s()
            if helper not in self._failing or now_s - self._last_s[helper] < CALM_S:
                return
            errors, duration_s = self._failing.pop(helper).errors, now_s - self._failing_since_s[helper]
        self._journal.write(HelperRecovered(helper=helper, errors=errors, duration_s=round(duration_s, 3)))

    def ended(self, helper: str) -> None:
        """Record that a helper has ended: what it reported stands no more."""
        with self._lock:
            self._last_s[helper] = self._last_s.get(helper, 0.0) - CALM_S
        self.succeeded(helper)

    def guard(self, helper: str, step: Callable[[], object]) -> None:
        """Do a step of a helper, and record how it went."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - nothing may end the thread of a helper
            self.failed(helper, error)
        else:
            self.succeeded(helper)

    def as_list(self) -> list[dict[str, Any]]:
        """The failing helpers for `runner.json`, as fields of `HelperFailure`."""
        with self._lock:
            return [asdict(failure) for failure in self._failing.values()]


def _named(helper: str, error: BaseException) -> HelperError:
    if isinstance(error, HelperError):  # it says by itself what to do
        return error
    what = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
    do = error.hint if isinstance(error, TidemarkError) else ""
    persists = "If this persists, fix the cause named above, or report it with `tidemark bundle SPEC`."
    return HelperError(
        f"The helper {helper!r} met an error: {what}",
        detail=f"The pipeline continues. {_meaning(helper)}",
        hint=sentences(do, "Tidemark retries.", "" if do else persists),
    )


def _meaning(helper: str) -> str:
    return _SINK_MEANING if helper.startswith("sink ") else _MEANINGS.get(helper, _DEFAULT_MEANING)
