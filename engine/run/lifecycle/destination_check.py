"""The check of the destination, before a run starts Spark and in `check`."""

from pathlib import Path

from engine.base.errors import PreflightError
from engine.base.writable import write_fault
from engine.source.preflight import Check


def check_destination(folder: Path, sink: str = "") -> Check:
    """Whether the destination can be written. sink: its name, of a further one."""
    fault, why = write_fault(folder), "Mirrors and change logs are written there."
    fix = f"Mount the disk of {folder} for writing, give this user write permission, or set sink.path." if fault else ""
    return Check(
        f"sink {sink}" if sink else "destination",
        "fail" if fault else "ok",
        "may be written",
        fault or "may be written",
        why,
        fix,
    )


def require_destination(folder: Path) -> None:
    """Raises PreflightError if the destination cannot be written."""
    found = check_destination(folder)
    if found.outcome == "fail":
        raise PreflightError(
            f"The destination cannot be written: {found.actual}.",
            detail="Nothing was started, and nothing was read.",
            hint=found.fix,
        )
