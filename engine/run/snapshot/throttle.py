"""The throttle: limits chunk reads by rate, by the hour, and by the source's load and replica lag.

It throttles chunk reads only, never the binlog. `run.snapshot.scheduler` asks `hold` before each group. A group gets a
share of the rates (`RateShare`), which its reader keeps (`capture.pacing`); the shares of all groups together never
exceed the rates. After faster reads, the next group waits until the rate limit has caught up. Like gh-ost, a separate
connection polls the source's health. Above `max_load`, or while a named replica lags, no group starts; above
`critical_load` the pipeline pauses. A load is an instantaneous value that jumps, so reading continues only after two
seconds of polls within the limits.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from engine.base import clock
from engine.base.errors import SpecError, TidemarkError
from engine.pipeline.helpers import Helpers
from engine.plan.speed import owed_s
from engine.run.commands.heartbeat import Activity
from engine.source.connect import Connection, Endpoint, describe, open_connection, query
from engine.source.turns import Turns
from engine.spec.throttle_settings import Throttle, within_hours

_INTERVAL_S = 0.25
_SLOW_INTERVAL_S = 1.0
"""Seconds between polls of the replicas, and of a source that does not answer: each poll is a login."""
_FULL = 0.999
"""The leased share above which nothing is left for another group."""
_CALM_S = 2.0
"""Seconds that a load must stay within its limits."""
_REPLICA = (8, 0, 22)
"""The MySQL version that introduced the word REPLICA."""
_LAG_COLUMNS = ("Seconds_Behind_Source", "Seconds_Behind_Master")


@dataclass(frozen=True)
class RateShare:
    """A group's share of the rates."""

    rows_per_s: float
    """0: no limit."""
    bytes_per_s: float
    """Bytes of files; 0: no limit."""
    since_s: float
    """When the group started (`clock.monotonic_s`)."""

    def rate(self, row_bytes: float) -> float:
        """Rows per second of a table with rows of this size; 0: no limit."""
        rates = (self.rows_per_s, self.bytes_per_s / max(row_bytes, 1.0))
        return min((rate for rate in rates if rate), default=0.0)


class ReadPace:
    """Decides when the next group of chunks may start, and how fast it may read. Pure; takes the time as an argument.

    settings: those in force.
    """

    def __init__(self, settings: Throttle) -> None:
        self.settings = settings
        self._shares: list[RateShare] = []
        self._overrun_s = 0.0
        self._at_s = 0.0

    def change(self, settings: Throttle) -> None:
        """Replace the settings; groups that have started keep their shares."""
        self.settings = settings

    @property
    def limited(self) -> bool:
        """Whether there is a rate."""
        return bool(self.settings.max_rows_per_s or self.settings.max_bytes_per_s)

    def take_share(self, parts: int, now_s: float) -> RateShare:
        """Take a share of the free rates for a group. parts: how many groups may share them."""
        self._reduce_overrun(now_s)
        settings, share = self.settings, max(1.0 - self._taken_share(), 1.0 - _FULL) / parts
        lease = RateShare(settings.max_rows_per_s * share, settings.max_bytes_per_s * share, now_s)
        self._shares.append(lease)
        return lease

    def release(self, lease: RateShare, rows: int, size: int, now_s: float) -> None:
        """Record what a group has read in the end. The next group waits for what exceeds its share."""
        self._reduce_overrun(now_s)
        self._shares.remove(lease)
        took_s = now_s - lease.since_s
        over = (max(rows - lease.rows_per_s * took_s, 0.0), max(size - lease.bytes_per_s * took_s, 0.0))
        self._overrun_s += owed_s(self.settings, *over)

    def _taken_share(self) -> float:
        """The share of the rates that groups have taken; more than 1 after a rate was lowered."""
        rows, size = self.settings.max_rows_per_s, self.settings.max_bytes_per_s
        shares = [sum(lease.rows_per_s for lease in self._shares) / rows] if rows else []
        shares += [sum(lease.bytes_per_s for lease in self._shares) / size] if size else []
        return max(shares, default=0.0)

    def _reduce_overrun(self, now_s: float) -> None:
        """Reduce the overrun by the share that no group has taken since the last call."""
        free = max(1.0 - self._taken_share(), 0.0)
        self._overrun_s = max(self._overrun_s - free * (now_s - self._at_s), 0.0)
        self._at_s = now_s

    def wait(self, now_s: float, time: datetime) -> str:
        """Why no group may start now; "" if one may."""
        if not within_hours(self.settings.hours, time):
            return f"the hours of reading are {', '.join(self.settings.hours)} UTC"
        self._reduce_overrun(now_s)
        if self.limited and (self._overrun_s or self._taken_share() > _FULL):
            rates = [f"{self.settings.max_rows_per_s:,} rows/s"] if self.settings.max_rows_per_s else []
            rates += [f"{self.settings.max_bytes_per_s:,} bytes/s"] if self.settings.max_bytes_per_s else []
            return f"at most {' and '.join(rates)}"
        return ""

    def share(self, usual_rows_per_s: float) -> float:
        """The fraction of a usual group that this rate allows: about a second's worth."""
        rate = self.settings.max_rows_per_s
        return min(1.0, rate / usual_rows_per_s) if rate else 1.0


