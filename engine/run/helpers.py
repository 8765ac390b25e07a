"""Threads that work beside the coordinator: what one of them meets is reported, and ends neither it nor the run.

A helper is whatever can fail without the pipeline: the thread that looks into the inbox, the monitor, the health check, the
webhook, the metrics' server, the file of the journal, whoever listens to it. Each catches everything, says `failed` with its
name, and goes on. The first failure becomes an `error` event of the kind HelperError, an alert (`helper_failed`) and a line in
`status`; those that follow are counted. It is `fine` when it has worked for `CALM_S`, so that one that fails every other time
tells it once.
"""

import threading
from dataclasses import asdict, dataclass
from typing import Any

from engine import clock
from engine.errors import HelperError, TidemarkError, is_disk_full
from engine.events import ErrorReported, HelperRecovered
from engine.journal import Journal
from engine.run.disk import Disk

CALM_S = 10.0
"""So long a helper must have worked before its error is taken back."""
_MEANINGS = {
    "inbox": "Commands may wait until it works again.",
    "runner.json": "`status` and the console see an old heartbeat until it works again.",
    "monitor": "Lag and runway are not measured until it works again, so their alerts are silent.",
    "health": "The source's load and its replicas are not watched until it works again.",
    "webhook": "Alerts may not be posted until it works again; they are in the journal and on stderr.",
    "metrics": "Metrics cannot be scraped until it works again.",
    "journal": "Events are kept in memory until the file can be written.",
}
_ELSE = "What it shows or passes on lacks events until it works again."


@dataclass
class Failure:
    """A helper thread that fails."""

    helper: str
    error: str
    message: str
    since: str
    """Since when it fails: UTC text."""
    errors: int = 1
    """How many errors it met since then."""


class Helpers:
    """The helpers of one run; safe to use from several threads, but not while a lock of a listener is held."""

    def __init__(self, journal: Journal, disk: Disk | None = None) -> None:
        self._journal, self._disk = journal, disk or Disk((), journal)
        self._lock = threading.Lock()
        self._failing: dict[str, Failure] = {}
        self._last_s: dict[str, float] = {}
        self._began_s: dict[str, float] = {}

    def failed(self, helper: str, error: BaseException) -> None:
        """A helper met an error. A full disk is the pipeline's to wait for."""
        if is_disk_full(error):
            self._disk.met(helper, error)
            return
        named = _named(helper, error)
        with self._lock:
            known, self._last_s[helper] = self._failing.get(helper), clock.monotonic_s()
            if known is not None:
                known.errors += 1
                return
            self._began_s[helper] = self._last_s[helper]
            self._failing[helper] = Failure(helper, type(error).__name__, named.message, clock.utc_text())
        self._journal.write(ErrorReported.of(named, attempt=1, helper=helper))

    def fine(self, helper: str) -> None:
        """A helper has worked."""
        self._disk.worked(helper)
        if helper not in self._failing:
            return
        with self._lock:
            now_s = clock.monotonic_s()
            if helper not in self._failing or now_s - self._last_s[helper] < CALM_S:
                return
            errors, duration_s = self._failing.pop(helper).errors, now_s - self._began_s[helper]
        self._journal.write(HelperRecovered(helper=helper, errors=errors, duration_s=round(duration_s, 3)))

    def as_list(self) -> list[dict[str, Any]]:
        """Those that do not work, for `runner.json`: the fields of `Failure`."""
        with self._lock:
            return [asdict(failure) for failure in self._failing.values()]


def _named(helper: str, error: BaseException) -> HelperError:
    what = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
    return HelperError(
        f"The helper {helper!r} met an error: {what}",
        detail=f"The pipeline goes on. {_MEANINGS.get(helper, _ELSE)}",
        hint="It tries again by itself. If it stays, look at what is named; else report it with `tidemark bundle SPEC`.",
    )
