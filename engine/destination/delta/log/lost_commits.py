"""Commits that were in a Delta log and are gone: somebody deleted them, and maybe the next writer took their numbers.

A reader of such a log cannot know: it shows an earlier version, whose rows are wrong. The next commit would rest on
that, and from then on nothing tells that changes are missing. So a log remembers the newest version that it has seen,
with its transaction identifiers. Whatever is committed after that has them all, each as large as it was, or larger.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.errors import MissingFilesError
from engine.destination.delta.log.log_files import commit_name, commit_version, complete_checkpoints, log_of
from engine.store.folder import Folder


@dataclass(frozen=True)
class SeenVersion:
    """A version that a log had."""

    number: int
    stamp: str | None
    """Of its commit's file."""
    transactions: Mapping[str, int]


def check_follows(folder: Folder, seen: SeenVersion, number: int, transactions: Mapping[str, int]) -> None:
    """Raises MissingFilesError if a version does not follow the one that was seen, because that one's commit is gone.

    transactions: the identifiers of the version, of all applications that were looked up.
    """
    lacks = any(transactions.get(app, -1) < epoch for app, epoch in seen.transactions.items())
    if seen.number < 0 or (number >= seen.number and not lacks):
        return
    entry = log_of(folder).find(commit_name(seen.number))
    if entry is not None and entry.tag == seen.stamp:
        return  # the listing lacks it: the commit fails, and the log is read again
    raise lost_commit(folder, seen.number)


def check_contiguous(folder: Folder) -> None:
    """Raises MissingFilesError if a commit is gone or empty on which later ones rest. Lists the log of the table.

    A writer that keeps the newest version in memory does not notice, and readers of the table fail, or see wrong rows.
    """
    log = log_of(folder)
    entries = list(log.entries())
    floor = max(complete_checkpoints(entries), default=-1)
    sizes = {n: one.size for one in entries if (n := commit_version(one.name)) is not None and n > floor}
    for version in range(floor + 1, max(sizes, default=-1)):
        if not sizes.get(version) and ((entry := log.find(commit_name(version))) is None or not entry.size):
            raise lost_commit(folder, version)  # and the listing did not just lack a new commit


def lost_commit(folder: Folder, version: int) -> MissingFilesError:
    """The error for a version whose commit is gone."""
    return MissingFilesError(
        f"A commit of the Delta log in {folder.url} is gone: its newest version was {version}.",
        detail="Somebody deleted it or replaced it by another one. The table shows an earlier state, and nothing was "
        "written to it.",
        hint="Find out who deletes files in _delta_log. Nobody but the writers of a Delta table may do that.",
    )
