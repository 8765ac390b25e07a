"""Measures every two seconds, on its own connection, how far the pipeline is behind and how much retention is left.

In between, it asks the source twice a second whether it answers, so that an outage is seen at once
(`run.source_loss.outage`). When it has connected, it measures as often, until nothing is outstanding or two seconds are
over.

Lag in seconds uses the server's clock: now minus the time after which everything outstanding was committed. That is the
later of the commit time of the last transaction committed here, and the last measurement whose end of the binlog is
committed by now. So a transaction after an idle hour is no hour of lag. It is 0 when nothing is outstanding, because no
traffic is not lag. `run.monitors.retention` computes the retention left.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from engine.base import clock
from engine.base.errors import BinlogOffError, SourceAwayError, SourceChangedError, TidemarkError
from engine.destination.freshness import Freshness
from engine.journal import Journal
from engine.journal.events import LagMeasured
from engine.pipeline.helpers import Helpers
from engine.run.monitors.retention import Growth, following, retention_left_s
from engine.run.source_loss.binlog_off import BinlogCheck
from engine.run.source_loss.outage import MEASURE_PATIENCE_S, MONITOR, PATIENCE_S, OutageTracker
from engine.source.connect import Connection, Endpoint, describe, open_connection, query
from engine.source.heads import read_head
from engine.source.measured_ends import MeasuredEnds
from engine.source.positions import Position, binlog_files, bytes_between, current, retention
from engine.source.turns import Turns
from engine.source.watermarks import server_time_s

INTERVAL_S = 2.0
_PING_S = 0.5
_CONNECTIONS = 2
"""The monitor's own, and a dump to read the head of a file."""
_WINDOW = 300
"""Measurements in the percentiles: ten minutes."""
_SMALL_LAG_S = 10.0
"""The lag with which a backlog ends (`Backlog`)."""
_LARGE_LAG_S = 60.0
"""The lag with which one begins, besides the time between two epochs."""
_SILENCE_S = 15.0
"""If the source leaves one of these small queries unanswered for this long, it is away."""


@dataclass(frozen=True)
class CommittedPosition:
    """The committed position, and the commit time of the last transaction before it (server's clock; 0: none seen)."""

    position: Position
    last_ts: int


def lag(
    committed: CommittedPosition,
    end: Position,
    files: dict[str, int],
    now_s: float,
    retention_left_s: float | None,
    reached_s: float = 0.0,
) -> LagMeasured:
    """The lag at `end`, the source's current position. Pure. reached_s: `MeasuredEnds.reached_s` of the position."""
    behind = bytes_between(files, committed.position, end)
    since_s = max(committed.last_ts, reached_s)
    age_s = max(now_s - since_s, 0.0) if since_s else None
    lag_s = 0.0 if behind == 0 else age_s
    return LagMeasured(
        position=str(committed.position),
        source_position=str(end),
        lag_s=None if lag_s is None else round(lag_s, 3),
        lag_bytes=behind,
        runway_s=None if retention_left_s is None else round(retention_left_s),
    )


def percentiles(lags: Sequence[float]) -> dict[str, float] | None:
    """Percentiles of lags in seconds; None without any."""
    if not lags:
        return None
    p50, p95, p99 = (round(float(p), 3) for p in np.percentile(lags, (50, 95, 99)))
    return {"p50": p50, "p95": p95, "p99": p99, "max": max(lags)}


class Backlog:
    """Whether the pipeline works off a backlog: since its start, or since its lag exceeded `behind_s`.

    So it is until the lag is small. Verification in the background, which would decode the same backlog again, waits
    for that.
    """

    def __init__(self, behind_s: float) -> None:
        self._behind_s = behind_s
        self.is_there = True

    def observe(self, lag_s: float | None) -> None:
        """Take a measured lag; an unknown one changes nothing."""
        if lag_s is not None:
            self.is_there = lag_s > (_SMALL_LAG_S if self.is_there else self._behind_s)


@dataclass
class _Measurements:
    """What the monitor keeps of its measurements."""

    growth: Growth = field(default_factory=Growth)
    births: dict[str, int] = field(default_factory=dict)
    """When the binlog file after the committed one began, by its name."""
    lags: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    """The newest lags, in seconds."""
    ends: MeasuredEnds = field(default_factory=MeasuredEnds)


