"""A source that writes no binlog: the ledger notes it, so that no later run skips the gap.

A server that is restarted without `log_bin`, and later with it, continues its binlog in the next file, with the next
GTID. Nothing in the binlog shows that rows changed in between. So whoever notices it first notes it in the ledger: the
epochs, the lag monitor (which asks while the pipeline is paused or waits for its source, too), or the preflight of a
start. Until all tables are resnapshotted, each run from that server ends with BinlogOffError. Another server that
provably has everything published never had those rows, so the pipeline may fail over to it, but not back.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.base import clock
from engine.base.errors import BinlogOffError
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.source.connect import binlog_off
from engine.source.preflight import Preflight

Through = Callable[[Callable[[], object]], object]
"""Calls a step until the disk has room for it."""


class BinlogCheck:
    """Whether the source writes a binlog, as the lag monitor last found it; it may write one again by now.

    Called by several threads.
    """

    def __init__(self) -> None:
        self._error: BinlogOffError | None = None

    @property
    def is_off(self) -> bool:
        """Whether it was found off, and the gap is not handled yet."""
        return self._error is not None

    def found_off(self, error: BinlogOffError) -> None:
        """Record that the source answers but writes no binlog."""
        self._error = error

    def gap_handled(self) -> None:
        """Record that the ledger has the gap, and that the epochs may continue."""
        self._error = None

    def require_on(self) -> None:
        """Raises BinlogOffError if it was found off."""
        if self._error is not None:
            raise self._error


def note(ledger: Ledger, run: str, through: Through, guard: Callable[[], object] = lambda: None) -> None:
    """Commit an epoch that notes it, unless the ledger knows.

    guard: raises PipelineHeldError if another runner has taken over.
    """
    state = ledger.state
    assert state is not None
    if state.identity not in state.binlog_off:
        guard()
        gaps = {**state.binlog_off, state.identity: clock.utc_text()}
        record = replace(following(state, run, {}), binlog_off=gaps)
        through(partial(ledger.commit, record))


def require(preflight: Preflight, ledger: Ledger, run: str, through: Through) -> None:
    """Raises PreflightError as `Preflight.require`.

    Raises BinlogOffError if a pipeline's source writes no binlog, after noting it.
    """
    if ledger.state is not None and preflight.server.identity == ledger.state.identity and not preflight.has_binlog:
        note(ledger, run, through)
        raise binlog_off()
    preflight.require()
