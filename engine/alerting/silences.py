"""Silences: for some time, alerts of a kind or of some tables are not sent to any route.

    <directory>/silences/<id>.json    who, why, since when and until when, which alerts

A silence is a file, like an acknowledgement: it works without a runner, lasts across restarts, and ends by itself. It
hides nothing: alerts stand in the journal, in `status`, in the output and in the console as ever. An alert that still
stands when its silence ends is sent then (`alerting.alerts`). A silence that is damaged, or that a newer version wrote,
silences nothing.
"""

import fnmatch
import json
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path

from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import NewerFormatError, SpecError
from engine.base.processes import this_user
from engine.pipeline import formats
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.remote_state.operator_copy import leave
from engine.spec.alert_settings import check_kind
from engine.spec.globs import including
from engine.spec.periods import period_s

_KEPT = 200
"""The newest silences that are kept."""
_SETTLED_S = 2.0
"""Two changes of a folder that are closer than its time stamps tell apart may look like one."""
_SEEN: "dict[Path, tuple[int, tuple[Silence, ...]]]" = {}
"""By folder, when it was changed, and what was in it then."""
_LONGEST_S = 366 * 86_400.0


@dataclass(frozen=True)
class Silence:
    """Which alerts are not sent, until when, and who said so. Times are UTC text."""

    id: str
    actor: str
    reason: str
    since: str
    until: str
    kind: str | None = None
    """A kind of alerts; None: all kinds."""
    table: str | None = None
    """A glob of tables; None: all alerts, those of the whole pipeline included."""
    ended_by: str | None = None
    """Who ended it before its time, which `until` then is."""

    def covers(self, alert: Alert, at: str) -> bool:
        """Whether it is in force for an alert at a time."""
        if not self.since <= at < self.until or self.kind not in (None, alert.kind):
            return False
        return self.table is None or (alert.table is not None and fnmatch.fnmatchcase(alert.table, self.table))

    @property
    def what(self) -> str:
        """Which alerts, in words."""
        kind = f"alerts of the kind {self.kind}" if self.kind else "all alerts"
        return f"{kind} of {self.table}" if self.table else kind


def add_silence(
    directory: Directory, period: str, reason: str, *, kind: str = "", table: str = "", actor: str = ""
) -> Silence:
    """Silence alerts for a period such as `2h`, from now on.

    actor: default is this process's user. Raises SpecError, OSError.
    """
    if not reason.strip():
        raise _refused("A silence needs a reason", "Say why: others see it beside each alert.")
    now = clock.utc_now()
    try:
        seconds = _checked_s(period)
        if kind:
            check_kind(kind)
        including([table] if table else [])
    except ValueError as error:
        raise _refused(f"No such silence: {error}", "For example --for 2h --kind lag --table 'shop.*'.") from None
    made = Silence(
        uuid.uuid4().hex[:12],
        actor.strip() or this_user(),
        reason.strip(),
        clock.utc_text(now),
        clock.utc_text(now + timedelta(seconds=seconds)),
        kind or None,
        table or None,
    )
    _write(directory, made)
    return made


def end_silence(directory: Directory, identity: str, *, actor: str = "") -> Silence:
    """End a silence before its time. Raises SpecError if none of this id is in force, OSError."""
    now = clock.utc_text()
    silence = next((one for one in silences(directory) if one.id == identity), None)
    if silence is None:
        raise _refused(f"No silence {identity!r} is in force", "`tidemark silence SPEC` lists those that are.")
    ended = replace(silence, until=now, ended_by=actor.strip() or this_user())
    _write(directory, ended)
    return ended


def silences(directory: Directory) -> list[Silence]:
    """The silences in force, the one that ends first first."""
    now = clock.utc_text()
    return sorted((one for one in _all(directory) if one.since <= now < one.until), key=lambda one: one.until)


def silence_of(directory: Directory, alert: Alert) -> Silence | None:
    """The silence that covers an alert now, the one that lasts longest; None if there is none."""
    now = clock.utc_text()
    return next((one for one in reversed(silences(directory)) if one.covers(alert, now)), None)


def _checked_s(period: str) -> float:
    seconds = period_s(period)
    if not 0 < seconds <= _LONGEST_S:
        raise ValueError("a silence lasts between a second and 366 days")
    return seconds


def _all(directory: Directory) -> tuple[Silence, ...]:
    """All silences. They are read again when the folder has changed: hundreds of alerts may ask within a second."""
    folder = _folder(directory)
    try:
        changed_ns = folder.stat().st_mtime_ns
    except OSError:
        return ()
    entry = _SEEN.get(folder)
    settled = clock.utc_now().timestamp() - changed_ns / 1e9 > _SETTLED_S
    if entry is None or entry[0] != changed_ns or not settled:
        records = (_read(path) for path in folder.glob("*.json"))
        _SEEN[folder] = entry = (changed_ns, tuple(one for one in records if one is not None))
    return entry[1]


def _write(directory: Directory, silence: Silence) -> None:
    folder = _folder(directory)
    folder.mkdir(exist_ok=True)
    text = json.dumps(formats.stamped("silence", asdict(silence)), ensure_ascii=False, indent=1)
    if leave(directory, f"silences/{silence.id}.json", text.encode()):
        return
    write_atomically(folder / f"{silence.id}.json", text)
    now = clock.utc_text()
    with suppress(FileNotFoundError):  # another process deletes the same ones
        for old in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)[:-_KEPT]:
            if (one := _read(old)) is None or one.until <= now:
                old.unlink(missing_ok=True)


def _read(path: Path) -> Silence | None:
    with suppress(OSError, ValueError, TypeError, AttributeError, NewerFormatError):
        record = json.loads(path.read_text(encoding="utf-8"))
        formats.check("silence", record, path)
        silence = Silence(**formats.without(record))
        if all(isinstance(text, str) for text in (silence.id, silence.since, silence.until)):
            return silence
    return None


def _folder(directory: Directory) -> Path:
    return directory.root / "silences"


def _refused(message: str, hint: str) -> SpecError:
    return SpecError(f"{message}.", detail="Nothing was changed.", hint=hint)
