"""When the runner audits, and what it says of an audit."""

from pathlib import Path

import pytest

from engine.clock import parse_utc
from engine.directory import Directory
from engine.run.audit.audit_result import AuditResult, TableAudit
from engine.run.audit.background_audit import event_of, is_due
from engine.verifications import LastAudit, read_audit, save_audit
from engine.verify_settings import Verify

LAST: LastAudit = {
    "at": "2026-01-31T00:00:00.000000Z",
    "tables": 1,
    "images": 4,
    "differences": 0,
    "start": "b.000001:4",
    "end": "b.000002:9",
    "differing": {"d.t": ("b.000001:4", "b.000001:9")},
}


@pytest.mark.parametrize(("age_s", "due"), [(0.0, False), (3599.0, False), (3600.0, True), (-1.0, True)])
def test_an_audit_is_due_once_per_period(age_s: float, *, due: bool) -> None:
    """The first one at once. A time in the future is that of a wrong clock."""
    assert is_due(LAST, 3600.0, parse_utc(LAST["at"]).timestamp() + age_s) is due
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
    event = event_of(AuditResult(tables, [], 1.5, "x").as_dict() | {"tables": [vars(table) for table in tables]})
    assert (event.tables, event.images, event.differences, event.differing) == (2, 8, 2, {"d.a": 2})
    assert (event.start, event.end, event.duration_s) == ("b.000008:99", "b.000010:7", 1.5)
    nothing = event_of(AuditResult([], [], 0.1, "x").as_dict())
    assert (nothing.tables, nothing.images, nothing.start, nothing.end) == (0, 0, "", "")
