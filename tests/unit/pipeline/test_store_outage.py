"""A store that is away or refuses the credentials: an outage of its own, with its events and alerts."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.alerting.alerts import ActiveAlerts
from engine.base import clock
from engine.base.errors import TransientError
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.journal import Entry, Journal
from engine.journal.events import Event
from engine.journal.sentences import describe
from engine.journal.store_events import StoreAway, StoreBack
from engine.pipeline import disk as disks
from engine.pipeline.directory import Directory
from engine.pipeline.disk import Disk
from engine.pipeline.helpers import Helpers
from engine.pipeline.runner_record import RunnerRecord
from engine.pipeline.store_watch import StoreWatch
from engine.pipeline.write_outage import WriteOutage
from engine.spec.alert_settings import Alerts
from engine.store.local_folder import LocalFolder
from engine.store.operations import Operations
from tests.support.mounts import mounted

AWAY = StoreAwayError("The store does not answer: s3://lake/t: timed out")
REFUSED = StoreAccessError("The store refuses the credentials: s3://lake/t: 403")


class Answer:
    """What the store answers: an error, or None if it has no such file."""

    error: OSError | None = None


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """It answers."""
    found = Answer()

    def find(_folder: LocalFolder, _name: str) -> None:
        if found.error is not None:
            raise found.error

    monkeypatch.setattr(disks, "RETRY_S", 0.0)
    monkeypatch.setattr(LocalFolder, "find", find)
    return found


@pytest.fixture
def store(tmp_path: Path) -> LocalFolder:
    """The store."""
    return LocalFolder(tmp_path / "lake")


def heard(journal: Journal) -> list[Event]:
    """The events of a journal from now on."""
    found: list[Event] = []
    journal.listeners.append(lambda entry: found.append(entry.event))
    return found


def test_its_tries_are_events_and_its_end_is_one(tmp_path: Path, store: LocalFolder, answer: Answer) -> None:
    """A try is a probe; readers that all fail for the same store are no more tries."""
    journal = Journal(Directory(tmp_path).journal("r"), "r")
    events, said = heard(journal), list[str]()
    disk = Disk([store], journal, said.append, said.append)
    answer.error = AWAY
    for name in ("log", "chunks"):
        disk.failed(name, AWAY)
    assert disk.blocks_work()
    assert [(e.attempt, e.cause) for e in events if isinstance(e, StoreAway)] == [(1, "store_away"), (2, "store_away")]
    assert disk.reason.startswith("store away (log: The store does not answer: ")
    answer.error = None
    assert not disk.blocks_work()
    for name in ("log", "chunks"):
        disk.succeeded(name)
    assert isinstance(events[-1], StoreBack)
    assert describe(events[-1]).startswith("The store of the destination can be used again after ")
    assert "attempt 2" in describe(events[1])
    assert said[1:] == ["the store can be used again"]


def test_a_store_that_answers_again_is_not_away_for_long(
    tmp_path: Path, store: LocalFolder, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that nobody reports any more, such as of a reader that ended, does not keep it away."""
    journal = Journal(Directory(tmp_path).journal("r"), "r")
    events, now_s = heard(journal), [1000.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s[0])
    disk = Disk([store], journal)
    disk.failed("chunks", AWAY)
    now_s[0] += 100
    answer.error = AWAY
    assert disk.blocks_work(), "it is away for longer than names last"
    now_s[0] += 20
    answer.error = None
    assert not disk.blocks_work()
    now_s[0] += disks._STORE_EXPIRES_S + 1
    assert not disk.blocks_work()
    assert disk.outage is None
    assert isinstance(events[-1], StoreBack)


def test_the_worst_cause_is_shown_and_a_probe_corrects_it(tmp_path: Path, store: LocalFolder, answer: Answer) -> None:
    """Credentials that are renewed while the store is away: then it is away."""
    journal = Journal(Directory(tmp_path).journal("r"), "r")
    events = heard(journal)
    disk = Disk([store], journal)
    disk.failed("log", AWAY)
    answer.error = REFUSED
    disk.failed("log", REFUSED)
    disk.failed("chunks", AWAY)
    assert disk.reason.startswith("credentials refused (log: ")
    answer.error = AWAY
    assert disk.blocks_work()
    assert disk.outage is not None
    assert disk.outage.cause == "store_away"
    assert [e.refused for e in events if isinstance(e, StoreAway)] == [False, True, False]


def test_a_full_disk_comes_before_a_store(tmp_path: Path, store: LocalFolder, answer: Answer) -> None:
    """Both ends are events."""
    with mounted(tmp_path / "small", 2 << 20) as small:
        journal = Journal(Directory(tmp_path).journal("r"), "r")
        events = heard(journal)
        disk = Disk([small.folder, store], journal)
        disk.failed("log", AWAY)
        disk.failed("ledger", OSError(28, "No space left on device"))
        assert disk.reason.startswith("disk full (ledger: ")
        assert not disk.blocks_work()
        for name in ("log", "ledger"):
            disk.succeeded(name)
        assert [e.NAME for e in events] == ["store.away", "error", "disk.freed", "store.back"]


