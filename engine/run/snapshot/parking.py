"""Chunks that are parked: each failed again and again, through no fault of the source; all else goes on without them.

Nothing of a parked chunk's range is published: to the log it is a chunk that is not read yet. It is tried again when the next run
begins, once, and when an operator resumes its table, as often as any other. What is parked is kept in a file that outlives the
run (`directory.parked`), for `status` and for the next run; the ledger knows no more than that these chunks are pending.
"""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from engine import clock
from engine.directory import Directory, list_text, read_parked, write_atomically
from engine.errors import ChunksParkedError, TidemarkError
from engine.events import ChunkParked, ChunkUnparked
from engine.journal import Journal
from engine.ledger.state import TableState
from engine.plan.chunks import Range, text

_NAMED = 5


@dataclass(frozen=True)
class Parked:
    """A chunk that is parked."""

    table: str
    chunk: int
    limits: list[Any]
    """The chunk's range (`Range.as_list`)."""
    lower: str | None
    upper: str | None
    """`lower` and `upper` are the range's bounds as texts."""
    error: str
    message: str
    hint: str
    attempts: int
    """Failures in a row."""
    since: str

    def describe(self) -> str:
        """In words."""
        return f"{self.table} chunk {self.chunk} [{self.lower or '…'}, {self.upper or '…'})"


class Parking:
    """The parked chunks of a pipeline, as one run knows them."""

    def __init__(self, directory: Directory, journal: Journal) -> None:
        self._directory, self._journal = directory, journal
        self._chunks: dict[tuple[str, int], Parked] = {}
        self._asked: list[frozenset[str] | None] = []
        with suppress(ValueError, OSError, TypeError, KeyError):  # what cannot be read is tried like any other chunk
            self._chunks = {(p.table, p.chunk): p for p in (Parked(**record) for record in read_parked(directory))}

    def left(self, tables: Mapping[str, TableState]) -> list[Parked]:
        """What is parked of chunks that are still to be read: of no table that stopped, or is not there any more."""
        pending = {name: table.coverage.pending for name, table in tables.items() if not table.stopped}
        parked = self._chunks.values()
        return [p for p in parked if (now := pending.get(p.table, {}).get(p.chunk)) and now.as_list() == p.limits]

    def keep_of(self, tables: Container[str]) -> None:
        """Forget what is parked of all other tables."""
        for name, number in list(self._chunks):
            if name not in tables:
                self.free(name, number, "the table is not there any more")

    def of(self, table: str) -> dict[int, Parked]:
        """What is parked of a table, by number."""
        return {number: parked for (name, number), parked in self._chunks.items() if name == table}

    def known(self, table: str, pending: Mapping[int, Range]) -> dict[int, Parked]:
        """What is parked of the chunks of a table; what was, and is not among them any more, is forgotten."""
        for number, parked in self.of(table).items():
            if number not in pending or pending[number].as_list() != parked.limits:
                self.free(table, number, "the table is split again")
        return self.of(table)

    def park(self, table: str, chunk: int, limits: Range, error: TidemarkError, attempts: int) -> None:
        """Keep it, and tell so."""
        known = self._chunks.get((table, chunk))
        since = known.since if known else clock.utc_text()
        parked = Parked(
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
        self._keep()
        facts = {name: value for name, value in asdict(parked).items() if name != "limits"}
        self._journal.write(ChunkParked(**facts, parked=len(self.of(table))))

    def free(self, table: str, chunk: int, reason: str) -> None:
        """It is parked no more, as it was read or is no chunk any more."""
        if self._chunks.pop((table, chunk), None) is not None:
            self._keep()
            self._journal.write(ChunkUnparked(table=table, chunk=chunk, reason=reason, parked=len(self.of(table))))

    def ask(self, tables: Iterable[str] | None) -> None:
        """What is parked of these tables (None: of all) is to be tried again; may be called by any thread."""
        self._asked.append(None if tables is None else frozenset(tables))

    def asked(self, tables: Iterable[str]) -> list[str]:
        """Those of the tables for which that was asked since the last call."""
        asked, self._asked = self._asked, []
        return [name for name in tables if any(names is None or name in names for names in asked)]

    def require_none(self, tables: Mapping[str, TableState]) -> None:
        """Raises ChunksParkedError when something of the tables is parked."""
        chunks = self.left(tables)
        if not chunks:
            return
        more = f" and {len(chunks) - _NAMED} more" if len(chunks) > _NAMED else ""
        raise ChunksParkedError(
            f"{len(chunks)} of the chunks could not be read and are parked: "
            f"{', '.join(parked.describe() for parked in chunks[:_NAMED])}{more}. {chunks[0].message}",
            detail="Nothing of their ranges is published as exact; the rest is copied, and the binlog was streamed.",
            hint=f"{chunks[0].hint} Each run tries them again; so does: tidemark resume SPEC --table {chunks[0].table}",
        )

    def _keep(self) -> None:
        with suppress(OSError):  # a full disk: the journal has them, and the next run tries them like others
            if self._chunks:
                kept = [asdict(parked) for parked in self._chunks.values()]
                write_atomically(self._directory.parked, list_text("parked", kept))
            else:
                self._directory.parked.unlink(missing_ok=True)