def _unknown_variables(names: Sequence[str]) -> SpecError:
    return SpecError(
        f"The source has no status variable {', '.join(names)}, so its load is not known.",
        detail="No chunk is read, as if the load was too high. Changes are read as ever.",
        hint="Correct the name: in [throttle] of the spec, and now by "
        "tidemark throttle SPEC max_load.Threads_running=50",
    )


def too_much(status: dict[str, float], limits: dict[str, float]) -> str:
    """Which status variables exceed their limits, as text; "" if none does."""
    over = [f"{name} is {status[name]:g} (limit {limit:g})" for name, limit in limits.items() if status[name] > limit]
    return " and ".join(over)


class Hold:
    """Keeps a reason to wait until all polls for `_CALM_S` were within the limits, or the limits change."""

    def __init__(self) -> None:
        self._reason = ""
        self._settings: Throttle | None = None
        self._calm_since_s: float | None = None

    def after(self, reason: str | None, settings: Throttle, now_s: float) -> str:
        """The reason after a poll. reason: of this poll, "" if within the limits, None if the poll failed."""
        if settings != self._settings:
            self._reason = ""
            self._settings = settings
        if reason:
            self._reason = reason
        if reason is None or reason:
            self._calm_since_s = None
        elif self._calm_since_s is None:
            self._calm_since_s = now_s
        if self._calm_since_s is not None and now_s - self._calm_since_s >= _CALM_S:
            self._reason = ""
        return self._reason


