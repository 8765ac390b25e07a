"""The checks of the destination, before a run starts Spark and in `check`, and of the bucket of the state."""

from typing import Literal

from engine.base.errors import PreflightError
from engine.base.writable import write_fault
from engine.destination.registry import ask_servers, server_fault, server_notices
from engine.source.preflight import Check
from engine.spec.sink_settings import Sink
from engine.store.folder_at import folder_at
from engine.store.folder_trial import tried

_WHY = "Mirrors and change logs are written there."
_OF_SERVERS = {"kafka": ("topics can be created, and transactions begun", "Messages are sent there.")}
_NOTICES = "They act on each row that is written, or refuse it. A refused row stops its table."
_NO_FIX = "Drop them, or make sure that they refuse no row."
_OF_DATABASES = ("tables can be created and written", "Rows are written there.")


def check_destination(sink: Sink) -> Check:
    """Whether the destination can be written."""
    name = f"sink {sink.name}" if sink.name else "destination"
    fault, fix = server_fault(sink)
    if fault or sink.has_no_folder:
        expected, why = _OF_SERVERS.get(sink.type, _OF_DATABASES)
        if not fault and (notices := server_notices(sink)):
            return Check(name, "warn", "neither triggers nor foreign keys", ", ".join(notices), _NOTICES, _NO_FIX)
        return Check(name, "fail" if fault else "ok", expected, fault or expected, why, fix)
    if (folder := sink.local_path) is None:
        return _of_bucket(sink, name)
    fault = write_fault(folder)
    fix = f"Mount the disk of {folder} for writing, give this user write permission, or set sink.path." if fault else ""
    return Check(name, "fail" if fault else "ok", "may be written", fault or "may be written", _WHY, fix)


def _of_bucket(sink: Sink, name: str) -> Check:
    trial = tried(sink.folder)
    actual = trial.fault or "written, read, raced for and deleted"
    outcome: Literal["fail", "ok"] = "fail" if trial.fault else "ok"
    return Check(name, outcome, "one of several writers creates a file", actual, _WHY, trial.remedy)


def ask_store(sink: Sink) -> None:
    """Raises the error of a bucket, or of servers, that cannot be used now. One request."""
    ask_servers(sink)
    if sink.is_bucket:
        sink.folder.find(".tidemark-room")


def check_state(url: str) -> Check:
    """Whether the pipeline's state can be kept in its bucket."""
    trial = tried(folder_at(url), replaces=True)
    actual = trial.fault or "written, read, raced for, replaced and deleted"
    outcome: Literal["fail", "ok"] = "fail" if trial.fault else "ok"
    expected = "one of several writers creates a file, and one replaces it"
    why = "The pipeline's state is there, with the lease that one runner at a time has."
    return Check("state", outcome, expected, actual, why, trial.remedy)


def require_destination(sink: Sink) -> None:
    """Raises PreflightError if the destination cannot be written."""
    check = check_destination(sink)
    if check.outcome == "fail":
        raise PreflightError(
            f"The destination cannot be written: {check.actual.rstrip('.')}.",
            detail="Nothing was started, and nothing was read.",
            hint=check.fix,
        )
