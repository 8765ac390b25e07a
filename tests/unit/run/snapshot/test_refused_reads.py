"""Tables that the account may not read: they wait for the grant, and everything else continues."""

from pathlib import Path

import pytest

from engine.base.errors import PrivilegesMissingError, TidemarkError
from engine.capture.reports import ReaderReport
from engine.capture.tasks import ChunkGroup
from tests.unit.run.snapshot.copies import copies, failure, read_all, report, table_copy


def denied(group: ChunkGroup) -> list[ReaderReport]:
    """Readers whose account may not read the table."""
    return [failure(group.requests[0], PrivilegesMissingError("SELECT denied"), own=True)]


def test_a_chunk_that_the_account_may_not_read_is_parked_after_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run with an end. Until then its table waits: the account may get its privileges back."""
    table, now = table_copy("t", 1, "one"), [1000.0]
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now[0])
    with copies(tmp_path, table, answer=denied, patience_s=300.0) as run:
        for _ in range(10):
            now[0] += 30.0
            run.assign()
            run.settle()
        assert not run.events("chunk.parked")
        for _ in range(10):
            now[0] += 31.0
            run.assign()
            run.settle()
        assert len(run.events("chunk.parked")) == 1


@pytest.mark.parametrize("redump", [None, "c"])
def test_a_table_that_the_account_may_not_read_waits_for_the_grant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redump: str | None
) -> None:
    """For hours, and says so once, with the statement. Another table continues, and a grant ends the wait."""
    now = [1000.0]
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now[0])
    table, allowed = table_copy("t", 1, "one", redump=redump), table_copy("u", 1, "one")

    def of_one(group: ChunkGroup) -> list[ReaderReport]:
        return [denied(group)[0] if one.table.name == "t" else report(one) for one in group.requests]

    with copies(tmp_path, table, allowed, answer=of_one) as run:
        read = set()
        for _ in range(100):
            now[0] += 60.0
            run.assign()
            batch = run.settle()
            read |= {finished.table for finished in batch.finished}
            assert not batch.failed
        assert read == {"d.u"}
        assert not run.events("chunk.parked")
        (refused,) = run.events("source.refused")
        assert refused["message"] == "The account may not read d.t: SELECT denied"
        assert refused["hint"].endswith("GRANT SELECT ON `d`.`t` TO 'u'@'%';")
        run.answer = read_all
        now[0] += 30.0
        run.assign()
        assert [finished.table for finished in run.settle().finished] == ["d.t"]
        assert [one["since"] is None for one in run.events("source.refused")] == [False, True]


def test_a_redump_that_the_account_may_not_read_is_refused_after_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run with an end, which would never come."""
    now, failed = [1000.0], dict[str, TidemarkError]()
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now[0])
    with copies(tmp_path, table_copy("t", 1, "one", redump="c"), answer=denied, patience_s=300.0) as run:
        for _ in range(12):
            now[0] += 30.0
            run.assign()
            failed |= run.settle().failed
    assert "GRANT SELECT ON `d`.`t`" in failed["d.t"].hint
    assert run.events("source.refused")[-1]["since"] is None


def test_a_table_that_the_account_may_not_split_waits_for_the_grant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The splitter reads the table, too."""
    now = [1000.0]
    monkeypatch.setattr("engine.base.clock.monotonic_s", lambda: now[0])
    with copies(tmp_path, table_copy("t", 1, "one")) as run:
        run.splitter.errors["d.t"] = PrivilegesMissingError("SELECT denied")
        run.assign()
        assert not run.settle().stopped
        assert len(run.events("source.refused")) == 1
        now[0] += 30.0
        run.assign()
        assert [finished.table for finished in run.settle().finished] == ["d.t"]
