"""Parked chunks: each failed repeatedly, and not because of the source. Everything else continues without them.

Nothing of a parked chunk's range is published: emission treats it as a chunk that is not read yet. It is retried once
when the next run begins, and like any other chunk when an operator resumes its table. A file that outlives the run
(`directory.parked`) records parked chunks for `status` and the next run; the ledger only has them as pending.
"""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict

from engine.base import clock
from engine.base.durable import write_atomically
from engine.base.errors import ChunksParkedError, TidemarkError
from engine.base.wording import listing, shell_word
from engine.journal import Journal
from engine.journal.events import ChunkParked, ChunkUnparked
from engine.ledger.state import TableState
from engine.pipeline.directory import Directory
from engine.pipeline.saved_lists import ParkedRead, list_text, read_parked
from engine.plan.chunks import Range, text

_NAMED = 5


class Parking:
    """The parked chunks of a pipeline in one run."""

    def __init__(self, directory: Directory, journal: Journal) -> None:
        self._directory = directory
        self._journal = journal
        self._chunks: dict[tuple[str, int], ParkedRead] = {}
        self._retry_requests: list[frozenset[str] | None] = []
        with suppress(ValueError, OSError, TypeError, KeyError):  # without the file, they are read like any other chunk
            self._chunks = {(parked.table, parked.chunk): parked for parked in read_parked(directory)}

    def pending(self, tables: Mapping[str, TableState]) -> list[ParkedRead]:
        """Parked chunks that are still pending, of tables that are captured and not stopped."""
        pending = {name: table.coverage.pending for name, table in tables.items() if not table.stopped}
        parked = self._chunks.values()
        return [p for p in parked if (now := pending.get(p.table, {}).get(p.chunk)) and now.as_list() == p.limits]

    def keep_only(self, tables: Container[str]) -> None:
        """Unpark the chunks of all other tables."""
        for name, number in list(self._chunks):
            if name not in tables:
                self.unpark(name, number, "the table is no longer captured")

    def of(self, table: str) -> dict[int, ParkedRead]:
        """A table's parked chunks, by number."""
        return {number: parked for (name, number), parked in self._chunks.items() if name == table}

    def reconcile(self, table: str, pending: Mapping[int, Range]) -> dict[int, ParkedRead]:
        """A table's parked chunks; unparks those that are no longer pending with the same range."""
        for number, parked in self.of(table).items():
            if number not in pending or pending[number].as_list() != parked.limits:
                self.unpark(table, number, "the table is split again")
        return self.of(table)

    def park(self, table: str, chunk: int, limits: Range, error: TidemarkError, attempts: int) -> None:
        """Record a parked chunk and journal it."""
        earlier = self._chunks.get((table, chunk))
        since = earlier.since if earlier else clock.utc_text()
        parked = ParkedRead(
            table=table,
            chunk=chunk,
            limits=limits.as_list(),
            lower=text(limits.lower),
            upper=text(limits.upper),
            error=type(error).__name__,
            message=error.message,
            hint=error.hint,
            attempts=attempts,
            since=since,
        )
        self._chunks[table, chunk] = parked
        self._save()
        facts = {name: value for name, value in asdict(parked).items() if name != "limits"}
        self._journal.write(ChunkParked(**facts, parked=len(self.of(table))))

    def unpark(self, table: str, chunk: int, reason: str) -> None:
        """Unpark a chunk that was read or no longer exists."""
        if self._chunks.pop((table, chunk), None) is not None:
            self._save()
            self._journal.write(ChunkUnparked(table=table, chunk=chunk, reason=reason, parked=len(self.of(table))))

    def request_retry(self, tables: Iterable[str] | None) -> None:
        """Request a retry of the parked chunks of these tables (None: all). Thread-safe."""
        self._retry_requests.append(None if tables is None else frozenset(tables))

    def take_retries(self, tables: Iterable[str]) -> list[str]:
        """Those of the tables with a retry requested since the last call."""
        requests, self._retry_requests = self._retry_requests, []
        return [name for name in tables if any(names is None or name in names for names in requests)]

    def require_none(self, tables: Mapping[str, TableState]) -> None:
        """Raises ChunksParkedError when the tables have parked chunks."""
        chunks = self.pending(tables)
        if not chunks:
            return
        raise ChunksParkedError(
            f"{len(chunks)} of the chunks could not be read and are parked: "
            f"{listing([parked.describe() for parked in chunks], _NAMED)}. {chunks[0].message}",
            detail="Nothing of their ranges is published as exact; the rest is copied, and the binlog was streamed.",
            hint=f"{chunks[0].hint} Each run tries them again; so does: tidemark resume SPEC --table "
            f"{shell_word(chunks[0].table)}",
        )

    def _save(self) -> None:
        with suppress(OSError):  # a full disk: the journal has them, and the next run reads them like others
            if self._chunks:
                records = [asdict(parked) for parked in self._chunks.values()]
                write_atomically(self._directory.parked, list_text("parked", records))
            else:
                self._directory.parked.unlink(missing_ok=True)
