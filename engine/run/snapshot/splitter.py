"""The thread that splits tables into chunks, a bounded number ahead of the readers, on its own connection.

It is stateless: it receives a range that is not split yet and returns the chunks split off. So the binlog never waits
for a walk.

`plan.next_chunks` finds the bounds. A reader stops at twice the planned rows of a chunk that is too large
(`ChunkRequest.max_rows`), and `TableCopy.shorten` queues the rest to be split again.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pymysql

from engine.base.errors import TidemarkError, TransientError
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.plan.coverage import Split, Unsplit
from engine.plan.next_chunks import split
from engine.source.connect import Connection, Endpoint, break_off, open_connection
from engine.source.turns import Turns

_PATIENCE_S = 0.2


class ChunkSplitter:
    """Splits tables, one range of a table at a time."""

    def __init__(self, endpoint: Endpoint, turns: Turns | None = None) -> None:
        self._endpoint = endpoint
        self._turns = turns or Turns()
        self._connection: Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="chunk-splitter")
        self._jobs: dict[str, Future[Split]] = {}

    def start(self, table: Table, plan: Plan, piece: Unsplit, most: int) -> None:
        """Start to split up to `most` chunks off a range, unless this table is being split already."""
        if table.full_name not in self._jobs:
            self._jobs[table.full_name] = self._thread.submit(self._split, table, plan, piece, most)

    def done(self) -> dict[str, Future[Split]]:
        """The results since the last call, by table; `result` raises the split's error."""
        done = {name: job for name, job in self._jobs.items() if job.done()}
        self._jobs = {name: job for name, job in self._jobs.items() if name not in done}
        return done

    def forget(self, table: str) -> None:
        """Ignore the running split of a table."""
        self._jobs.pop(table, None)

    def abort_waits(self) -> None:
        """Abort waits for the source's answer; called from another thread."""
        if (connection := self._connection) is not None:
            break_off(connection)

    def close(self) -> None:
        """End the thread, ignoring its current result."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._drop()

    def _split(self, table: Table, plan: Plan, piece: Unsplit, most: int) -> Split:
        try:
            with self._turns.take(1):
                if self._connection is None:
                    self._connection = open_connection(self._endpoint)
                result = split(self._connection, table, plan.key(table), plan, piece, most, _PATIENCE_S)
                if self._turns.few:
                    self._drop()
            return result  # noqa: TRY300 - the errors are those of the lines above
        except TidemarkError:
            self._drop()
            raise
        except Exception as error:
            self._drop()
            raise TransientError(
                f"Splitting {table.full_name} into chunks failed: {type(error).__name__}: {error}",
                detail="Nothing was published wrongly. Chunks that are split off already are read.",
                hint="Tidemark retries. If this persists, report it with `tidemark bundle SPEC`.",
            ) from error

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.Error, OSError):
                self._connection.close()
        self._connection = None
