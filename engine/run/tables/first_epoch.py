"""The first epoch: where a pipeline starts, which tables it captures, and their plans.

The position is taken before the catalogue is read. So a schema change in between lies after the position, and is seen
in the binlog.
"""

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from engine.base import clock
from engine.base.errors import SpecError, TidemarkError, stop_of
from engine.base.wording import shell_word
from engine.capture.binlog.binlog_reader import before
from engine.capture.binlog.position_search import Binlog, NoPlaceError
from engine.capture.projection.projection_rules import as_read, check_spec, projection_record
from engine.decode.gtid import parse_gtids
from engine.decode.schema import Table
from engine.ledger.records import ChunkRecord, EpochRecord, Planned, TableChange
from engine.ledger.state import State
from engine.plan.chunks import WHOLE, Plan
from engine.plan.coverage import Chunk, Coverage, split_as_dict
from engine.plan.mirrors import decided
from engine.plan.planner import check_names, plan_tables
from engine.source.ancestry import check_same, contains_within, has_gtids
from engine.source.catalog import captured_tables
from engine.source.connect import Connection, Endpoint, Server, binlog_off, check_identity
from engine.source.connection_limits import LEAST
from engine.source.heads import reaches, read_head
from engine.source.positions import FIRST_OFFSET, Position, binlog_files, current
from engine.source.preflight import refused
from engine.source.turns import Turns
from engine.source.watermarks import WatermarkClass, server_time_s
from engine.spec.settings import Spec
from engine.spec.startup import startup_position, startup_time


@dataclass(frozen=True)
class SourceAccess:
    """The source and what the coordinator needs to know about it."""

    endpoint: Endpoint
    server: Server
    watermarks: WatermarkClass
    turns: Turns = field(default_factory=Turns)
    """For connections."""
    settled_s: float = 0.0
    """From when on a snapshot shows what was committed before the run began (`clock.monotonic_s`)."""

    def with_few_connections(self) -> "SourceAccess":
        """The same, for a run that has been refused a connection: how many it may have is not known."""
        return replace(self, endpoint=replace(self.endpoint, few_connections=True), turns=Turns(LEAST))


@dataclass(frozen=True)
class Begun:
    """The record of epoch 0, its ledger's identifier and its plans."""

    ledger: str
    record: EpochRecord
    plans: list[Plan]


def first_epoch(
    spec: Spec,
    connection: Connection,
    endpoint: Endpoint,
    server: Server,
    run: str,
) -> Begun:
    """The record of epoch 0 for a pipeline without a ledger. Tables that cannot be captured stop in it.

    If the pipeline copies nothing (`SourceAccess.copies`), each table is one finished chunk. Raises SpecError if the
    binlog does not contain the start position.
    """
    position = anchored(_start(spec, connection, endpoint, server), spec, connection, endpoint, server)
    captured = captured_tables(connection, spec.source.tables, null_dates=spec.source.invalid_dates == "null")
    unfit = refused([as_read(spec, table) for table in captured])
    check_names(captured, spec.snapshot)
    check_spec(spec, captured)
    fit = [table for table in captured if table.full_name not in unfit]
    plans = plan_tables(connection, fit, spec.snapshot, exact=spec.source.copies, stopped=unfit)
    fit = [table for table in fit if table.full_name not in unfit]
    if not spec.source.copies:
        plans = [streaming_only(plan) for plan in plans]
    tables = {
        table.full_name: unfit_record(table, unfit[table.full_name]) for table in captured if table.full_name in unfit
    }
    for table, plan in zip(fit, plans, strict=True):
        decision = decided(spec.sink, table, plan).as_dict()
        planned = Planned(table.as_dict(), decision, projection_record(spec, table))
        tables[table.full_name] = replace(finished(spec, position), planned=planned)
    ledger, identity = uuid.uuid4().hex, server.identity
    record = EpochRecord(0, run, clock.utc_text(), position, position, 1, tables, ledger=ledger, identity=identity)
    return Begun(ledger, record, plans)


def unfit_record(table: Table, error: TidemarkError) -> TableChange:
    """The record of a table that cannot be captured: it joins and stops at once."""
    plan = Plan(table.full_name, 0, 0, (), "", None, None, None, "one", "not captured", 0, 1)
    planned = Planned(table.as_dict(), plan.as_dict())
    return TableChange(planned=planned, stopped=stop_of(error, table.full_name))


def anchored(position: Position, spec: Spec, connection: Connection, endpoint: Endpoint, server: Server) -> Position:
    """The position with the proof that the server still has the history before it: GTIDs, and when the file began."""
    first, mariadb = spec.first_server_id(), server.flavor == "mariadb"
    gtids = None
    if has_gtids(connection, server):
        anchor = before(endpoint, position, first, mariadb=mariadb)
        gtids = None if anchor.anonymous else anchor.gtids  # an incomplete set would pass for complete at a failover
    return replace(position, gtids=gtids, born=read_head(endpoint, position.file, first).born)