class Health:
    """Polls the load of the source and the lag of the named replicas until it is closed.

    reason: why nothing should be read now. critical: called with the reason whenever a load newly exceeds
    `critical_load`. This thread does not report a source that does not answer; a replica that does not answer is a
    reason to wait.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        pace: ReadPace,
        critical: Callable[[str], None],
        helpers: Helpers,
        activity: Activity | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._turns = turns or Turns()
        self._endpoint = endpoint
        self._pace = pace
        self._critical = critical
        self._helpers = helpers
        self._activity = activity or Activity()
        self.reason = ""
        self.loads: dict[str, float] = {}
        """The values of the last polls: status variables, and the lag of replicas in seconds, by `host:port`."""
        self._connections: dict[str, Connection] = {}
        self._was_critical = False
        self._unknown: list[str] = []
        """The status variables of the settings that the source does not have."""
        self._lag_reason = ""
        self._lag_at_s = 0.0
        self._hold = Hold()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(timeout=5)

    def _watch(self) -> None:
        pause_s = _INTERVAL_S
        while not self._closing.wait(pause_s):
            try:
                pause_s = self._look()
            except Exception as error:  # noqa: BLE001 - the reason stays until the source answers again
                self._helpers.failed("health", error)
                pause_s = _SLOW_INTERVAL_S
            else:
                if self._unknown:
                    self._helpers.failed("health", _unknown_variables(self._unknown))
                else:
                    self._helpers.succeeded("health")
        for name in list(self._connections):
            self._forget(name)

    def _look(self) -> float:
        """Poll once. Returns the seconds until the next poll."""
        settings = self._pace.settings
        self._unknown = []
        if not (settings.max_load or settings.critical_load or settings.replicas):
            self.reason = ""
            self._was_critical = False
            self.loads = {}
            self._activity.loads = {}
            return _INTERVAL_S
        with self._turns.take(1):
            load, now_s = self._load(settings), clock.monotonic_s()
            if self._turns.few:
                self._forget("")
        self._activity.loads = self.loads
        if now_s - self._lag_at_s >= _SLOW_INTERVAL_S:
            self._lag_reason = self._lag(settings)
            self._lag_at_s = now_s
        self.reason = self._hold.after(load, settings, now_s) or self._lag_reason
        return _INTERVAL_S if load is not None else _SLOW_INTERVAL_S

    def _load(self, settings: Throttle) -> str | None:
        """Which load is too high, as text; None when the source does not answer."""
        names = [*settings.max_load, *settings.critical_load]
        if not names:
            return ""
        try:
            status = self._status(names)
        except TidemarkError:
            self._forget("")
            return None
        lags = {name: lag for name, lag in self.loads.items() if name in settings.replicas}
        self.loads = {**status, **lags}
        self._unknown = [name for name in names if name not in status]
        if self._unknown:
            return f"the source has no status variable {', '.join(self._unknown)}"
        critical = too_much(status, settings.critical_load)
        if critical and not self._was_critical:
            self._critical(f"critical load: {critical}")
        self._was_critical = bool(critical)
        return critical or too_much(status, settings.max_load)

    def _status(self, names: list[str]) -> dict[str, float]:
        marks = ", ".join(["%s"] * len(names))
        rows = query(self._connection(""), f"SHOW GLOBAL STATUS WHERE Variable_name IN ({marks})", tuple(names))
        values = {row["Variable_name"].casefold(): float(row["Value"]) for row in rows}
        return {name: values[name.casefold()] for name in names if name.casefold() in values}

    def _lag(self, settings: Throttle) -> str:
        for name in settings.replicas:
            try:
                lag = self._lag_of(name)
            except TidemarkError as error:
                self._forget(name)
                return f"replica {name} cannot be asked: {error.message}"
            self.loads = {status: value for status, value in self.loads.items() if status != name}
            if lag is not None:
                self.loads[name] = lag
            if lag is None:
                return f"replica {name} does not replicate"
            if lag > settings.max_replica_lag_s:
                return f"replica {name} is {lag:g} s behind (limit {settings.max_replica_lag_s:g} s)"
        return ""

    def _lag_of(self, name: str) -> float | None:
        connection = self._connection(name)
        server = describe(connection)
        word = "SLAVE" if server.flavor == "mysql" and server.version < _REPLICA else "REPLICA"
        rows = query(connection, f"SHOW {word} STATUS")
        lags = [row[column] for row in rows for column in _LAG_COLUMNS if row.get(column) is not None]
        return max(map(float, lags)) if lags else None

    def _connection(self, name: str) -> Connection:
        """The connection to the source (""), or to a replica at `host:port` with the same user."""
        if name not in self._connections:
            host, _, port = name.rpartition(":")
            there = replace(self._endpoint, host=host, port=int(port), identity=None) if name else self._endpoint
            self._connections[name] = open_connection(there)
        return self._connections[name]

    def _forget(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None:
            connection.close()


def hold(pace: ReadPace, health: Health) -> str:
    """Why no group of chunks may start now; "" if one may."""
    return health.reason or pace.wait(clock.monotonic_s(), clock.utc_now())
