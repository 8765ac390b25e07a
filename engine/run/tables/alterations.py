"""Judges the tables at an epoch's end: those with a schema change, and those to resnapshot."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from engine.capture.binlog.binlog_range import BinlogRange
from engine.capture.binlog.binlog_reader import read_range
from engine.capture.binlog.statements import Alteration
from engine.ledger.state import State
from engine.run.tables.bootstrap import Source
from engine.run.tables.captured import CapturedTables
from engine.run.tables.schema_change import Altered, Verdict, verdict
from engine.run.tables.statement_reach import tables_reached
from engine.settings import Spec
from engine.sink.publisher import Publisher
from engine.source.connect import Connection
from engine.source.positions import Position, current


@dataclass
class Alterations:
    """Uses the catalogue, the binlog and the destination. Used by one thread."""

    spec: Spec
    source: Source
    captured: CapturedTables
    publisher: Publisher

    def judge(
        self,
        connection: Connection,
        state: State,
        alteration: Alteration | None,
        asked: Collection[str],
        end: Position,
    ) -> dict[str, Verdict]:
        """Verdicts by table. alteration: the one that ends the epoch. asked: tables to resnapshot. end: the epoch's end."""
        statements: dict[str, str | None] = {}
        if alteration is not None:
            endpoint, server, first = self.source.endpoint, self.source.server, self.spec.first_server_id()
            reached = tables_reached(alteration, connection, endpoint, server, end, first)
            statements |= dict.fromkeys(reached, alteration.statement)
        statements |= dict.fromkeys(asked)
        found = {}
        for name, statement in statements.items():
            known, table = state.tables[name], self.captured.tables[name]
            altered = Altered(
                table,
                self.captured.plans[name],
                known.copied,
                known.names,
                self.publisher.check_columns,
                known.projection,
                known.stopped,
                end,
                partial(self._is_last, connection, name, end),
            )
            found[name] = verdict(connection, self.spec, altered, statement)
        return found

    def _is_last(self, connection: Connection, name: str, start: Position) -> bool:
        """Whether the binlog from `start` to its current end has no schema change of the table."""
        end, mariadb = current(connection, self.source.server), self.source.server.flavor == "mariadb"
        binlog_range = BinlogRange({}, start, end, mariadb=mariadb, awaited=[self.captured.tables[name]])
        for _ in read_range(self.source.endpoint, binlog_range, self.spec.first_server_id()):
            pass
        return binlog_range.altered is None
