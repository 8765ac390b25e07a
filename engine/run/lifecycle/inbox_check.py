"""The check of the inbox, in `check`: a folder that belongs to another user keeps a run from taking commands."""

from pathlib import Path

from engine.pipeline.inbox_access import no_access, unwritable
from engine.source.preflight import Check


def check_inbox(inbox: Path) -> Check:
    """Whether this user may write to all folders of the inbox. A pipeline that never had a command has none."""
    folder, why = unwritable(inbox), "A run moves commands within it; until then all commands wait."
    if folder is None:
        return Check("inbox", "ok", "may be written", "may be written", why)
    fault = no_access(folder, why)
    return Check("inbox", "fail", "may be written", fault.message.removesuffix("."), why, fault.hint)
