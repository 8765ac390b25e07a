"""Judges the tables at an epoch's end: those with a schema change, and those to resnapshot."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.base import clock
from engine.base.errors import PrivilegesMissingError
from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.statements import Alteration
from engine.capture.captured_tables import CapturedTables
from engine.decode.schema import same_columns
from engine.destination.publisher import Publisher
from engine.journal.events import TableChanged
from engine.ledger.records import TableChange
from engine.ledger.state import State, TableState
from engine.run.epochs.failed_table import due
from engine.run.tables.first_epoch import SourceAccess
from engine.run.tables.resnapshot_limit import limited
from engine.run.tables.schema_change import OTHER_VALUES, REQUESTED, Altered, SchemaVerdict, verdict
from engine.run.tables.statement_reach import tables_reached
from engine.source.catalog import list_tables, made_since, read_tables
from engine.source.connect import Connection
from engine.source.positions import Position, current
from engine.source.statement_writes import ResnapshotCause, statement_cause
from engine.spec.settings import Spec
from engine.sql.alter import Alter

_MOST_LATER = 50
"""Statements on one table that are looked at ahead of their turn; with more of them it is resnapshotted."""


@dataclass(frozen=True)
class Judgement:
    """What happens to tables at an epoch's end."""

    verdicts: Mapping[str, SchemaVerdict]
    postponed: Mapping[str, TableChange]
    """The tables that were not altered, and whose resnapshot waits for a privilege: the changes that say so."""
    waiting: Mapping[str, PrivilegesMissingError]
    """The tables that are resnapshotted once the account may read them: the source's errors about them."""


@dataclass
class Alterations:
    """Uses the catalogue, the binlog and the destination. Used by one thread."""

    spec: Spec
    source: SourceAccess
    captured: CapturedTables
    publisher: Publisher

    def judge(
        self,
        connection: Connection,
        state: State,
        alteration: Alteration | None,
        to_resnapshot: Collection[str],
        end: Position,
        waits: Callable[[str], bool],
        unread: Callable[[str], bool],
    ) -> Judgement:
        """Judge the tables. alteration: the one that ends the epoch. end: the epoch's end.

        to_resnapshot: tables to resnapshot because an operator asked for it. waits: whether a table's resnapshot still
        waits for a privilege. unread: whether a table's copy has yet to begin, so that it shows all writes so far.
        """
        statements: dict[str, str | None] = {}
        cause = None
        if alteration is not None:
            endpoint, server, first = self.source.endpoint, self.source.server, self.spec.first_server_id()
            reached = tables_reached(alteration, connection, endpoint, server, end, first)
            statements |= dict.fromkeys(reached, alteration.statement)
            if alteration.written_tables is not None:
                cause = statement_cause(connection, server)
            if alteration.unproved_since is not None:
                statements |= dict.fromkeys(self._differing(connection, state, alteration), alteration.statement)
        altered_names = {name for name in statements if not state.tables[name].stopped}
        due_names = [n for n, table in state.tables.items() if table.due and not waits(n)]
        statements |= dict.fromkeys([*due_names, *to_resnapshot])
        verdicts: dict[str, SchemaVerdict] = {}
        for name, statement in statements.items():
            table_state, table = state.tables[name], self.captured.tables[name]
            altered = Altered(
                table,
                self.captured.plans[name],
                table_state.copied,
                table_state.names,
                self.publisher.tables.check_columns,
                table_state.projection,
                table_state.stopped,
                end,
                alteration.alter if alteration is not None and statement is not None else None,
                partial(self._later, connection, name, end),
            )
            decision = verdict(connection, self.spec, altered, statement)
            if statement is not None and unread(name) and _same_copy(decision, altered):
                continue
            if not (name in to_resnapshot or (table_state.due and table_state.due.by is not None)):
                decision = self._automatic(decision, table_state, altered, cause)
            verdicts[name] = replace(decision, after_statement=statement is not None)
        refused = {name: one for name, one in verdicts.items() if one.refusal}
        unaltered = {name: one for name, one in refused.items() if name not in altered_names}
        return Judgement(
            {name: one for name, one in verdicts.items() if name not in unaltered},
            {n: TableChange(due=due(one.error)) for n, one in unaltered.items() if not state.tables[n].due},
            {n: one.refusal for n, one in refused.items() if one.refusal and (one.due or n in unaltered)},
        )

    def _automatic(
        self, decision: SchemaVerdict, table_state: TableState, altered: Altered, cause: ResnapshotCause | None
    ) -> SchemaVerdict:
        """The verdict on a table for which no operator asked. cause: of a resnapshot after a statement that writes."""
        if table_state.due and table_state.due.why and decision.reason == REQUESTED:
            decision = replace(decision, reason=table_state.due.why.message)
        limit, remedy = self.spec.source.max_resnapshots_per_hour, ""
        if cause is not None and decision.reason == OTHER_VALUES:
            decision, remedy = replace(decision, reason=cause.reason), cause.remedy
        return limited(decision, altered, table_state, limit, clock.utc_text(), remedy)

    def _differing(self, connection: Connection, state: State, alteration: Alteration) -> list[str]:
        """The captured tables that the catalog shows otherwise, or as made since a statement.

        That statement may have altered any table.

        alteration: a statement that is not read to its end.
        """
        tables = {
            (table.database, table.name): table
            for name, table in self.captured.tables.items()
            if not state.tables[name].stopped and name not in alteration.tables
        }
        there = tables.keys() & set(list_tables(connection))
        since = made_since(connection, list(there), alteration.unproved_since or 0)
        catalog = {(table.database, table.name): table for table in read_tables(connection, sorted(there))}
        return [
            table.full_name
            for place, table in tables.items()
            if place in since or place not in catalog or not same_columns(table, catalog[place])
        ]

    def _later(self, connection: Connection, name: str, start: Position) -> Sequence[Alter] | None:
        """What the statements between `start` and the binlog's current end do to a table; None if that is unknown."""
        end, mariadb = current(connection, self.source.server), self.source.server.flavor == "mariadb"
        statements: list[Alter] = []
        while True:
            binlog_range = BinlogRange({}, start, end, mariadb=mariadb, absent_tables=[self.captured.tables[name]])
            for _ in read_range(self.source.endpoint, binlog_range, self.spec.first_server_id()):
                pass
            later = binlog_range.alteration
            if later is None:
                return tuple(statements)
            if later.alter is None or later.alter.actions is None or later.unproved_since is not None:
                return None
            if len(statements) == _MOST_LATER:
                return None
            statements.append(later.alter)
            start = binlog_range.end


def _same_copy(decision: SchemaVerdict, altered: Altered) -> bool:
    """Whether a resnapshot would read the table as its copy under way does."""
    as_captured = decision.table.identified_by(altered.plan.chunk_key)
    return decision.outcome == "resnapshotted" and as_captured == altered.table


def changed(name: str, verdict: SchemaVerdict, alteration: Alteration | None) -> TableChanged:
    """A verdict, for the journal. alteration: the one that ended its epoch."""
    cause = alteration if alteration and (verdict.after_statement or name in alteration.tables) else None
    return TableChanged(
        kind=verdict.outcome,
        table=name,
        position=cause.at if cause else None,
        statement=cause.statement if cause else None,
        reason=verdict.reason,
        within_hour=verdict.within_hour,
    )
