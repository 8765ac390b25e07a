"""The source's binlog, of which any part can be read once more: what `outcomes.Log` asks for."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from engine.decode.stream import Run
from engine.errors import TransientError
from engine.source.connect import Endpoint, open_connection
from engine.source.positions import Position, binlog_files, file_number
from engine.source.replication import read_runs


@dataclass(frozen=True)
class BinaryLog:
    """Reads with a dump of its own each time."""

    endpoint: Endpoint
    first_server_id: int

    def read(self, start: Position, end: Position) -> Iterator[Run]:
        """The events from `start` to `end`. Raises TransientError when they are not all there yet."""
        connection = open_connection(self.endpoint)
        try:
            for run in read_runs(connection, start.file, start.offset, self.first_server_id, self.endpoint.silence_s):
                if file_number(run.file) > file_number(end.file):
                    return
                inside = run.offset <= end.offset if run.file == end.file else np.ones(len(run.offset), bool)
                if inside.any():
                    yield run.slice(0, int(inside.sum()))
                if run.file == end.file and run.offset[-1] >= end.offset:
                    return
        finally:
            connection._force_close()  # noqa: SLF001 - the server may still be sending
        raise TransientError(
            f"The binlog was read again from {start} and did not reach {end}.", detail="Nothing of it was published."
        )

    def files(self) -> dict[str, int]:
        """The files that the server has, oldest first, with their sizes."""
        with closing(open_connection(self.endpoint)) as connection:
            return binlog_files(connection)
