"""The thread that cuts tables into chunks, a bounded number of them ahead of the readers, on a connection of its own.

It keeps nothing: it is given a range that is not cut yet and gives back what it cut off it. So the log never waits for a walk.

How bounds are found is in `plan.cutting`. A chunk that turns out too large: its reader stops at twice the planned rows
(`ChunkRequest.most`), and `TableCopy.shorten` has the rest cut again.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pymysql

from engine.decode.schema import Table
from engine.errors import TidemarkError, TransientError
from engine.plan.chunks import Plan
from engine.plan.coverage import Cut, Uncut
from engine.plan.cutting import cut
from engine.source.connect import Connection, Endpoint, break_off, open_connection

_PATIENCE_S = 0.2


class ChunkSplitter:
    """Cuts; one range of a table at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="chunk-splitter")
        self._jobs: dict[str, Future[Cut]] = {}

    def start(self, table: Table, plan: Plan, piece: Uncut, most: int) -> None:
        """Begin to cut up to `most` chunks off a range, if nothing of this table is being cut."""
        if table.full_name not in self._jobs:
            self._jobs[table.full_name] = self._thread.submit(self._cut, table, plan, piece, most)

    def done(self) -> dict[str, Future[Cut]]:
        """What has been cut since the last call, by table; `result` raises what went wrong."""
        done = {name: job for name, job in self._jobs.items() if job.done()}
        self._jobs = {name: job for name, job in self._jobs.items() if name not in done}
        return done

    def forget(self, table: str) -> None:
        """What is just being cut of a table is of no use any more."""
        self._jobs.pop(table, None)

    def let_go(self) -> None:
        """Wait for no answer of the source; another thread asks for it."""
        if (connection := self._connection) is not None:
            break_off(connection)

    def close(self) -> None:
        """End the thread; what it is just cutting is forgotten."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._drop()

    def _cut(self, table: Table, plan: Plan, piece: Uncut, most: int) -> Cut:
        try:
            if self._connection is None:
                self._connection = open_connection(self._endpoint)
            return cut(self._connection, table, plan.key(table), plan, piece, most, _PATIENCE_S)
        except TidemarkError:
            self._drop()
            raise
        except Exception as error:
            self._drop()
            raise TransientError(
                f"Cutting {table.full_name} into chunks failed: {type(error).__name__}: {error}",
                detail="Nothing was published wrongly; what is cut already is read.",
                hint="It is tried again. If it stays, report it with `tidemark bundle SPEC`.",
            ) from error

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.Error, OSError):
                self._connection.close()
        self._connection = None
