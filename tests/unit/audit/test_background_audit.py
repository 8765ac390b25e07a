"""When the runner audits, and what it says of an audit."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.audit import background_audit
from engine.audit.audit_result import AuditResult, TableAudit
from engine.audit.background_audit import BackgroundAudit, event_of, is_due
from engine.base.clock import parse_utc
from engine.base.errors import SourceAwayError, SourceChangedError, SpecError, TidemarkError
from engine.journal import Journal
from engine.ledger.state import State, TableState
from engine.pipeline.directory import Directory
from engine.pipeline.helpers import Helpers
from engine.pipeline.verification_records import LastAudit
from engine.pipeline.verifications import read_audit, save_audit
from engine.source.positions import Position
from engine.spec.settings import Spec
from engine.spec.verify_settings import Verify

LAST = LastAudit(
    at="2026-01-31T00:00:00.000000Z",
    tables=1,
    images=4,
    differences=0,
    start="b.000001:4",
    end="b.000002:9",
    differing={"d.t": ("b.000001:4", "b.000001:9")},
    generations={"d.t": 0},
    server="s",
)


@pytest.mark.parametrize(("age_s", "due"), [(0.0, False), (3599.0, False), (3600.0, True), (-1.0, True)])
def test_an_audit_is_due_once_per_period(age_s: float, *, due: bool) -> None:
    """The first one at once. A time in the future is that of a wrong clock."""
    assert is_due(LAST, 3600.0, parse_utc(LAST.at).timestamp() + age_s) is due
    assert is_due(None, 3600.0, 0.0)


def test_the_period_is_off_by_default() -> None:
    """Else it is one like those of other settings."""
    assert Verify().audit_s is None
    assert Verify(audit="1d").audit_s == 86_400.0
    with pytest.raises(ValueError, match="not a period"):
        Verify(audit="daily")


def test_the_last_audit_is_kept(tmp_path: Path) -> None:
    """A damaged file, and one of a newer version, count as none."""
    directory = Directory(tmp_path)
    assert read_audit(directory) is None
    save_audit(directory, LAST)
    assert read_audit(directory) == LAST
    for text in ("{", "[]", '{"format": 1}', '{"format": 99, "at": "x"}', '{"format": 1, "at": 5}'):
        (directory.verifications / "audit.json").write_text(text)
        assert read_audit(directory) is None


def test_the_event_of_an_audit() -> None:
    """It names the audited part and the tables that differ; those that were not compared count nowhere."""
    tables = [
        TableAudit("d.a", 5, 2, "b.000009:4", "b.000010:7", differences=2),
        TableAudit("d.b", 3, 1, "b.000008:99", "b.000009:50"),
        TableAudit("d.idle", start="b.000001:4", end="b.000001:4"),
        TableAudit("d.c", excluded="it is stopped"),
    ]
    event = event_of(AuditResult(tables, [], 1.5, "x"))
    assert (event.tables, event.images, event.differences, event.differing) == (2, 8, 2, {"d.a": 2})
    assert (event.start, event.end, event.duration_s) == ("b.000008:99", "b.000010:7", 1.5)
    nothing = event_of(AuditResult([], [], 0.1, "x"))
    assert (nothing.tables, nothing.images, nothing.start, nothing.end) == (0, 0, "", "")


class Audits:
    """A runner's audits by a simulated clock. answers: what each audit prints, raises, or None if it must be ended."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.now_s, self.asked = 1_000.0, list[tuple[str, ...]]()
        self.answers = list(answers)
        monkeypatch.setenv("PASSWORD", "never sent to a server")
        monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: self.now_s)
        monkeypatch.setattr(BackgroundAudit, "_work", lambda _: None)
        monkeypatch.setattr(BackgroundAudit, "_result", lambda _, *arguments: self._result(arguments))
        monkeypatch.setattr(background_audit, "binary_logs", lambda _: {"b.000001": 10, "b.000002": 10})
        spec = Spec.model_validate(
            {
                "name": "x",
                "source": {"host": "h", "user": "u", "password_env": "PASSWORD", "tables": ["d.*"]},
                "sink": {"type": "delta", "path": str(folder / "lake")},
                "verify": {"audit": "1h"},
            }
        )
        journal = Journal(folder / "j.jsonl", "r")
        self.state = State(0, "l", "s", Position("b.000001", 4), 0, {"d.t": TableState({}, {})})
        self.helpers, self.directory = Helpers(journal), Directory(folder)
        self._audit = BackgroundAudit(spec, self.directory, journal, self.helpers, lambda: self.state, lambda: True)

    def _result(self, arguments: tuple[str, ...]) -> Any:
        self.asked.append(arguments)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look(self) -> None:
        """What the thread does every two seconds."""
        self._audit._look()

    def rests(self) -> list[float]:
        """Look until all answers are used. Returns the seconds between the audits."""
        began = []
        while self.answers:
            left = len(self.answers)
            self.look()
            if len(self.answers) < left:
                began.append(self.now_s)
            self.now_s += 1.0
        return [after - before for before, after in pairwise(began)]

    @property
    def failing(self) -> bool:
        """Whether the audit is a failing helper."""
        return bool(self.helpers.as_list())

    def differing(self) -> Mapping[str, Any]:
        """The parts that may differ."""
        last = read_audit(self.directory)
        assert last is not None
        return last.differing


