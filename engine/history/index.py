"""`History`: the DuckDB index over the journals, which reads their new lines.

The index is reliable because one transaction commits a slice's rows together with the offset after it. So after any
crash, the next refresh continues exactly where the rows end. Deleting the file only costs the time to read the journals
again.

One process owns the file. A second console finds it locked and builds its own index in memory (`in_memory` says why).
While the file cannot be written, such as on a full disk, the index is behind the journals (`behind` says why); it
catches up later. Nothing but DuckDB may open the file, not even for reading: closing a plain handle releases the
owner's lock.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import duckdb
import pyarrow as pa

from engine.base import clock
from engine.base.errors import NewerFormatError
from engine.history.index_schema import JOURNAL, TABLES, UNIQUE, VERSION, create_statements
from engine.history.journal_rows import TableRow, rows_of
from engine.history.journal_slices import Slice, read_slice
from engine.journal.parts import Part, parts_in
from engine.pipeline import formats
from engine.pipeline.directory import Directory

T = TypeVar("T")
P = ParamSpec("P")
HistoryQuery = Callable[Concatenate[duckdb.DuckDBPyConnection, P], T]
_MAX_ANSWERS = 2000
_WORD = re.compile(r"\w+")
_MAX_SEQ = 2**62
_ALL_TABLES = "SELECT table_name FROM duckdb_tables() WHERE NOT internal"
_READ_TO = "SELECT pipeline, run, first, read_to, last_seq, complete FROM journal"
_ADVANCE = """
INSERT INTO journal SELECT * FROM incoming
ON CONFLICT DO UPDATE SET read_to = excluded.read_to, last_seq = excluded.last_seq, complete = excluded.complete,
    lines = lines + excluded.lines, malformed = malformed + excluded.malformed,
    malformed_text = coalesce(excluded.malformed_text, malformed_text)
"""
_BATCH = 5000
"""Lines in a transaction, at least. With one for each of 50 journals, a refresh took six times as long."""


@dataclass(frozen=True)
class _PartProgress:
    """How far a part of a journal was read."""

    offset: int = 0
    last_seq: int = 0
    complete: bool = False
    """Whether it was closed, and read to its end."""


@dataclass(frozen=True)
class _RowBatch:
    """What was read and is not committed yet: rows by table, and the state of each part's journal."""

    rows: defaultdict[str, list[TableRow]]
    parts: dict[tuple[str, str, int], TableRow]

    def add(self, pipeline: str, part: Part, piece: Slice, progress: _PartProgress) -> None:
        """Add a slice and the state after it."""
        for line in piece.lines:
            for table, row in rows_of(pipeline, line):
                self.rows[table].append(row | {"run": part.run})
        key = pipeline, part.run, part.first
        before = self.parts.get(key, {"lines": 0, "malformed": 0, "malformed_text": None})
        self.parts[key] = {
            **dict(zip(("pipeline", "run", "first"), key, strict=True)),
            "read_to": progress.offset,
            "last_seq": progress.last_seq,
            "complete": progress.complete,
            "lines": before["lines"] + len(piece.lines),
            "malformed": before["malformed"] + piece.malformed,
            "malformed_text": piece.malformed_text or before["malformed_text"],
        }

    @property
    def full(self) -> bool:
        """Whether to commit it before more is read."""
        return bool(sum(part["lines"] for part in self.parts.values()) >= _BATCH)


_Progress = dict[tuple[str, int], _PartProgress]
"""By run and first `seq`."""


Region = tuple[str | None, str]
"""A pipeline, or None for all of them, and a table of the index."""


@cache
def _tables_of(sql: str) -> frozenset[str]:
    """The index's tables that a query names, be it as a table or as a column."""
    return frozenset({*TABLES, "journal"}.intersection(_WORD.findall(sql)))


def _check(piece: Slice, part: Part) -> None:
    """Raises NewerFormatError if a newer Tidemark wrote it."""
    for line in piece.lines:
        if line.event == "run.started":
            formats.check("journal", line.body, part.path)


@dataclass(frozen=True)
class _CachedAnswer:
    """The result of a query, and the numbers of what it has read."""

    content: Any
    regions: Mapping[Region, int]
    forgotten: int


