"""The tables whose destination is not what the ledger has published, by the error that ended the newest run.

Files are gone, or a folder was restored or replaced. Whatever was verified before that run says nothing about them.
"""

from dataclasses import dataclass

from engine.base.errors import MismatchError
from engine.pipeline.runner_record import RunnerRecord


@dataclass(frozen=True)
class Mismatch:
    """What the newest run found, which ended for that."""

    tables: frozenset[str]
    since: str
    """When the run ended: UTC text."""


def mismatch_of(runner: RunnerRecord | None) -> Mismatch | None:
    """What the error that ended the newest run says; None if it ended otherwise, or a later one is alive."""
    if runner is None or runner.alive or runner.error is None or runner.error.error != MismatchError.__name__:
        return None
    tables = runner.error.resnapshots
    return Mismatch(frozenset(tables), runner.heartbeat) if tables else None
