"""A pipeline's directory: the paths of its files, and the small protocols that use them.

    <directory>/pipeline.toml          the spec
                ledger/                committed state (engine.ledger)
                journal/<run>.jsonl    events (engine.events), and further parts of them (engine.journal.parts)
                inbox/<id>.json        pending commands; an event with the same id accepts or refuses each
                inbox/withdrawn/       commands that were withdrawn before a run took them (engine.command_queue)
                runner.json            the runner's pid, heartbeat and Spark UI address, rewritten every second
                controls.json          operators' settings: pauses of tables, limits
                runner.lock            held by the runner while it lives
                runner.log             the runner's output, if the console or a service started it
                alerts.json            the active alerts; exists only if there are any; outlives a run
                acknowledged/          who acknowledged which alert (engine.acknowledgements)
                silences/              which alerts are not sent for some time (engine.silences)
                parked.json            the parked chunks; exists only if there are any; outlives a run
                watchdog.json          what the watchdog knows of a runner that is gone (engine.watch.record)
                verify/                the verification of each table, and mirrors that others changed (engine.verifications)

If a spec file is called `pipeline.toml`, its folder is the pipeline's directory. Otherwise the directory is next to the spec file,
named after the pipeline. Files appear by atomic rename, so a reader never sees half of one.
"""

import errno
import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engine import clock, formats, processes
from engine.durable import naming, rename, sync_folder
from engine.inbox_access import make_folder, no_access, user_name
from engine.journal.parts import runs_in

HEARTBEAT_S = 1.0
"""How often a runner rewrites `runner.json`."""
HEARTBEAT_STALE_S = 10.0
"""A runner with an older heartbeat hangs or is gone."""
_LOOKS, _LOOK_S = 5, 0.02
_SECOND_LOOK_S = 2.5
_RUN = "%Y%m%dT%H%M%S"
_SEEN: dict[Path, tuple[tuple[Any, Any], float, bool]] = {}
"""By `runner.json`: run and beat, when this process first saw them (`clock.monotonic_s`), whether it saw an earlier beat."""
VERBS = ("pause", "resume", "stop", "throttle", "redump", "add-table", "remove-table", "maintain", "merge")


@dataclass(frozen=True)
class Directory:
    """The paths of one pipeline."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "pipeline.toml"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger"

    @property
    def journals(self) -> Path:
        return self.root / "journal"

    @property
    def inbox(self) -> Path:
        return self.root / "inbox"

    @property
    def runner(self) -> Path:
        return self.root / "runner.json"

    @property
    def controls(self) -> Path:
        return self.root / "controls.json"

    @property
    def lock(self) -> Path:
        return self.root / "runner.lock"

    @property
    def log(self) -> Path:
        return self.root / "runner.log"

    @property
    def alerts(self) -> Path:
        return self.root / "alerts.json"

    @property
    def watchdog(self) -> Path:
        return self.root / "watchdog.json"

    @property
    def verifications(self) -> Path:
        return self.root / "verify"

    @property
    def maintenance(self) -> Path:
        return self.root / "maintenance"

    @property
    def known_tables(self) -> Path:
        return self.maintenance / "known-tables.json"

    @property
    def space(self) -> Path:
        return self.root / "space.json"

    @property
    def parked(self) -> Path:
        return self.root / "parked.json"

    def journal(self, run: str) -> Path:
        """The first part of a run's journal."""
        return self.journals / f"{run}.jsonl"