class _Reading:
    """A cursor that records what is read.

    Queries of this package only call `execute`, `description` and the fetching methods.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, history: "History") -> None:
        self._cursor = cursor
        self._history = history
        self.regions: set[Region] = set()

    def ask(self, query: HistoryQuery[P, T], *args: P.args, **options: P.kwargs) -> T:
        """The answer of a part of the query (`fetch.part`)."""
        answer = self._history.answer(query, *args, **options)
        self.regions |= answer.regions.keys()
        content: T = answer.content
        return content

    def memory(self, key: Hashable) -> dict[Any, Any]:
        """A dictionary for the query to keep what it may use the next time (`fetch.memory`)."""
        return self._history.memories.setdefault(key, {})

    def execute(self, sql: str, parameters: Mapping[str, object] | None = None) -> duckdb.DuckDBPyConnection:
        """As DuckDB's."""
        pipeline = (parameters or {}).get("pipeline")
        self.regions |= {(pipeline if isinstance(pipeline, str) else None, table) for table in _tables_of(sql)}
        return self._cursor.execute(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@dataclass(frozen=True)
class Refresh:
    """The result of a refresh."""

    lines: int
    malformed: int
    unreadable: tuple[str, ...]
    """Journals that could not be read, with the reasons."""


class History:
    """The index. Thread-safe, as long as each thread uses its own `cursor`."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the index at `path`.

        In memory if that is None, belongs to another process, or has a newer version.
        """
        self.in_memory: str | None = None if path else "no file was asked for"
        self._lock = threading.Lock()
        self._refreshed_s = float("-inf")
        self._last = Refresh(0, 0, ())
        self._added: Counter[Region] = Counter()
        """How often rows were added."""
        self._forgotten = 0
        """How often rows were deleted, or may have been read in part."""
        self._answers_lock = threading.RLock()  # a query may ask for parts of its answer
        self._answers: dict[Any, _CachedAnswer] = {}
        self.memories: dict[Hashable, dict[Any, Any]] = {}
        """What queries keep (`fetch.memory`), until rows are deleted. One thread at a time uses it, as `_answers`."""
        self._connection = self._open(path)
        self.behind: str | None = None
        tables = self._tables()
        newer = [int(name[8:]) for name in tables if name.startswith("version_") and int(name[8:]) > VERSION]
        if newer:
            self._connection.close()
            self.in_memory = f"{path} is of version {max(newer)}, which a newer Tidemark made; it is not changed"
            self._connection, tables = duckdb.connect(":memory:"), set()
        if tables and f"version_{VERSION}" not in tables:
            for table in tables:
                self._connection.execute(f'DROP TABLE "{table}"')
        for statement in create_statements():
            self._connection.execute(statement)

    def _tables(self) -> set[str]:
        return {str(row[0]) for row in self._connection.execute(_ALL_TABLES).fetchall()}

    def _open(self, path: Path | None) -> duckdb.DuckDBPyConnection:
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                return duckdb.connect(path)
            except (duckdb.Error, OSError) as error:
                locked = "lock" in str(error).lower()
                self.in_memory = "another process owns the index" if locked else f"the index cannot be opened: {error}"
        return duckdb.connect(":memory:")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor for the queries of one thread."""
        return self._connection.cursor()

    def ask(self, query: HistoryQuery[P, T], *args: P.args, **options: P.kwargs) -> T:
        """The result of one of this package's queries, cached.

        It stays until a refresh adds rows of that pipeline to a table that the query reads.

        Parts of a page, and several browsers, ask the same within a second; and most pipelines and tables change
        rarely.
        """
        content: T = self.answer(query, *args, **options).content
        return content

    def answer(self, query: HistoryQuery[P, T], *args: P.args, **options: P.kwargs) -> _CachedAnswer:
        """As `ask`, with what was read."""
        question = query, args, tuple(sorted(options.items()))
        with self._answers_lock:
            cached = self._answers.get(question)
            if cached is None or not self._is_current(cached):
                # Before the query: rows that are added meanwhile make its result outdated.
                forgotten, added = self._forgotten, self._added.copy()
                cursor: Any = _Reading(self.cursor(), self)
                content = query(cursor, *args, **options)
                cached = _CachedAnswer(content, {part: added[part] for part in cursor.regions}, forgotten)
                if len(self._answers) >= _MAX_ANSWERS:
                    self._answers.clear()
                self._answers[question] = cached
        return cached

    def _is_current(self, answer: _CachedAnswer) -> bool:
        regions = answer.regions.items()
        return answer.forgotten == self._forgotten and all(self._added[part] == number for part, number in regions)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def refresh(
        self, directories: Iterable[Directory] | Callable[[], Iterable[Directory]], *, min_interval_s: float = 0.0
    ) -> Refresh:
        """Read the new lines of these pipelines' journals. A pipeline's name is that of its directory.

        directories: or what finds them, which is called only if the journals are read. min_interval_s: do nothing if
        the last refresh is younger, as many browsers share one index.
        """
        with self._lock:
            if clock.monotonic_s() - self._refreshed_s < min_interval_s:
                return self._last
            try:
                pipelines = directories() if callable(directories) else directories
                self._last = self._read_journals(pipelines)
                self.behind = None
            except (duckdb.IOException, duckdb.TransactionException) as error:
                self._defer(error)
            self._refreshed_s = clock.monotonic_s()
            return self._last

    def _defer(self, error: duckdb.Error) -> None:
        """Keep what is committed; a later refresh reads the rest."""
        if self.in_memory:
            raise error
        self.behind = f"the index cannot be written: {str(error).splitlines()[0]}"
        self._outdate()  # some journals may have been read

    def _read_journals(self, directories: Iterable[Directory]) -> Refresh:
        lines, malformed, unreadable = 0, 0, []
        progress_by_part: defaultdict[str, _Progress] = defaultdict(dict)
        for pipeline, run, first, *progress in self.cursor().execute(_READ_TO).fetchall():
            progress_by_part[pipeline][run, first] = _PartProgress(*progress)
        batch = _RowBatch(defaultdict(list), {})
        for directory in directories:
            pipeline, parts = directory.root.name, parts_in(directory.journals)
            self._forget_deleted(pipeline, progress_by_part[pipeline], parts, directory.journals)
            for part in parts:
                try:
                    new, bad = self._read_part(pipeline, part, progress_by_part[pipeline], batch)
                except FileNotFoundError:  # retention has deleted it
                    continue
                except (OSError, EOFError) as error:
                    unreadable.append(f"{part.path.name}: {getattr(error, 'strerror', None) or error}")
                    continue
                except NewerFormatError as error:
                    unreadable.append(error.message)
                    continue
                lines, malformed = lines + new, malformed + bad
        self._commit(batch)
        return Refresh(lines, malformed, tuple(unreadable))

    def _forget_deleted(self, pipeline: str, progress_by_part: _Progress, parts: list[Part], journals: Path) -> None:
        """Delete the rows of parts that are gone. Not if there is no part at all: their disk may not be there."""
        listed = {(part.run, part.first) for part in parts}
        if not listed or progress_by_part.keys() <= listed:
            return
        # A listing may lack a part that is being compressed.
        listed |= {(part.run, part.first) for part in parts_in(journals)}
        for run, first in sorted(progress_by_part.keys() - listed):
            self._forget(pipeline, run, first, [*progress_by_part, *listed])
            del progress_by_part[run, first]

    def _read_part(self, pipeline: str, part: Part, progress_by_part: _Progress, batch: _RowBatch) -> tuple[int, int]:
        """Read a part's new lines. Returns the numbers of lines and of malformed lines."""
        progress = progress_by_part.get((part.run, part.first), _PartProgress())
        if progress.complete:
            return 0, 0
        if not part.compressed:
            size = part.path.stat().st_size
            if size < progress.offset:  # it was replaced
                self._forget(pipeline, part.run, part.first, progress_by_part)
                progress = _PartProgress()
            if size == progress.offset and not (part.closed and size):
                return 0, 0
        lines = malformed = 0
        with part.open() as file:
            while True:
                piece = read_slice(file, progress.offset, progress.last_seq)
                complete = part.closed and not piece.more
                if piece.offset == progress.offset and not complete:
                    break
                _check(piece, part)
                progress = _PartProgress(
                    piece.offset, piece.lines[-1].seq if piece.lines else progress.last_seq, complete
                )
                batch.add(pipeline, part, piece, progress)
                if batch.full:
                    self._commit(batch)
                progress_by_part[part.run, part.first] = progress
                lines, malformed = lines + len(piece.lines), malformed + piece.malformed
                if not piece.more:
                    break
        return lines, malformed

    def _commit(self, batch: _RowBatch) -> None:
        """Commit a batch, and empty it."""
        if not batch.parts:
            return
        cursor = self.cursor()
        cursor.begin()
        try:
            for table, rows in batch.rows.items():
                cursor.register("incoming", pa.Table.from_pylist(rows, schema=TABLES[table]))
                insert = "INSERT OR IGNORE" if table in UNIQUE else "INSERT"
                cursor.execute(f'{insert} INTO "{table}" SELECT * FROM incoming')
                cursor.unregister("incoming")
            cursor.register("incoming", pa.Table.from_pylist(list(batch.parts.values()), schema=JOURNAL))
            cursor.execute(_ADVANCE)
            cursor.unregister("incoming")
            cursor.commit()
        except duckdb.Error:
            with suppress(duckdb.Error):  # the failed commit has ended the transaction
                cursor.rollback()
            raise
        added = {(row["pipeline"], table) for table, rows in batch.rows.items() for row in rows}
        added |= {(pipeline, "journal") for pipeline, _, _ in batch.parts}
        self._added.update(added | {(None, table) for _, table in added})
        batch.rows.clear()
        batch.parts.clear()

    def _forget(self, pipeline: str, run: str, first: int, parts: Iterable[tuple[str, int]]) -> None:
        """Delete the rows of a part that is gone or was replaced: those up to the run's next part in `parts`."""
        end = min((other for its, other in parts if its == run and other > first), default=_MAX_SEQ)
        cursor = self.cursor()
        cursor.begin()
        for table in TABLES:
            cursor.execute(
                f'DELETE FROM "{table}" WHERE pipeline = ? AND run = ? AND seq >= ? AND seq < ?',
                [pipeline, run, first, end],
            )
        cursor.execute("DELETE FROM journal WHERE pipeline = ? AND run = ? AND first = ?", [pipeline, run, first])
        cursor.commit()
        self._outdate()

    def _outdate(self) -> None:
        """Let no query use what was known."""
        self._forgotten += 1
        self.memories.clear()
