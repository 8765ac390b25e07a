"""Restarts a pipeline from the source's current state into the existing destination.

It is `redump --all` after a lost position.

A separate epoch commits the new position and resnapshots every table. The mirrors stay as they were until their new
copies are complete. No change log has what happened between the two positions; the copies show the outcome.
"""

from collections.abc import Iterable
from dataclasses import replace

from engine.decode.schema import Table, table_from_dict
from engine.destination.destination_protocol import Destination
from engine.ledger.records import EpochRecord, TableChange
from engine.ledger.state import State, following
from engine.plan.chunks import plan_from_dict
from engine.run.tables.first_epoch import anchored
from engine.run.tables.schema_change import Altered, verdict
from engine.source.connect import Connection, Endpoint, Server
from engine.source.positions import current
from engine.spec.settings import Spec


def resnapshot_all(
    spec: Spec,
    destination: Destination,
    state: State,
    connection: Connection,
    endpoint: Endpoint,
    server: Server,
    run: str,
) -> EpochRecord:
    """The epoch that restarts the pipeline. Tables that cannot be resnapshotted stop in it."""
    # Before the catalogue is read, so that a schema change in between lies after the position.
    position = anchored(current(connection, server), spec, connection, endpoint, server)
    tables = _resnapshots(spec, destination, state, connection, state.tables)
    gaps = {identity: at for identity, at in state.binlog_off.items() if identity != server.identity}
    record = following(state, run, tables)
    return replace(record, identity=server.identity, to_position=position, binlog_off=gaps)


def resnapshot_tables(
    spec: Spec, destination: Destination, state: State, connection: Connection, names: Iterable[str], run: str
) -> EpochRecord:
    """An epoch that reads nothing and resnapshots tables, for example with a new projection."""
    return following(state, run, _resnapshots(spec, destination, state, connection, names))


def giving_up(record: EpochRecord) -> EpochRecord:
    """The epoch, with which the tables that it resnapshots give up what the destination has of them."""
    tables = {
        name: replace(change, resnapshot=replace(change.resnapshot, is_given_up=True)) if change.resnapshot else change
        for name, change in record.tables.items()
    }
    return replace(record, tables=tables)


def _resnapshots(
    spec: Spec, destination: Destination, state: State, connection: Connection, names: Iterable[str]
) -> dict[str, TableChange]:
    def fits(before: Table, after: Table) -> None:
        if state.tables[before.full_name].begun:  # else the destination does not have it yet
            destination.table(state.owner, before).check(before, after)

    tables: dict[str, TableChange] = {}
    for name in names:
        table_state = state.tables[name]
        before, plan = table_from_dict(table_state.table), plan_from_dict(table_state.plan)
        altered = Altered(before, plan, table_state.copied, (), fits, table_state.projection)
        tables[name] = verdict(connection, spec, altered, None).to_record(before, table_state.projection)
    return tables
