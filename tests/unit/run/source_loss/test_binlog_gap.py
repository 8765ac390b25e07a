"""The ledger's note that a source wrote no binlog."""

import errno
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
from engine.run.lifecycle import runner
from engine.run.source_loss import binlog_gap, failover
from engine.source.connect import Server, binlog_off
from engine.source.preflight import LOG_BIN, Check, Preflight
from engine.source.turns import Turns

SESSION = SimpleNamespace(limit_tasks=lambda _: None)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A pipeline of server a."""
    ledger = Ledger(tmp_path / "ledger")
    first: Any = {"epoch": 0, "run": "r", "ts": "", "from": {}, "to": {}, "next_seq": 1, "tables": {}}
    first |= {"ledger": "L", "identity": "a"}
    ledger.commit(first)
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
        binlog_gap.require(preflight, ledger, "r", through)
    state = Ledger(tmp_path / "ledger").state
    assert state is not None
    assert list(state.binlog_off) == ["a"]


def made(folder: Path) -> Any:
    """A run that does not begin."""
    run: Any = object.__new__(runner._Run)
    run._away, run._through = SimpleNamespace(binlog_off=None), lambda step: step()
    run._journal, run._destination = Journal(folder / "j", "r"), SimpleNamespace(guard=lambda: None)
    run._control = SimpleNamespace(wait=lambda _: None)
    return run


def test_a_run_ends_with_its_reason_if_the_source_is_away_then(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being restarted with its binlog, for example: that nobody can connect is not why the run ends."""

    def fail(error: Exception) -> Any:
        raise error

    run = made(tmp_path)
    run._epochs = lambda *_: fail(binlog_off())
    monkeypatch.setattr(runner, "open_connection", lambda _: fail(SourceAwayError("Connecting failed.")))
    with pytest.raises(BinlogOffError):
        run._coordinate(SimpleNamespace(endpoint=None, turns=Turns()), SESSION, ledger, None)
    assert ledger.state is not None
    assert list(ledger.state.binlog_off) == ["a"]


@pytest.mark.parametrize("error", [None, SourceChangedError("Another server answers."), SourceAwayError("Away.")])
def test_a_gap_that_only_the_monitor_saw_is_noted(ledger: Ledger, tmp_path: Path, error: Exception | None) -> None:
    """Before the run ends, and before another server takes over: it is a gap of the server that was streamed."""
    run = made(tmp_path)
    run._away.binlog_off = binlog_off()
    noted = list[str]()

    def epochs(*_: object) -> bool:
        if error is not None:
            raise error
        return True

    def reconnected(*_: object) -> None:
        assert ledger.state is not None
        noted.extend(ledger.state.binlog_off)

    run._epochs, run._reconnected = epochs, reconnected
    assert run._coordinate(SimpleNamespace(turns=Turns()), SESSION, ledger, None) == (error is None)
    assert ledger.state is not None
    assert list(ledger.state.binlog_off) == ["a"]
    assert noted == ([] if error is None else ["a"])


def test_a_failover_back_to_a_server_with_a_gap_is_refused(ledger: Ledger) -> None:
    """It may have rows that neither its binlog nor the server in between has.

    One from which all was resnapshotted may return.
    """
    binlog_gap.note(ledger, "r", lambda step: step())
    binlog_gap.note(ledger, "r", lambda step: step())
    assert ledger.state is not None
    assert ledger.state.epoch == 1, "it is noted once"
    other: Any = {"epoch": 2, "run": "r", "ts": "", "from": {}, "to": {}, "next_seq": 1, "tables": {}, "identity": "b"}
    state: Any = ledger.commit(other)
    to: Any = None
    with pytest.raises(BinlogOffError, match="The source wrote no binlog at 20"):
        failover.failed_over(state, to, to, server("a"), 1, "r")