def _start(spec: Spec, connection: Connection, endpoint: Endpoint, server: Server) -> Position:
    mode, _, argument = spec.source.startup.partition(":")
    files, end = list(binlog_files(connection)), current(connection, server)
    binlog = Binlog(endpoint, spec.first_server_id(), files, end, server.flavor == "mariadb")
    try:
        if mode == "earliest":
            return Position(binlog.files[0], FIRST_OFFSET)
        if mode == "timestamp":
            return _since(binlog, argument, server_time_s(connection))
        if mode == "position":
            return _at_position(binlog, argument)
        if mode == "gtid":
            return _after_gtids(binlog, argument, connection, server)
    except NoPlaceError as error:
        hint = "Choose a later place, or let the tables be copied: source.startup = initial."
        raise _no_start(spec.source.startup, f"{error.verdict}: {error.seen}", hint) from error
    return end


def _since(binlog: Binlog, argument: str, now_s: float) -> Position:
    since = startup_time(argument)
    if since.timestamp() > now_s:
        raise _no_start(f"timestamp:{argument}", "that time has not come yet, by the server's clock", "Use latest.")
    return binlog.since(round(since.timestamp() * 1_000_000))


def _at_position(binlog: Binlog, argument: str) -> Position:
    position = Position(*startup_position(argument))
    hint = "SHOW BINLOG EVENTS IN '…' lists the places; a transaction begins with a GTID event (Gtid, Anonymous_Gtid)."
    if position.file not in binlog.files:
        available = f"the server has {binlog.files[0]} to {binlog.files[-1]}"
        raise _no_start(f"position:{argument}", f"there is no such file; {available}", "Choose one of them.")
    if not reaches(binlog.endpoint, position, binlog.first_server_id):
        raise _no_start(f"position:{argument}", "the file ends before it", "Choose an offset in it.")
    if not binlog.is_between(position):
        raise _no_start(f"position:{argument}", "it is not a place between two transactions", hint)
    return position


def _after_gtids(binlog: Binlog, argument: str, connection: Connection, server: Server) -> Position:
    try:
        gtids = parse_gtids(argument, mariadb=binlog.mariadb)
    except ValueError as error:
        form = "domain-server-number, joined by commas" if binlog.mariadb else "uuid:intervals, joined by commas"
        raise _no_start(f"gtid:{argument}", "these are not GTIDs of this server", f"They are {form}.") from error
    if not has_gtids(connection, server):
        raise _no_start(f"gtid:{argument}", "the server writes no GTIDs", "Use position:<file>:<offset>.")
    if not contains_within(connection, server, str(gtids), 0.0):
        raise _no_start(
            f"gtid:{argument}", "the server has not executed all of these", "Check which GTIDs it has executed."
        )
    return binlog.position_after(gtids)


def _no_start(startup: str, why: str, hint: str) -> SpecError:
    return SpecError(
        f"source.startup = {startup!r}: the binlog has no such place ({why}).",
        detail="Nothing was started.",
        hint=hint,
    )


def streaming_only(plan: Plan) -> Plan:
    """The plan of a table that is streamed without a copy."""
    reason = "streamed without a copy (source.startup)"
    return replace(plan, strategy="one", reason=reason, estimated_chunks=1, factor=None)


def finished(spec: Spec, position: Position) -> TableChange:
    """What else records a table that joins: without a copy (`SourceAccess.copies`), it is one finished chunk."""
    if spec.source.copies:
        return TableChange()
    whole = split_as_dict([Chunk(0, WHOLE)], Coverage(next_number=1))
    return TableChange(split=whole, chunks=[ChunkRecord(0, position)])


def check_source(state: State, connection: Connection, endpoint: Endpoint, server: Server, first: int) -> None:
    """Raises SourceChangedError for another server than the ledger's.

    Raises SourceLostError for one without the ledger's history.

    It is a BinlogOffError if the server wrote no binlog for a while.

    first: the first of the pipeline's server ids.
    """
    check_identity(state.identity, server)
    if (at := state.binlog_off.get(server.identity)) is not None:
        raise binlog_off(at)
    check_same(connection, endpoint, server, state.position, first)


def check_tables(spec: Spec, state: State, captured: list[Table], to_add: Collection[str]) -> None:
    """Raises SpecError when the spec matches tables that are not in the ledger, and no command adds them.

    to_add: the tables that waiting commands add.
    """
    new = sorted({table.full_name for table in captured} - set(state.tables) - set(to_add))
    if new and spec.source.new_tables == "refuse":
        named = " ".join(f"--table {shell_word(name)}" for name in new)
        raise SpecError(
            f"The spec now matches tables that this pipeline was not started with: {', '.join(new[:5])}.",
            detail="Nothing was started.",
            hint=f'Add them (tidemark add-table SPEC {named}, or source.new_tables = "add"), or exclude them in '
            "source.tables.",
        )
