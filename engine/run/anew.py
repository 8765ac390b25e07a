"""Beginning anew from the source as it is, with the destination that is there: what `redump --all` does when the position is lost.

An epoch of its own commits the new place and has every table copied again; the mirrors stay as they were until their new copies
are whole. What happened between the lost position and the new one is in no change log: the copies show its outcome.
"""

from collections.abc import Iterable
from pathlib import Path

from engine import clock
from engine.decode.schema import Table, table_from_dict
from engine.errors import TableStoppedError
from engine.ledger.state import Record, State
from engine.plan.chunks import plan_from_dict
from engine.run.altering import Altered, verdict
from engine.run.begin import anchored
from engine.settings import Spec
from engine.sink.delta import DeltaTables
from engine.source.connect import Connection, Endpoint, Server
from engine.source.positions import current


def anew(spec: Spec, state: State, connection: Connection, endpoint: Endpoint, server: Server, run: str) -> Record:
    """The epoch that begins anew. Tables that cannot be copied again stop in it."""
    # Before the catalogue is read: a statement that alters a table in between lies behind the position.
    position = anchored(current(connection, server), spec, connection, endpoint, server)

    return {
        "epoch": state.epoch + 1,
        "run": run,
        "ts": clock.utc_text(),
        "identity": server.identity,
        "from": state.position,
        "to": position.as_dict(),
        "next_seq": state.next_seq,
        "tables": _copied_again(spec, state, connection, state.tables),
    }


def in_new_shapes(spec: Spec, state: State, connection: Connection, names: Iterable[str], run: str) -> Record:
    """The epoch that reads nothing and has tables copied again, of which the spec publishes something else from here on."""
    return {
        "epoch": state.epoch + 1,
        "run": run,
        "ts": clock.utc_text(),
        "from": state.position,
        "to": state.position,
        "next_seq": state.next_seq,
        "tables": _copied_again(spec, state, connection, names),
    }


def _copied_again(spec: Spec, state: State, connection: Connection, names: Iterable[str]) -> dict[str, Record]:
    def fault(before: Table, after: Table) -> TableStoppedError | None:
        return _fault(spec.sink.path, state.ledger, before, after)

    tables: dict[str, Record] = {}
    for name in names:
        known = state.tables[name]
        before, plan = table_from_dict(known.table), plan_from_dict(known.plan)
        altered = Altered(before, plan, known.copied, (), fault if known.begun else _no_fault, known.shape)
        tables[name] = verdict(connection, spec, altered, None).told(before, known.shape)
    return tables


def _no_fault(before: Table, after: Table) -> None:  # noqa: ARG001 - it has no place in the destination yet
    return None


def _fault(root: Path, ledger: str, before: Table, after: Table) -> TableStoppedError | None:
    try:
        DeltaTables(root, ledger, before).check(before, after)
    except TableStoppedError as error:
        return error
    return None