class LagMonitor:
    """Writes `source.lag` until it is closed, and reports an unreachable source; `helpers` reports other errors.

    oldest_mirror: the age of the oldest change that a mirror lacks, in seconds, and its table
    (`Targets.oldest_mirror`). freshness: of the changes that could be read. look: called with its connection after each
    measurement; it may close it (`run.monitors.blocked_monitor`). poll_interval_s: the time between two epochs.
    backlog: as measured.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        first_server_id: int,
        journal: Journal,
        committed: Callable[[], CommittedPosition],
        away: OutageTracker,
        helpers: Helpers,
        oldest_mirror: Callable[[], tuple[float, str | None]] = lambda: (0.0, None),
        freshness: Callable[[], Freshness] = Freshness,
        turns: Turns | None = None,
        look: Callable[[Connection], object] = lambda _: None,
        binlog: BinlogCheck | None = None,
        poll_interval_s: float = 0.0,
    ) -> None:
        self.backlog = Backlog(_LARGE_LAG_S + poll_interval_s)
        self._binlog = binlog or BinlogCheck()
        self._endpoint = replace(endpoint, read_timeout_s=min(_SILENCE_S, endpoint.read_timeout_s))
        self._first_server_id = first_server_id
        self._helpers = helpers
        self._journal = journal
        self._committed = committed
        self._away = away
        self._oldest_mirror = oldest_mirror
        self._freshness = freshness
        self._turns = turns or Turns()
        self._look = look
        self._kept = _Measurements()
        self._due_s = 0.0
        self._soon_until_s = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(timeout=5)
        self._away.answered()  # nobody waits for the answer any more
        self._away.back(MONITOR)

    def _watch(self) -> None:
        connection: Connection | None = None
        while not self._closing.is_set():
            began, pause_s = clock.monotonic_s(), INTERVAL_S if self._turns.few else _PING_S
            try:
                with self._turns.take(_CONNECTIONS):
                    connection = self._poll(connection)
                self._away.back(MONITOR)
            except TidemarkError as error:
                connection = None
                if isinstance(error, SourceAwayError) and not self._closing.is_set():
                    pause_s = self._away.failed(MONITOR, error)
                elif isinstance(error, BinlogOffError):
                    self._binlog.found_off(error)
                    self._away.back(MONITOR)
                elif isinstance(error, SourceChangedError):
                    self._away.back(MONITOR)  # another server answers; the coordinator decides whether it will do
            except Exception as error:  # noqa: BLE001 - unmeasured lag must be reported
                self._helpers.failed("monitor", error)
                connection = None
            self._away.pause(max(pause_s - (clock.monotonic_s() - began), 0.1), self._closing)
        if connection is not None and connection.open:
            connection.close()

    def _poll(self, connection: "Connection | None") -> "Connection | None":
        """Ping the source, and measure if that is due. Returns the connection, unless connections are few."""
        connection, now_s = self._pinged(connection), clock.monotonic_s()
        try:
            self._measure_if_due(connection, now_s)
        finally:
            if self._turns.few and connection.open:
                connection.close()
        return None if self._turns.few else connection

    def _measure_if_due(self, connection: Connection, now_s: float) -> None:
        if now_s < self._due_s:
            return
        self._due_s = now_s + INTERVAL_S
        with self._question(MEASURE_PATIENCE_S):  # the source may freeze here too
            measured = self.measure(connection)
        self._journal.write(measured)
        self.backlog.observe(measured.lag_s)
        with self._question(MEASURE_PATIENCE_S):
            self._look(connection)
        self._helpers.succeeded("monitor")
        if measured.lag_bytes != 0 and now_s < self._soon_until_s:
            self._due_s = now_s + _PING_S

    def _pinged(self, connection: "Connection | None") -> Connection:
        """A connection on which the source has just answered."""
        with self._question(PATIENCE_S):
            if connection is None:
                connection = open_connection(self._endpoint)
                self._soon_until_s = clock.monotonic_s() + INTERVAL_S
            elif not connection.open:  # `look` wants another one
                connection = open_connection(self._endpoint)
            query(connection, "SELECT 1")
        return connection

    @contextmanager
    def _question(self, patience_s: float) -> Iterator[None]:
        """What the source answers within `patience_s` if it can."""
        self._away.asks(patience_s)
        try:
            yield
        except SourceAwayError:
            raise  # since the question, for the tracker
        except BaseException:
            self._away.answered()
            raise
        self._away.answered()

    def measure(self, connection: Connection) -> LagMeasured:
        """One measurement. It takes the committed position first, so that the lag is never too small."""
        committed, asked_s = self._committed(), server_time_s(connection)
        end, files, now_s = (
            current(connection, describe(connection)),
            binlog_files(connection),
            server_time_s(connection),
        )
        rate = self._kept.growth.observe(now_s, end, files)
        closed_s = self._closed_s(committed.position, files)
        runway = retention_left_s(committed.position, files, now_s, retention(connection), closed_s, rate)
        self._kept.ends.measured(end, asked_s)
        measured = lag(committed, end, files, now_s, runway, self._kept.ends.reached_s(committed.position))
        if measured.lag_s is not None:
            self._kept.lags.append(measured.lag_s)
        age_s, table = self._oldest_mirror()
        freshness = self._freshness()
        return replace(
            measured,
            percentiles=percentiles(self._kept.lags),
            mirror_age_s=round(age_s, 3),
            mirror_oldest=table,
            log_freshness=freshness.log,
            mirror_freshness=freshness.mirror,
            sink_freshness=freshness.sinks,
        )

    def _closed_s(self, position: Position, files: dict[str, int]) -> float | None:
        """When the server closed the position's file and began the next one; None for the current file."""
        after = following(position, files)
        if after is None:
            return None
        if after not in self._kept.births:
            self._kept.births = {after: read_head(self._endpoint, after, self._first_server_id).born}
        return float(self._kept.births[after])
