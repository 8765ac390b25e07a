"""Where a table's log begins: the oldest commits of a table with very many versions are deleted.

A table that changes every second makes 600,000 commits a week, each with files of its own. So a table keeps
`sink.max_versions` earlier versions, fewer if these have too many files (`destination.delta.maintenance.vacuum`), and
each for an hour, for readers that are at work in it. Others keep them for `delta.logRetentionDuration`, which deltalake
applies (`destination.delta.log.delta_log`).

A log begins with a checkpoint. What comes before it is deleted oldest first, in batches, so that a log from which a
killed process has deleted only some has no gap for long: deltalake 1.6 loads no version by time from a log with one.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake.exceptions import DeltaError

from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.delta.log.foreign_commits import read_commit
from engine.destination.delta.log.log_files import checkpoint_version, commit_version, complete_checkpoints, log_of
from engine.destination.delta.log.table_opening import open_table
from engine.store.folder import Folder

LEAST_RETENTION = timedelta(hours=1)
"""How long each version is kept, however many there are."""
_BATCH = 1000


@dataclass(frozen=True)
class LogStart:
    """The oldest version that a log can give, once those before it are deleted."""

    version: int
    identity: str
    """The Delta table's."""
    earlier_names: tuple[str, ...]
    """The files of the log that belong to earlier versions, oldest first."""


def log_start(table: Folder, newest: int, most: int, now: datetime, crowded: int = -1) -> LogStart | None:
    """Where the log of the table in a folder is to begin; None if nothing of it is to be deleted.

    newest: its newest version. most: how many earlier versions it keeps. crowded: the newest version that must go
    because there are too many files; -1 if there are not.
    """
    if newest <= most and crowded < 0:
        return None
    entries = list(log_of(table).entries())
    names = [entry.name for entry in entries]
    commits = {name: version for name in names if (version := commit_version(name)) is not None}
    checkpoints = {name: version for name in names if (version := checkpoint_version(name)) is not None}
    starts = sorted(complete_checkpoints(entries) & {*commits.values()})
    last = max([newest - most, *[version for version in starts if version > crowded >= 0][:1]])
    for version in reversed(starts):
        if version > last or (commit := read_commit(table, version)) is None:
            continue
        at = datetime.fromtimestamp(commit.at_s, UTC)
        if now - at >= LEAST_RETENTION and (identity := _identity(table, version)):
            earlier = sorted(name for name, number in (commits | checkpoints).items() if number < version)
            return LogStart(version, identity, tuple(earlier))
    return None


def delete_earlier(table: Folder, start: LogStart) -> None:
    """Delete what a log has of earlier versions."""
    for first in range(0, len(start.earlier_names), _BATCH):
        log_of(table).delete(start.earlier_names[first : first + _BATCH])


def _identity(table: Folder, version: int) -> str:
    """The Delta table's, by a version; "" if that cannot be read: the newest version may rest on its checkpoint."""
    try:
        return str(open_table(table, version).metadata().id)
    except (StoreAwayError, StoreAccessError):
        raise
    except (DeltaError, OSError):
        return ""