EQUAL = AuditResult([], [], 0.1, "s")
GONE = SourceAwayError("Connecting failed.")
OTHER = SourceChangedError("The source is now another server.")


def test_an_audit_that_was_ended_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a minute, then longer, up to ten minutes: a pipeline that flaps does not begin it over and over."""
    audits = Audits(tmp_path, monkeypatch, *[None] * 6, EQUAL)
    assert audits.rests() == [60, 120, 240, 480, 600, 600]
    assert not audits.failing


def test_an_outage_is_no_failure_of_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others report that the source is away. Only if each audit loses it, the helper fails."""
    audits = Audits(tmp_path, monkeypatch, GONE, OTHER, None, GONE, EQUAL)
    assert audits.rests() == [60, 120, 240, 480]
    assert not audits.failing
    (tmp_path / "other").mkdir()
    always = Audits(tmp_path / "other", monkeypatch, *[GONE] * 6)
    always.rests()
    assert always.failing


def test_a_failure_stands_until_an_audit_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was ended proves nothing."""
    audits = Audits(tmp_path, monkeypatch, TidemarkError("It ended with exit code 1."), None, EQUAL)
    while len(audits.answers) > 1:
        audits.look()
        audits.now_s += 1.0
    assert audits.failing
    audits.rests()
    assert not audits.failing


def test_a_part_that_differs_is_kept_through_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the spec proves nothing. Afterwards it is audited again."""
    start, end = LAST.differing["d.t"]
    equal = AuditResult([TableAudit("d.t", 3, 1, start, end)], [], 0.1, "s")
    audits = Audits(tmp_path, monkeypatch, SpecError("A key is unknown."), equal, EQUAL)
    save_audit(audits.directory, LAST)
    audits.look()
    assert audits.differing() == LAST.differing
    assert audits.failing
    audits.rests()
    again = ("--table", "d.t", "--from", start, "--to", end)
    assert audits.asked == [again, again, ("--sample",)]
    assert audits.differing() == {}


@pytest.mark.parametrize(
    "state",
    [
        State(0, "l", "s", Position("b.000001", 4), 0, {}),
        State(0, "l", "another", Position("b.000001", 4), 0, {"d.t": TableState({}, {})}),
        State(0, "l", "s", Position("b.000001", 4), 0, {"d.t": TableState({}, {}, generation=1)}),
        State(0, "l", "s", Position("b.000001", 4), 0, {"d.t": TableState({}, {})}),
    ],
    ids=["removed", "failed over", "resnapshotted", "purged"],
)
def test_a_part_that_cannot_be_audited_any_more_is_forgotten(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table is not captured or was resnapshotted, its server is another one, or the server has purged it."""
    audits = Audits(tmp_path, monkeypatch, EQUAL)
    audits.state = state
    if state == State(0, "l", "s", Position("b.000001", 4), 0, {"d.t": TableState({}, {})}):
        monkeypatch.setattr(background_audit, "binary_logs", lambda _: {"b.000002": 10})
    save_audit(audits.directory, LAST)
    audits.rests()
    assert audits.asked == [("--sample",)]
    assert audits.differing() == {}