def test_the_pause_between_tries_grows(
    tmp_path: Path, store: LocalFolder, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a second to ten."""
    monkeypatch.setattr(disks, "RETRY_S", 1.0)
    journal = Journal(Directory(tmp_path).journal("r"), "r")
    events = heard(journal)
    disk = Disk([store], journal)
    answer.error = AWAY
    disk.failed("log", AWAY)
    for _ in range(5):
        assert disk.blocks_work(), "it is not due"
        disk.probe_now()
        assert disk.blocks_work()
    assert [e.retry_in_s for e in events if isinstance(e, StoreAway)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("error", "cause", "kind"), [(AWAY, "store_away", "store_away"), (REFUSED, "store_refused", "store_refused")]
)
def test_it_is_an_alert_once_it_lasts(error: OSError, cause: Any, kind: str) -> None:
    """At most 30 s; cleared when the store can be used, or by the other cause."""
    alerts, began = ActiveAlerts(Alerts()), clock.utc_now()

    def hear(seconds: float, event: Event) -> list[tuple[str, str]]:
        entry = Entry("r", 1, clock.utc_text(began + timedelta(seconds=seconds)), event)
        return [(notice.NAME, alert.kind) for notice, alert in alerts.hear(entry)]

    def away(seconds: float, why: Any = cause) -> list[tuple[str, str]]:
        text = str(error)
        since = clock.utc_text(began)
        return hear(seconds, StoreAway(since=since, attempt=1, retry_in_s=1.0, message=text, cause=why))

    assert away(1) == []
    assert away(31) == [("alert.raised", kind)]
    assert away(32) == []
    other = "store_away" if cause == "store_refused" else "store_refused"
    assert away(33, other) == [("alert.cleared", kind), ("alert.raised", other)]
    assert hear(40, StoreBack(since="", seconds=40.0)) == [("alert.cleared", other)]


@pytest.mark.parametrize(
    ("earlier", "cause"),
    [
        ("disk full (log: x)", "disk"),
        ("store of the destination away (log: x)", "store_away"),
        ("store of the destination refuses (log: x)", "store_refused"),
    ],
)
def test_a_runner_file_of_an_earlier_version_is_read(earlier: str, cause: Any) -> None:
    """Its fields had no cause."""
    record = {"state": "paused", "disk_full": earlier, "disk_full_hint": "Do.", "disk_full_since": "then"}
    assert RunnerRecord.from_json(record).write_outage == WriteOutage(cause, earlier, "Do.", "then")
    assert RunnerRecord.from_json({"state": "paused", "disk_full": None}).write_outage is None
    assert RunnerRecord.from_json({"state": "paused", "write_outage": {"cause": "?"}}).write_outage is None


def test_other_errors_are_not_waited_for(tmp_path: Path, store: LocalFolder, answer: Answer) -> None:
    """Nor do they end a probe."""
    disk = Disk([store], Journal(Directory(tmp_path).journal("r"), "r"))
    assert not disk.takes(TransientError("The store does not answer: so the server says."))
    answer.error = OSError(5, "Input/output error")
    disk.failed("log", AWAY)
    assert not disk.blocks_work()


def test_a_store_that_hangs_is_found_before_a_request_fails(
    tmp_path: Path, store: LocalFolder, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only while an operation is late; and its next answer ends the wait, since nothing has failed."""
    journal = Journal(Directory(tmp_path).journal("r"), "r")
    events, now_s, oldest_s = heard(journal), [1000.0], list[float | None]([None])
    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s[0])
    disk = Disk([store], journal)
    watch = StoreWatch(disk, Helpers(journal, disk), lambda: oldest_s[0])

    def look() -> None:
        watch.look()
        for thread in threading.enumerate():
            if thread.name == "store watch":
                thread.join()

    answer.error = AWAY
    look()
    oldest_s[0] = now_s[0]
    look()
    assert disk.outage is None, "an idle pipeline and a quick operation ask nothing"
    now_s[0] += 5
    look()
    assert disk.reason.startswith("store away (probe: The store does not answer: ")
    now_s[0] += 20
    look()
    assert [e.attempt for e in events if isinstance(e, StoreAway)] == [1, 2], (
        "the tries are seen though nothing returns"
    )
    answer.error = None
    now_s[0] += 20
    look()
    assert disk.outage is None
    assert isinstance(events[-1], StoreBack)


def test_a_component_that_failed_is_not_cleared_by_a_probe(tmp_path: Path, store: LocalFolder, answer: Answer) -> None:
    """It shows by itself that it gets through."""
    disk = Disk([store], Journal(Directory(tmp_path).journal("r"), "r"))
    answer.error = AWAY
    disk.ask_stores()
    disk.failed("log", AWAY)
    answer.error = None
    assert not disk.blocks_work()
    assert disk.outage is not None
    disk.succeeded("log")
    assert disk.outage is None


def test_operations_know_when_the_oldest_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that fail end."""
    now_s, operations = [1.0], Operations()
    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s[0])
    assert operations.oldest_s() is None
    with operations.under_way():
        now_s[0] = 2.0
        with operations.under_way():
            assert operations.oldest_s() == 1.0
        with pytest.raises(StoreAwayError), operations.under_way():
            raise AWAY
        assert operations.oldest_s() == 1.0
    assert operations.oldest_s() is None
