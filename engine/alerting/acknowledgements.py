"""Acknowledgements of alerts: an operator has seen the alert and takes care of it.

    <directory>/acknowledged/<occurrence>.json    who, when, and a note

An acknowledgement is a file, not a command in the inbox: only a runner answers commands, and the alerts of a lost
runner need an operator most. The file's name is a digest of one occurrence of an alert: its kind, its table, when its
cause began, and the value at which it was raised. So an alert that clears and comes back is not acknowledged any more,
and neither is a run that fails with another exit code. A repetition of the alert keeps the acknowledgement.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.processes import this_user
from engine.pipeline import formats
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.operator_copy import leave

_KEPT = 1000
"""The newest acknowledgements that are kept."""


@dataclass(frozen=True)
class Acknowledgement:
    """Who acknowledged an alert."""

    actor: str
    at: str
    """UTC text."""
    note: str
    kind: str
    table: str | None
    since: str
    value: float | None
    """The last four say which alert."""


def occurrence(alert: Alert) -> str:
    """The name of one occurrence of an alert."""
    parts = [alert.kind, alert.table, str(alert.since), _number(alert)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def acknowledge(directory: Directory, alert: Alert, *, actor: str = "", note: str = "") -> Acknowledgement:
    """Acknowledge an alert, with or without a runner; who comes second changes nothing.

    actor: default is this process's user.

    Raises OSError, and NewerFormatError if a newer version has acknowledged it.
    """
    earlier = acknowledgement_of(directory, alert)
    if earlier is not None:
        return earlier
    acknowledgement = Acknowledgement(
        actor.strip() or this_user(),
        clock.utc_text(),
        note.strip(),
        alert.kind,
        alert.table,
        str(alert.since),
        _number(alert),
    )
    folder = _folder(directory)
    folder.mkdir(exist_ok=True)
    text = json.dumps(formats.stamped("acknowledgement", asdict(acknowledgement)), ensure_ascii=False, indent=1)
    if leave(directory, f"acknowledged/{occurrence(alert)}.json", text.encode()):
        return acknowledgement
    write_atomically(folder / f"{occurrence(alert)}.json", text)
    with suppress(FileNotFoundError):  # another console deletes the same ones
        for old in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)[:-_KEPT]:
            old.unlink(missing_ok=True)
    return acknowledgement


def acknowledgement_of(directory: Directory, alert: Alert) -> Acknowledgement | None:
    """Who acknowledged this occurrence; None if nobody did, or if the file is invalid. Raises NewerFormatError."""
    folder = _folder(directory)
    if not folder.exists():  # usually; the console asks for every alert of every pipeline every two seconds
        return None
    path = folder / f"{occurrence(alert)}.json"
    with suppress(OSError, ValueError, TypeError, AttributeError):
        record = json.loads(path.read_text(encoding="utf-8"))
        formats.check("acknowledgement", record, path)
        return Acknowledgement(**formats.without(record))
    return None


def _number(alert: Alert) -> float | None:
    return float(alert.value) if isinstance(alert.value, int | float) else None


def _folder(directory: Directory) -> Path:
    return directory.root / "acknowledged"
