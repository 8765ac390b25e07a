"""Reads the source's binlog from any position, and any part of it again, as `transaction_outcomes` requires.

A MariaDB server that is killed during a write leaves a file that ends in the middle of an event, and continues in the
next file. A dump of the torn file ends with an error that also stops MariaDB's own replicas. The torn transaction was
rolled back when the server restarted, so the binlog continues in the next file. (MySQL truncates the file when it
starts.)

A damaged event is requested again. Damage in transit disappears on the second read, and reading continues where it
stopped. If the event is damaged again at the same place, the file itself is damaged.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import dropwhile

import numpy as np

from engine.base.errors import BinlogDamagedError, SourceLostError, TransientError
from engine.decode.binlog_events import Kind
from engine.decode.stream import EventBatch
from engine.source.connect import Endpoint, open_connection
from engine.source.positions import FIRST_OFFSET, Position, binlog_files, file_number
from engine.source.replication import read_runs

_TORN_END = "truncated in the middle of event"
"""MariaDB's text for LOG_READ_TRUNC, sql/sql_repl.cc. The error number is the same for all errors of a dump."""


def runs_from(
    endpoint: Endpoint, start: Position, first_server_id: int, on_damage: Callable[[], None] = lambda: None
) -> Generator[EventBatch, None, None]:
    """Yield the events from a position to the log's current end, across torn files. Each run is valid until the next.

    on_damage: called when a damaged event is requested again. Raises BinlogDamagedError if that does not help.
    """
    place, damaged = start, None
    while True:
        connection = open_connection(endpoint)
        try:
            runs = read_runs(connection, place.file, place.offset, first_server_id, endpoint.silence_s)
            for run in runs if damaged is None else dropwhile(_opens_a_dump, runs):
                yield run
                place = Position(run.file, int(run.offset[-1]))
            return  # noqa: TRY300 - what follows handles torn files and damaged events
        except BinlogDamagedError:
            if damaged == place:
                raise
            damaged = place
            on_damage()
        except SourceLostError as error:
            files = binary_logs(endpoint) if _TORN_END in error.message else []
            if place.file not in files[:-1]:
                raise
            place = Position(files[files.index(place.file) + 1], FIRST_OFFSET)
        finally:
            connection._force_close()  # noqa: SLF001 - the server may still be sending; a clean close would wait for it


def _opens_a_dump(run: EventBatch) -> bool:
    """Whether the run is one of the artificial events that open a dump. Earlier table maps stay valid."""
    return run.headers.kind[0] in (Kind.ROTATE, Kind.FORMAT_DESCRIPTION) and run.headers.end_position[0] == 0


def binary_logs(endpoint: Endpoint) -> list[str]:
    """The server's binlog files, oldest first."""
    with closing(open_connection(endpoint)) as connection:
        return list(binlog_files(connection))


@dataclass(frozen=True)
class BinaryLog:
    """The binlog; each read opens its own dump."""

    endpoint: Endpoint
    first_server_id: int

    def read_batches(self, start: Position, end: Position) -> Iterator[EventBatch]:
        """Yield the events from `start` to `end`. Raises TransientError if the binlog does not reach `end` yet."""
        with closing(runs_from(self.endpoint, start, self.first_server_id)) as runs:
            for run in runs:
                if file_number(run.file) > file_number(end.file):
                    yield run  # shows that the file has ended
                    return
                inside = run.offset <= end.offset if run.file == end.file else np.ones(len(run.offset), bool)
                if inside.any():
                    yield run.slice(0, int(inside.sum()))
                if run.file == end.file and run.offset[-1] >= end.offset:
                    return
        raise TransientError(
            f"A second read of the binlog from {start} did not reach {end}.",
            detail="Nothing of the binlog range was published.",
            hint="Tidemark retries. If it keeps failing, look at the server's error log.",
        )

    def files(self) -> list[str]:
        """The server's binlog files, oldest first."""
        return binary_logs(self.endpoint)
