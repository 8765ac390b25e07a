"""Where the newest epochs end in the binlog: each Delta commit names that of its epoch (`commitInfo.userMetadata`).

It is for people and other programs: nothing here reads it. After a restart the ledger's epochs are noted again, so only
a merge of epochs that are older than the noted ones has none.
"""

from collections.abc import Iterable

from engine.destination.destination_protocol import EpochEnd

_MOST = 1000
"""The newest epochs that stay in memory: a GTID set may be long."""


class EpochPositions:
    """The ends of a destination's newest epochs. Several threads may use it."""

    def __init__(self) -> None:
        self._ends: dict[int, EpochEnd] = {}

    def note(self, ends: Iterable[EpochEnd]) -> None:
        """Take the ends of epochs."""
        merged = {**self._ends, **{end.epoch: end for end in ends}}
        self._ends = {epoch: merged[epoch] for epoch in sorted(merged)[-_MOST:]}

    def describe(self, epoch: int) -> dict[str, str]:
        """The position and the GTID set of an epoch; empty if they are not known."""
        end = self._ends.get(epoch)
        if end is None:
            return {}
        gtids = {} if end.gtids is None else {"tidemark.gtids": end.gtids}
        return {"tidemark.position": end.position, **gtids}
