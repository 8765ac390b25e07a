"""The ledger's note that a source wrote no binlog."""

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.errors import BinlogOffError, SourceAwayError, SourceChangedError
from engine.journal import Journal
from engine.ledger.records import EpochRecord
from engine.ledger.store import Ledger
from engine.pipeline.disk import Disk
from engine.run.lifecycle import recovery_loop
from engine.run.lifecycle.recovery_loop import RecoveryLoop
from engine.run.source_loss import binlog_off, failover
from engine.run.source_loss.binlog_off import BinlogCheck
from engine.source.connect import Server
from engine.source.connect import binlog_off as off_error
from engine.source.positions import Position
from engine.source.preflight import LOG_BIN, Check, Preflight
from engine.source.turns import Turns

SESSION: Any = SimpleNamespace(limit_tasks=lambda _: None)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A pipeline of server a."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.commit(
        EpochRecord(0, "r", "", Position("b.000001", 4), Position("b.000001", 4), 1, {}, ledger="L", identity="a")
    )
    return ledger


def server(identity: str) -> Server:
    """A server."""
    return Server("mysql", (8, 4, 0), "8.4.0", identity)


def test_a_full_disk_does_not_keep_the_gap_from_being_noted(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The binlog may be on again at the next start, which would then skip the gap."""
    full, commit = [True], ledger.commit

    def commits(record: EpochRecord) -> object:
        if full:
            full.clear()
            raise OSError(errno.ENOSPC, "No space left on device")
        return commit(record)

    monkeypatch.setattr(ledger, "commit", commits)
    disk = Disk((), Journal(tmp_path / "j", "r"))
    through = partial(disk.retry_when_full, "ledger", stopping=lambda: False)
    preflight = Preflight([Check(LOG_BIN, "fail", "ON", "OFF", "")], server("a"), [])
    with pytest.raises(BinlogOffError):
        binlog_off.require(preflight, ledger, "r", through)
    state = Ledger(tmp_path / "ledger").state
    assert state is not None
    assert list(state.binlog_off) == ["a"]


def loop(folder: Path, ledger: Ledger, epochs: Callable[..., bool]) -> RecoveryLoop:
    """The loop of a run whose source writes a binlog. epochs: stands for the coordinator."""
    parts: Any = SimpleNamespace(
        wait=lambda _: None, destination=SimpleNamespace(terms=SimpleNamespace(check=lambda: 0))
    )
    journal = Journal(folder / "j", "r")
    return RecoveryLoop(
        epochs, parts, parts, parts, parts, parts, BinlogCheck(), ledger, parts, journal, lambda step: step()
    )


def fail(error: Exception) -> Any:
    """Raise an error."""
    raise error


def test_a_run_ends_with_its_reason_if_the_source_is_away_then(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being restarted with its binlog, for example: that nobody can connect is not why the run ends."""
    run = loop(tmp_path, ledger, lambda *_: fail(off_error()))
    monkeypatch.setattr(recovery_loop, "open_connection", lambda _: fail(SourceAwayError("Connecting failed.")))
    source: Any = SimpleNamespace(endpoint=None, turns=Turns())
    with pytest.raises(BinlogOffError):
        run.run(source, SESSION)
    assert ledger.state is not None
    assert list(ledger.state.binlog_off) == ["a"]


@pytest.mark.parametrize("error", [None, SourceChangedError("Another server answers."), SourceAwayError("Away.")])
def test_a_gap_that_only_the_monitor_saw_is_noted(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Before the run ends, and before another server takes over: it is a gap of the server that was streamed."""
    run = loop(tmp_path, ledger, lambda *_: True if error is None else fail(error))
    run.binlog.found_off(off_error())
    noted = list[str]()

    def reconnected(*_: object) -> None:
        assert ledger.state is not None
        noted.extend(ledger.state.binlog_off)

    monkeypatch.setattr(RecoveryLoop, "_reconnected", reconnected)
    source: Any = SimpleNamespace(turns=Turns())
    assert run.run(source, SESSION) == (error is None)
    assert ledger.state is not None
    assert list(ledger.state.binlog_off) == ["a"]
    assert noted == ([] if error is None else ["a"])


def test_a_failover_back_to_a_server_with_a_gap_is_refused(ledger: Ledger) -> None:
    """It may have rows that neither its binlog nor the server in between has.

    One from which all was resnapshotted may return.
    """
    binlog_off.note(ledger, "r", lambda step: step())
    binlog_off.note(ledger, "r", lambda step: step())
    assert ledger.state is not None
    assert ledger.state.epoch == 1, "it is noted once"
    state = ledger.commit(
        EpochRecord(2, "r", "", Position("b.000001", 4), Position("b.000001", 4), 1, {}, identity="b")
    )
    to: Any = None
    with pytest.raises(BinlogOffError, match="The source wrote no binlog at 20"):
        failover.failed_over(state, to, to, server("a"), 1, "r")
