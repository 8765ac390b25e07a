"""Whether a pipeline has everything that a source's binlog has now."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

from engine.base import clock
from engine.source.connect import describe
from engine.source.positions import Position, current, position_from_text
from tests.servers import Server


@dataclass(frozen=True)
class BinlogEnd:
    """The end of a source's binlog at a time."""

    position: Position
    at: str
    """UTC text."""

    @classmethod
    def now(cls, server: Server) -> Self:
        """The end now."""
        at = clock.utc_text()
        with closing(server.connect()) as connection:
            return cls(current(connection, describe(connection)), at)

    def is_reached(self, lag: Mapping[str, Any]) -> bool:
        """Whether everything up to here was committed by a `source.lag` of the journal.

        One that is written after the time may have been measured before.
        """
        measured = position_from_text(lag["source_position"]).order
        return bool(lag["ts"] > self.at and lag["lag_bytes"] == 0 and measured >= self.position.order)
