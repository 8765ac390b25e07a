"""Which captured tables a write that is logged as a statement can have reached.

    its own tables       `capture.binlog.written_tables`
    + triggers           every table, view and routine whose name occurs in the body of a trigger on a reached table
    + foreign keys       tables whose rows follow those of a reached one (ON DELETE / ON UPDATE CASCADE, SET NULL, SET
                         DEFAULT)
    + views              a written view leads to every table and view that its text names
    + routines           every table, view and routine whose name occurs in the body of a called routine

and so on until nothing is added. A name counts wherever it occurs, read or written, in any database: a table too many
costs a needless copy, one too few would be wrong.

Every captured table counts as reached if the reach is unknown: the statement is not understood; a body is hidden, or
builds SQL at run time (PREPARE, EXECUTE); a reached table's engine forwards writes; the user's grants do not show the
whole catalogue; or the binlog after the statement has another that defines or alters anything, so that the catalogue
may have changed. Definitions by a session with `sql_log_bin = 0` are in no binlog, and are not seen here.
"""

import re
from collections.abc import Collection, Iterator

import numpy as np

from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.statements import Alteration, read
from engine.capture.binlog.written_tables import WrittenTables, words_of
from engine.decode.binlog_events import Kind, among
from engine.decode.query_event import Query, read_query
from engine.decode.stream import EventBatch
from engine.decode.unfold import STATEMENTS, unfolded
from engine.source.connect import Connection, Endpoint, Server
from engine.source.positions import Position, current, file_number
from engine.source.programs import FoldedName, Programs, read_programs

_DEFINES = re.compile(r"(?i)^(SET\s+STATEMENT|CREATE|ALTER|DROP|RENAME|TRUNCATE)\b(?!\s+(USER|ROLE)\b)")
_BUILDS = frozenset(("prepare", "execute", "immediate"))


def reached(programs: Programs, written: WrittenTables) -> frozenset[FoldedName] | None:
    """The tables and views that a statement can write to; None, for all, if that is unknown. Pure."""
    if written.is_unknown or not programs.whole:
        return None
    reach: set[FoldedName] = set()
    called: set[str] = set()
    tables, routines = set(written.tables), {name for name in written.routines if name in programs.routines}
    while tables or routines:
        reach |= tables
        called |= routines
        bodies = [body for name in routines for body in programs.routines[name]]
        bodies += [body for name in tables for body in programs.triggers.get(name, ())]
        bodies += [programs.views[name] for name in tables & programs.views.keys()]
        words: set[str] = set()
        for body in bodies:
            if body is None or (named := words_of(body)) & _BUILDS:
                return None
            words |= named
        if tables & programs.forwarding:
            return None
        nearby = {child for name in tables for child in programs.referring.get(name, ())}
        tables = (nearby | {name for name in programs.tables if name[1] in words}) - reach
        routines = {name for name in programs.routines if name in words} - called
    return frozenset(reach)


def tables_reached(
    alteration: Alteration,
    connection: Connection,
    endpoint: Endpoint,
    server: Server,
    end: Position,
    first_server_id: int,
) -> Collection[str]:
    """The captured tables that an alteration concerns, by full name; for a write, those that it reaches.

    end: the binlog position after the statement.
    """
    if alteration.written_tables is None:
        return alteration.tables
    names = reached(read_programs(connection), alteration.written_tables)
    if names is None:
        return alteration.tables
    # Take the position after reading the catalogue, which lacks all later definitions.
    definitions = _Definitions(end, current(connection, server), mariadb=server.flavor == "mariadb")
    for _ in read_range(endpoint, definitions, first_server_id):
        pass
    if definitions.has_definition:
        return alteration.tables
    full_names = {".".join(name) for name in names}
    return [name for name in alteration.tables if name.casefold() in full_names]


def _defines(query: Query, *, mariadb: bool) -> bool:
    """Whether a statement may define or alter something; one that is not read to its end may."""
    effect, readable = read(query, mariadb=mariadb)
    return not effect.is_complete or bool(_DEFINES.match(readable or query.statement))


class _Definitions:
    """Searches for a statement that defines or alters something (`capture.binlog.binlog_reader.EventConsumer`).

    has_definition: whether there is one.
    """

    def __init__(self, start: Position, end: Position, *, mariadb: bool) -> None:
        self.position = start
        self.end = end
        self.has_definition = False
        self._mariadb = mariadb

    @property
    def is_done(self) -> bool:
        return self.has_definition or self.position.order >= self.end.order

    def feed(self, run: EventBatch) -> Iterator[None]:
        """Yields nothing; see `found`. Events after the end count too: they can only make the answer more careful."""
        for plain in unfolded(run, np.flatnonzero(among(run.headers.kind, STATEMENTS))):
            queries = np.flatnonzero(plain.run.headers.kind == Kind.QUERY)
            self.has_definition = self.has_definition or any(
                _defines(read_query(plain.run.body(n)), mariadb=self._mariadb) for n in queries.tolist()
            )
        ended = file_number(run.file) > file_number(self.end.file)
        self.position = self.end if ended else Position(run.file, int(run.offset[-1]))
        yield from ()
