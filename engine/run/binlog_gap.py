"""A source that writes no binlog: the ledger notes it, so that no later run skips the gap.

A server that is restarted without `log_bin`, and later with it, continues its binlog in the next file, with the next GTID. Nothing
in the binlog shows that rows changed in between. So whoever notices it first notes it in the ledger: the epochs, the lag monitor
(which asks while the pipeline is paused or waits for its source, too), or the preflight of a start. Until all tables are
resnapshotted, each run ends with BinlogOffError. A failover clears the note: another server that provably has everything published
never had those rows.
"""

from collections.abc import Callable

from engine import clock
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.source.connect import binlog_off
from engine.source.preflight import Preflight


def note(ledger: Ledger, run: str, guard: Callable[[], object] = lambda: None) -> None:
    """Commit an epoch that notes it, unless the ledger knows. guard: raises PipelineHeldError if another runner has taken over."""
    assert ledger.state is not None
    if ledger.state.binlog_off is None:
        guard()
        ledger.commit(following(ledger.state, run, {}, binlog_off=clock.utc_text()))


def require(preflight: Preflight, ledger: Ledger, run: str) -> None:
    """Raises PreflightError as `Preflight.require`; BinlogOffError if a pipeline's source writes no binlog, after noting it."""
    if ledger.state is not None and preflight.server.identity == ledger.state.identity and not preflight.has_binlog:
        note(ledger, run)
        raise binlog_off()
    preflight.require()
