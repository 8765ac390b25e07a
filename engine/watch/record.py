"""What the watchdogs of a pipeline know together: `watchdog.json`, which only the holder of `watchdog.lock` writes.

It is about one run that was lost or has failed. Once another run has begun, only its `restarts`
and `resolved` matter.
"""

import errno
import fcntl
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from engine.alerting.notify.notice import Notice
from engine.base import clock, processes
from engine.base.durable import write_atomically
from engine.base.errors import is_disk_full
from engine.base.json_records import records_from
from engine.pipeline import formats
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.watch.restart_rules import HOUR_S

_MOST_RESOLVED = 100
"""Resolved alerts in the record."""
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


@dataclass(frozen=True)
class Restart:
    """A runner that a watchdog has launched."""

    run: str
    """The run before it."""
    at: str
    """UTC text."""
    pid: int
    process: Mapping[str, Any]
    """What `engine.base.processes` knows of it, as of its launch."""
    code: int | None = None
    """Its exit code, if it ended before its first heartbeat and the watchdog saw that."""

    @property
    def age_s(self) -> float:
        """Seconds since the launch."""
        by_boot = processes.age_s(self.process)
        return by_boot if by_boot is not None else clock.unix_s() - clock.parse_utc(self.at).timestamp()

    @property
    def starting(self) -> bool | None:
        """Whether its process lives; None if that cannot be seen from here."""
        return processes.lives(self.pid, self.process)


@dataclass(frozen=True)
class Unposted:
    """A notice that a route has not accepted yet."""

    route: str
    notice: Notice

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """One of `watchdog.json`. Raises KeyError or TypeError if it is damaged."""
        return cls(str(record["route"]), Notice(**record["notice"]))


@dataclass(frozen=True)
class ResolvedAlert:
    """An alert that was cleared while its run could still write its journal, so that the journal lacks it."""

    kind: str
    table: str | None
    value: float | None
    threshold: float | None
    message: str
    since: str
    cleared: str
    """`since` is when its cause began, `cleared` when it was cleared: UTC text."""


@dataclass(frozen=True)
class WatchRecord:
    """The content of `watchdog.json`."""

    run: str = ""
    """The run that was lost or has failed."""
    alerts: tuple[Alert, ...] = ()
    """The standing alerts about it."""
    unposted: tuple[Unposted, ...] = ()
    """Notices that have not been accepted yet."""
    due: str = ""
    """When the runner will be started again: UTC text; empty if it will not."""
    down: str = ""
    """Why it will not, although the spec asks for restarts."""
    restarts: tuple[Restart, ...] = field(default=())
    """Those of the last hour, oldest first."""
    resolved: tuple[ResolvedAlert, ...] = ()
    """Those of all runs, oldest first."""


def read_record(directory: Directory) -> WatchRecord:
    """The record; an empty one if there is none, or if it is damaged. Raises NewerFormatError, OSError."""
    try:
        record = json.loads(directory.watchdog.read_text(encoding="utf-8"))
        formats.check("watch", record, directory.watchdog)
        values: dict[str, Any] = {
            name: value for name, value in formats.without(record).items() if name in WatchRecord.__dataclass_fields__
        }
        values["alerts"] = [one for one in map(Alert.from_json, values.get("alerts", ())) if one is not None]
        values["restarts"] = tuple(Restart(**one) for one in values.get("restarts", ()))
        values["resolved"] = records_from(ResolvedAlert, values.pop("resolved", ()))
        values["unposted"] = tuple(map(Unposted.from_json, values.get("unposted", ())))
        lists: dict[str, Any] = {name: tuple(v) for name, v in values.items() if isinstance(v, list)}
        return WatchRecord(**values | lists)
    except (FileNotFoundError, KeyError, ValueError, TypeError, AttributeError):
        return WatchRecord()


def write_record(directory: Directory, record: WatchRecord) -> None:
    """Replace the record, without restarts older than an hour and the oldest resolved alerts. Raises OSError."""
    restarts = [asdict(one) for one in record.restarts if one.age_s < HOUR_S]
    lists = {"restarts": restarts, "resolved": [asdict(one) for one in record.resolved[-_MOST_RESOLVED:]]}
    text = json.dumps(formats.stamped("watch", {**asdict(record), **lists}), ensure_ascii=False, indent=1)
    write_atomically(directory.watchdog, text)


class WatchRecords:
    """The records of pipelines, for one watchdog. Thread-safe.

    A record that the disk does not take, such as a full one, is kept in memory, so that nothing is announced or
    launched twice.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._unsaved: dict[Path, tuple[WatchRecord, WatchRecord, OSError]] = {}
        """By folder: what the disk has, what it should have, and why it has not."""

    def read(self, directory: Directory) -> WatchRecord:
        """The record. What another watchdog could save meanwhile wins. Raises NewerFormatError, OSError."""
        with self._lock:
            saved, unsaved = read_record(directory), self._unsaved.get(directory.root)
            if unsaved is None:
                return saved
            if saved != unsaved[0]:
                del self._unsaved[directory.root]
                return saved
            return unsaved[1]

    def write(self, directory: Directory, record: WatchRecord) -> None:
        """Save the record, or keep it in memory."""
        with self._lock:
            before = self._unsaved.pop(directory.root, None)
            try:
                write_record(directory, record)
            except OSError as error:
                self._unsaved[directory.root] = (before[0] if before else read_record(directory), record, error)

    def save_again(self, directory: Directory) -> None:
        """Try again to save what is in memory only. Raises OSError, always with the same text, if that fails."""
        with self._lock:
            if directory.root in self._unsaved:
                self.write(directory, self._unsaved[directory.root][1])
            if unsaved := self._unsaved.get(directory.root):
                raise OSError(unsaved[2].errno, unsaved[2].strerror, str(directory.watchdog))


@contextmanager
def alone(directory: Directory) -> Iterator[bool]:
    """Whether no other watchdog decides about this pipeline until the end of the block.

    True where files cannot be locked, or where a full disk has no room for the lock file.
    """
    try:
        lock = (directory.root / "watchdog.lock").open("a")
    except OSError as error:
        if not is_disk_full(error):
            raise
        yield True
        return
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _TAKEN:
                yield False
                return
        try:
            yield True
        finally:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