def directory_of(spec_file: Path, name: str) -> Directory:
    """The directory of the pipeline `name` whose spec is `spec_file`."""
    spec_file = spec_file.absolute()
    return Directory(spec_file.parent if spec_file.name == "pipeline.toml" else spec_file.parent / name)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text`, durably and atomically. Raises OSError, and then leaves no temporary file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        with naming(path), temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def overwrite(path: Path, text: str) -> None:
    """Overwrite a file's content in place, within the space that it has: for a disk on which nothing new can be created.

    Blanks fill the rest, which JSON permits. A reader may briefly see half of it (`read_runner` retries). Raises OSError if the
    file does not exist or has no room.
    """
    data = text.encode()
    with path.open("r+b", buffering=0) as file:
        found = os.fstat(file.fileno())
        if len(data) > max(found.st_size, 512 * found.st_blocks):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.pwrite(file.fileno(), data.ljust(found.st_size), 0)


def new_run(directory: Directory) -> str:
    """The id of a new run: the time and a random suffix.

    Ids sort in the order of the runs. If the clock was set back, the time is one second after the newest run's.
    """
    newest = next(reversed(runs_in(directory.journals)), "")
    now = clock.utc_now()
    with suppress(ValueError):
        now = max(now, datetime.strptime(newest[:15], _RUN).replace(tzinfo=UTC) + timedelta(seconds=1))
    return f"{now:{_RUN}}-{secrets.token_hex(3)}"


def send_command(
    directory: Directory,
    verb: str,
    *,
    reason: str = "",
    arguments: Mapping[str, Any] | None = None,
    pipeline: str = "",
    actor: str = "",
) -> str:
    """Put a command into the inbox and return its id; the runner answers in the journal. actor: default is this process's user.

    The command names the current run of `runner.json` (null: there was none), so that no other run obeys a stop meant for it, and
    its place among all commands (`seq`). Neither is a time. Raises HelperError if this user may not write to the inbox, OSError.
    """
    identity = uuid.uuid4().hex[:12]
    directory.root.mkdir(parents=True, exist_ok=True)
    make_folder(directory.inbox)
    command = {
        formats.FIELD: formats.VERSIONS["command"],
        "id": identity,
        "verb": verb,
        "actor": actor or user_name(),
        "reason": reason,
        "sent": clock.utc_text(),
        "run": _run_seen(directory),
        "seq": _next_place(directory),
        "arguments": dict(arguments or {}),
        "pipeline": pipeline or None,
    }
    try:
        write_atomically(directory.inbox / f"{identity}.json", json.dumps(command, indent=1))
    except PermissionError:
        raise no_access(directory.inbox, "The command was not sent.") from None
    return identity


def _run_seen(directory: Directory) -> str | None:
    with suppress(ValueError, KeyError):
        record = _read_runner(directory.runner)
        return str(record["run"]) if record else None
    return None


def _next_place(directory: Directory) -> int | None:
    """Count commands in a separate file. Returns None if that fails; the runner then uses the order of arrival."""
    try:
        with (directory.inbox / ".sequence").open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read().strip()
            place = (int(text) if text.isdigit() else 0) + 1
            file.seek(0)
            file.truncate()
            file.write(str(place))
    except OSError:
        return None
    return place


def read_runner(directory: Directory) -> dict[str, Any] | None:
    """The content of `runner.json`, plus `heartbeat_age_s` and `alive`; None if there never was a runner.

    On the runner's own machine no wall clock is used. `alive` is whether its process lives (from another container: whether the
    heartbeat is fresh), and the age is by the clock that all processes of the machine share (`engine.processes`). On other
    machines the wall clocks are compared, with a tolerance of `HEARTBEAT_STALE_S` either way. A runner whose clock differs by more
    is alive if a second look, at least `HEARTBEAT_S` later, finds a newer heartbeat (`find_runner` looks twice). A runner that has
    reported its end is not alive.
    """
    record = _read_runner(directory.runner)
    if record is None:
        return None
    formats.check("runner", record, directory.runner)
    written = record.get("process") or {}
    moved = _beats(directory.runner, record)
    age_s, lives = processes.age_s(written), None
    if age_s is None:
        age_s = (clock.utc_now() - clock.parse_utc(record["heartbeat"])).total_seconds()
    elif isinstance(record.get("pid"), int):
        lives = processes.lives(record["pid"], written)
    fresh = -HEARTBEAT_STALE_S < age_s < HEARTBEAT_STALE_S or moved
    record["heartbeat_age_s"] = round(max(age_s, 0.0), 3)
    record["alive"] = record["state"] != "ended" and (fresh if lives is None else lives)
    return record


def find_runner(directory: Directory) -> dict[str, Any] | None:
    """`read_runner`. If only the clocks of two machines say that the runner is gone, look again after `_SECOND_LOOK_S`."""
    record = read_runner(directory)
    if record is None or record["alive"] or record["state"] == "ended":
        return record
    if processes.age_s(record.get("process") or {}) is not None:
        return record
    clock.sleep(_SECOND_LOOK_S)
    return read_runner(directory)


def _beats(path: Path, record: Mapping[str, Any]) -> bool:
    """Whether this process saw the heartbeat advance, and its last look was recent."""
    now_s, this = clock.monotonic_s(), (record.get("run"), record.get("beat"))
    known = _SEEN.get(path)
    if known is None or known[0] != this:
        _SEEN[path] = known = (this, now_s, known is not None and known[0][0] == this[0])
    return known[2] and now_s - known[1] < HEARTBEAT_STALE_S


def _read_runner(path: Path) -> dict[str, Any] | None:
    for attempt in range(_LOOKS):
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:  # being overwritten, on a full disk
            if attempt == _LOOKS - 1:
                raise
            clock.sleep(_LOOK_S)
        else:
            return record
    return None


def read_alerts(directory: Directory) -> list[dict[str, Any]]:
    """The active alerts, oldest first: the fields of the journal's `alert.raised`, and when each was last `announced`.

    The watchdog's alerts about the newest run are among them.
    """
    found = read_runners_alerts(directory)
    watched = _watchdogs_alerts(directory)
    kinds = {alert.get("kind") for alert in watched}
    return [*(alert for alert in found if alert.get("kind") not in kinds), *watched]


def read_runners_alerts(directory: Directory) -> list[dict[str, Any]]:
    """Like `read_alerts`, without the watchdog's."""
    found = [alert for alert in _read_list("alerts", directory.alerts) if isinstance(alert, dict)]
    # Version 1 used another name.
    return [{"announced" if name == "told" else name: value for name, value in alert.items()} for alert in found]


def _watchdogs_alerts(directory: Directory) -> list[dict[str, Any]]:
    """The alerts in `watchdog.json`; none once another run has begun."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        record = json.loads(directory.watchdog.read_text(encoding="utf-8"))
        if record["run"] == json.loads(directory.runner.read_text(encoding="utf-8"))["run"]:
            return [dict(alert) for alert in record["alerts"]]
    return []


def read_parked(directory: Directory) -> list[dict[str, Any]]:
    """The parked chunks, with the fields of `run.snapshot.parking.Parked`. Some may have been read, or split again, since."""
    return _read_list("parked", directory.parked)


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
    found: list[Any] = record[name] if isinstance(record, dict) else record
    return found


def read_standbys(directory: Directory) -> list[dict[str, Any]]:
    """The standby runners: host, pid and since when (UTC text), without those of this machine that are gone."""
    found = []
    for path in sorted((directory.root / "standby").glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            written = record.get("process") or {}
            rebooted = record["host"] == socket.gethostname() and written.get("boot") != processes.here()["boot"]
            if not rebooted and processes.lives(record["pid"], written) is not False:
                found.append({name: record[name] for name in ("host", "pid", "since")})
    return found


def launch(spec_file: Path, directory: Directory, *, until: str | None = None) -> subprocess.Popen[bytes]:
    """Start a runner as a separate process that outlives the caller; its output goes to `runner.log`."""
    directory.root.mkdir(parents=True, exist_ok=True)
    spec = str(spec_file.absolute())  # the runner starts in another folder
    command = [sys.executable, "-m", "engine", "run", spec, *(["--until", until] if until else [])]
    with directory.log.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=Path(__file__).resolve().parent.parent,
        )
