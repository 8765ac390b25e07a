"""All that a coordinator has open on the source: its connection, the readers of chunks, and the poll of its load."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.base import clock
from engine.capture.tasks import ChunkGroup
from engine.run.lifecycle.source_connection import SourceConnection
from engine.run.snapshot.read_folder import ReadFolder
from engine.run.snapshot.scheduler import SnapshotScheduler
from engine.run.snapshot.throttle import Health, ReadPace, hold
from engine.source.watermarks import Candidate


@dataclass(frozen=True)
class SourceReads:
    """Used by one thread, but for `abort_waits`."""

    connection: SourceConnection
    snapshot: SnapshotScheduler
    prototype: ChunkGroup
    """A group without requests; its candidate is replaced."""
    pace: ReadPace
    health: Health
    read_folder: ReadFolder
    settled_s: float
    """No chunk is read before (`SourceAccess.settled_s`)."""
    interrupt: Callable[[], None]
    """Interrupts all jobs of the Spark session; called from another thread."""
    require_driver: Callable[[], None]
    """Raises SparkLostError if the session's driver has ended, which no job notices while there is nothing to read."""

    def assign(self, candidate: Candidate) -> None:
        """Keep the readers busy with chunks, as far as the throttle allows. candidate: for their low watermarks."""
        if clock.monotonic_s() < self.settled_s:
            return
        self.snapshot.assign(replace(self.prototype, candidate=candidate), lambda: hold(self.pace, self.health))

    def end_throttled(self) -> None:
        """Give up throttled reads, which may take long."""
        self.read_folder.end_throttled_reads()

    def abort_waits(self) -> None:
        """Abort all waits for an unreachable source, so that a stop is quick; called from another thread."""
        self.connection.abort_waits()
        self.snapshot.abort_waits()
        self.interrupt()

    def close(self) -> None:
        """Wait for running jobs, and close the connections."""
        self.health.close()
        self.read_folder.end_throttled_reads()
        self.snapshot.close()
        self.connection.close()
