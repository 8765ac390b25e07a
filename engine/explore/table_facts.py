"""What the ledger and the destination say of a pipeline's tables, for their verdicts.

It is the same for `status` and the console.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from engine.base import clock
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.destination.missing_epochs import MissingEpochs, find_missing_epochs
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.pipeline.mismatch import mismatch_of
from engine.pipeline.runner_file import read_runner
from engine.pipeline.runner_record import RunnerRecord
from engine.pipeline.state_words import RemovedFiles
from engine.pipeline.table_verdict import TableFacts, incomparable
from engine.pipeline.verifications import read_mirror_logs, read_summaries
from engine.spec.settings import Spec
from engine.spec.sink_settings import Sink, is_read_back

if TYPE_CHECKING:
    from engine.destination.destination_protocol import Destination

_LATE = timedelta(seconds=30)
"""Changes that a destination has lacked for longer are shown."""


def lacking_now(ledger: Ledger, sink: Sink | None, now: datetime) -> dict[str, MissingEpochs]:
    """By table, what its destination has lacked for too long. sink: None if it is not known.

    Empty while a store does not answer: the pipeline's state says that.
    """
    if sink is None or ledger.state is None:
        return {}
    with suppress(StoreAwayError, StoreAccessError):
        return find_missing_epochs(
            partial(_destination, sink),
            ledger.state,
            list(ledger.kept_epochs()),
            clock.utc_text(now - _LATE),
        )
    return {}


def store_is_out(runner: RunnerRecord | None) -> bool:
    """Whether a live runner says that the destination's store cannot be used: whoever asks it waits for long."""
    outage = runner.write_outage if runner is not None and runner.responds else None
    return outage is not None and outage.cause != "disk"


def _destination(sink: Sink) -> "Destination":
    from engine.destination.registry import destination_of  # seldom needed, and loads Delta and Arrow

    return destination_of(sink)


def facts_of(
    directory: Directory, state: State | None, lacks: Mapping[str, MissingEpochs], *, copies: bool, mirrors: bool
) -> dict[str, TableFacts]:
    """The facts of the captured tables.

    copies: whether the pipeline copies tables (`source.startup`). mirrors: whether its destination keeps them.
    """
    summaries, foreign = read_summaries(directory), read_mirror_logs(directory).foreign
    mismatch = mismatch_of(read_runner(directory))
    return {
        name: TableFacts(
            summaries.get(name),
            table.generation,
            incomparable(key=bool(table.table.get("key")), copies=copies, mirrors=mirrors),
            foreign.get(name),
            stopped=table.stopped is not None,
            lacks_since=lacks[name].since if name in lacks else None,
            mismatched_since=mismatch.since if mismatch and name in mismatch.tables else None,
        )
        for name, table in (state.tables.items() if state else ())
    }


def committed_facts(directory: Directory, spec: Spec, now: datetime) -> dict[str, TableFacts]:
    """The facts of the captured tables, from the files alone. Raises LedgerError."""
    ledger = Ledger(directory.ledger)
    lacks = {} if store_is_out(read_runner(directory)) else lacking_now(ledger, spec.sink, now)
    copies, mirrors = spec.source.copies, is_read_back(spec.sink)
    return facts_of(directory, ledger.state, lacks, copies=copies, mirrors=mirrors)


def removed_files(directory: Directory, table: str) -> RemovedFiles | None:
    """What becomes of a removed table's files; None if the ledger does not know the removal. Raises LedgerError."""
    state = Ledger(directory.ledger).state
    table_state = state.removed.get(table) if state else None
    return table_state.removed_files if table_state else None
