"""The lists that outlive a run: active alerts, parked chunks, standby runners."""

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import processes
from engine.base.json_records import records_from
from engine.pipeline import formats
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory


@dataclass(frozen=True)
class Standby:
    """A runner that waits for the pipeline to be free."""

    host: str
    pid: int
    since: str
    """UTC text."""


@dataclass(frozen=True)
class ParkedRead:
    """A parked chunk."""

    table: str
    chunk: int
    limits: list[Any]
    """The chunk's range (`Range.as_list`)."""
    lower: str | None
    upper: str | None
    """`lower` and `upper` are the range's bounds as text."""
    error: str
    message: str
    hint: str
    attempts: int
    """Failures in a row."""
    since: str

    def describe(self) -> str:
        """Its table, number and range as text."""
        return f"{self.table} chunk {self.chunk} [{self.lower or '…'}, {self.upper or '…'})"


def read_alerts(directory: Directory) -> list[Alert]:
    """The active alerts, oldest first, without those that somebody has damaged.

    The watchdog's alerts about the newest run are among them. Raises NewerFormatError, OSError, and ValueError,
    KeyError or TypeError if the file is no list of alerts.
    """
    alerts = read_runners_alerts(directory)
    watched = _watchdogs_alerts(directory)
    kinds = {alert.kind for alert in watched}
    return [*(alert for alert in alerts if alert.kind not in kinds), *watched]


def read_runners_alerts(directory: Directory) -> list[Alert]:
    """Like `read_alerts`, without the watchdog's."""
    return _alerts(_read_list("alerts", directory.alerts))


def _alerts(records: Iterable[object]) -> list[Alert]:
    return [alert for alert in map(Alert.from_json, records) if alert is not None]


def _watchdogs_alerts(directory: Directory) -> list[Alert]:
    """The alerts in `watchdog.json`; none once another run has begun."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        record = json.loads(directory.watchdog.read_text(encoding="utf-8"))
        if record["run"] == json.loads(directory.runner.read_text(encoding="utf-8"))["run"]:
            return _alerts(record["alerts"])
    return []


def read_parked(directory: Directory) -> tuple[ParkedRead, ...]:
    """The parked chunks, without those that somebody has damaged. Raises NewerFormatError.

    Some may have been read, or split again, since.
    """
    return records_from(ParkedRead, _read_list("parked", directory.parked))


def list_text(name: str, records: Sequence[Mapping[str, Any]]) -> str:
    """The text of a file for `read_alerts` or `read_parked`. name: its format."""
    return json.dumps(formats.stamped(name, {name: list(records)}), ensure_ascii=False, indent=1)


def _read_list(name: str, path: Path) -> list[Any]:
    """Read a list, which may contain anything, because somebody may have damaged it. Raises NewerFormatError.

    Before versions existed, the file was only the list.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    formats.check(name, record, path)
    values: list[Any] = record[name] if isinstance(record, dict) else record
    return values


def read_standbys(directory: Directory) -> list[Standby]:
    """The standby runners, without those of this machine that are gone."""
    standbys = []
    for path in sorted((directory.root / "standby").glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            written = record.get("process") or {}
            rebooted = record["host"] == socket.gethostname() and written.get("boot") != processes.here()["boot"]
            if not rebooted and processes.lives(record["pid"], written) is not False:
                standbys.append(Standby(record["host"], record["pid"], record["since"]))
    return standbys
