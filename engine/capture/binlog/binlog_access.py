"""The source's binlog from any place, and any part of it once more: what `transaction_outcomes` asks for.

A MariaDB that is killed while it writes leaves a file that ends within an event, and goes on in the next one. Its dump of such a
file ends with an error, at which its own replicas stop. What stands there is a transaction that was rolled back when the server
started again, so what follows it is in the next file. (MySQL cuts the file off when it starts.)

An event that comes damaged is asked for once more: what was damaged on its way comes right then, and the events go on where they
stopped. What is damaged again at the same place is so in the file.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import dropwhile

import numpy as np

from engine.decode.binlog_events import Kind
from engine.decode.stream import EventBatch
from engine.errors import BinlogDamagedError, SourceLostError, TransientError
from engine.source.connect import Endpoint, open_connection
from engine.source.positions import FIRST_OFFSET, Position, binlog_files, file_number
from engine.source.replication import read_runs

_TORN = "truncated in the middle of event"
"""MariaDB's text for LOG_READ_TRUNC, sql/sql_repl.cc; the number of the error is that of all errors of a dump."""


def runs_from(
    endpoint: Endpoint, start: Position, first_server_id: int, healed: Callable[[], None] = lambda: None
) -> Generator[EventBatch, None, None]:
    """The events from a position to the log's present end, over torn ends of files; each run valid until the next.

    healed: called when an event came damaged and is asked for once more. Raises BinlogDamagedError when that does not help.
    """
    place, damaged = start, None
    while True:
        connection = open_connection(endpoint)
        try:
            runs = read_runs(connection, place.file, place.offset, first_server_id, endpoint.silence_s)
            for run in runs if damaged is None else dropwhile(_opens_a_dump, runs):
                yield run
                place = Position(run.file, int(run.offset[-1]))
            return  # noqa: TRY300 - what follows is for a file that has no proper end, and for damage
        except BinlogDamagedError:
            if damaged == place:
                raise
            damaged = place
            healed()
        except SourceLostError as error:
            files = list(binary_logs(endpoint)) if _TORN in error.message else []
            if place.file not in files[:-1]:
                raise
            place = Position(files[files.index(place.file) + 1], FIRST_OFFSET)
        finally:
            connection._force_close()  # noqa: SLF001 - the server may still be sending; a polite end would wait for it


def _opens_a_dump(run: EventBatch) -> bool:
    """Whether the run is one of the artificial events that open a dump; table maps in front of them still hold."""
    return run.headers.kind[0] in (Kind.ROTATE, Kind.FORMAT_DESCRIPTION) and run.headers.end_position[0] == 0


def binary_logs(endpoint: Endpoint) -> dict[str, int]:
    """The files that the server has, oldest first, with their sizes."""
    with closing(open_connection(endpoint)) as connection:
        return binlog_files(connection)


@dataclass(frozen=True)
class BinaryLog:
    """Reads with a dump of its own each time."""

    endpoint: Endpoint
    first_server_id: int

    def read(self, start: Position, end: Position) -> Iterator[EventBatch]:
        """The events from `start` to `end`. Raises TransientError when they are not all there yet."""
        with closing(runs_from(self.endpoint, start, self.first_server_id)) as runs:
            for run in runs:
                if file_number(run.file) > file_number(end.file):
                    yield run  # so that it is seen that the file has ended
                    return
                inside = run.offset <= end.offset if run.file == end.file else np.ones(len(run.offset), bool)
                if inside.any():
                    yield run.slice(0, int(inside.sum()))
                if run.file == end.file and run.offset[-1] >= end.offset:
                    return
        raise TransientError(
            f"The binlog was read again from {start} and did not reach {end}.",
            detail="Nothing of the binlog range was published.",
            hint="It is tried again; if it stays, look at the server's error log.",
        )

    def files(self) -> dict[str, int]:
        """The files that the server has, oldest first, with their sizes."""
        return binary_logs(self.endpoint)
