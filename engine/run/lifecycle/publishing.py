"""Opens the destinations of a run: the first one, and further sinks, which may join or leave with it."""

from dataclasses import replace
from functools import partial

from engine.base import clock
from engine.destination.destination_protocol import Destination
from engine.destination.epoch_retention import EpochRetention
from engine.destination.further_sink import FurtherSink
from engine.destination.publisher import Publisher
from engine.destination.registry import further_destination
from engine.destination.sink_opening import sink_changes
from engine.journal import Journal
from engine.ledger.records import Due, TableChange
from engine.ledger.state import State, following
from engine.ledger.store import Ledger
from engine.run.commands.control import Control
from engine.run.lifecycle.run_assembly import RunParts
from engine.run.lifecycle.run_start import committed_state
from engine.spec.settings import Spec


def open_publisher(parts: RunParts, ledger: Ledger) -> Publisher:
    """A publisher whose destination is recovered to the ledger. May be called again after a failure."""
    control, spec, destination = parts.control, parts.spec, parts.destination
    retention = EpochRetention(ledger, destination.landing)
    further = _further_sinks(spec, ledger, destination, parts.journal, retention, control)
    control.activity.show_sinks(further)
    through = partial(parts.disk_retries.run, "destination")
    publisher = Publisher(spec.sink, destination, ledger, parts.journal, through, retention, further)
    publisher.tables.open_all(committed_state(ledger))
    publisher.tables.delete_orphans()
    publisher.recover()
    return publisher


def record_sinks(publisher: Publisher, ledger: Ledger, run: str) -> None:
    """Record in the ledger what it does not know of the further sinks, once they have ended."""
    state = committed_state(ledger)
    if news := {sink.name: news_of_sink for sink in publisher.further if (news_of_sink := sink.news(state))}:
        publisher.destination.terms.check()
        ledger.commit(replace(following(state, run, {}), sinks=news))


def _further_sinks(
    spec: Spec, ledger: Ledger, first: Destination, journal: Journal, retention: EpochRetention, control: Control
) -> list[FurtherSink]:
    """The further sinks of a spec, not started. Commits an epoch if some join or leave."""
    assert ledger.state is not None
    sinks = {sink.name: sink for sink in spec.sinks}
    if changes := sink_changes(ledger.state, sinks, list(ledger.kept_epochs())):
        joins = any(change is not None and change.joined >= 0 for change in changes.values())
        tables = _snapshots(ledger.state) if joins and not spec.sink.has_mirrors else {}
        first.terms.check()
        ledger.commit(replace(following(ledger.state, journal.run, tables), sinks=changes))

    def report(name: str, error: BaseException | None) -> None:
        if error is None:
            control.helpers.succeeded(f"sink {name}")
        else:
            control.helpers.failed(f"sink {name}", error)

    return [
        FurtherSink(
            sink,
            partial(further_destination, sink, first),
            first,
            ledger,
            journal,
            retention,
            report,
            partial(control.settings.pauses_sink, sink.name),
        )
        for sink in sinks.values()
    ]


def _snapshots(state: State) -> dict[str, TableChange]:
    """Resnapshots of all tables: nothing can be read back for a sink that joins."""
    return {
        name: TableChange(due=Due(clock.utc_text()))
        for name, table in state.tables.items()
        if table.begun and not table.stopped and not table.due and table.table.get("key")
    }
