"""The further sinks of a run: records in the ledger which ones join and leave, and builds them."""

from functools import partial

from engine.base import clock
from engine.destination.destination_protocol import Destination
from engine.destination.epoch_retention import EpochRetention
from engine.destination.further_sink import FurtherSink, joining
from engine.destination.registry import further_destination
from engine.journal import Journal
from engine.ledger.records import TableChange
from engine.ledger.state import State, following
from engine.ledger.store import Ledger
from engine.pipeline.helpers import Helpers
from engine.spec.settings import Spec


def further_sinks(
    spec: Spec, ledger: Ledger, first: Destination, journal: Journal, retention: EpochRetention, helpers: Helpers
) -> list[FurtherSink]:
    """The further sinks of a spec, not started. Commits an epoch if some join or leave."""
    assert ledger.state is not None
    sinks = {sink.name: sink for sink in spec.sinks}
    if changes := joining(ledger.state, sinks, ledger.kept_numbers()):
        joins = any(change is not None and change["joined"] >= 0 for change in changes.values())
        tables = _snapshots(ledger.state) if joins and not spec.sink.has_mirrors else {}
        first.guard()
        ledger.commit(following(ledger.state, journal.run, tables, sinks=changes))

    def report(name: str, error: BaseException | None) -> None:
        if error is None:
            helpers.succeeded(f"sink {name}")
        else:
            helpers.failed(f"sink {name}", error)

    return [
        FurtherSink(sink, partial(further_destination, sink, first), first, ledger, journal, retention, report)
        for sink in sinks.values()
    ]


def _snapshots(state: State) -> dict[str, TableChange]:
    """Resnapshots of all tables: nothing can be read back for a sink that joins."""
    return {
        name: {"due": {"at": clock.utc_text(), "by": None, "why": None}}
        for name, table in state.tables.items()
        if table.begun and not table.stopped and not table.due and table.table.get("key")
    }
