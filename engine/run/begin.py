"""The first epoch: where a pipeline begins, what it captures, and how its tables are cut.

The position is taken before the catalogue is read: a statement that alters a table in between lies behind the position,
so it is seen in the log.
"""

import uuid
from dataclasses import dataclass, replace

from engine import clock
from engine.capture.segment import gtids_at
from engine.decode.schema import Table
from engine.errors import SpecError, TidemarkError
from engine.ledger.state import Record, State
from engine.plan.chunks import WHOLE, Plan
from engine.plan.coverage import Chunk, Coverage, cut_as_dict
from engine.plan.planner import check_names, plan_tables
from engine.settings import Spec
from engine.source.catalog import captured_tables
from engine.source.connect import Connection, Endpoint, Server, check_identity
from engine.source.positions import FIRST_OFFSET, Position, binlog_files, check_available, current
from engine.source.preflight import refused
from engine.source.watermarks import WatermarkClass

FOLLOW_ONLY = ("latest", "earliest")
"""Startup modes without a copy: each table is one finished chunk."""


@dataclass(frozen=True)
class Begun:
    """The record of epoch 0 and the plans in it."""

    record: Record
    plans: list[Plan]


def first_epoch(
    spec: Spec,
    connection: Connection,
    endpoint: Endpoint,
    server: Server,
    watermarks: WatermarkClass,
    run: str,
) -> Begun:
    """The record of epoch 0 for a pipeline that has no ledger yet. Tables that cannot be captured stop in it."""
    position = _start(spec, connection, server)
    if watermarks == "gtid":
        position = Position(position.file, position.offset, gtids_at(endpoint, position, spec.first_server_id()))
    captured = captured_tables(connection, spec.source.tables, null_dates=spec.source.invalid_dates == "null")
    unfit = refused(captured)
    check_names(captured, spec.snapshot)
    fit = [table for table in captured if table.full_name not in unfit]
    plans = plan_tables(connection, fit, spec.snapshot, exact=spec.source.startup not in FOLLOW_ONLY, stopped=unfit)
    fit = [table for table in fit if table.full_name not in unfit]
    if spec.source.startup in FOLLOW_ONLY:
        plans = [_followed(plan) for plan in plans]
    tables: dict[str, Record] = {
        table.full_name: _refused(table, unfit[table.full_name]) for table in captured if table.full_name in unfit
    }
    for table, plan in zip(fit, plans, strict=True):
        planned = {"table": table.as_dict(), "plan": plan.as_dict()}
        tables[table.full_name] = {"planned": planned, **_finished(spec, position)}
    record = {
        "epoch": 0,
        "run": run,
        "ts": clock.utc_text(),
        "ledger": uuid.uuid4().hex,
        "identity": server.identity,
        "from": position.as_dict(),
        "to": position.as_dict(),
        "next_seq": 1,
        "tables": tables,
    }
    return Begun(record, plans)


def _refused(table: Table, error: TidemarkError) -> Record:
    plan = Plan(table.full_name, 0, 0, (), "", None, None, None, "one", "not captured", 0, 1)
    return {"planned": {"table": table.as_dict(), "plan": plan.as_dict()}, "stopped": error.as_dict()}


def _start(spec: Spec, connection: Connection, server: Server) -> Position:
    if spec.source.startup == "earliest":
        return Position(next(iter(binlog_files(connection))), FIRST_OFFSET)
    return current(connection, server)


def _followed(plan: Plan) -> Plan:
    reason = "followed from the log without a copy (source.startup)"
    return replace(plan, strategy="one", reason=reason, estimated_chunks=1, factor=None)


def _finished(spec: Spec, position: Position) -> Record:
    if spec.source.startup not in FOLLOW_ONLY:
        return {}
    whole = cut_as_dict([Chunk(0, WHOLE)], Coverage(next_number=1))
    return {"cut": whole, "chunks": [{"chunk": 0, "exact": position.as_dict(), "files": [], "rows": 0}]}


def check_source(state: State, connection: Connection, server: Server, position: Position) -> None:
    """Raises SourceLostError when this is not the server that the ledger follows, or it no longer has the position."""
    check_identity(state.identity, server)
    check_available(connection, position)


def check_tables(state: State, captured: list[Table]) -> None:
    """Raises SpecError when the spec now chooses tables that the ledger does not have."""
    new = sorted({table.full_name for table in captured} - set(state.tables))
    if new:
        raise SpecError(
            f"The spec now matches tables that this pipeline was not started with: {', '.join(new[:5])}.",
            detail="This version does not add tables to a running pipeline.",
            hint="Capture them with a pipeline of their own, or exclude them in source.tables.",
        )
